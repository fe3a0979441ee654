"""The exchange and the meter: clearings with their receipts, the quotes they set, and what leases paid."""

from functools import partial

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, DateTimeRangeField, RangeOperators
from django.db import models
from django.db.models import F, Func, Q

from laissez.ids import new_id
from tenants.models import CurrentTransaction, Transfer
from workers.models import AcceleratorType, Cluster, Job, Lease


class Clearing(models.Model):
    """One batch auction that changed something, with the receipt from which it can be recomputed.

    `watermark` is the database snapshot the book was read in: the open bids were those whose opening transaction
    is visible in it and whose closing transaction is not.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="clearings")
    number = models.BigIntegerField()
    at = models.DateTimeField()
    rule = models.CharField(max_length=32)
    rule_version = models.PositiveSmallIntegerField()
    watermark = models.TextField()
    salt = models.CharField(max_length=32)
    book_hash = models.CharField(max_length=64)
    receipt = models.JSONField(help_text="Per type: supply, base, cap, prices, the losing bid, accepted and rejected.")
    recorded_in = models.BigIntegerField(null=True, db_default=CurrentTransaction(), editable=False)
    keeps_roles = models.BooleanField(
        default=False, help_text="Whether the jobs' roles at it were kept too, without which no book can be rebuilt."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(name="clearing_number_is_unique_in_its_cluster", fields=["cluster", "number"]),
        ]

    def __str__(self) -> str:
        return f"{self.cluster_id} #{self.number}"


class Role(models.Model):
    """What one job was in the book besides its bids, from one recorded clearing until another. Types by primary key.

    A job with open bids that has no row was plainly queued. Jobs are kept that ran, moved or waited for a unit that
    they had won; those that had nothing but bids and were in no book (`absent`); and those that had not even bids.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="roles")
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="roles")
    from_number = models.BigIntegerField(help_text="The first clearing at which the job had this role.")
    until_number = models.BigIntegerField(null=True, blank=True, help_text="The first at which it had it no more.")
    on_type = models.BigIntegerField(null=True, blank=True, help_text="The type it ran on, its unit being usable.")
    to_type = models.BigIntegerField(null=True, blank=True, help_text="The type it was moving to.")
    award_type = models.BigIntegerField(null=True, blank=True, help_text="The type it had won and waited for.")
    seeks = models.BooleanField(default=False, help_text="Whether rows above its own took part.")
    closed_types = ArrayField(
        models.BigIntegerField(), default=list, blank=True, help_text="Those of them that did not, in a cool-down."
    )
    absent = models.BooleanField(default=False, help_text="It was not in the book, though its bids were still open.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="job_has_one_role_at_a_time", fields=["job"], condition=Q(until_number__isnull=True)
            ),
            models.CheckConstraint(
                name="a_role_lasts_for_a_clearing_at_least",
                condition=Q(until_number__isnull=True) | Q(until_number__gt=F("from_number")),
            ),
        ]
        indexes = [models.Index(name="roles_by_their_end", fields=["cluster", "until_number"])]

    def __str__(self) -> str:
        return f"{self.job_id} from #{self.from_number}"


class Quote(models.Model):
    """The prices of one accelerator type over one stretch of time; the open one is the exchange row."""

    type = models.ForeignKey(AcceleratorType, on_delete=models.PROTECT, related_name="quotes", db_index=False)
    clearing = models.ForeignKey(Clearing, null=True, blank=True, on_delete=models.PROTECT, related_name="quotes")
    during = DateTimeRangeField()
    price_per_hour = models.BigIntegerField(help_text="The public price.")
    lease_price_per_hour = models.BigIntegerField(help_text="What winners pay: at most the public price.")
    base_price_per_hour = models.BigIntegerField()
    cap_price_per_hour = models.BigIntegerField()
    supply = models.PositiveIntegerField()
    previous_price_per_hour = models.BigIntegerField(
        null=True, blank=True, help_text="The public price before this one; empty for the first."
    )
    priced_at = models.DateTimeField(
        null=True, blank=True, help_text="Since when the public price stands; empty: since the quote began."
    )
    cause = models.CharField(max_length=16, help_text="What moved it: opened, bids, base, cap, supply.")

    class Meta:
        constraints = [
            ExclusionConstraint(
                name="type_has_one_quote_at_a_time",
                expressions=[(Func(F("type"), F("during"), function="markets_quote_span"), RangeOperators.OVERLAPS)],
            ),
            models.CheckConstraint(
                name="quote_is_of_our_time",
                condition=Q(
                    during__startswith__gte="1950-01-01T00:00:00+00:00",
                    during__startswith__lt="2100-01-01T00:00:00+00:00",
                )
                & (Q(during__upper_inf=True) | Q(during__endswith__lt="2100-01-01T00:00:00+00:00")),
            ),
            models.CheckConstraint(
                name="quote_is_bounded_below_and_not_empty",
                condition=Q(during__isempty=False, during__lower_inf=False, during__lower_inc=True),
            ),
            models.CheckConstraint(
                name="prices_are_ordered",
                condition=Q(
                    base_price_per_hour__lte=F("lease_price_per_hour"),
                    lease_price_per_hour__lte=F("price_per_hour"),
                    price_per_hour__lte=F("cap_price_per_hour"),
                ),
            ),
        ]
        indexes = [
            models.Index(name="quotes_by_type", fields=["type", "-id"]),
            models.Index(name="present_quotes", fields=["type"], condition=Q(during__upper_inf=True)),
        ]

    def __str__(self) -> str:
        return f"{self.type_id}: {self.price_per_hour}"


