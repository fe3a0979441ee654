"""What a run has left in the database, read for its report. Times are seconds since 1970, money micro-dollars."""

from datetime import datetime
from typing import Any

from django.db import connection

from workers.models import Cluster

_SAMPLE = """
    SELECT extract(epoch FROM clock_timestamp())::float AS at,
        (SELECT count(*) FROM workers_accelerator AS unit JOIN workers_host AS host ON host.id = unit.host_id
         WHERE host.cluster_id = %(cluster)s AND unit.healthy AND host.state = 'ready') AS usable,
        (SELECT count(*) FROM workers_host WHERE cluster_id = %(cluster)s AND state = 'lost') AS lost_hosts,
        leases.*, jobs.*
    FROM (
        SELECT count(*) FILTER (WHERE lease.state = 'active') AS active,
               count(*) FILTER (WHERE lease.state = 'pending') AS pending,
               count(*) FILTER (WHERE lease.state = 'closing') AS closing
        FROM workers_lease AS lease JOIN workers_host AS host ON host.id = lease.host_id
        WHERE host.cluster_id = %(cluster)s AND lease.state <> 'closed'
    ) AS leases, (
        SELECT count(*) FILTER (WHERE state = 'queued') AS queued, count(*) FILTER (WHERE state = 'running') AS running
        FROM workers_job WHERE cluster_id = %(cluster)s AND state IN ('queued', 'running')
    ) AS jobs
"""

_PRICES = """
    SELECT type.name, extract(epoch FROM greatest(lower(quote.during), %(began)s))::float AS at, quote.price_per_hour
    FROM markets_quote AS quote JOIN workers_acceleratortype AS type ON type.id = quote.type_id
    WHERE type.cluster_id = %(cluster)s
    ORDER BY type.position, lower(quote.during)
"""

_PER_MINUTE = """
    SELECT what, floor(extract(epoch FROM at - %(began)s) / 60)::int AS minute, count(*)
    FROM (
        SELECT 'hand-overs' AS what, handed_over_at AS at FROM workers_lease
        UNION ALL SELECT 'notices', opened_at FROM markets_notice
        UNION ALL SELECT 'moves begun', opened_at FROM workers_migration
        UNION ALL SELECT 'moves done', closed_at FROM workers_migration WHERE state = 'done'
        UNION ALL SELECT 'jobs finished', finished_at FROM workers_job WHERE state = 'succeeded'
        UNION ALL SELECT 'bids opened', opened_at FROM markets_bid
    ) AS happened
    WHERE at >= %(began)s
    GROUP BY what, minute ORDER BY what, minute
"""

_BILLED_PER_MINUTE = """
    SELECT floor(extract(epoch FROM transfer.at - %(began)s) / 60)::int AS minute,
           sum(slice.amount_microdollars)::bigint AS slices, sum(-entry.amount_microdollars)::bigint AS ledger
    FROM tenants_transfer AS transfer
    JOIN tenants_entry AS entry ON entry.transfer_id = transfer.id
    JOIN tenants_account AS account ON account.id = entry.account_id AND account.tenant_id IS NOT NULL
    LEFT JOIN markets_billingslice AS slice ON slice.transfer_id = transfer.id
    WHERE transfer.kind = 'charge'
    GROUP BY minute ORDER BY minute
"""

_MONEY = """
    SELECT
        (SELECT coalesce(sum(amount_microdollars), 0)::bigint FROM markets_billingslice) AS slices,
        (SELECT coalesce(sum(waived_microdollars), 0)::bigint FROM markets_billingslice) AS waived,
        (SELECT coalesce(sum(billed_microdollars), 0)::bigint FROM workers_lease) AS leases,
        (SELECT coalesce(sum(charged_microdollars), 0)::bigint FROM markets_award) AS probing,
        (SELECT coalesce(sum(entry.amount_microdollars), 0)::bigint FROM tenants_entry AS entry
         JOIN tenants_account AS account ON account.id = entry.account_id WHERE account.kind = 'revenue') AS revenue
"""

_TOTALS = """
    SELECT 'events' AS what, count(*) FROM laissez_event
    UNION ALL SELECT 'billing slices', count(*) FROM markets_billingslice
    UNION ALL SELECT 'recorded clearings', count(*) FROM markets_clearing
    UNION ALL SELECT 'leases closed: ' || reason, count(*) FROM workers_lease WHERE state = 'closed' GROUP BY reason
    UNION ALL SELECT 'notices: ' || reason, count(*) FROM markets_notice GROUP BY reason
    ORDER BY what
"""


def sample(cluster: Cluster) -> dict[str, Any]:
    """How full the cluster is at this moment."""
    return _rows(_SAMPLE, cluster=cluster.pk)[0]


def figures(cluster: Cluster, began: datetime) -> dict[str, Any]:
    """Prices, counts a minute, money and totals since the run began."""
    return {
        "prices": _rows(_PRICES, cluster=cluster.pk, began=began),
        "per_minute": _rows(_PER_MINUTE, began=began),
        "billed_per_minute": _rows(_BILLED_PER_MINUTE, began=began),
        "money": _rows(_MONEY)[0],
        "totals": _rows(_TOTALS),
    }


def _rows(sql: str, **figures: Any) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, figures)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
