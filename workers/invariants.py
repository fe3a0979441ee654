"""Detectors of the floor (I1, I2, I3, I8, I9, I12, I13, I19): a row is a violation, whoever wrote it.

They may run at any time. What one transaction changes together is never seen apart, so most need no tolerance.
An overdue row is a violation only when whoever should have acted on it has been at work since: an outage of ticks or
of the reconciler is reported elsewhere, and what it left undone is done in the first round after it.
"""

from laissez.invariants import Detector

OVERLAPPING_OCCUPATION = Detector(
    id="I1",
    sentence="accelerator {accelerator} is held by lease {first} and lease {second} at once",
    sql="""
        SELECT accelerator.public_id AS accelerator, first.public_id AS first, second.public_id AS second
        FROM workers_lease AS first
        JOIN workers_lease AS second
            ON second.accelerator_id = first.accelerator_id AND second.id > first.id AND second.during && first.during
        JOIN workers_accelerator AS accelerator ON accelerator.id = first.accelerator_id
        ORDER BY first.id, second.id
    """,
)

MISPLACED = Detector(
    id="I1",
    sentence="lease {lease} names another host or type than its accelerator {accelerator}",
    sql="""
        SELECT lease.public_id AS lease, accelerator.public_id AS accelerator
        FROM workers_lease AS lease JOIN workers_accelerator AS accelerator ON accelerator.id = lease.accelerator_id
        WHERE (lease.host_id, lease.type_id) <> (accelerator.host_id, accelerator.type_id)
        ORDER BY lease.id
    """,
)

FENCE_NOT_GROWING = Detector(
    id="I2",
    sentence="lease {lease} has fence {fence}, but its accelerator had been handed out with fence {former} before",
    sql="""
        SELECT lease, fence, former
        FROM (
            SELECT id, public_id AS lease, fence,
                   lag(fence) OVER (PARTITION BY accelerator_id ORDER BY lower(during), id) AS former
            FROM workers_lease
        ) AS handed_over
        WHERE fence <= former
        ORDER BY id
    """,
)

FENCE_AHEAD = Detector(
    id="I2",
    sentence="lease {lease} has fence {fence}, but its accelerator has reached only {reached}",
    sql="""
        SELECT lease.public_id AS lease, lease.fence, accelerator.fence AS reached
        FROM workers_lease AS lease JOIN workers_accelerator AS accelerator ON accelerator.id = lease.accelerator_id
        WHERE lease.fence > accelerator.fence
        ORDER BY lease.id
    """,
)

FOREIGN_CHECKPOINT = Detector(
    id="I2",
    sentence="checkpoint {checkpoint} has fence {fence} or a job that is not that of its lease {lease}, fence {held}",
    sql="""
        SELECT checkpoint.public_id AS checkpoint, checkpoint.fence, lease.public_id AS lease, lease.fence AS held
        FROM workers_checkpoint AS checkpoint JOIN workers_lease AS lease ON lease.id = checkpoint.lease_id
        WHERE (checkpoint.fence, checkpoint.job_id) <> (lease.fence, lease.job_id)
        ORDER BY checkpoint.id
    """,
)

# Only a lease that its host has confirmed at least once has a renewal to count from.
LET_AGAIN_TOO_SOON = Detector(
    id="I3",
    sentence="lease {second} began at {began}, while lease {first} of a lost host could run until {expires_at}",
    sql="""
        SELECT second.public_id AS second, lower(second.during) AS began, first.public_id AS first, first.expires_at
        FROM workers_lease AS first
        JOIN workers_lease AS second
            ON second.accelerator_id = first.accelerator_id AND second.fence > first.fence
            AND lower(second.during) < first.expires_at
        WHERE first.state = 'closed' AND first.reason = 'host_lost' AND first.last_heard_at IS NOT NULL
        ORDER BY second.id
    """,
)

TWO_PRIMARIES = Detector(
    id="I8",
    sentence="job {job} has lease {first} and lease {second} as its primary one at once",
    sql="""
        SELECT job.public_id AS job, first.public_id AS first, second.public_id AS second
        FROM workers_lease AS first
        JOIN workers_lease AS second
            ON second.job_id = first.job_id AND second.id > first.id AND second.primary_during && first.primary_during
        JOIN workers_job AS job ON job.id = first.job_id
        ORDER BY first.id, second.id
    """,
)

# A tenure that ends in the transaction that began it is given a microsecond, which may lie after the occupation.
PRIMARY_OUTSIDE = Detector(
    id="I8",
    sentence="lease {lease} is primary in {primary_during}, which is not within its occupation {during}",
    sql="""
        SELECT public_id AS lease, primary_during, during
        FROM workers_lease
        WHERE NOT primary_during <@ tstzrange(lower(during), upper(during) + interval '1 millisecond')
        ORDER BY id
    """,
)

