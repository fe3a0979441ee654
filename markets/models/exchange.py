"""The exchange and the meter: clearings with their receipts, the quotes they set, and what leases paid."""

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models
from django.db.models import F, Q

from tenants.models import Transfer
from workers.models import AcceleratorType, Cluster, Lease


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

    class Meta:
        constraints = [
            models.UniqueConstraint(name="clearing_number_is_unique_in_its_cluster", fields=["cluster", "number"]),
        ]

    def __str__(self) -> str:
        return f"{self.cluster_id} #{self.number}"


class Quote(models.Model):
    """The prices of one accelerator type over one stretch of time; the open one is the exchange row."""

    type = models.ForeignKey(AcceleratorType, on_delete=models.PROTECT, related_name="quotes")
    clearing = models.ForeignKey(Clearing, null=True, blank=True, on_delete=models.PROTECT, related_name="quotes")
    during = DateTimeRangeField()
    price_per_hour = models.BigIntegerField(help_text="The public price.")
    lease_price_per_hour = models.BigIntegerField(help_text="What winners pay: at most the public price.")
    base_price_per_hour = models.BigIntegerField()
    cap_price_per_hour = models.BigIntegerField()
    supply = models.PositiveIntegerField()
    cause = models.CharField(max_length=16, help_text="What moved it: opened, bids, base, cap, supply.")

    class Meta:
        constraints = [
            ExclusionConstraint(
                name="type_has_one_quote_at_any_instant",
                expressions=[("type", RangeOperators.EQUAL), ("during", RangeOperators.OVERLAPS)],
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
        indexes = [models.Index(name="quotes_by_type", fields=["type", "-id"])]

    def __str__(self) -> str:
        return f"{self.type_id}: {self.price_per_hour}"


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
