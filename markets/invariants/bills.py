"""Detectors of what leases pay: each instant once, at the price then in force (I4), rounded once (I7).

The arithmetic is spelt out here again, in SQL, and not taken from the code that it judges. Prices are micro-dollars per
hour, integrals micro-dollars per hour times microseconds.
"""

from laissez.invariants import Detector


def _with(*tables: str, select: str) -> str:
    """A query over some of the tables below."""
    return f"WITH {', '.join(tables)} {select}"


PIECES = """
    piece AS (
        SELECT slice.id AS slice_id, slice.lease_id,
               (each.value ->> 'from')::timestamptz AS starts,
               (each.value ->> 'until')::timestamptz AS ends,
               (each.value ->> 'price_per_hour')::numeric * 1000000 AS price,
               (each.value ->> 'speedup')::numeric AS speedup
        FROM markets_billingslice AS slice CROSS JOIN LATERAL jsonb_array_elements(slice.pieces) AS each
    )
"""
"""The stretches of one price that slices name."""

BIDS = """
    bid AS (
        SELECT job_id, type_id, opened_at AS starts,
               lead(opened_at, 1, 'infinity') OVER (PARTITION BY job_id, type_id ORDER BY opened_at, id) AS ends,
               coalesce(keep_price_per_hour, max_price_per_hour) AS stated
        FROM markets_bid
    )
"""
"""What each job stated for a type it holds, from one change to the next: the last word binds when its row has gone."""

ROUNDED = """
    rounded AS (
        SELECT integral, whole + CASE
            WHEN rest > 1800000000 OR rest = 1800000000 AND mod(whole, 2) = 1 THEN 1 ELSE 0
        END AS amount
        FROM (
            SELECT integral, div(integral, 3600000000) AS whole, mod(integral, 3600000000) AS rest
            FROM (SELECT integral FROM markets_billingslice UNION SELECT integral FROM workers_lease) AS integrals
        ) AS divided
    )
"""
"""Every integral as an amount of micro-dollars, half to even."""

SLICES_OVERLAP = Detector(
    id="I4",
    sentence="lease {lease} is billed for {first} and for {second}",
    sql="""
        SELECT lease.public_id AS lease, first.during AS first, second.during AS second
        FROM markets_billingslice AS first
        JOIN markets_billingslice AS second
            ON second.lease_id = first.lease_id AND second.id > first.id AND second.during && first.during
        JOIN workers_lease AS lease ON lease.id = first.lease_id
        ORDER BY first.id, second.id
    """,
)

NOT_COVERED = Detector(
    id="I4",
    sentence="lease {lease} is metered from {began} until {metered_until}, but its slices cover {covered}",
    sql="""
        SELECT lease.public_id AS lease, billed.began, lease.metered_until, covered.time AS covered
        FROM workers_lease AS lease
        CROSS JOIN LATERAL (SELECT lower(lease.billed_during) AS began) AS billed
        CROSS JOIN LATERAL (
            SELECT coalesce(range_agg(during), '{}') AS time FROM markets_billingslice WHERE lease_id = lease.id
        ) AS covered
        WHERE lease.billed_during IS NOT NULL AND (
            lease.metered_until IS NULL OR lease.metered_until < billed.began
            OR covered.time <> tstzmultirange(tstzrange(billed.began, greatest(lease.metered_until, billed.began)))
        )
        ORDER BY lease.id
    """,
)

BILLED_OUTSIDE = Detector(
    id="I4",
    sentence="lease {lease} is billed for {during}, which is not within the time it is to pay for, {billed_during}",
    sql="""
        SELECT lease.public_id AS lease, slice.during, lease.billed_during
        FROM markets_billingslice AS slice JOIN workers_lease AS lease ON lease.id = slice.lease_id
        WHERE (slice.during <@ lease.billed_during) IS NOT TRUE
        ORDER BY slice.id
    """,
)

# Metering follows every tick; a lease that cannot be billed is tried again each time.
NOT_METERED = Detector(
    id="I4",
    sentence="lease {lease} is {state} and was billed until {metered_until}, five minutes behind",
    sql="""
        SELECT lease.public_id AS lease, lease.state, lease.metered_until
        FROM workers_lease AS lease
        JOIN workers_host AS host ON host.id = lease.host_id
        JOIN workers_cluster AS cluster ON cluster.id = host.cluster_id
        WHERE lease.metered_until < upper(lease.billed_during)
                AND lease.ended_at < cluster.last_tick_at - interval '5 minutes'
            OR upper_inf(lease.billed_during) AND lease.metered_until < cluster.last_tick_at - interval '5 minutes'
        ORDER BY lease.id
    """,
)

