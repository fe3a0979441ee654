"""What a tenant may know of its own money. Every function takes the tenant and finds nothing of anybody else's."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet, Sum

from laissez.credentials import digest
from laissez.errors import NotFound
from laissez.prepared import run
from laissez.records import columns, instance, width
from tenants.models import Account, ApiToken, Entry, Hold, Invitation, Member, Tenant


def tenant_named(text: str) -> Tenant:
    """The tenant of a name or public id, for operators. NotFound when there is none."""
    tenant = Tenant.objects.filter(Q(name=text) | Q(public_id=text)).first()
    if tenant is None:
        raise NotFound("tenant")
    return tenant


@dataclass(frozen=True, slots=True)
class Funds:
    """A tenant's money at one moment, in micro-dollars."""

    balance: int
    held: int
    credit_limit: int

    @property
    def available(self) -> int:
        """What new holds and charges may take."""
        return self.balance - self.held + self.credit_limit


def funds(tenant: Tenant) -> Funds:
    """Balance, holds and credit of a tenant, read together."""
    return funds_of(Account.objects.get(tenant=tenant))


def funds_of(account: Account) -> Funds:
    """The figures of a tenant's account as it was read."""
    return Funds(
        balance=account.balance_microdollars or 0,
        held=account.held_microdollars or 0,
        credit_limit=account.credit_limit_microdollars or 0,
    )


def balance(tenant: Tenant) -> int:
    """All top-ups and refunds less all charges, in micro-dollars."""
    return funds(tenant).balance


def available(tenant: Tenant) -> int:
    """What new holds and charges may take, in micro-dollars."""
    return funds(tenant).available


def house_balance(kind: Account.Kind) -> int:
    """The sum of the entries of one of the house's accounts, in micro-dollars."""
    total: int = Entry.objects.filter(account__kind=kind).aggregate(total=Sum("amount_microdollars", default=0))[
        "total"
    ]
    return total


@dataclass(frozen=True, slots=True)
class StatementLine:
    """One movement of a tenant's balance, in micro-dollars; negative when it took."""

    at: datetime
    kind: str
    reference: str
    amount: int
    balance_after: int


def statement_entries(tenant: Tenant) -> QuerySet[Entry]:
    """The entries of a tenant's account, each with its transfer, newest first. Page them by `-id`."""
    return Entry.objects.filter(account__tenant=tenant).select_related("transfer").order_by("-id")


def statement_lines(tenant: Tenant, entries: Sequence[Entry]) -> list[StatementLine]:
    """An unbroken stretch of `statement_entries` as lines to show, in the same order."""
    if not entries:
        return []
    up_to_newest = Entry.objects.filter(account__tenant=tenant, id__lte=entries[0].pk)
    running: int = up_to_newest.aggregate(total=Sum("amount_microdollars", default=0))["total"]
    lines = []
    for entry in entries:
        lines.append(
            StatementLine(
                at=entry.transfer.at,
                kind=entry.transfer.kind,
                reference=entry.transfer.reference,
                amount=entry.amount_microdollars,
                balance_after=running,
            )
        )
        running -= entry.amount_microdollars
    return lines


def open_holds(tenant: Tenant) -> QuerySet[Hold]:
    """What is set aside for a tenant at present, oldest first."""
    return Hold.objects.filter(account__tenant=tenant, released_at=None).order_by("id")


def tokens(tenant: Tenant) -> QuerySet[ApiToken]:
    """Every token a tenant ever made, newest first."""
    return ApiToken.objects.filter(tenant=tenant).order_by("-id")


def token_of_digest(text: str) -> tuple[ApiToken, datetime] | None:
    """The token of a digest with its tenant, and the present time: whoever asks wants to know whether it is good.

    Every request of a program begins with it.
    """
    rows = run(
        f"SELECT clock_timestamp(), {columns(ApiToken, 'token')}, {columns(Tenant, 'tenant')}"  # noqa: S608
        " FROM tenants_apitoken AS token JOIN tenants_tenant AS tenant ON tenant.id = token.tenant_id"
        " WHERE token.digest = %s",
        [text],
    )
    if not rows:
        return None
    row = rows[0]
    split = 1 + width(ApiToken)
    token = instance(ApiToken, row[1:split])
    token.tenant = instance(Tenant, row[split:])
    return token, row[0]


def token_state(token: ApiToken, *, now: datetime) -> str:
    """active, rolled (good until it ends, another one has taken its place), expired or revoked."""
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at <= now:
        return "expired"
    return "active" if token.rolled_into_id is None else "rolled"


def members(tenant: Tenant) -> QuerySet[Member]:
    """Who may act for a tenant, the oldest membership first."""
    return Member.objects.filter(tenant=tenant).select_related("user").order_by("id")


def open_invitations(tenant: Tenant, *, now: datetime) -> QuerySet[Invitation]:
    """The invitations to a tenant that can still be used, the newest first."""
    return Invitation.objects.filter(tenant=tenant, used_at=None, withdrawn_at=None, expires_at__gt=now).order_by("-id")


def invitation(code: str, *, now: datetime) -> Invitation | None:
    """The invitation of a code while it is good, for the page that it opens."""
    rows = Invitation.objects.filter(digest=digest(code), used_at=None, withdrawn_at=None, expires_at__gt=now)
    return rows.select_related("tenant").first()


def memberships(user_id: int) -> QuerySet[Member]:
    """The tenants a person may act for, the oldest membership first."""
    return Member.objects.filter(user_id=user_id).select_related("tenant").order_by("id")
