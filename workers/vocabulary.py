"""What the floor tells: jobs, leases, moves and checkpoints to their holders, hosts to operators."""

from laissez.feed.schemas import (
    COUNT,
    FLAG,
    FRACTION,
    MONEY,
    NUMBER,
    TEXT,
    TIME,
    WHOLE,
    Schema,
    list_of,
    one_of,
    or_null,
    record,
)
from laissez.feed.vocabulary import EventType, register
from workers.models import Job, Lease, Migration

HOLDER, OPERATORS = "holder", "operators"

JOB: Schema = record(
    job=TEXT,
    name=TEXT,
    cluster=TEXT,
    state=one_of(Job.State.values),
    reason=TEXT,
    reason_detail=TEXT,
    policy=or_null(TEXT),
    upgrade=one_of(Job.Upgrade.values),
    migration_mode=one_of(Job.MigrationMode.values),
    budget=or_null(MONEY),
    submitted_at=TIME,
    queued_at=TIME,
    started_at=or_null(TIME),
    finished_at=or_null(TIME),
    queue_deadline=or_null(TIME),
    attempts=COUNT,
    max_attempts=COUNT,
    exit_code=or_null(WHOLE),
    version=COUNT,
    moves=COUNT,
    leaves=or_null(one_of(["now", "checkpoint"])),
)
LEASE: Schema = record(
    lease=TEXT,
    accelerator_type=TEXT,
    state=one_of(Lease.State.values),
    reason=or_null(one_of(Lease.Reason.values)),
    fence=COUNT,
    primary=FLAG,
    handed_over_at=TIME,
    active_at=or_null(TIME),
    first_step_at=or_null(TIME),
    closing_at=or_null(TIME),
    closing_deadline=or_null(TIME),
    ended_at=or_null(TIME),
    billed_from=or_null(TIME),
    billed_until=or_null(TIME),
)
MIGRATION: Schema = record(
    **{"migration": TEXT, "from": TEXT, "to": TEXT},
    source=TEXT,
    destination=TEXT,
    mode=one_of(Job.MigrationMode.values),
    state=one_of(Migration.State.values),
    reason=or_null(TEXT),
    checkpoint=or_null(TEXT),
    opened_at=TIME,
    destination_active_at=or_null(TIME),
    checkpointing_at=or_null(TIME),
    transferring_at=or_null(TIME),
    source_stopped_at=or_null(TIME),
    restoring_at=or_null(TIME),
    first_step_at=or_null(TIME),
    closed_at=or_null(TIME),
    resume_seconds=or_null(NUMBER),
)
CHECKPOINT: Schema = record(
    checkpoint=TEXT,
    lease=TEXT,
    accelerator_type=TEXT,
    progress=FRACTION,
    step=or_null(WHOLE),
    size_bytes=COUNT,
    sha256=TEXT,
    blocking_s=NUMBER,
    requested=FLAG,
    committed_at=TIME,
)
START_FAILED: Schema = record(reason=TEXT, detail=TEXT)

_JOBS = {
    "queued": "The job waits in the queue: submitted, resumed, or come back from a device.",
    "running": "The job has been handed a device.",
    "stopped": "The job is out of the market with its state saved, and can be resumed.",
    "succeeded": "The job's program has ended with exit code 0.",
    "failed": "The job has failed and is not tried again.",
    "cancelled": "Its tenant has ended the job.",
    "expired": "No device was won before the queue time-out.",
    "changed": "Something of the job has changed besides its state, such as its launch table's version.",
}
_LEASES = {
    "handed_over": "A device is assigned; its host has not confirmed it.",
    "active": "The host has confirmed the device: billing runs.",
    "primary": "The lease speaks for the job now, or does no more.",
    "first_step": "The workload has taken its first step on the device.",
    "closing": "The lease has been told to leave.",
    "closed": "The device is free again.",
}
_MIGRATIONS = {
    "awarded": "A move has begun: the job has been handed its destination.",
    "destination_active": "The destination's host has confirmed its device.",
    "checkpointing": "The source saves the job's state.",
    "source_stopped": "The source's device is free.",
    "transferring": "The saved state is handed over.",
    "restoring": "The destination restores the state.",
    "done": "The job has moved.",
    "aborted": "The move is off: the job goes on where it was, or waits with its state saved.",
}
_HOSTS = {
    "pending": ("A host waits for an operator's approval.", record()),
    "enrolled": ("A machine has joined.", record(name=TEXT, isolation=TEXT)),
    "ready": ("A host takes leases.", record()),
    "draining": ("A host takes no more leases.", record()),
    "retired": ("A host has been forgotten for good.", record()),
    "lost": ("A host has been silent for too long; its leases are closed.", record(last_heard_at=TIME)),
    "returned": ("A lost host speaks again.", record()),
    "refused": (
        "Something that a host said was refused.",
        record(refused=list_of({"type": "object"}), code=TEXT, detail=TEXT, optional=("refused", "code", "detail")),
    ),
}

register(
    EventType(f"org.laissez.market.job.{word}.v1", HOLDER, summary, JOB, entity="job")
    for word, summary in _JOBS.items()
)
register(
    EventType(f"org.laissez.market.lease.{word}.v1", HOLDER, summary, LEASE, entity="lease")
    for word, summary in _LEASES.items()
)
register(
    EventType(f"org.laissez.market.migration.{word}.v1", HOLDER, summary, MIGRATION, entity="migration")
    for word, summary in _MIGRATIONS.items()
)
register(
    EventType(f"org.laissez.ops.host.{word}.v1", OPERATORS, summary, schema)
    for word, (summary, schema) in _HOSTS.items()
)
register(
    [
        EventType(
            "org.harmonaize.checkpoint.completed.v1",
            HOLDER,
            "A checkpoint has been committed.",
            CHECKPOINT,
            entity="checkpoint",
        ),
        EventType(
            "org.laissez.market.job.start_failed.v1",
            HOLDER,
            "A start has failed, or a process was killed; the job is tried again.",
            START_FAILED,
        ),
    ]
)