NEWEST_IS_FOREIGN = Detector(
    id="I9",
    sentence="job {job} would resume from checkpoint {checkpoint}, which is another job's",
    sql="""
        SELECT job.public_id AS job, checkpoint.public_id AS checkpoint
        FROM workers_job AS job JOIN workers_checkpoint AS checkpoint ON checkpoint.id = job.newest_checkpoint_id
        WHERE checkpoint.job_id <> job.id
        ORDER BY job.id
    """,
)

NEWEST_IS_STALE = Detector(
    id="I9",
    sentence="job {job} would not resume from its newest checkpoint {newest}",
    sql="""
        SELECT job.public_id AS job, newest.public_id AS newest
        FROM workers_job AS job
        JOIN LATERAL (
            SELECT id, public_id FROM workers_checkpoint WHERE job_id = job.id ORDER BY id DESC LIMIT 1
        ) AS newest ON true
        LEFT JOIN workers_checkpoint AS pointed ON pointed.id = job.newest_checkpoint_id
        WHERE coalesce(pointed.id, 0) <> newest.id AND coalesce(pointed.job_id, job.id) = job.id
        ORDER BY job.id
    """,
)

# Rows cannot show by which way a state was reached; they can show that it contradicts what stands beside it.
LEASE_CONTRADICTS_ITSELF = Detector(
    id="I12",
    sentence="lease {lease} is {state}, but {fault}",
    sql="""
        SELECT lease, state, fault
        FROM (
            SELECT id, public_id AS lease, state, CASE
                WHEN state = 'closed' AND reason = '' THEN 'gives no reason'
                WHEN state = 'closed' AND ended_at IS NULL THEN 'does not say since when'
                WHEN state = 'closed' AND upper_inf(during) THEN 'still occupies its accelerator'
                WHEN state = 'closed' AND upper_inf(billed_during) THEN 'is still billed'
                WHEN state <> 'closed' AND NOT upper_inf(during) THEN 'its occupation has ended'
                WHEN state <> 'closed' AND NOT upper_inf(billed_during) THEN 'its billing has ended'
                WHEN state <> 'closed' AND ended_at IS NOT NULL THEN 'has ended before'
                WHEN state = 'active' AND (active_at IS NULL OR billed_during IS NULL) THEN 'was never confirmed'
                WHEN state = 'pending' AND (active_at IS NOT NULL OR billed_during IS NOT NULL) THEN 'was confirmed'
                WHEN state IN ('pending', 'active') AND closing_at IS NOT NULL THEN 'was told to leave'
                WHEN state = 'closing' AND (reason = '' OR ending = '' OR closing_deadline IS NULL)
                    THEN 'was not told why, how or by when'
            END AS fault
            FROM workers_lease
        ) AS judged
        WHERE fault IS NOT NULL
        ORDER BY id
    """,
)

JOB_CONTRADICTS_ITSELF = Detector(
    id="I12",
    sentence="job {job} is {state}, but {fault}",
    sql="""
        SELECT job, state, fault
        FROM (
            SELECT id, public_id AS job, state, CASE
                WHEN state IN ('succeeded', 'failed', 'cancelled', 'expired') AND finished_at IS NULL
                    THEN 'does not say since when'
                WHEN state IN ('queued', 'running', 'stopped') AND finished_at IS NOT NULL THEN 'has finished before'
                WHEN state IN ('running', 'succeeded', 'failed') AND started_at IS NULL THEN 'has never started'
            END AS fault
            FROM workers_job
        ) AS judged
        WHERE fault IS NOT NULL
        ORDER BY id
    """,
)

IDLE_JOB_WITH_A_LEASE = Detector(
    id="I12",
    sentence="job {job} is {state}, but its lease {lease} is {lease_state}",
    sql="""
        SELECT job.public_id AS job, job.state, lease.public_id AS lease, lease.state AS lease_state
        FROM workers_job AS job JOIN workers_lease AS lease ON lease.job_id = job.id
        WHERE job.state <> 'running' AND lease.state IN ('pending', 'active')
        ORDER BY lease.id
    """,
)

MIGRATION_CONTRADICTS_ITSELF = Detector(
    id="I12",
    sentence="migration {migration} is {state}, but {fault}",
    sql="""
        SELECT migration, state, fault
        FROM (
            SELECT migration.id, migration.public_id AS migration, migration.state, CASE
                WHEN source.job_id <> migration.job_id OR destination.job_id <> migration.job_id
                    THEN 'its leases are not both of its job'
                WHEN migration.state = 'done' AND migration.first_step_at IS NULL THEN 'has seen no first step'
                WHEN migration.state = 'aborted' AND migration.reason = '' THEN 'gives no reason'
                WHEN migration.state IN ('done', 'aborted') AND migration.closed_at IS NULL
                    THEN 'does not say since when'
                WHEN migration.state NOT IN ('done', 'aborted') AND migration.closed_at IS NOT NULL
                    THEN 'has ended before'
            END AS fault
            FROM workers_migration AS migration
            JOIN workers_lease AS source ON source.id = migration.source_id
            JOIN workers_lease AS destination ON destination.id = migration.destination_id
        ) AS judged
        WHERE fault IS NOT NULL
        ORDER BY id
    """,
)

