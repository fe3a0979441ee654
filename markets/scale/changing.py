"""Changing bids as tenants do all the time, many at once: a row is closed and another opened in its place.

The rows are those that `markets.services.bids` would have written. No events are: whoever needs them calls the
services.
"""

from functools import partial

import numpy as np
from django.db import connection

from laissez.events import Outbox, transact
from workers.models import Cluster, Job
from workers.services import jobs

MOST_STEP_PER_MILLE = 50

# Picked by a hash of the id and a drawn number, so that the same draw picks the same rows in whatever order they lie.
_PICK = """
    SELECT bid.id, bid.job_id FROM markets_bid AS bid JOIN workers_job AS job ON job.id = bid.job_id
    WHERE bid.cluster_id = %s AND bid.closed_at IS NULL AND bid.max_price_per_hour IS NOT NULL AND job.state = ANY(%s)
    ORDER BY hashint8extended(bid.id, %s), bid.id LIMIT %s
"""

_CHANGE = """
    WITH closed AS (
        UPDATE markets_bid SET closed_at = %(now)s WHERE id = ANY(%(ids)s) AND closed_at IS NULL RETURNING *
    ), priced AS (
        SELECT closed.*, greatest(type.base_price_per_hour, least(type.cap_price_per_hour,
            CASE WHEN step.value < 0 THEN former - greatest(1, -step.value) ELSE former + greatest(1, step.value) END
        )) AS wanted
        FROM closed JOIN workers_acceleratortype AS type ON type.id = closed.type_id
        CROSS JOIN LATERAL (SELECT closed.max_price_per_hour AS former) AS present
        CROSS JOIN LATERAL (
            SELECT former * (mod(hashint8extended(closed.id, %(draw)s), %(most)s + 1)) / 1000 AS value
        ) AS step
    )
    INSERT INTO markets_bid (public_id, cluster_id, job_id, type_id, accelerator_count, position, max_price_per_hour,
                             keep_price_per_hour, origin, accepted_at, opened_at)
    SELECT 'bid_' || substr(md5(id || ':' || %(draw)s), 1, 20), cluster_id, job_id, type_id, accelerator_count,
           position, wanted, CASE WHEN keep_price_per_hour >= wanted THEN keep_price_per_hour END, origin,
           CASE WHEN wanted = max_price_per_hour THEN accepted_at ELSE %(now)s END, %(now)s
    FROM priced
"""


def change_bids(cluster: Cluster, *, count: int, generator: np.random.Generator) -> int:
    """Raise or lower this many open bids, which stay between base and cap price, by at most 5 %.

    Returns:
        How many have changed: fewer when fewer are open, or when tenants get in between.
    """
    seed, draw = (int(number) for number in generator.integers(0, 2**62, 2))
    return transact(partial(_change, cluster, count, seed, draw))


def change_share(cluster: Cluster, *, share: float, generator: np.random.Generator) -> int:
    """`change_bids` of a share of all open bids."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM markets_bid WHERE cluster_id = %s AND closed_at IS NULL", [cluster.pk])
        open_bids: int = cursor.fetchone()[0]
    return change_bids(cluster, count=round(open_bids * share), generator=generator)


def _change(cluster: Cluster, count: int, seed: int, draw: int, outbox: Outbox) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_PICK, [cluster.pk, [Job.State.QUEUED, Job.State.RUNNING], seed, count])
        picked = cursor.fetchall()
        jobs.lock(job for _, job in picked)
        ids = [bid for bid, _ in picked]
        cursor.execute(_CHANGE, {"now": outbox.now(), "ids": ids, "draw": draw, "most": MOST_STEP_PER_MILLE})
        changed: int = cursor.rowcount
    return changed
