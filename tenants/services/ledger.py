"""Every movement of money: top-ups, holds, charges, refunds. The only writer of transfers, entries and holds.

Each act locks the tenant's account, reads what is available, and refuses what it does not cover; the database's own
checks stand behind it. A transaction that acts for several tenants calls `lock_accounts` once, for all of them, first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db import connection
from django.db.models import Sum

from laissez.errors import Conflict, Refused
from laissez.events import Outbox
from markets.engine.money import MAX_PRICE, MICRO_PER_DOLLAR, format_price, parse_price
from tenants import selectors
from tenants.models import Account, Entry, Hold, Tenant, Transfer

MAX_AMOUNT_MICRODOLLARS = 10**15
"""A thousand million dollars: beyond it an amount is a typing error, and sums could leave 64 bits."""


@dataclass(frozen=True, slots=True)
class _Movement:
    """A transfer before it is written: what the tenant's account gains, and where it comes from."""

    kind: Transfer.Kind
    house: Account.Kind
    amount: int
    reference: str
    key: str
    refund_of: Transfer | None = None


def parse_amount(text: str) -> int:
    """The micro-dollars that a decimal text of dollars means. Refuses what is not exact, above zero and sensible."""
    try:
        return parse_price(text)
    except ValueError:
        most = f"{MAX_PRICE // MICRO_PER_DOLLAR:,}"
        raise Refused(
            "bad_amount",
            f"{text[:40]!r} is not an amount from $0.000001 to ${most} with at most six decimals.",
            "/amount",
        ) from None


def lock_accounts(tenants: Iterable[Tenant]) -> dict[int, Account]:
    """Lock the accounts of tenants, in the order of their ids. Returns them, fresh, by tenant id."""
    wanted = {tenant.pk for tenant in tenants}
    accounts = Account.objects.select_for_update(no_key=True).filter(tenant_id__in=wanted).order_by("pk")
    return {account.tenant_id: account for account in accounts if account.tenant_id is not None}


def top_up(
    tenant: Tenant, *, amount_microdollars: int, key: str, reference: str = "test money", outbox: Outbox
) -> Transfer:
    """Add test money to a tenant's balance. The same key again returns the transfer that it made, and adds nothing."""
    _check_amount(amount_microdollars)
    account = _locked(tenant)
    movement = _Movement(Transfer.Kind.TOP_UP, Account.Kind.DEPOSITS, amount_microdollars, reference, key)
    return _earlier(account, movement) or _settle(account, movement, tenant, outbox)


def place_hold(tenant: Tenant, *, reference: str, amount_microdollars: int, outbox: Outbox) -> Hold:
    """Set funds aside under a reference that has no open hold yet. Refuses what is not available."""
    _check_amount(amount_microdollars, least=0)
    account = _locked(tenant)
    if Hold.objects.filter(reference=reference, released_at=None).exists():
        raise Conflict("hold_open", f"Funds are already held for {reference}.")
    _check_covered(account, needed=amount_microdollars, what=f"a hold for {reference}")
    now = outbox.now()
    hold = Hold.objects.create(
        account=account, reference=reference, amount_microdollars=amount_microdollars, opened_at=now, renewed_at=now
    )
    _tell(outbox, tenant, "hold_placed", reference, amount_microdollars)
    return hold


def resize_hold(hold: Hold, *, amount_microdollars: int, outbox: Outbox) -> Hold:
    """Renew an open hold at an amount, larger or smaller than now. A larger one must be covered."""
    _check_amount(amount_microdollars, least=0)
    tenant = _tenant_of(hold)
    account = _locked(tenant)
    present = _still_open(hold)
    if present is None:
        raise Conflict("hold_released", f"The hold for {hold.reference} is already released.")
    more = amount_microdollars - present.amount_microdollars
    if more > 0:
        _check_covered(account, needed=more, what=f"a larger hold for {present.reference}")
    present.amount_microdollars = amount_microdollars
    present.renewed_at = outbox.now()
    present.save(update_fields=["amount_microdollars", "renewed_at"])
    if more:
        _tell(outbox, tenant, "hold_resized", present.reference, amount_microdollars)
    return present


