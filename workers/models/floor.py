"""What the operator owns: clusters, accelerator types, hosts and their accelerators.

Every price is an integer of micro-dollars per accelerator-hour.
"""

from functools import partial

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q

from laissez.ids import new_id

_SLUG = RegexValidator(r"^[a-z0-9]+(-[a-z0-9]+)*\Z", "use lower-case letters, digits and single hyphens")


class Cluster(models.Model):
    """Accelerators of different kinds that serve one computational function; one auction a tick."""

    class Rule(models.TextChoices):
        """The clearing rules by their names in the engine."""

        LAUNCH_TABLE = "launch_table", "the first row of its table that each can afford"
        FIRST_COME = "first_come", "first come, first served, at base prices"
        VCG = "vcg", "the highest value at its lowest prices"

    slug = models.CharField(max_length=64, unique=True, validators=[_SLUG])
    name = models.CharField(max_length=120)
    rule = models.CharField(max_length=32, choices=Rule.choices, default=Rule.LAUNCH_TABLE)
    notice_seconds = models.PositiveIntegerField(default=30)
    cool_down_seconds = models.PositiveIntegerField(default=60)
    max_moves_per_hour = models.PositiveIntegerField(default=12)
    max_award_seconds = models.PositiveIntegerField(
        default=600, help_text="An award that finds no unit within this time lapses and its row cools down."
    )
    tick_number = models.BigIntegerField(default=0)
    last_tick_at = models.DateTimeField(null=True, blank=True)
    next_due_at = models.DateTimeField(
        null=True, blank=True, help_text="The next instant at which an unchanged book would still lead to an action."
    )
    floor_read_in = models.BigIntegerField(
        null=True, blank=True, editable=False, help_text="The transaction of the last tick that read the floor."
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(name="cluster_notice_is_positive", condition=Q(notice_seconds__gt=0)),
            models.CheckConstraint(
                name="cluster_clears_by_a_known_rule", condition=Q(rule__in=["launch_table", "first_come", "vcg"])
            ),
        ]

    def __str__(self) -> str:
        return self.slug


class AcceleratorType(models.Model):
    """A kind of hardware in one cluster, with the operator's base price and cap price."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="types")
    slug = models.CharField(max_length=64, validators=[_SLUG])
    name = models.CharField(max_length=120)
    position = models.PositiveSmallIntegerField(default=0, help_text="Order on pages.")
    base_price_per_hour = models.BigIntegerField(help_text="Micro-dollars per accelerator-hour.")
    cap_price_per_hour = models.BigIntegerField(help_text="Micro-dollars per accelerator-hour.")
    version = models.PositiveIntegerField(default=1, help_text="Grows with every change; guards concurrent edits.")

    class Meta:
        ordering = ["position", "id"]
        constraints = [
            models.UniqueConstraint(name="type_slug_is_unique_in_its_cluster", fields=["cluster", "slug"]),
            models.CheckConstraint(name="base_price_is_positive", condition=Q(base_price_per_hour__gt=0)),
            models.CheckConstraint(
                name="cap_price_is_at_least_the_base_price",
                condition=Q(cap_price_per_hour__gte=F("base_price_per_hour")),
            ),
        ]

    def __str__(self) -> str:
        return self.slug


class Host(models.Model):
    """A machine with accelerators. It only ever calls us; what it says is checked against fences and its key."""

    class State(models.TextChoices):
        PENDING = "pending"
        READY = "ready"
        DRAINING = "draining"
        LOST = "lost"
        RETIRED = "retired"

    public_id = models.CharField(max_length=40, unique=True, default=partial(new_id, "hst"), editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="hosts")
    name = models.CharField(max_length=120)
    state = models.CharField(max_length=16, choices=State.choices, default=State.PENDING)
    isolation = models.CharField(max_length=32)
    software_version = models.CharField(max_length=64, blank=True, default="")
    key_digest = models.CharField(max_length=64, unique=True)
    enrolled_at = models.DateTimeField()
    last_heard_at = models.DateTimeField(help_text="The server's receipt time of the last accepted sync.")
    last_sequence = models.BigIntegerField(default=0)
    last_report = models.BigIntegerField(default=0)
    state_before_loss = models.CharField(max_length=16, blank=True, default="")
    refusals = models.PositiveIntegerField(default=0, help_text="Messages refused: stale fence, replay, malformed.")

    class Meta:
        constraints = [
            models.UniqueConstraint(name="host_name_is_unique_in_its_cluster", fields=["cluster", "name"]),
        ]

    def __str__(self) -> str:
        return self.name


class EnrolmentCode(models.Model):
    """A one-time code with which a machine joins a cluster. Only its SHA-256 is kept."""

    digest = models.CharField(max_length=64, unique=True)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    approves = models.BooleanField(default=False, help_text="The host is ready at once, without an operator.")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_by = models.OneToOneField(Host, null=True, blank=True, on_delete=models.PROTECT, related_name="enrolment")

    def __str__(self) -> str:
        return f"code for {self.cluster_id}, {'used' if self.used_by_id else 'open'}"


class Accelerator(models.Model):
    """One device of one type on one host. `fence` is the largest fence ever handed out with it."""

    public_id = models.CharField(max_length=40, unique=True, default=partial(new_id, "acc"), editable=False)
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="accelerators")
    type = models.ForeignKey(AcceleratorType, on_delete=models.PROTECT, related_name="accelerators")
    index = models.PositiveSmallIntegerField()
    emulated = models.BooleanField(default=False)
    healthy = models.BooleanField(default=True)
    fence = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(name="accelerator_index_is_unique_on_its_host", fields=["host", "index"]),
        ]

    def __str__(self) -> str:
        return f"{self.type}[{self.index}] on {self.host}"


class Ear(models.Model):
    """Since when the control plane has been able to hear hosts without a break. One row."""

    hears = models.BooleanField(default=True)
    checked_at = models.DateTimeField(null=True, blank=True)
    listening_since = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.CheckConstraint(name="there_is_one_ear", condition=Q(id=1))]

    def __str__(self) -> str:
        return f"listening since {self.listening_since}"
