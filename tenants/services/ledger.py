"""Every movement of money: top-ups, holds, charges, refunds. The only writer of transfers, entries and holds.

Each act locks the accounts that it names, reads what is available, and refuses what that does not cover; the database's
own checks stand behind it. What is done to one or to many is decided in `till`. A transaction that makes several calls
for several tenants calls `lock_accounts` once, for all of them, first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Sum

from laissez.errors import Conflict, Refused
from laissez.events import Outbox
from markets.engine.money import MAX_PRICE, MICRO_PER_DOLLAR, parse_price
from tenants.models import Account, Entry, Hold, Tenant, Transfer
from tenants.services.till import Movement, Till, dollars

MAX_AMOUNT_MICRODOLLARS = 10**15
"""A thousand million dollars: beyond it an amount is a typing error, and sums could leave 64 bits."""


@dataclass(frozen=True, slots=True)
class Charge:
    """Money to take for what `reference` names, out of the open hold for what `from_hold_for` names first."""

    tenant: Tenant
    amount_microdollars: int
    reference: str
    key: str
    from_hold_for: str | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """What a charge took, and its transfer; nothing has none."""

    amount_microdollars: int
    transfer: Transfer | None


@dataclass(frozen=True, slots=True)
class Reserve:
    """The least that is to be held under a reference."""

    tenant: Tenant
    reference: str
    amount_microdollars: int


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
    till = Till.open(lock_accounts([tenant]), keys=[key])
    till.give(Movement(tenant, Transfer.Kind.TOP_UP, Account.Kind.DEPOSITS, amount_microdollars, reference, key))
    return till.close(outbox)[key]


def place_hold(tenant: Tenant, *, reference: str, amount_microdollars: int, outbox: Outbox) -> Hold:
    """Set funds aside under a reference that has no open hold yet. Refuses what is not available."""
    _check_amount(amount_microdollars, least=0)
    till = Till.open(lock_accounts([tenant]), references=[reference])
    if till.holds:
        raise Conflict("hold_open", f"Funds are already held for {reference}.")
    till.cover(tenant, amount_microdollars, f"a hold for {reference}")
    hold = till.place(tenant, reference, amount_microdollars, outbox.now())
    till.close(outbox)
    return hold


def resize_hold(hold: Hold, *, amount_microdollars: int, outbox: Outbox) -> Hold:
    """Renew an open hold at an amount, larger or smaller than now. A larger one must be covered."""
    _check_amount(amount_microdollars, least=0)
    tenant = _tenant_of(hold)
    till = Till.open(lock_accounts([tenant]), references=[hold.reference])
    present = till.holds.get(hold.reference)
    if present is None or present != hold:
        raise Conflict("hold_released", f"The hold for {hold.reference} is already released.")
    till.cover(tenant, amount_microdollars - present.amount_microdollars, f"a larger hold for {present.reference}")
    till.resize(tenant, present, amount_microdollars, outbox.now())
    till.close(outbox)
    return present


def reserve_many(wanted: Sequence[Reserve], *, outbox: Outbox) -> list[Refused | None]:
    """Hold so much under each reference, in the order given: a hold that is smaller is enlarged, a missing one placed.

    Returns:
        For each why it is not held now, `insufficient_funds`, or None where it is. A hold that its tenant's funds do
        not cover stays as it is, and the rest go on.
    """
    for each in wanted:
        _check_amount(each.amount_microdollars, least=0)
    lacking = _lacking(wanted)
    if not lacking:
        return [None] * len(wanted)
    till = Till.open(_lock_all(lacking), references=[each.reference for each in lacking])
    refusals = {each.reference: _reserve(till, each, till.holds.get(each.reference), outbox) for each in lacking}
    till.close(outbox)
    return [refusals.get(each.reference) for each in wanted]


def _lacking(wanted: Sequence[Reserve]) -> list[Reserve]:
    """Those that no open hold covers yet: mostly none, and then nobody's account has to be locked."""
    open_holds = Hold.objects.filter(reference__in=[each.reference for each in wanted], released_at=None)
    held = dict(open_holds.values_list("reference", "amount_microdollars"))
    return [each for each in wanted if held.get(each.reference, -1) < each.amount_microdollars]


def _reserve(till: Till, wanted: Reserve, hold: Hold | None, outbox: Outbox) -> Refused | None:
    more = wanted.amount_microdollars - (hold.amount_microdollars if hold else 0)
    kind = "a larger hold" if hold else "a hold"
    if refusal := till.refusal(wanted.tenant, more, f"{kind} for {wanted.reference}"):
        return refusal
    if hold is None:
        till.place(wanted.tenant, wanted.reference, wanted.amount_microdollars, outbox.now())
    elif more > 0:
        till.resize(wanted.tenant, hold, wanted.amount_microdollars, outbox.now())
    return None


