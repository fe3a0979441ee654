"""The log of what has changed on a floor since a tick last read it. Triggers of the database write it.

Whoever changes something that ticks read leaves a row here in the same transaction, so a change and its row become
visible together. A tick takes the rows that it sees and reads the floor afterwards, in the same transaction: what is
committed in between stays for the next one, and a tick that is undone has taken nothing.
"""

import numpy as np

from laissez.bulk import NULL, Integer, Table, fetch_one
from markets.selectors.floor import Changes
from workers.models import Cluster

_JOBS = Table(Integer("id", "job_id"))
_TAKE = f"""
    WITH taken AS (SELECT DISTINCT job_id FROM markets_changes_taken(%(cluster)s) AS taken(job_id))
    SELECT {_JOBS.select("FROM taken")}
"""  # noqa: S608  (nothing but this module's own words)


def take(cluster: Cluster) -> Changes | None:
    """Take what has changed; None without any change at all. The cluster's lock is held."""
    jobs = _JOBS.records(fetch_one(_TAKE, {"cluster": cluster.pk})[0])["id"]
    return Changes(np.sort(jobs[jobs != NULL]), bool((jobs == NULL).any())) if len(jobs) else None
