"""Who pays, and the ledger: tenants, their members and tokens, accounts, transfers, entries and holds.

All amounts are whole micro-dollars. `tenants.services` writes; triggers keep the running figures of an account and
refuse every other way of changing money or its history (see the schema migration `ledger_triggers`).
"""

from functools import partial

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from laissez.ids import new_id


class Tenant(models.Model):
    """A customer: whoever owns jobs and pays for them."""

    public_id = models.CharField(max_length=40, unique=True, default=partial(new_id, "ten"), editable=False)
    name = models.CharField(max_length=80, unique=True)
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name

    @property
    def stream(self) -> str:
        """The name of the stream that carries this tenant's own events."""
        return f"tenant:{self.public_id}"


class Member(models.Model):
    """A person who may act for a tenant in the browser."""

    class Role(models.TextChoices):
        OWNER = "owner"
        ENGINEER = "engineer"
        FINANCE = "finance"
        VIEWER = "viewer"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="members")
    role = models.CharField(max_length=16, choices=Role, default=Role.ENGINEER)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "tenant"], name="member_once_per_tenant"),
            models.CheckConstraint(
                condition=Q(role__in=["owner", "engineer", "finance", "viewer"]), name="member_role"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} of {self.tenant}"


class ApiToken(models.Model):
    """A program's way in. Only the hash of the token is here; `prefix` tells two apart."""

    class Scope(models.TextChoices):
        PRICES_READ = "prices:read"
        JOBS_READ = "jobs:read"
        JOBS_WRITE = "jobs:write"
        BIDS_WRITE = "bids:write"
        BILLING_READ = "billing:read"
        WEBHOOKS_WRITE = "webhooks:write"
        TOKENS_WRITE = "tokens:write"

    public_id = models.CharField(max_length=40, unique=True, default=partial(new_id, "tok"), editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="tokens")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=20)
    digest = models.CharField(max_length=64, unique=True)
    scopes = ArrayField(models.CharField(max_length=40))
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    rolled_into = models.OneToOneField("self", null=True, blank=True, on_delete=models.PROTECT, related_name="rolled")
    created_by = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(expires_at__gt=F("created_at")), name="token_expires_after_creation")
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}...)"


class Invitation(models.Model):
    """A way in for one person, once and for some days: to a tenant with a role, or to found a tenant of their own.

    Only the hash of its code is here.
    """

    public_id = models.CharField(max_length=40, unique=True, default=partial(new_id, "inv"), editable=False)
    tenant = models.ForeignKey(Tenant, null=True, blank=True, on_delete=models.PROTECT, related_name="invitations")
    role = models.CharField(max_length=16, choices=Member.Role)
    digest = models.CharField(max_length=64, unique=True)
    note = models.CharField(max_length=80, blank=True, default="", help_text="Whom it is for, in the inviter's words.")
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=200)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)
    used_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(role__in=["owner", "engineer", "finance", "viewer"]), name="invitation_role"
            ),
            models.CheckConstraint(condition=Q(tenant__isnull=False) | Q(role="owner"), name="invitation_founder_owns"),
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("created_at")), name="invitation_expires_after_creation"
            ),
            models.CheckConstraint(condition=Q(used_at=None) | Q(withdrawn_at=None), name="invitation_ends_once"),
        ]

    def __str__(self) -> str:
        return f"{self.role} of {self.tenant or 'a new tenant'}"


class Attempt(models.Model):
    """One try at something that is rationed, such as signing up. `who` is a hash; old ones are deleted on the way."""

    what = models.CharField(max_length=32)
    who = models.CharField(max_length=64)
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["what", "who", "at"], name="attempt_by_whom")]

    def __str__(self) -> str:
        return self.what