def enlarge_holds(tenant: Tenant, needed: Mapping[str, int], *, outbox: Outbox) -> dict[str, Refused]:
    """Have the open hold of each reference cover at least its amount; place those that are not there yet.

    Each is refused or granted by itself, in the order given: one that is not covered stays as it was.

    Returns:
        The refusals, `insufficient_funds`, by reference.
    """
    for amount in needed.values():
        _check_amount(amount, least=0)
    if not _lacking(needed):
        return {}
    account = _locked(tenant)
    available = selectors.funds_of(account).available
    granted, refused = {}, {}
    for reference, held in _lacking(needed).items():
        more = needed[reference] - (held or 0)
        if more > max(available, 0):
            kind = "hold" if held is None else "larger hold"
            refused[reference] = _not_covered(more, available, account, what=f"a {kind} for {reference}")
        else:
            available -= more
            granted[reference] = held
    _write_holds(account, {reference: needed[reference] for reference in granted}, outbox)
    for reference, held in granted.items():
        _tell(outbox, tenant, "hold_placed" if held is None else "hold_resized", reference, needed[reference])
    return refused


def _lacking(needed: Mapping[str, int]) -> dict[str, int | None]:
    """The references whose open hold is smaller than needed, with its amount; None where there is none."""
    with connection.cursor() as cursor:
        cursor.execute(_HELD, [list(needed)])
        held = dict(cursor.fetchall())
    return {name: held.get(name) for name, amount in needed.items() if name not in held or held[name] < amount}


_HELD = "SELECT reference, amount_microdollars FROM tenants_hold WHERE reference = ANY(%s) AND released_at IS NULL"
_WRITE_HOLDS = """
    INSERT INTO tenants_hold (account_id, reference, amount_microdollars, opened_at, renewed_at)
    SELECT %s, wanted.reference, wanted.amount, %s, %s
    FROM unnest(%s::text[], %s::bigint[]) AS wanted(reference, amount)
    ON CONFLICT (reference) WHERE released_at IS NULL
        DO UPDATE SET amount_microdollars = excluded.amount_microdollars, renewed_at = excluded.renewed_at
"""


def _write_holds(account: Account, amounts: Mapping[str, int], outbox: Outbox) -> None:
    if amounts:
        now = outbox.now()
        with connection.cursor() as cursor:
            cursor.execute(_WRITE_HOLDS, [account.pk, now, now, list(amounts), list(amounts.values())])


def release_hold(hold: Hold, *, outbox: Outbox) -> bool:
    """Free what a hold still sets aside. Returns whether this call did it; a released hold stays released."""
    tenant = _tenant_of(hold)
    _locked(tenant)
    present = _still_open(hold)
    if present is None:
        return False
    present.released_at = outbox.now()
    present.save(update_fields=["released_at"])
    _tell(outbox, tenant, "hold_released", present.reference, present.amount_microdollars)
    return True


def charge(
    tenant: Tenant,
    *,
    amount_microdollars: int,
    reference: str,
    key: str,
    from_hold: Hold | None = None,
    outbox: Outbox,
) -> Transfer:
    """Take money for something named by `reference`: out of the hold first, then out of what is available.

    The hold shrinks by what it paid; `resize_hold` renews it. A released hold pays nothing. The same key again returns
    the transfer that it made, and takes nothing.
    """
    _check_amount(amount_microdollars)
    account = _locked(tenant)
    movement = _Movement(Transfer.Kind.CHARGE, Account.Kind.REVENUE, -amount_microdollars, reference, key)
    if earlier := _earlier(account, movement):
        return earlier
    held = _still_open(from_hold) if from_hold else None
    if held and held.account_id != account.pk:
        raise ValueError(f"The hold for {held.reference} belongs to another tenant.")
    paid_by_hold = min(held.amount_microdollars, amount_microdollars) if held else 0
    _check_covered(account, needed=amount_microdollars - paid_by_hold, what=f"a charge for {reference}")
    if held and paid_by_hold:
        held.amount_microdollars -= paid_by_hold
        held.save(update_fields=["amount_microdollars"])
    return _settle(account, movement, tenant, outbox)


