"""The ledger's acts, each in a transaction of its own."""

from laissez.events import transact
from tenants.models import Hold, Tenant, Transfer
from tenants.services import ledger


def top_up(tenant: Tenant, amount: int, *, key: str = "top_up") -> Transfer:
    return transact(lambda outbox: ledger.top_up(tenant, amount_microdollars=amount, key=key, outbox=outbox))


def place_hold(tenant: Tenant, amount: int, *, reference: str = "job_1") -> Hold:
    return transact(
        lambda outbox: ledger.place_hold(tenant, reference=reference, amount_microdollars=amount, outbox=outbox)
    )


def resize_hold(hold: Hold, amount: int) -> Hold:
    return transact(lambda outbox: ledger.resize_hold(hold, amount_microdollars=amount, outbox=outbox))


def release_hold(hold: Hold) -> bool:
    return transact(lambda outbox: ledger.release_hold(hold, outbox=outbox))


def charge(
    tenant: Tenant, amount: int, *, key: str = "charge", reference: str = "lse_1", from_hold: Hold | None = None
) -> Transfer:
    return transact(
        lambda outbox: ledger.charge(
            tenant, amount_microdollars=amount, reference=reference, key=key, from_hold=from_hold, outbox=outbox
        )
    )


def refund(charged: Transfer, amount: int, *, key: str) -> Transfer:
    return transact(lambda outbox: ledger.refund(charged, amount_microdollars=amount, key=key, outbox=outbox))
