"""Detectors of what is quoted, awarded and warned of (I5, I12, I13, I19)."""

from laissez.invariants import Detector

QUOTE_OUT_OF_BOUNDS = Detector(
    id="I5",
    sentence="{type} is quoted at {price}, lease price {lease_price}, with base price {base} and cap price {cap}",
    sql="""
        SELECT type.slug AS type, quote.price_per_hour AS price, quote.lease_price_per_hour AS lease_price,
               quote.base_price_per_hour AS base, quote.cap_price_per_hour AS cap
        FROM markets_quote AS quote JOIN workers_acceleratortype AS type ON type.id = quote.type_id
        WHERE NOT (quote.base_price_per_hour <= quote.lease_price_per_hour
            AND quote.lease_price_per_hour <= quote.price_per_hour
            AND quote.price_per_hour <= quote.cap_price_per_hour)
        ORDER BY quote.id
    """,
)

QUOTE_UNLIKE_ITS_RECEIPT = Detector(
    id="I5",
    sentence="{type} is quoted at {price}, lease price {lease_price}; receipt {number} says {receipt}",
    sql="""
        SELECT type.slug AS type, quote.price_per_hour AS price, quote.lease_price_per_hour AS lease_price,
               clearing.number, clearing.receipt -> type.slug AS receipt
        FROM markets_quote AS quote
        JOIN workers_acceleratortype AS type ON type.id = quote.type_id
        JOIN markets_clearing AS clearing ON clearing.id = quote.clearing_id
        CROSS JOIN LATERAL (
            SELECT (clearing.receipt -> type.slug ->> 'price_per_hour')::numeric * 1000000 AS public,
                   (clearing.receipt -> type.slug ->> 'lease_price_per_hour')::numeric * 1000000 AS lease
        ) AS due
        WHERE (quote.price_per_hour = due.public AND quote.lease_price_per_hour = due.lease) IS NOT TRUE
        ORDER BY quote.id
    """,
)

AWARD_CONTRADICTS_ITSELF = Detector(
    id="I12",
    sentence="award {award} is {state}, but {fault}",
    sql="""
        SELECT award, state, fault
        FROM (
            SELECT award.id, award.public_id AS award, award.state, CASE
                WHEN award.state = 'handed_over' AND award.lease_id IS NULL THEN 'names no lease'
                WHEN award.state <> 'handed_over' AND award.lease_id IS NOT NULL THEN 'names a lease'
                WHEN (lease.job_id, lease.type_id) <> (award.job_id, award.type_id)
                    THEN 'its lease is of another job or type'
                WHEN award.state = 'waiting' AND award.closed_at IS NOT NULL THEN 'has ended before'
                WHEN award.state <> 'waiting' AND award.closed_at IS NULL THEN 'does not say since when'
            END AS fault
            FROM markets_award AS award LEFT JOIN workers_lease AS lease ON lease.id = award.lease_id
        ) AS judged
        WHERE fault IS NOT NULL
        ORDER BY id
    """,
)

NOTICE_CONTRADICTS_ITSELF = Detector(
    id="I12",
    sentence="notice {notice} is {state}, but {fault}",
    sql="""
        SELECT notice, state, fault
        FROM (
            SELECT notice.id, notice.public_id AS notice, notice.state, CASE
                WHEN lease.job_id <> notice.job_id THEN 'its lease is of another job'
                WHEN notice.state = 'open' AND notice.closed_at IS NOT NULL THEN 'has ended before'
                WHEN notice.state <> 'open' AND notice.closed_at IS NULL THEN 'does not say since when'
                WHEN (notice.state = 'answered') <> (notice.answer <> '') THEN 'its answer is "' || notice.answer || '"'
            END AS fault
            FROM markets_notice AS notice JOIN workers_lease AS lease ON lease.id = notice.lease_id
        ) AS judged
        WHERE fault IS NOT NULL
        ORDER BY id
    """,
)

