"""Who sits where: leases with their fences, the checkpoints taken under them, and moves between them."""

from decimal import Decimal
from functools import partial

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models
from django.db.models import Q

from laissez.ids import new_id
from workers.models.floor import Accelerator, AcceleratorType, Host
from workers.models.jobs import Job


class Lease(models.Model):
    """One job's tenure of accelerators on one host, from hand-over to hand-back.

    `during` is the occupation of the device, `primary_during` the time in which this lease is the job's
    primary one, `billed_during` what is paid for; all are half-open and `during` has no upper end until it is closed.
    """

    class State(models.TextChoices):
        PENDING = "pending"
        ACTIVE = "active"
        CLOSING = "closing"
        CLOSED = "closed"

    class Reason(models.TextChoices):
        COMPLETED = "completed"
        MIGRATED = "migrated"
        OUTBID = "outbid"
        BELOW_BASE = "below_base"
        CANCELLED = "cancelled"
        STOPPED = "stopped"
        BUDGET = "budget"
        DRAINED = "drained"
        HOST_LOST = "host_lost"
        DEVICE_FAILED = "device_failed"
        FAILED = "failed"
        NEVER_STARTED = "never_started"

    class Ending(models.TextChoices):
        """How the host is to end it: save the state first, or stop at once."""

        SAVE = "save"
        STOP = "stop"

    public_id = models.CharField(max_length=40, unique=True, default=partial(new_id, "lse"), editable=False)
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="leases")
    accelerator = models.ForeignKey(Accelerator, on_delete=models.PROTECT, related_name="leases")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="leases")
    type = models.ForeignKey(AcceleratorType, on_delete=models.PROTECT, related_name="leases")
    accelerator_count = models.PositiveSmallIntegerField(default=1)
    slot = models.PositiveSmallIntegerField(help_text="0 or 1: a job has at most two open leases.")
    fence = models.BigIntegerField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.PENDING)
    reason = models.CharField(max_length=16, choices=Reason.choices, blank=True, default="")
    ending = models.CharField(max_length=8, choices=Ending.choices, blank=True, default="")
    observed = models.CharField(max_length=16, blank=True, default="", help_text="What its host last said.")
    during = DateTimeRangeField()
    primary_during = DateTimeRangeField(null=True, blank=True)
    billed_during = DateTimeRangeField(null=True, blank=True)
    handed_over_at = models.DateTimeField()
    pending_deadline = models.DateTimeField()
    expires_at = models.DateTimeField(help_text="Time to live, renewed from the server's receipt of each sync.")
    last_heard_at = models.DateTimeField(null=True, blank=True)
    active_at = models.DateTimeField(null=True, blank=True)
    first_step_at = models.DateTimeField(null=True, blank=True)
    closing_at = models.DateTimeField(null=True, blank=True)
    closing_deadline = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    metered_until = models.DateTimeField(null=True, blank=True, help_text="The end of its last billing slice.")
    integral = models.DecimalField(
        max_digits=40, decimal_places=0, default=Decimal(0), help_text="Micro-dollars per hour times microseconds."
    )
    billed_microdollars = models.BigIntegerField(default=0)
    waived_microdollars = models.BigIntegerField(default=0)
    is_owing = models.GeneratedField(
        expression=Q(state="closed", billed_during__endswith__gt=models.F("metered_until")),  # type: ignore[arg-type]
        output_field=models.BooleanField(null=True),
        db_persist=True,
        help_text="Whether it has ended and is not billed to its end yet.",
    )

    class Meta:
        constraints = [
            ExclusionConstraint(
                name="accelerator_has_one_lease_at_any_instant",
                expressions=[("accelerator", RangeOperators.EQUAL), ("during", RangeOperators.OVERLAPS)],
            ),
            ExclusionConstraint(
                name="job_has_one_primary_lease_at_any_instant",
                expressions=[("job", RangeOperators.EQUAL), ("primary_during", RangeOperators.OVERLAPS)],
                condition=Q(primary_during__isnull=False),
            ),
            models.UniqueConstraint(name="fence_is_unique_per_accelerator", fields=["accelerator", "fence"]),
            models.UniqueConstraint(
                name="job_has_at_most_two_open_leases", fields=["job", "slot"], condition=~Q(state="closed")
            ),
            models.CheckConstraint(name="slot_is_0_or_1", condition=Q(slot__in=[0, 1])),
            models.CheckConstraint(name="lease_holds_at_least_one", condition=Q(accelerator_count__gte=1)),
            models.CheckConstraint(
                name="occupation_is_bounded_below_and_not_empty",
                condition=Q(during__isempty=False, during__lower_inf=False, during__lower_inc=True),
            ),
            models.CheckConstraint(
                name="a_lease_is_closed_exactly_when_its_occupation_ended",
                condition=(Q(state="closed", during__upper_inf=False) & ~Q(reason=""))
                | (~Q(state="closed") & Q(during__upper_inf=True)),
            ),
            models.CheckConstraint(
                name="an_active_lease_is_confirmed", condition=~Q(state="active") | Q(active_at__isnull=False)
            ),
            models.CheckConstraint(
                name="a_closing_lease_has_a_deadline",
                condition=~Q(state="closing") | (Q(closing_deadline__isnull=False) & ~Q(reason="")),
            ),
            models.CheckConstraint(
                name="billing_lies_within_the_occupation",
                condition=Q(billed_during__isnull=True) | Q(billed_during__contained_by=models.F("during")),
            ),
        ]
        indexes = [
            models.Index(name="open_leases_by_host", fields=["host"], condition=~Q(state="closed")),
            models.Index(name="leases_by_job", fields=["job", "id"]),
            models.Index(
                name="ended_leases_not_yet_billed",
                fields=["host"],
                condition=Q(is_owing=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.public_id} ({self.state})"


class Checkpoint(models.Model):
    """A committed, hash-verified state of a job. Rows exist only for what was accepted under a valid fence."""

    public_id = models.CharField(max_length=40, unique=True, default=partial(new_id, "ckp"), editable=False)
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="checkpoints")
    lease = models.ForeignKey(Lease, on_delete=models.PROTECT, related_name="checkpoints")
    fence = models.BigIntegerField()
    sequence = models.BigIntegerField()
    uri = models.CharField(max_length=1000)
    sha256 = models.CharField(max_length=64)
    size_bytes = models.BigIntegerField()
    progress = models.FloatField()
    step = models.BigIntegerField(null=True)
    seconds = models.FloatField(help_text="How long it blocked the workload, in real seconds.")
    requested = models.BooleanField(default=False)
    committed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="checkpoint_is_committed_once", fields=["lease", "sequence"]),
            models.CheckConstraint(
                name="checkpoint_progress_is_a_fraction", condition=Q(progress__gte=0, progress__lte=1)
            ),
            models.CheckConstraint(name="checkpoint_has_a_hash", condition=Q(sha256__regex=r"^[0-9a-f]{64}$")),
        ]

    def __str__(self) -> str:
        return f"{self.public_id} at {self.progress:.3f}"


