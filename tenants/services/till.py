"""Money in motion: accounts under their locks, their open holds, and what the present transaction does to both.

The ledger's one rule book, for one act or for hundreds. Acts go one after the other against this copy and each is
refused what is not there any more when its turn comes; `close` writes all of them in a few statements.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.db import connection

from laissez.errors import Conflict, Refused
from laissez.events import Outbox
from markets.engine.money import format_price
from tenants.models import Account, Entry, Hold, Tenant, Transfer
from tenants.selectors import Funds, funds_of

SETTLE = """
    INSERT INTO tenants_transfer (kind, at, reference, key, refund_of_id)
    SELECT kind, %s, reference, key, refund_of
    FROM jsonb_to_recordset(%s::jsonb) AS made(place int, kind text, reference text, key text, refund_of bigint)
    ORDER BY place
    RETURNING id, kind, at, reference, key, refund_of_id, written_by
"""
SETTLED = ("id", "kind", "at", "reference", "key", "refund_of_id", "written_by")
KEY = SETTLED.index("key")
ENTER = """
    INSERT INTO tenants_entry (transfer_id, account_id, amount_microdollars)
    SELECT transfer, account, amount
    FROM jsonb_to_recordset(%s::jsonb) AS side(place int, transfer bigint, account bigint, amount bigint)
    ORDER BY place
"""
CHANGE_HOLDS = """
    UPDATE tenants_hold AS hold
    SET amount_microdollars = new.amount, renewed_at = new.renewed_at, released_at = new.released_at
    FROM jsonb_to_recordset(%s::jsonb) AS new(id bigint, amount bigint, renewed_at timestamptz, released_at timestamptz)
    WHERE hold.id = new.id
"""


@dataclass(frozen=True, slots=True)
class Movement:
    """A transfer before it is written: what the tenant's account gains, and where it comes from."""

    tenant: Tenant
    kind: Transfer.Kind
    house: Account.Kind
    amount: int
    reference: str
    key: str
    refund_of: Transfer | None = None


