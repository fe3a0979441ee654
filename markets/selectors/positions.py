"""Where a job's own losing bids stand among the others that lose: a place and a number, no amounts and no names.

A bid loses where a tick has seen it and its job has neither won nor got that row or one above it. Bids of winners, and
those that may be winners at the next tick, are not counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db import connection

from markets.models import Bid


@dataclass(frozen=True, slots=True)
class Position:
    """The place of a bid among the losing ones of its type, 1 for the next to win, and how many there are."""

    place: int
    among: int


_POSITIONS = """
    WITH secured AS MATERIALIZED (
        SELECT own.job_id, min(own."position") AS "position"
        FROM (
            SELECT job_id, type_id FROM workers_lease WHERE state <> 'closed'
            UNION ALL SELECT job_id, type_id FROM markets_award WHERE state = 'waiting'
        ) AS got JOIN markets_bid AS own USING (job_id, type_id)
        WHERE own.closed_at IS NULL AND own.cluster_id = %(cluster)s GROUP BY own.job_id
    ), awake AS MATERIALIZED (
        SELECT id FROM workers_job
        WHERE cluster_id = %(cluster)s AND state IN ('queued', 'running') AND (state = 'queued' OR upgrade <> 'never')
    ), losing AS MATERIALIZED (
        SELECT bid.type_id, bid.job_id, bid.accepted_at,
               least(coalesce(bid.max_price_per_hour, type.cap_price_per_hour), type.cap_price_per_hour) AS counted
        FROM markets_bid AS bid
        JOIN workers_acceleratortype AS type ON type.id = bid.type_id
        JOIN workers_cluster AS cluster ON cluster.id = bid.cluster_id
        LEFT JOIN secured ON secured.job_id = bid.job_id
        WHERE bid.type_id = ANY(%(types)s) AND bid.closed_at IS NULL AND bid.opened_at <= cluster.last_tick_at
          AND (secured."position" IS NULL OR bid."position" < secured."position")
          AND bid.job_id IN (SELECT id FROM awake)
          AND least(coalesce(bid.max_price_per_hour, type.cap_price_per_hour), type.cap_price_per_hour)
              >= type.base_price_per_hour
    )
    SELECT losing.type_id, count(*), count(*) FILTER (
        WHERE losing.counted > own.counted
           OR losing.counted = own.counted AND (losing.accepted_at, losing.job_id) < (own.accepted_at, own.job_id)
    )
    FROM losing JOIN losing AS own ON own.type_id = losing.type_id AND own.job_id = %(job)s
    GROUP BY losing.type_id
"""
"""What a job has won, and every row below that, is secured to it: found once for all, not once for every bid."""


def of(bids: Sequence[Bid]) -> Mapping[int, Position]:
    """The positions of those of one job's open bids that lose, by accelerator type, in one statement."""
    if not bids:
        return {}
    given: dict[str, int | list[int]] = {
        "cluster": bids[0].cluster_id,
        "job": bids[0].job_id,
        "types": [bid.type_id for bid in bids],
    }
    with connection.cursor() as cursor:
        cursor.execute(_POSITIONS, given)
        return {kind: Position(place=ahead + 1, among=among) for kind, among, ahead in cursor.fetchall()}