# A job that ends by itself leaves the market once its leases have ended and are billed; two minutes are allowed for
# that, from the last thing that happened to it.
LEFT_BEHIND = Detector(
    id="I13",
    sentence="job {job} is {state}, but {fault}",
    sql="""
        SELECT job.public_id AS job, job.state, remains.fault
        FROM workers_job AS job
        JOIN workers_cluster AS cluster ON cluster.id = job.cluster_id
        CROSS JOIN LATERAL (
            SELECT greatest(
                job.queued_at, job.finished_at,
                (SELECT max(ended_at) FROM workers_lease WHERE job_id = job.id),
                (SELECT max(closed_at) FROM markets_bid WHERE job_id = job.id)
            ) AS at
        ) AS last
        JOIN LATERAL (
            SELECT 'its award ' || public_id || ' waits' AS fault
            FROM markets_award WHERE job_id = job.id AND state = 'waiting'
            UNION ALL
            SELECT amount_microdollars || ' micro-dollars are held for it' AS fault
            FROM tenants_hold WHERE reference = job.public_id AND released_at IS NULL
        ) AS remains ON true
        WHERE job.state NOT IN ('queued', 'running') AND last.at < cluster.last_tick_at - interval '2 minutes'
            AND NOT EXISTS (SELECT FROM workers_lease WHERE job_id = job.id AND state <> 'closed')
        ORDER BY job.id
    """,
)

# Nobody looks at a settled job again, so it must have left nothing to look at.
SETTLED_TOO_SOON = Detector(
    id="I13",
    sentence="job {job} is settled since {settled_at}, but {fault}",
    sql="""
        SELECT job.public_id AS job, job.settled_at, remains.fault
        FROM (
            SELECT job.id AS job_id, hold.amount_microdollars || ' micro-dollars are held for it' AS fault
            FROM tenants_hold AS hold JOIN workers_job AS job ON job.public_id = hold.reference
            WHERE hold.released_at IS NULL
            UNION ALL
            SELECT job_id, 'its lease ' || public_id || ' is ' || state AS fault
            FROM workers_lease WHERE state <> 'closed'
        ) AS remains JOIN workers_job AS job ON job.id = remains.job_id
        WHERE job.settled_at IS NOT NULL
        ORDER BY job.id
    """,
)

# A host ends leases without knowing of notices; the next tick closes theirs.
NOTICE_OF_NOTHING = Detector(
    id="I13",
    sentence="notice {notice} is open, but its lease {lease} is closed since {ended_at}",
    sql="""
        SELECT notice.public_id AS notice, lease.public_id AS lease, lease.ended_at
        FROM markets_notice AS notice
        JOIN workers_lease AS lease ON lease.id = notice.lease_id
        JOIN workers_job AS job ON job.id = notice.job_id
        JOIN workers_cluster AS cluster ON cluster.id = job.cluster_id
        WHERE notice.state = 'open' AND lease.state = 'closed'
            AND lease.ended_at < cluster.last_tick_at - interval '10 seconds'
        ORDER BY notice.id
    """,
)

NOTICE_WITHOUT_END = Detector(
    id="I13",
    sentence="notice {notice} was to be executed at {deadline} and is still open",
    sql="""
        SELECT notice.public_id AS notice, notice.deadline
        FROM markets_notice AS notice
        JOIN workers_lease AS lease ON lease.id = notice.lease_id
        JOIN workers_job AS job ON job.id = notice.job_id
        JOIN workers_cluster AS cluster ON cluster.id = job.cluster_id
        WHERE notice.state = 'open' AND lease.state <> 'closed'
            AND notice.deadline < cluster.last_tick_at - interval '1 minute'
        ORDER BY notice.id
    """,
)

# While its source is under notice a move goes by the notice's deadline instead.
MOVE_WITHOUT_END = Detector(
    id="I13",
    sentence="migration {migration} should have left by {deadline} and keeps its destination",
    sql="""
        SELECT migration.public_id AS migration, migration.deadline
        FROM workers_migration AS migration
        JOIN workers_job AS job ON job.id = migration.job_id
        JOIN workers_cluster AS cluster ON cluster.id = job.cluster_id
        WHERE migration.state = 'awarded' AND migration.deadline < cluster.last_tick_at - interval '1 minute'
            AND job.state = 'running'
            AND NOT EXISTS (SELECT FROM markets_notice WHERE lease_id = migration.source_id AND state = 'open')
        ORDER BY migration.id
    """,
)

# The first tick at or after its time puts an announced change in force.
ANNOUNCED_AND_FORGOTTEN = Detector(
    id="I13",
    sentence="price change {change} of {type} was to be in force at {effective_at} and is still scheduled",
    sql="""
        SELECT change.public_id AS change, type.slug AS type, change.effective_at
        FROM markets_pricechange AS change
        JOIN workers_acceleratortype AS type ON type.id = change.type_id
        JOIN workers_cluster AS cluster ON cluster.id = type.cluster_id
        WHERE change.state = 'scheduled' AND change.effective_at < cluster.last_tick_at - interval '1 minute'
        ORDER BY change.id
    """,
)