def release_hold(hold: Hold, *, outbox: Outbox) -> bool:
    """Free what a hold still sets aside. Returns whether this call did it; a released hold stays released."""
    return release_many([hold], outbox=outbox) == 1


def release_many(holds: Sequence[Hold], *, outbox: Outbox) -> int:
    """`release_hold` of many, in the order given. Returns how many this call has released."""
    tenants = {tenant.account.pk: tenant for tenant in _tenants_of(holds)}
    till = Till.open(lock_accounts(tenants.values()), references=[hold.reference for hold in holds])
    present = [till.holds[hold.reference] for hold in holds if till.holds.get(hold.reference) == hold]
    for hold in present:
        till.release(tenants[hold.account_id], hold, outbox.now())
    till.close(outbox)
    return len(present)


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
    held_for = from_hold.reference if from_hold else None
    return charge_many([Charge(tenant, amount_microdollars, reference, key, held_for)], outbox=outbox)[0]


def charge_many(charges: Sequence[Charge], *, outbox: Outbox) -> list[Transfer]:
    """`charge` of each, in the order given, all or none. Locks the accounts of all their tenants."""
    till = _till_for(charges)
    for each in charges:
        _check_amount(each.amount_microdollars)
        till.take(_movement(each, each.amount_microdollars), each.from_hold_for)
    written = till.close(outbox)
    return [written[each.key] for each in charges]


def charge_covered(charges: Sequence[Charge], *, outbox: Outbox) -> list[Taken]:
    """`charge_many`, taking of each at most what its hold and the balance still cover when its turn comes."""
    till, amounts = _till_for(charges), []
    for each in charges:
        amount = min(each.amount_microdollars, till.within_reach(each.tenant, each.from_hold_for))
        if amount:
            _check_amount(amount)
            till.take(_movement(each, amount), each.from_hold_for)
        amounts.append(amount)
    written = till.close(outbox)
    return [Taken(amount, written[each.key] if amount else None) for each, amount in zip(charges, amounts, strict=True)]


def _till_for(charges: Sequence[Charge]) -> Till:
    return Till.open(
        _lock_all(charges),
        references=[each.from_hold_for for each in charges if each.from_hold_for],
        keys=[each.key for each in charges],
    )


def _movement(charge: Charge, amount: int) -> Movement:
    return Movement(charge.tenant, Transfer.Kind.CHARGE, Account.Kind.REVENUE, -amount, charge.reference, charge.key)


def refund(charged: Transfer, *, amount_microdollars: int, key: str, outbox: Outbox) -> Transfer:
    """Give back a charge or a part of it; all refunds of one charge together never exceed it."""
    _check_amount(amount_microdollars)
    if charged.kind != Transfer.Kind.CHARGE:
        raise Conflict("not_a_charge", f"Only a charge can be refunded; {charged.reference} is a {charged.kind}.")
    tenant = Tenant.objects.get(account__entries__transfer=charged)
    till = Till.open(lock_accounts([tenant]), keys=[key])
    movement = Movement(
        tenant,
        Transfer.Kind.REFUND,
        Account.Kind.REVENUE,
        amount_microdollars,
        charged.reference,
        key,
        refund_of=charged,
    )
    if not till.was_made(movement):
        _check_left(charged, till.accounts[tenant.pk], amount_microdollars)
        till.give(movement)
    return till.close(outbox)[key]


def _check_left(charged: Transfer, account: Account, amount: int) -> None:
    left = _not_yet_refunded(charged, account)
    if amount > left:
        raise Conflict(
            "refund_exceeds_charge",
            f"A refund of {dollars(amount)} exceeds the {dollars(left)} that are left of the charge.",
            "/amount",
        )


def _lock_all(acts: Iterable[Charge | Reserve]) -> dict[int, Account]:
    return lock_accounts({each.tenant for each in acts})


def _tenant_of(hold: Hold) -> Tenant:
    return Tenant.objects.get(account=hold.account_id)


def _tenants_of(holds: Iterable[Hold]) -> list[Tenant]:
    return list(Tenant.objects.filter(account__in={hold.account_id for hold in holds}).select_related("account"))


def _not_yet_refunded(charged: Transfer, account: Account) -> int:
    taken = Entry.objects.get(transfer=charged, account=account).amount_microdollars
    given: int = Entry.objects.filter(transfer__refund_of=charged, account=account).aggregate(
        total=Sum("amount_microdollars", default=0)
    )["total"]
    return -taken - given


def _check_amount(amount: int, *, least: int = 1) -> None:
    if not least <= amount <= MAX_AMOUNT_MICRODOLLARS:
        bound = "above zero" if least else "zero or more"
        most = dollars(MAX_AMOUNT_MICRODOLLARS)
        raise Refused("bad_amount", f"{dollars(amount)} is not {bound} and at most {most}.", "/amount")