# Ticks expire jobs in the transaction that stamps them, so nothing that was due a minute before one is left.
QUEUED_FOR_EVER = Detector(
    id="I13",
    sentence="job {job} is queued past its deadline, {queue_deadline}; the last tick was at {last_tick_at}",
    sql="""
        SELECT job.public_id AS job, job.queue_deadline, cluster.last_tick_at
        FROM workers_job AS job JOIN workers_cluster AS cluster ON cluster.id = job.cluster_id
        WHERE job.state = 'queued'
            AND (job.queue_deadline IS NULL OR job.queue_deadline < cluster.last_tick_at - interval '1 minute')
        ORDER BY job.id
    """,
)

RUNNING_NOWHERE = Detector(
    id="I13",
    sentence="job {job} is running without a lease",
    sql="""
        SELECT job.public_id AS job
        FROM workers_job AS job
        WHERE job.state = 'running'
            AND NOT EXISTS (SELECT FROM workers_lease WHERE job_id = job.id AND state <> 'closed')
        ORDER BY job.id
    """,
)

# The reconciler gives up what no host confirms and loses hosts that fall silent, in rounds of seconds, while the server
# can be heard. A lease that is not confirmed has its own deadline, any other its time to live.
ABANDONED = Detector(
    id="I13",
    sentence="lease {lease} is {state}, and nobody has ended it in the two minutes since its deadline {deadline}",
    sql="""
        WITH ear AS (
            SELECT listening_since, checked_at FROM workers_ear WHERE hears
            UNION ALL SELECT '-infinity', now() WHERE NOT EXISTS (SELECT FROM workers_ear)
        )
        SELECT lease, state, deadline
        FROM (
            SELECT id, public_id AS lease, state,
                   CASE state WHEN 'pending' THEN pending_deadline ELSE expires_at END AS deadline
            FROM workers_lease WHERE state <> 'closed'
        ) AS held CROSS JOIN ear
        WHERE greatest(deadline, ear.listening_since) < ear.checked_at - interval '2 minutes'
        ORDER BY id
    """,
)

# Its host ends it by its own clock; two minutes of syncs after the deadline without "ended" is no delay any more.
NEVER_LEAVES = Detector(
    id="I13",
    sentence="lease {lease} was to leave by {closing_deadline}; its host speaks, but does not give it back",
    sql="""
        SELECT lease.public_id AS lease, lease.closing_deadline
        FROM workers_lease AS lease JOIN workers_host AS host ON host.id = lease.host_id
        WHERE lease.state = 'closing' AND lease.closing_deadline < host.last_heard_at - interval '2 minutes'
        ORDER BY lease.id
    """,
)

LEFT_ON_A_LOST_HOST = Detector(
    id="I13",
    sentence="lease {lease} is {state} on host {host}, which is {host_state}",
    sql="""
        SELECT lease.public_id AS lease, lease.state, host.name AS host, host.state AS host_state
        FROM workers_lease AS lease JOIN workers_host AS host ON host.id = lease.host_id
        WHERE lease.state <> 'closed' AND host.state IN ('lost', 'retired', 'pending')
        ORDER BY lease.id
    """,
)

MOVING_NOWHERE = Detector(
    id="I13",
    sentence="migration {migration} is {state}, but its destination {destination} is closed",
    sql="""
        SELECT migration.public_id AS migration, migration.state, lease.public_id AS destination
        FROM workers_migration AS migration JOIN workers_lease AS lease ON lease.id = migration.destination_id
        WHERE migration.state NOT IN ('done', 'aborted') AND lease.state = 'closed'
        ORDER BY migration.id
    """,
)

TOO_MANY_LEASES = Detector(
    id="I19",
    sentence="job {job} has {leases} open leases",
    sql="""
        SELECT job.public_id AS job, count(*) AS leases
        FROM workers_job AS job JOIN workers_lease AS lease ON lease.job_id = job.id AND lease.state <> 'closed'
        GROUP BY job.id
        HAVING count(*) > 2
        ORDER BY job.id
    """,
)


def detectors() -> list[Detector]:
    """What must hold of leases, fences, checkpoints, jobs, migrations and hosts."""
    return [
        OVERLAPPING_OCCUPATION,
        MISPLACED,
        FENCE_NOT_GROWING,
        FENCE_AHEAD,
        FOREIGN_CHECKPOINT,
        LET_AGAIN_TOO_SOON,
        TWO_PRIMARIES,
        PRIMARY_OUTSIDE,
        NEWEST_IS_FOREIGN,
        NEWEST_IS_STALE,
        LEASE_CONTRADICTS_ITSELF,
        JOB_CONTRADICTS_ITSELF,
        IDLE_JOB_WITH_A_LEASE,
        MIGRATION_CONTRADICTS_ITSELF,
        QUEUED_FOR_EVER,
        RUNNING_NOWHERE,
        ABANDONED,
        NEVER_LEAVES,
        LEFT_ON_A_LOST_HOST,
        MOVING_NOWHERE,
        TOO_MANY_LEASES,
    ]