# At the end of each tick every award is backed by a usable unit that is unoccupied or being left, that is closing or
# under notice. Between ticks two things may change that. A unit may fail: so many units as the open quote's supply,
# which is what the last tick counted, exceeds the usable ones, are still counted. And an action that was dropped
# because its rows had moved on may leave an award of the same tick unbacked until the next one: awards count from
# three seconds before the last tick. Jobs that are over have left the line.
AWARDS_WITHOUT_UNITS = Detector(
    id="I19",
    sentence="{awards} awards of {type} wait for {units} units that are free or being left",
    sql="""
        SELECT waiting.awards, type.slug AS type, coalesce(backing.units, 0) AS units
        FROM (
            SELECT award.type_id, count(*) AS awards
            FROM markets_award AS award
            JOIN workers_job AS job ON job.id = award.job_id
            JOIN workers_cluster AS cluster ON cluster.id = job.cluster_id
            WHERE award.state = 'waiting' AND job.state IN ('queued', 'running')
                AND award.since < coalesce(cluster.last_tick_at, now()) - interval '3 seconds'
            GROUP BY award.type_id
        ) AS waiting
        JOIN workers_acceleratortype AS type ON type.id = waiting.type_id
        LEFT JOIN (
            SELECT unit.type_id, count(*) AS usable, count(*) FILTER (WHERE NOT EXISTS (
                SELECT FROM workers_lease AS lease
                WHERE lease.accelerator_id = unit.id AND lease.state IN ('pending', 'active')
                    AND NOT EXISTS (SELECT FROM markets_notice WHERE lease_id = lease.id AND state = 'open')
            )) AS units
            FROM workers_accelerator AS unit JOIN workers_host AS host ON host.id = unit.host_id
            WHERE unit.healthy AND host.state = 'ready'
            GROUP BY unit.type_id
        ) AS backing ON backing.type_id = type.id
        LEFT JOIN markets_quote AS quote ON quote.type_id = type.id AND upper_inf(quote.during)
        WHERE waiting.awards > coalesce(backing.units, 0)
            + greatest(0, coalesce(quote.supply, 0) - coalesce(backing.usable, 0))
        ORDER BY type.id
    """,
)

TWO_AWARDS = Detector(
    id="I19",
    sentence="job {job} has {awards} waiting awards",
    sql="""
        SELECT job.public_id AS job, count(*) AS awards
        FROM markets_award AS award JOIN workers_job AS job ON job.id = award.job_id
        WHERE award.state = 'waiting'
        GROUP BY job.id
        HAVING count(*) > 1
        ORDER BY job.id
    """,
)

# A job may be awarded the type it sits on when its own unit has failed or drains: it has a notice from the same tick,
# which is withdrawn in the tick that closes the award.
AWARDED_WHAT_IT_HOLDS = Detector(
    id="I19",
    sentence="award {award} of {type} waits, but job {job} holds one with lease {lease}",
    sql="""
        SELECT award.public_id AS award, type.slug AS type, job.public_id AS job, lease.public_id AS lease
        FROM markets_award AS award
        JOIN workers_acceleratortype AS type ON type.id = award.type_id
        JOIN workers_job AS job ON job.id = award.job_id
        JOIN workers_lease AS lease ON lease.job_id = award.job_id AND lease.type_id = award.type_id
        JOIN workers_accelerator AS unit ON unit.id = lease.accelerator_id
        JOIN workers_host AS host ON host.id = lease.host_id
        WHERE award.state = 'waiting' AND lease.state IN ('pending', 'active')
            AND unit.healthy AND host.state = 'ready'
            AND NOT EXISTS (SELECT FROM markets_notice WHERE lease_id = lease.id AND state = 'open')
        ORDER BY award.id
    """,
)


def detectors() -> list[Detector]:
    """What must hold of prices, awards and notices."""
    return [
        QUOTE_OUT_OF_BOUNDS,
        QUOTE_UNLIKE_ITS_RECEIPT,
        AWARD_CONTRADICTS_ITSELF,
        NOTICE_CONTRADICTS_ITSELF,
        LEFT_BEHIND,
        SETTLED_TOO_SOON,
        NOTICE_OF_NOTHING,
        NOTICE_WITHOUT_END,
        MOVE_WITHOUT_END,
        ANNOUNCED_AND_FORGOTTEN,
        AWARDS_WITHOUT_UNITS,
        TWO_AWARDS,
        AWARDED_WHAT_IT_HOLDS,
    ]