WRONG_PRICE = Detector(
    id="I4",
    sentence="lease {lease} paid {price} micro-dollars per hour from {starts}; the quote and its own bid make it {due}",
    sql=_with(
        PIECES,
        BIDS,
        select="""
        SELECT lease.public_id AS lease, trunc(piece.price) AS price, min(piece.starts) AS starts, due.price AS due
        FROM piece
        JOIN workers_lease AS lease ON lease.id = piece.lease_id
        JOIN markets_quote AS quote
            ON quote.type_id = lease.type_id AND lower(quote.during) < piece.ends
            AND coalesce(upper(quote.during), 'infinity') > piece.starts
        LEFT JOIN bid
            ON bid.job_id = lease.job_id AND bid.type_id = lease.type_id AND bid.starts < bid.ends
            AND bid.starts < least(piece.ends, coalesce(upper(quote.during), 'infinity'))
            AND bid.ends > greatest(piece.starts, lower(quote.during))
        CROSS JOIN LATERAL (
            SELECT least(quote.lease_price_per_hour, bid.stated, quote.cap_price_per_hour) AS price
        ) AS due
        WHERE piece.price <> due.price
        GROUP BY lease.id, piece.price, due.price
        ORDER BY lease.id
        """,
    ),
)

# Before a type's first quote there is no price, so only what quotes cover has to be priced.
NOT_PRICED_ONCE = Detector(
    id="I4",
    sentence="lease {lease} has a slice {during} in which prices are named for {named} instead of {priced}",
    sql=_with(
        PIECES,
        """
        named AS (
            SELECT slice_id, sum(ends - starts) AS length,
                   range_agg(CASE WHEN starts < ends THEN tstzrange(starts, ends) END) AS time
            FROM piece GROUP BY slice_id
        )
        """,
        select="""
        SELECT lease.public_id AS lease, slice.during, coalesce(named.time, '{}') AS named, priced.time AS priced
        FROM markets_billingslice AS slice
        JOIN workers_lease AS lease ON lease.id = slice.lease_id
        LEFT JOIN named ON named.slice_id = slice.id
        CROSS JOIN LATERAL (
            SELECT coalesce(range_agg(part), '{}') AS time, coalesce(sum(upper(part) - lower(part)), '0') AS length
            FROM (
                SELECT quote.during * slice.during AS part FROM markets_quote AS quote
                WHERE markets_quoted(quote.type_id, quote.during, lease.type_id, slice.during)
            ) AS parts
        ) AS priced
        WHERE coalesce(named.time, '{}') <> priced.time OR coalesce(named.length, '0') <> priced.length
        ORDER BY slice.id
        """,
    ),
)

CHARGED_WITHOUT_A_SLICE = Detector(
    id="I4",
    sentence="charge {key} was taken for lease {lease}, but {slices} slices name it",
    sql="""
        SELECT transfer.key, lease.public_id AS lease, count(slice.id) AS slices
        FROM tenants_transfer AS transfer
        JOIN workers_lease AS lease ON lease.public_id = transfer.reference
        LEFT JOIN markets_billingslice AS slice ON slice.transfer_id = transfer.id
        WHERE transfer.kind = 'charge'
        GROUP BY transfer.id, lease.id
        HAVING count(slice.id) <> 1
        ORDER BY transfer.id
    """,
)

NOT_ROUNDED_ONCE = Detector(
    id="I7",
    sentence="lease {lease} is billed {billed} micro-dollars for {during}; its integral makes it {due}",
    sql=_with(
        ROUNDED,
        select="""
        SELECT lease.public_id AS lease, slice.billed, slice.during, trunc(slice.due) AS due
        FROM (
            SELECT id, lease_id, during, amount_microdollars + waived_microdollars AS billed,
                   amount - lag(amount, 1, 0::numeric) OVER (PARTITION BY lease_id ORDER BY lower(during), id) AS due
            FROM markets_billingslice JOIN rounded USING (integral)
        ) AS slice
        JOIN workers_lease AS lease ON lease.id = slice.lease_id
        WHERE slice.billed <> slice.due
        ORDER BY slice.id
        """,
    ),
)

