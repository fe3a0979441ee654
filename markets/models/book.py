"""The book: open bids, waiting awards, notices and cool-downs.

A change of a bid closes one row and opens another, so the launch table's history is kept; the transaction ids
say exactly which snapshot of the book a clearing has read.
"""

from functools import partial

from django.db import models
from django.db.models import F, Q

from laissez.ids import new_id
from tenants.models import CurrentTransaction
from workers.models import AcceleratorType, Cluster, Job, Lease


class Bid(models.Model):
    """One row of a launch table while `closed_at` is null; afterwards its history."""

    class Origin(models.TextChoices):
        TENANT = "tenant"
        POLICY = "policy"
        AGENT = "agent"

    public_id = models.CharField(max_length=40, unique=True, default=partial(new_id, "bid"), editable=False)
    # Two foreign keys of both columns, which models cannot say, keep these: a bid's job and type are of its cluster.
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="bids", db_constraint=False, db_index=False)
    job = models.ForeignKey(Job, models.PROTECT, related_name="bids", db_constraint=False, db_index=False)
    type = models.ForeignKey(AcceleratorType, models.PROTECT, related_name="bids", db_constraint=False, db_index=False)
    accelerator_count = models.PositiveSmallIntegerField(default=1)
    position = models.PositiveSmallIntegerField(help_text="Its place in the launch table, from 0.")
    max_price_per_hour = models.BigIntegerField(
        null=True, blank=True, help_text="Micro-dollars per accelerator-hour; empty bids the cap and follows it."
    )
    keep_price_per_hour = models.BigIntegerField(null=True, blank=True, help_text="Empty: the same as the maximum.")
    origin = models.CharField(max_length=8, choices=Origin.choices)
    accepted_at = models.DateTimeField(help_text="When the present value was accepted; earlier wins exact ties.")
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)
    opened_in = models.BigIntegerField(db_default=CurrentTransaction(), editable=False)
    closed_in = models.BigIntegerField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="one_open_bid_per_job_and_type", fields=["job", "type"], condition=Q(closed_at__isnull=True)
            ),
            models.UniqueConstraint(
                name="one_open_bid_per_place_in_the_launch_table",
                fields=["job", "position"],
                condition=Q(closed_at__isnull=True),
            ),
            models.CheckConstraint(
                name="max_price_is_positive",
                condition=Q(max_price_per_hour__isnull=True) | Q(max_price_per_hour__gt=0),
            ),
            models.CheckConstraint(
                name="keep_price_is_at_least_the_maximum",
                condition=Q(keep_price_per_hour__isnull=True)
                | Q(max_price_per_hour__isnull=False, keep_price_per_hour__gte=F("max_price_per_hour")),
            ),
            models.CheckConstraint(name="bid_is_for_at_least_one", condition=Q(accelerator_count__gte=1)),
            models.CheckConstraint(
                name="a_bid_closes_after_it_opened",
                condition=Q(closed_at__isnull=True) | Q(closed_at__gte=F("opened_at")),
            ),
        ]
        indexes = [
            models.Index(name="open_bids_by_cluster", fields=["cluster", "job"], condition=Q(closed_at__isnull=True)),
            models.Index(name="open_bids_by_type", fields=["type"], condition=Q(closed_at__isnull=True)),
            models.Index(name="bids_of_a_row_by_time", fields=["job", "type", "opened_at", "id"]),
            models.Index(name="bids_by_their_end", fields=["cluster", "closed_in"]),
        ]

    def __str__(self) -> str:
        return self.public_id