@dataclass(slots=True)
class Till:
    """A working copy of some accounts, by tenant, and of their open holds, by what those are for.

    `accounts` and `holds` are read under the accounts' locks. `earlier` are the transfers that the acts' keys have made
    before, by key; `sides` their entries, by transfer and account.
    """

    accounts: Mapping[int, Account]
    funds: dict[int, Funds]
    holds: dict[str, Hold]
    earlier: dict[str, Transfer]
    sides: Mapping[tuple[int, int], int]
    movements: dict[str, Movement] = field(default_factory=dict)
    changed: dict[int, Hold] = field(default_factory=dict)
    placed: list[Hold] = field(default_factory=list)
    told: list[tuple[Tenant, str, str, int]] = field(default_factory=list)

    @classmethod
    def open(
        cls, accounts: Mapping[int, Account], *, references: Iterable[str] = (), keys: Iterable[str] = ()
    ) -> "Till":
        """Read what acts will need, in three queries at most.

        Args:
            accounts: by tenant id, locked by the caller and read under that lock.
            references: those under which acts will look for an open hold.
            keys: those of their transfers; one that was used already makes no second transfer.
        """
        earlier = {transfer.key: transfer for transfer in Transfer.objects.filter(key__in=set(keys))}
        entries = Entry.objects.filter(transfer__in=[transfer.pk for transfer in earlier.values()])
        return cls(
            accounts=accounts,
            funds={tenant: funds_of(account) for tenant, account in accounts.items()},
            holds={
                hold.reference: hold for hold in Hold.objects.filter(reference__in=set(references), released_at=None)
            },
            earlier=earlier,
            sides={(entry.transfer_id, entry.account_id): entry.amount_microdollars for entry in entries},
        )

    def covers(self, tenant: Tenant, needed: int) -> bool:
        """Whether so much is available. Nothing needed is always covered, whatever an account owes."""
        return needed <= max(self.funds[tenant.pk].available, 0)

    def refusal(self, tenant: Tenant, needed: int, what: str) -> Refused | None:
        """Why so much cannot be taken, in words; None where it is available."""
        if self.covers(tenant, needed):
            return None
        funds = self.funds[tenant.pk]
        return Refused(
            "insufficient_funds",
            f"{dollars(needed)} are needed for {what}, but {dollars(funds.available)} are available"
            f" (balance {dollars(funds.balance)}, held {dollars(funds.held)}).",
            status=402,
        )

    def cover(self, tenant: Tenant, needed: int, what: str) -> None:
        """Refuse what is not available."""
        if refusal := self.refusal(tenant, needed, what):
            raise refusal

    def within_reach(self, tenant: Tenant, held_for: str | None) -> int:
        """What a charge could take now: out of the hold, then out of what is available."""
        held = self._open_hold(tenant, held_for)
        return (held.amount_microdollars if held else 0) + max(0, self.funds[tenant.pk].available)

    def take(self, movement: Movement, held_for: str | None) -> None:
        """A charge: out of the hold first, then out of what is available. Refuses what both together do not cover."""
        if self.was_made(movement):
            return
        held = self._open_hold(movement.tenant, held_for)
        paid_by_hold = min(held.amount_microdollars, -movement.amount) if held else 0
        self.cover(movement.tenant, -movement.amount - paid_by_hold, f"a charge for {movement.reference}")
        if held and paid_by_hold:
            self._set_aside(movement.tenant, held, held.amount_microdollars - paid_by_hold)
        self._move(movement)

    def give(self, movement: Movement) -> None:
        """A top-up or a refund."""
        if not self.was_made(movement):
            self._move(movement)

    def was_made(self, movement: Movement) -> bool:
        """Whether this movement's key has made its transfer already. Refuses a key that was used for another one."""
        made = self.earlier.get(movement.key)
        if made is None and movement.key not in self.movements:
            return False
        if made is None:
            same = self.movements[movement.key] == movement
        else:
            side = self.sides.get((made.pk, self.accounts[movement.tenant.pk].pk))
            same = (side, made.kind, made.reference) == (movement.amount, movement.kind, movement.reference)
        if not same:
            raise Conflict("key_reused", f"The key {movement.key!r} was used for another transfer.")
        return True

    def place(self, tenant: Tenant, reference: str, amount: int, now: datetime) -> Hold:
        """Open a hold. The caller has seen that it is covered and that the reference has no open one."""
        hold = Hold(
            account=self.accounts[tenant.pk],
            reference=reference,
            amount_microdollars=amount,
            opened_at=now,
            renewed_at=now,
        )
        funds = self.funds[tenant.pk]
        self.funds[tenant.pk] = replace(funds, held=funds.held + amount)
        self.placed.append(hold)
        self.told.append((tenant, "hold_placed", reference, amount))
        return hold

    def resize(self, tenant: Tenant, hold: Hold, amount: int, now: datetime) -> None:
        """Renew an open hold at another amount. The caller has seen that more of it is covered."""
        if amount != hold.amount_microdollars:
            self.told.append((tenant, "hold_resized", hold.reference, amount))
        self._set_aside(tenant, hold, amount)
        hold.renewed_at = now

    def release(self, tenant: Tenant, hold: Hold, now: datetime) -> None:
        """Free what an open hold still sets aside."""
        funds = self.funds[tenant.pk]
        self.funds[tenant.pk] = replace(funds, held=funds.held - hold.amount_microdollars)
        hold.released_at = now
        self.changed[hold.pk] = hold
        del self.holds[hold.reference]
        self.told.append((tenant, "hold_released", hold.reference, hold.amount_microdollars))

    def close(self, outbox: Outbox) -> dict[str, Transfer]:
        """Write what the acts have done, and tell the tenants of it in their order.

        Returns:
            The transfers of all acts by key, those that a key had made earlier among them.
        """
        if self.changed:
            self._write_changed()
        Hold.objects.bulk_create(self.placed)
        if self.movements:
            self._write_movements(outbox.now())
        for tenant, what, reference, amount in self.told:
            data = {"reference": reference, "amount": format_price(amount), "currency": "USD"}
            outbox.add(tenant.stream, f"org.laissez.ledger.{what}.v1", reference, data)
        return self.earlier

    def _open_hold(self, tenant: Tenant, held_for: str | None) -> Hold | None:
        held = self.holds.get(held_for) if held_for else None
        if held and held.account_id != self.accounts[tenant.pk].pk:
            raise ValueError(f"The hold for {held.reference} belongs to another tenant.")
        return held

    def _set_aside(self, tenant: Tenant, hold: Hold, amount: int) -> None:
        funds = self.funds[tenant.pk]
        self.funds[tenant.pk] = replace(funds, held=funds.held + amount - hold.amount_microdollars)
        hold.amount_microdollars = amount
        self.changed[hold.pk] = hold

    def _move(self, movement: Movement) -> None:
        funds = self.funds[movement.tenant.pk]
        self.funds[movement.tenant.pk] = replace(funds, balance=funds.balance + movement.amount)
        self.movements[movement.key] = movement
        self.told.append((movement.tenant, f"{movement.kind.value}_settled", movement.reference, abs(movement.amount)))

    def _write_changed(self) -> None:
        rows = [
            {
                "id": hold.pk,
                "amount": hold.amount_microdollars,
                "renewed_at": hold.renewed_at.isoformat(),
                "released_at": hold.released_at and hold.released_at.isoformat(),
            }
            for hold in self.changed.values()
        ]
        with connection.cursor() as cursor:
            cursor.execute(CHANGE_HOLDS, [json.dumps(rows)])

    def _write_movements(self, now: datetime) -> None:
        made = [
            {
                "place": place,
                "kind": each.kind.value,
                "reference": each.reference,
                "key": each.key,
                "refund_of": each.refund_of and each.refund_of.pk,
            }
            for place, each in enumerate(self.movements.values())
        ]
        with connection.cursor() as cursor:
            cursor.execute(SETTLE, [now, json.dumps(made)])
            self.earlier |= {row[KEY]: Transfer.from_db(connection.alias, SETTLED, row) for row in cursor.fetchall()}
            cursor.execute(ENTER, [json.dumps(list(self._sides()))])

    def _sides(self) -> Iterator[dict[str, int]]:
        """Two entries of each movement, first the tenant's."""
        houses = {kind: _house(kind) for kind in sorted({each.house for each in self.movements.values()})}
        for place, each in enumerate(self.movements.values()):
            transfer, account = self.earlier[each.key].pk, self.accounts[each.tenant.pk].pk
            yield {"place": 2 * place, "transfer": transfer, "account": account, "amount": each.amount}
            yield {"place": 2 * place + 1, "transfer": transfer, "account": houses[each.house], "amount": -each.amount}


def _house(kind: Account.Kind) -> int:
    account, _ = Account.objects.get_or_create(kind=kind, tenant=None)
    return account.pk


def dollars(amount: int) -> str:
    """An amount as messages show it."""
    return f"${format_price(amount)}"