LEASE_UNLIKE_ITS_SLICES = Detector(
    id="I7",
    sentence="lease {lease} shows {billed} micro-dollars billed and {waived} waived; its slices {sliced} and {forgone},"
    " and its integral makes them {due} together",
    sql=_with(
        ROUNDED,
        select="""
        SELECT lease.public_id AS lease, lease.billed_microdollars AS billed, lease.waived_microdollars AS waived,
               slices.billed AS sliced, slices.waived AS forgone, trunc(rounded.amount) AS due
        FROM workers_lease AS lease
        JOIN rounded USING (integral)
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(amount_microdollars), 0) AS billed, coalesce(sum(waived_microdollars), 0) AS waived,
                   coalesce(max(integral), 0) AS integral
            FROM markets_billingslice WHERE lease_id = lease.id
        ) AS slices
        WHERE (lease.billed_microdollars, lease.waived_microdollars, lease.integral)
                <> (slices.billed, slices.waived, slices.integral)
            OR slices.billed + slices.waived <> rounded.amount
        ORDER BY lease.id
        """,
    ),
)

# A piece says how much faster than real time the meter ran; where none does, it ran at one whole speed for a lease.
INTEGRAL_UNLIKE_ITS_PIECES = Detector(
    id="I7",
    sentence="lease {lease}: the integral grows by {grown} over {during}, its pieces make it {due}",
    sql=_with(
        PIECES,
        """
        slice AS (
            SELECT id, lease_id, during,
                   integral - lag(integral, 1, 0) OVER (PARTITION BY lease_id ORDER BY lower(during), id) AS grown
            FROM markets_billingslice
        ), measured AS (
            SELECT slice.id, coalesce(sum(area), 0) AS area, sum(area * speedup) AS stated
            FROM slice LEFT JOIN (
                SELECT slice_id, speedup, price * extract(epoch FROM ends - starts) * 1000000 AS area FROM piece
            ) AS measure ON measure.slice_id = slice.id
            GROUP BY slice.id
        ), judged AS (
            SELECT slice.*, coalesce(measured.stated, measured.area * greatest(1, div(
                       sum(slice.grown) OVER (PARTITION BY slice.lease_id),
                       nullif(sum(measured.area) OVER (PARTITION BY slice.lease_id), 0)
                   ))) AS due
            FROM slice JOIN measured USING (id)
        )
        """,
        select="""
        SELECT lease.public_id AS lease, judged.grown, judged.during, trunc(judged.due) AS due
        FROM judged JOIN workers_lease AS lease ON lease.id = judged.lease_id
        WHERE judged.grown <> judged.due
        ORDER BY judged.id
        """,
    ),
)

SLICE_UNLIKE_ITS_CHARGE = Detector(
    id="I7",
    sentence="lease {lease} is billed {billed} micro-dollars for {during}, but {charged} were taken",
    sql="""
        SELECT lease.public_id AS lease, slice.amount_microdollars AS billed, slice.during, charge.taken AS charged
        FROM markets_billingslice AS slice
        JOIN workers_lease AS lease ON lease.id = slice.lease_id
        CROSS JOIN LATERAL (
            SELECT coalesce(-sum(entry.amount_microdollars), 0) AS taken
            FROM tenants_entry AS entry JOIN tenants_account AS account ON account.id = entry.account_id
            WHERE entry.transfer_id = slice.transfer_id AND account.tenant_id IS NOT NULL
        ) AS charge
        WHERE slice.amount_microdollars <> charge.taken
        ORDER BY slice.id
    """,
)


def detectors() -> list[Detector]:
    """What must hold of every lease's slices."""
    return [
        SLICES_OVERLAP,
        NOT_COVERED,
        BILLED_OUTSIDE,
        NOT_METERED,
        WRONG_PRICE,
        NOT_PRICED_ONCE,
        CHARGED_WITHOUT_A_SLICE,
        NOT_ROUNDED_ONCE,
        LEASE_UNLIKE_ITS_SLICES,
        INTEGRAL_UNLIKE_ITS_PIECES,
        SLICE_UNLIKE_ITS_CHARGE,
    ]