def refund(charged: Transfer, *, amount_microdollars: int, key: str, outbox: Outbox) -> Transfer:
    """Give back a charge or a part of it; all refunds of one charge together never exceed it."""
    _check_amount(amount_microdollars)
    if charged.kind != Transfer.Kind.CHARGE:
        raise Conflict("not_a_charge", f"Only a charge can be refunded; {charged.reference} is a {charged.kind}.")
    tenant = Tenant.objects.get(account__entries__transfer=charged)
    account = _locked(tenant)
    movement = _Movement(
        Transfer.Kind.REFUND, Account.Kind.REVENUE, amount_microdollars, charged.reference, key, refund_of=charged
    )
    if earlier := _earlier(account, movement):
        return earlier
    left = _not_yet_refunded(charged, account)
    if amount_microdollars > left:
        raise Conflict(
            "refund_exceeds_charge",
            f"A refund of {_dollars(amount_microdollars)} exceeds the {_dollars(left)} that are left of the charge.",
            "/amount",
        )
    return _settle(account, movement, tenant, outbox)


def _locked(tenant: Tenant) -> Account:
    return lock_accounts([tenant])[tenant.pk]


def _tenant_of(hold: Hold) -> Tenant:
    return Tenant.objects.get(account=hold.account_id)


def _still_open(hold: Hold) -> Hold | None:
    """The hold as it is now, under its account's lock; None once it is released."""
    return Hold.objects.filter(pk=hold.pk, released_at=None).first()


def _not_yet_refunded(charged: Transfer, account: Account) -> int:
    taken = Entry.objects.get(transfer=charged, account=account).amount_microdollars
    given: int = Entry.objects.filter(transfer__refund_of=charged, account=account).aggregate(
        total=Sum("amount_microdollars", default=0)
    )["total"]
    return -taken - given


def _earlier(account: Account, movement: _Movement) -> Transfer | None:
    """The transfer that this key made already. Refuses a key that was used for something else."""
    earlier = Transfer.objects.filter(key=movement.key).first()
    if earlier is None:
        return None
    same_sides = Entry.objects.filter(transfer=earlier, account=account, amount_microdollars=movement.amount).exists()
    if not same_sides or (earlier.kind, earlier.reference) != (movement.kind, movement.reference):
        raise Conflict("key_reused", f"The key {movement.key!r} was used for another transfer.")
    return earlier


def _settle(account: Account, movement: _Movement, tenant: Tenant, outbox: Outbox) -> Transfer:
    """Write a transfer with its two sides, and tell its tenant."""
    house, _ = Account.objects.get_or_create(kind=movement.house, tenant=None)
    transfer = Transfer.objects.create(
        kind=movement.kind,
        at=outbox.now(),
        reference=movement.reference,
        key=movement.key,
        refund_of=movement.refund_of,
    )
    Entry.objects.bulk_create(
        [
            Entry(transfer=transfer, account=account, amount_microdollars=movement.amount),
            Entry(transfer=transfer, account=house, amount_microdollars=-movement.amount),
        ]
    )
    _tell(outbox, tenant, f"{movement.kind.value}_settled", movement.reference, abs(movement.amount))
    return transfer


def _tell(outbox: Outbox, tenant: Tenant, what: str, reference: str, amount: int) -> None:
    data = {"reference": reference, "amount": format_price(amount), "currency": "USD"}
    outbox.add(tenant.stream, f"org.laissez.ledger.{what}.v1", reference, data)


def _check_amount(amount: int, *, least: int = 1) -> None:
    if not least <= amount <= MAX_AMOUNT_MICRODOLLARS:
        bound = "above zero" if least else "zero or more"
        most = _dollars(MAX_AMOUNT_MICRODOLLARS)
        raise Refused("bad_amount", f"{_dollars(amount)} is not {bound} and at most {most}.", "/amount")


def _check_covered(account: Account, *, needed: int, what: str) -> None:
    funds = selectors.funds_of(account)
    if needed > max(funds.available, 0):
        raise _not_covered(needed, funds.available, account, what=what)


def _not_covered(needed: int, available: int, account: Account, *, what: str) -> Refused:
    balance = selectors.funds_of(account).balance
    held = balance - available + (account.credit_limit_microdollars or 0)
    return Refused(
        "insufficient_funds",
        f"{_dollars(needed)} are needed for {what}, but {_dollars(available)} are available"
        f" (balance {_dollars(balance)}, held {_dollars(held)}).",
        status=402,
    )


def _dollars(amount: int) -> str:
    return f"${format_price(amount)}"