class Migration(models.Model):
    """Moving a job from one lease to another, with every phase timed. (A schema migration is always called that.)"""

    class State(models.TextChoices):
        AWARDED = "awarded"
        CHECKPOINTING = "checkpointing"
        TRANSFERRING = "transferring"
        RESTORING = "restoring"
        DONE = "done"
        ABORTED = "aborted"

    public_id = models.CharField(max_length=40, unique=True, default=partial(new_id, "mig"), editable=False)
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="migrations")
    source = models.ForeignKey(Lease, on_delete=models.PROTECT, related_name="migrations_from")
    destination = models.ForeignKey(Lease, on_delete=models.PROTECT, related_name="migrations_to")
    mode = models.CharField(max_length=16, choices=Job.MigrationMode.choices)
    transport = models.CharField(max_length=16, default="store")
    state = models.CharField(max_length=16, choices=State.choices, default=State.AWARDED)
    reason = models.CharField(max_length=32, blank=True, default="")
    checkpoint = models.ForeignKey(Checkpoint, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    opened_at = models.DateTimeField()
    deadline = models.DateTimeField(help_text="When the destination is given back if the job has not moved.")
    destination_active_at = models.DateTimeField(null=True, blank=True)
    checkpointing_at = models.DateTimeField(null=True, blank=True)
    transferring_at = models.DateTimeField(null=True, blank=True)
    source_stopped_at = models.DateTimeField(null=True, blank=True)
    restoring_at = models.DateTimeField(null=True, blank=True)
    first_step_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="job_has_one_open_migration", fields=["job"], condition=~Q(state__in=["done", "aborted"])
            ),
            models.CheckConstraint(name="an_aborted_migration_says_why", condition=~Q(state="aborted") | ~Q(reason="")),
            models.CheckConstraint(name="a_migration_has_two_leases", condition=~Q(source=models.F("destination"))),
        ]
        indexes = [models.Index(name="moves_by_their_end", fields=["closed_at"], condition=Q(state="done"))]

    def __str__(self) -> str:
        return f"{self.public_id} ({self.state})"
