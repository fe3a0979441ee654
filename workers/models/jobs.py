"""What tenants want run: jobs, the artefacts they bring, and what their workloads say."""

from functools import partial

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from laissez.ids import new_id
from tenants.models import Tenant
from workers.models.floor import Cluster


class Artifact(models.Model):
    """A tenant's packed directory, stored under its SHA-256. Only hosts ever unpack one."""

    public_id = models.CharField(max_length=40, unique=True, default=partial(new_id, "art"), editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="artifacts")
    sha256 = models.CharField(max_length=64)
    size_bytes = models.BigIntegerField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(name="artifact_is_stored_once_per_tenant", fields=["tenant", "sha256"]),
        ]

    def __str__(self) -> str:
        return self.public_id


class Job(models.Model):
    """What a tenant wants run. Its launch table is its open bids; it may have many leases in its life."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        STOPPED = "stopped"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        CANCELLED = "cancelled"
        EXPIRED = "expired"

    class Upgrade(models.TextChoices):
        NEVER = "never"
        AT_CHECKPOINT = "at_checkpoint"
        NOW = "now"

    class MigrationMode(models.TextChoices):
        STOP_AND_COPY = "stop_and_copy"
        OVERLAP = "overlap"

    public_id = models.CharField(max_length=40, unique=True, default=partial(new_id, "job"), editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="jobs")
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="jobs")
    artifact = models.ForeignKey(Artifact, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=120)
    spec = models.JSONField(help_text="The job as submitted, validated.")
    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    reason = models.CharField(max_length=32, help_text="Why it is in this state: a word of workers.services.reasons.")
    reason_detail = models.CharField(max_length=500, blank=True, default="")
    upgrade = models.CharField(max_length=16, choices=Upgrade.choices)
    migration_mode = models.CharField(max_length=16, choices=MigrationMode.choices)
    policy = models.CharField(max_length=64, blank=True, default="", help_text="A named policy; empty: own agent.")
    policy_params = models.JSONField(default=dict, blank=True)
    seek_seconds = models.PositiveIntegerField()
    budget_microdollars = models.BigIntegerField(null=True, blank=True)
    submitted_at = models.DateTimeField()
    queued_at = models.DateTimeField(help_text="When it last entered the queue.")
    queue_timeout_seconds = models.PositiveIntegerField()
    queue_deadline = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveSmallIntegerField(default=0, help_text="Starts that failed in a row.")
    max_attempts = models.PositiveSmallIntegerField(default=3)
    moves = models.PositiveIntegerField(default=0, help_text="Completed moves, for ordering and display.")
    leaving_since = models.DateTimeField(null=True, blank=True, help_text="Its agent said migrate, and it has not yet.")
    leave_moment = models.CharField(max_length=16, blank=True, default="")
    ask_number = models.BigIntegerField(default=0, help_text="Grows each time its agent is to be asked.")
    ask_cause = models.CharField(max_length=16, blank=True, default="")
    asked_at = models.DateTimeField(null=True, blank=True)
    answered_number = models.BigIntegerField(default=0, help_text="The last question that its agent has answered.")
    agent_cursor = models.BigIntegerField(default=0, help_text="The last event of its stream that its agent was shown.")
    checkpoint_wanted_at = models.DateTimeField(null=True, blank=True, help_text="Asked for, and not yet committed.")
    progress = models.FloatField(default=0)
    step = models.BigIntegerField(null=True, blank=True)
    loss = models.FloatField(null=True, blank=True)
    progress_at = models.DateTimeField(null=True, blank=True)
    newest_checkpoint = models.ForeignKey(
        "workers.Checkpoint", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    settled_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Since it is over or stopped: when all of it was billed and what was held for it was freed.",
    )
    version = models.PositiveIntegerField(default=1, help_text="Grows with every change of the launch table.")
    advised_at = models.DateTimeField(
        null=True, blank=True, help_text="When its policy last looked at the exchange while it was queued."
    )

    class Meta:
        indexes = [
            models.Index(
                name="open_jobs_by_cluster", fields=["cluster", "id"], condition=Q(state__in=["queued", "running"])
            ),
            models.Index(
                name="jobs_to_settle",
                fields=["cluster", "id"],
                condition=~Q(state__in=["queued", "running"]) & Q(settled_at=None),
            ),
            models.Index(name="jobs_by_tenant", fields=["tenant", "-id"]),
            models.Index(
                name="queued_jobs_by_deadline", fields=["cluster", "queue_deadline"], condition=Q(state="queued")
            ),
            models.Index(name="running_jobs_by_cluster", fields=["cluster", "id"], condition=Q(state="running")),
            models.Index(
                name="queued_jobs_with_a_policy",
                fields=["cluster", "id"],
                condition=Q(state="queued") & ~Q(policy__in=["", "hold"]),
            ),
        ]
        constraints = [
            models.CheckConstraint(
                name="a_queued_job_has_a_deadline", condition=~Q(state="queued") | Q(queue_deadline__isnull=False)
            ),
            models.CheckConstraint(name="progress_is_a_fraction", condition=Q(progress__gte=0, progress__lte=1)),
            models.CheckConstraint(
                name="a_finished_job_says_when",
                condition=~Q(state__in=["succeeded", "failed", "cancelled", "expired"]) | Q(finished_at__isnull=False),
            ),
            models.CheckConstraint(
                name="an_open_job_is_not_settled",
                condition=~Q(state__in=["queued", "running"]) | Q(settled_at=None),
            ),
            models.CheckConstraint(
                name="budget_is_positive",
                condition=Q(budget_microdollars__isnull=True) | Q(budget_microdollars__gt=0),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.public_id})"


TERMINAL_JOB_STATES = (Job.State.SUCCEEDED, Job.State.FAILED, Job.State.CANCELLED, Job.State.EXPIRED)


class LogChunk(models.Model):
    """A piece of what a lease's processes wrote, as its host shipped it; capped per lease."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="log_chunks")
    lease = models.ForeignKey("workers.Lease", on_delete=models.CASCADE, related_name="log_chunks")
    stream = models.CharField(max_length=16)
    offset = models.BigIntegerField()
    text = models.TextField()
    received_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="log_chunk_is_stored_once", fields=["lease", "stream", "offset"]),
            models.CheckConstraint(name="log_offset_is_not_negative", condition=Q(offset__gte=0)),
        ]
        indexes = [models.Index(name="log_chunks_by_job", fields=["job", "id"])]

    def __str__(self) -> str:
        return f"{self.stream}@{self.offset}"


class ProgressSample(models.Model):
    """One point of a job's progress and loss under one lease, for its page and for its statements."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="progress_samples")
    lease = models.ForeignKey("workers.Lease", on_delete=models.CASCADE, related_name="progress_samples")
    progress = models.FloatField()
    step = models.BigIntegerField(null=True)
    loss = models.FloatField(null=True)
    received_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(name="progress_by_job", fields=["job", "id"])]
        constraints = [
            models.CheckConstraint(name="sample_is_a_fraction", condition=Q(progress__gte=0, progress__lte=1)),
        ]

    def __str__(self) -> str:
        return f"{self.progress:.3f}"