class Award(models.Model):
    """A win that has no device yet: job, type, since when."""

    class State(models.TextChoices):
        WAITING = "waiting"
        HANDED_OVER = "handed_over"
        LOST = "lost"
        WITHDRAWN = "withdrawn"
        LAPSED = "lapsed"

    public_id = models.CharField(max_length=40, unique=True, default=partial(new_id, "awd"), editable=False)
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="awards")
    type = models.ForeignKey(AcceleratorType, on_delete=models.PROTECT, related_name="awards")
    accelerator_count = models.PositiveSmallIntegerField(default=1)
    state = models.CharField(max_length=16, choices=State.choices, default=State.WAITING)
    since = models.DateTimeField()
    deadline = models.DateTimeField(help_text="When it lapses unless a unit has come free.")
    put_under_notice = models.BooleanField(default=False, help_text="Somebody has a notice because of it.")
    lease = models.OneToOneField(Lease, null=True, blank=True, on_delete=models.PROTECT, related_name="award")
    closed_at = models.DateTimeField(null=True, blank=True)
    charged_microdollars = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="job_has_at_most_one_waiting_award", fields=["job"], condition=Q(state="waiting")
            ),
            models.CheckConstraint(
                name="a_handed_over_award_names_its_lease", condition=~Q(state="handed_over") | Q(lease__isnull=False)
            ),
            models.CheckConstraint(
                name="an_award_is_closed_unless_it_waits", condition=Q(state="waiting") ^ Q(closed_at__isnull=False)
            ),
        ]
        indexes = [models.Index(name="waiting_awards_by_deadline", fields=["deadline"], condition=Q(state="waiting"))]

    def __str__(self) -> str:
        return f"{self.public_id} ({self.state})"


class Notice(models.Model):
    """A dated warning to one job about one lease. It can be answered, and it can be withdrawn."""

    class Reason(models.TextChoices):
        OUTBID = "outbid"
        BELOW_BASE = "below_base"
        CLAIMED = "claimed"
        DRAINED = "drained"
        BUDGET = "budget"
        HOST = "host"

    class State(models.TextChoices):
        OPEN = "open"
        ANSWERED = "answered"
        WITHDRAWN = "withdrawn"
        EXECUTED = "executed"

    class Answer(models.TextChoices):
        REBID = "rebid"
        MIGRATED = "migrated"
        LEFT = "left"

    public_id = models.CharField(max_length=40, unique=True, default=partial(new_id, "ntc"), editable=False)
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="notices")
    lease = models.ForeignKey(Lease, on_delete=models.PROTECT, related_name="notices")
    reason = models.CharField(max_length=16, choices=Reason.choices)
    state = models.CharField(max_length=16, choices=State.choices, default=State.OPEN)
    answer = models.CharField(max_length=16, choices=Answer.choices, blank=True, default="")
    price_per_hour = models.BigIntegerField(null=True, blank=True, help_text="The public price when it was opened.")
    bid_per_hour = models.BigIntegerField(null=True, blank=True, help_text="The job's own bid when it was opened.")
    opened_at = models.DateTimeField()
    deadline = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="lease_has_at_most_one_open_notice", fields=["lease"], condition=Q(state="open")
            ),
            models.CheckConstraint(
                name="a_notice_is_closed_unless_open", condition=Q(state="open") ^ Q(closed_at__isnull=False)
            ),
            models.CheckConstraint(name="an_answered_notice_says_how", condition=Q(state="answered") ^ Q(answer="")),
        ]
        indexes = [models.Index(name="open_notices_by_job", fields=["job"], condition=Q(state="open"))]

    def __str__(self) -> str:
        return f"{self.public_id} ({self.reason})"


class CoolDown(models.Model):
    """A launch-table row closed to a job for a while, after an upgrade that came to nothing."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="cool_downs")
    type = models.ForeignKey(AcceleratorType, on_delete=models.PROTECT, related_name="+")
    until = models.DateTimeField()
    length_seconds = models.PositiveIntegerField(help_text="Doubles each time it happens again.")

    class Meta:
        constraints = [
            models.UniqueConstraint(name="one_cool_down_per_job_and_type", fields=["job", "type"]),
            models.CheckConstraint(name="cool_down_is_positive", condition=Q(length_seconds__gt=0)),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} on {self.type_id} until {self.until}"


class FloorChange(models.Model):
    """Something that a tick reads has changed since it was last read: written by triggers, taken by the next tick.

    It stands for no history: the tick that deletes it reads the floor afterwards, in the same transaction.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, db_constraint=False, related_name="+")
    job = models.ForeignKey(
        Job, null=True, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="+"
    )

    def __str__(self) -> str:
        return f"change {self.pk}"
