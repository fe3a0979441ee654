"""What time alone has made due in a cluster, besides what the floor tells of: one statement for a tick to ask."""

from dataclasses import dataclass
from datetime import datetime

from laissez.bulk import fetch_one
from workers.models import Cluster


@dataclass(frozen=True, slots=True)
class Due:
    """overdue: queued jobs whose queue time is over. spent: jobs with an open notice about a lease that is leaving or
    gone. lapsing: awards of running jobs that have waited too long for an upgrade, by id; a job that is queued or under
    notice keeps its award, which it needs.
    """

    overdue: frozenset[int]
    spent: frozenset[int]
    lapsing: frozenset[int]


_DUE = """
    SELECT
        ARRAY(
            SELECT id FROM workers_job
            WHERE cluster_id = %(cluster)s AND state = 'queued' AND queue_deadline <= %(now)s
        ),
        ARRAY(
            SELECT notice.job_id
            FROM markets_notice AS notice
            JOIN workers_job AS job ON job.id = notice.job_id
            JOIN workers_lease AS lease ON lease.id = notice.lease_id
            WHERE job.cluster_id = %(cluster)s AND notice.state = 'open' AND lease.state NOT IN ('pending', 'active')
        ),
        ARRAY(
            SELECT award.id
            FROM markets_award AS award JOIN workers_job AS job ON job.id = award.job_id
            WHERE job.cluster_id = %(cluster)s AND award.state = 'waiting' AND award.deadline <= %(now)s
                AND job.state = 'running'
                AND EXISTS (SELECT FROM workers_lease WHERE job_id = job.id AND state IN ('pending', 'active'))
                AND NOT EXISTS (SELECT FROM markets_notice WHERE job_id = job.id AND state = 'open')
        )
"""


def of(cluster: Cluster, *, now: datetime) -> Due:
    """Look what is due now."""
    return Due(*map(frozenset, fetch_one(_DUE, {"cluster": cluster.pk, "now": now})))
