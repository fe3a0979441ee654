"""Tenants, money and tokens for tests, made by the services that make them elsewhere."""

from laissez.events import Outbox, transact
from tenants.models import ApiToken, Tenant
from tenants.services import accounts, ledger

ACTOR = "a test"


def a_tenant(name: str = "Alpha", *, microdollars: int = 0, credit_limit_microdollars: int = 0) -> Tenant:
    """A tenant with funds."""

    def work(outbox: Outbox) -> Tenant:
        tenant = accounts.create_tenant(
            name, credit_limit_microdollars=credit_limit_microdollars, actor=ACTOR, outbox=outbox
        )
        if microdollars:
            ledger.top_up(tenant, amount_microdollars=microdollars, key=f"first funds of {name}", outbox=outbox)
        return tenant

    return transact(work)


def a_token(tenant: Tenant, *scopes: str) -> tuple[ApiToken, str]:
    """A token of the tenant with some scopes, or with all of them."""
    wanted = scopes or tuple(ApiToken.Scope.values)
    return transact(
        lambda outbox: accounts.create_token(tenant, name="a test's", scopes=wanted, actor=ACTOR, outbox=outbox)
    )


def bearer(text: str) -> dict[str, str]:
    """The header of a request with that token."""
    return {"Authorization": f"Bearer {text}"}