DEPTH_BUCKETS = 5


def _nothing() -> list[int]:
    return [0] * DEPTH_BUCKETS


class Supply(models.Model):
    """What the exchange shows of a type besides its price, as of the last tick that changed it.

    `depth` counts the losing bids by how far they lie below the public price: within 1, 5, 10 and 25 %, and further.
    """

    type = models.OneToOneField(AcceleratorType, on_delete=models.PROTECT, related_name="supply")
    units_total = models.PositiveIntegerField(default=0)
    units_free = models.PositiveIntegerField(default=0)
    units_leaving = models.PositiveIntegerField(default=0, help_text="Under notice or closing.")
    waiting_awards = models.PositiveIntegerField(default=0)
    depth = ArrayField(models.PositiveIntegerField(), size=DEPTH_BUCKETS, default=_nothing)

    class Meta:
        verbose_name_plural = "supplies"
        constraints = [
            models.CheckConstraint(
                name="no_more_units_are_free_than_there_are", condition=Q(units_free__lte=F("units_total"))
            ),
            models.CheckConstraint(name="depth_has_five_buckets", condition=Q(depth__len=DEPTH_BUCKETS)),
        ]

    def __str__(self) -> str:
        return f"{self.type_id}: {self.units_free} of {self.units_total}"


class PriceChange(models.Model):
    """A base and cap price that an operator has announced; the first tick at or after `effective_at` puts it in force.

    It names both prices in full and stands whatever is set meanwhile, until it is cancelled.
    """

    class State(models.TextChoices):
        SCHEDULED = "scheduled"
        IN_FORCE = "in_force"
        CANCELLED = "cancelled"

    class ReasonClass(models.TextChoices):
        COSTS = "costs", "costs of running it"
        ENERGY = "energy", "price of energy"
        DEMAND = "demand", "demand"
        VACATE = "vacate", "hardware to be vacated"
        CORRECTION = "correction", "correction of a mistake"
        OTHER = "other", "something else"

    public_id = models.CharField(max_length=40, unique=True, default=partial(new_id, "pch"), editable=False)
    type = models.ForeignKey(AcceleratorType, on_delete=models.PROTECT, related_name="price_changes")
    base_price_per_hour = models.BigIntegerField(help_text="Micro-dollars per accelerator-hour.")
    cap_price_per_hour = models.BigIntegerField(help_text="Micro-dollars per accelerator-hour.")
    reason_class = models.CharField(max_length=16, choices=ReasonClass.choices, help_text="Tenants see this.")
    reason = models.TextField(help_text="In the operator's words; kept in the audit trail, not shown to tenants.")
    actor = models.CharField(max_length=160)
    state = models.CharField(max_length=16, choices=State.choices, default=State.SCHEDULED)
    announced_at = models.DateTimeField()
    effective_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True, help_text="When it was put in force or cancelled.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="type_has_one_scheduled_price_change", fields=["type"], condition=Q(state="scheduled")
            ),
            models.CheckConstraint(
                name="announced_prices_are_ordered",
                condition=Q(base_price_per_hour__gt=0, cap_price_per_hour__gte=F("base_price_per_hour")),
            ),
            models.CheckConstraint(
                name="a_price_change_is_announced_first", condition=Q(effective_at__gt=F("announced_at"))
            ),
            models.CheckConstraint(
                name="a_price_change_is_closed_unless_scheduled",
                condition=Q(state="scheduled") ^ Q(closed_at__isnull=False),
            ),
        ]
        indexes = [models.Index(name="price_changes_by_type", fields=["type", "-id"])]

    def __str__(self) -> str:
        return f"{self.public_id} ({self.state})"


class BillingSlice(models.Model):
    """What one lease paid for one stretch: the difference of the running integral, rounded once from its start."""

    lease = models.ForeignKey(Lease, on_delete=models.PROTECT, related_name="slices")
    during = DateTimeRangeField()
    integral = models.DecimalField(
        max_digits=40, decimal_places=0, help_text="The lease's whole integral at the end of this slice."
    )
    amount_microdollars = models.BigIntegerField(help_text="What was charged.")
    waived_microdollars = models.BigIntegerField(default=0, help_text="Due, but not covered by hold or balance.")
    pieces = models.JSONField(
        help_text="Each stretch of one price: from, until, price, quote, and own bid if it bound."
    )
    transfer = models.ForeignKey(Transfer, null=True, blank=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        constraints = [
            ExclusionConstraint(
                name="instant_of_a_lease_is_billed_once",
                expressions=[("lease", RangeOperators.EQUAL), ("during", RangeOperators.OVERLAPS)],
            ),
            models.CheckConstraint(
                name="slice_is_bounded_and_not_empty",
                condition=Q(
                    during__isempty=False, during__lower_inf=False, during__upper_inf=False, during__lower_inc=True
                ),
            ),
            models.CheckConstraint(
                name="slice_amount_is_not_negative", condition=Q(amount_microdollars__gte=0, waived_microdollars__gte=0)
            ),
            models.CheckConstraint(
                name="a_slice_that_costs_has_a_transfer",
                condition=Q(amount_microdollars=0) | Q(transfer__isnull=False),
            ),
        ]
        indexes = [models.Index(name="slices_by_lease", fields=["lease", "id"])]

    def __str__(self) -> str:
        return f"{self.lease_id}: {self.amount_microdollars}"