class IdempotencyKey(models.Model):
    """A request already answered: the same key answers the same again. Written in the transaction of its effect."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="idempotency_keys", db_index=False)
    key = models.CharField(max_length=200)
    fingerprint = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.JSONField(null=True)
    answered_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "key"], name="idempotency_key_once_per_tenant")]

    def __str__(self) -> str:
        return self.key


class Account(models.Model):
    """A side of transfers. A tenant's account carries running figures, kept by triggers, and a limit on them.

    House accounts have neither: their balance is the sum of their entries, so that no charge waits for a shared row.
    """

    class Kind(models.TextChoices):
        TENANT = "tenant"
        DEPOSITS = "deposits"  # where top-ups come from
        REVENUE = "revenue"  # where charges go

    kind = models.CharField(max_length=16, choices=Kind)
    tenant = models.OneToOneField(Tenant, null=True, blank=True, on_delete=models.PROTECT, related_name="account")
    balance_microdollars = models.BigIntegerField(null=True, editable=False)
    held_microdollars = models.BigIntegerField(null=True, editable=False)
    credit_limit_microdollars = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=["tenant", "deposits", "revenue"]), name="account_kind"),
            models.UniqueConstraint(fields=["kind"], condition=Q(tenant=None), name="account_one_per_house_kind"),
            models.CheckConstraint(
                condition=Q(
                    kind="tenant",
                    tenant__isnull=False,
                    balance_microdollars__isnull=False,
                    held_microdollars__gte=0,
                    held_microdollars__isnull=False,
                    credit_limit_microdollars__gte=0,
                    credit_limit_microdollars__isnull=False,
                )
                | Q(
                    kind__in=["deposits", "revenue"],
                    tenant=None,
                    balance_microdollars=None,
                    held_microdollars=None,
                    credit_limit_microdollars=None,
                ),
                name="account_figures_belong_to_tenants",
            ),
            models.CheckConstraint(
                condition=Q(balance_microdollars__gte=F("held_microdollars") - F("credit_limit_microdollars"))
                | Q(balance_microdollars=None),
                name="account_within_credit",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.tenant}" if self.tenant_id else self.kind


class CurrentTransaction(models.Func):
    """The number of the running database transaction."""

    function = "pg_current_xact_id"
    template = "(%(function)s())::text::bigint"
    arity = 0
    output_field = models.BigIntegerField()


class Transfer(models.Model):
    """One settled movement of money: entries that sum to zero, all written in the transaction that wrote this row."""

    class Kind(models.TextChoices):
        TOP_UP = "top_up"
        CHARGE = "charge"
        REFUND = "refund"

    kind = models.CharField(max_length=16, choices=Kind)
    at = models.DateTimeField()
    reference = models.CharField(max_length=120)
    key = models.CharField(max_length=200, unique=True)
    refund_of = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="refunds")
    written_by = models.BigIntegerField(db_default=CurrentTransaction(), editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["top_up", "charge"], refund_of=None) | Q(kind="refund", refund_of__isnull=False),
                name="transfer_kind",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.reference}"


class Entry(models.Model):
    """One side of a transfer: what it adds to an account, negative when it takes."""

    transfer = models.ForeignKey(Transfer, on_delete=models.PROTECT, related_name="entries")
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="entries")
    amount_microdollars = models.BigIntegerField()
    written_by = models.BigIntegerField(db_default=CurrentTransaction(), editable=False)

    class Meta:
        verbose_name_plural = "entries"
        constraints = [
            models.UniqueConstraint(fields=["transfer", "account"], name="entry_once_per_transfer_and_account"),
            models.CheckConstraint(condition=~Q(amount_microdollars=0), name="entry_moves_something"),
        ]

    def __str__(self) -> str:
        return f"{self.amount_microdollars} to {self.account}"


class Hold(models.Model):
    """Funds of a tenant set aside for what `reference` names. Released once; what is left then is free again."""

    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="holds")
    reference = models.CharField(max_length=120)
    amount_microdollars = models.BigIntegerField()
    opened_at = models.DateTimeField()
    renewed_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["reference"], condition=Q(released_at=None), name="hold_open_once"),
            models.CheckConstraint(condition=Q(amount_microdollars__gte=0), name="hold_not_negative"),
            models.CheckConstraint(condition=Q(renewed_at__gte=F("opened_at")), name="hold_renewed_after_opening"),
            models.CheckConstraint(
                condition=Q(released_at=None) | Q(released_at__gte=F("opened_at")), name="hold_released_after_opening"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.amount_microdollars} for {self.reference}"
