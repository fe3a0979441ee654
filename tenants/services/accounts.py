"""Who may act: tenants, their members and their tokens. Every change leaves an audit entry in its own transaction."""

from collections.abc import Iterable, Mapping
from datetime import timedelta

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from laissez.credentials import digest, new_token, shown_prefix
from laissez.errors import Conflict, Fault, Invalid, NotFound, Refused
from laissez.events import Outbox
from laissez.models import AuditEntry
from markets.engine.money import format_price
from tenants import selectors
from tenants.models import Account, ApiToken, Member, Tenant, Transfer
from tenants.services import ledger

TOKEN_KIND = "live"
TOKEN_DAYS = 90
MAX_NAME_LENGTH = 80


def create_tenant(name: str, *, credit_limit_microdollars: int = 0, actor: str, outbox: Outbox) -> Tenant:
    """A new tenant with an empty account. Refuses a name that is taken or unusable."""
    _check_name(name, "/name")
    if Tenant.objects.filter(name=name).exists():
        raise Conflict("tenant_exists", f"There is already a tenant {name!r}.", "/name")
    tenant = Tenant.objects.create(name=name, created_at=outbox.now())
    Account.objects.create(
        kind=Account.Kind.TENANT,
        tenant=tenant,
        balance_microdollars=0,
        held_microdollars=0,
        credit_limit_microdollars=credit_limit_microdollars,
    )
    _audit(outbox, actor, "tenant.create", tenant.public_id, after={"name": name}, reason="a new tenant")
    outbox.add(tenant.stream, "org.laissez.tenant.created.v1", tenant.public_id, {"name": name})
    return tenant


def add_member(
    tenant: Tenant, *, username: str, password: str, role: Member.Role = Member.Role.OWNER, actor: str, outbox: Outbox
) -> Member:
    """A new person who may act for the tenant. Refuses a user name that is taken and a password that is too weak."""
    user = _create_user(username, password)
    member = Member.objects.create(user=user, tenant=tenant, role=role)
    after = {"user": username, "role": role.value}
    _audit(outbox, actor, "member.add", tenant.public_id, after=after, reason="a new member")
    outbox.add(tenant.stream, "org.laissez.member.added.v1", tenant.public_id, {"user": username, "role": role.value})
    return member


def grant(tenant: Tenant, *, amount_microdollars: int, key: str, reason: str, actor: str, outbox: Outbox) -> Transfer:
    """Give a tenant test money, as an operator. The same key again adds nothing and is not audited again."""
    ledger.lock_accounts([tenant])
    before = selectors.balance(tenant)
    transfer = ledger.top_up(tenant, amount_microdollars=amount_microdollars, key=key, reference=reason, outbox=outbox)
    after = selectors.balance(tenant)
    if after != before:
        _audit(
            outbox,
            actor,
            "tenant.top_up",
            tenant.public_id,
            before={"balance": format_price(before)},
            after={"balance": format_price(after)},
            reason=reason,
        )
    return transfer


def create_token(
    tenant: Tenant, *, name: str, scopes: Iterable[str], days: int = TOKEN_DAYS, actor: str, outbox: Outbox
) -> tuple[ApiToken, str]:
    """A new token of the tenant, valid for `days`. The text returned with it is shown once and kept nowhere."""
    wanted = sorted(set(scopes))
    _check_name(name, "/name")
    _check_scopes(wanted)
    if not 1 <= days <= 366:
        raise Refused("bad_lifetime", f"A token lives from 1 to 366 days, not {days}.", "/days")
    text = new_token(TOKEN_KIND)
    now = outbox.now()
    token = ApiToken.objects.create(
        tenant=tenant,
        name=name,
        prefix=shown_prefix(text),
        digest=digest(text),
        scopes=wanted,
        created_at=now,
        expires_at=now + timedelta(days=days),
    )
    after = {"name": name, "scopes": wanted, "expires_at": token.expires_at.isoformat()}
    _audit(outbox, actor, "token.create", token.public_id, after=after, reason="a new token")
    outbox.add(tenant.stream, "org.laissez.token.created.v1", token.public_id, {"name": name, "scopes": wanted})
    return token, text


def revoke_token(tenant: Tenant, *, public_id: str, reason: str, actor: str, outbox: Outbox) -> None:
    """End a token of the tenant for ever. Refuses one that is not the tenant's, or is revoked already."""
    token = ApiToken.objects.filter(tenant=tenant, public_id=public_id).first()
    if token is None:
        raise NotFound("token")
    now = outbox.now()
    if not ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
        raise Conflict("already_revoked", f"The token {token.name!r} is revoked already.")
    _audit(
        outbox,
        actor,
        "token.revoke",
        token.public_id,
        before={"revoked_at": None},
        after={"revoked_at": now.isoformat()},
        reason=reason,
    )
    outbox.add(tenant.stream, "org.laissez.token.revoked.v1", token.public_id, {"name": token.name})


def _create_user(username: str, password: str) -> User:
    if User.objects.filter(username=username).exists():
        raise Conflict("user_exists", f"There is already a user {username!r}.", "/user")
    user = User(username=username)
    try:
        validate_password(password, user)
        user.set_password(password)
        user.full_clean()
    except ValidationError as error:
        raise Invalid([Fault("bad_user", message, "/user") for message in error.messages]) from None
    user.save()
    return user


def _check_name(name: str, pointer: str) -> None:
    if not 1 <= len(name) <= MAX_NAME_LENGTH or not name.isprintable() or name != name.strip():
        raise Refused(
            "bad_name",
            f"{name[:MAX_NAME_LENGTH]!r} is not a name of 1 to {MAX_NAME_LENGTH} printable characters.",
            pointer,
        )


def _check_scopes(scopes: list[str]) -> None:
    known = ", ".join(ApiToken.Scope.values)
    if not scopes:
        raise Refused("no_scopes", f"A token needs at least one scope of: {known}.", "/scopes")
    faults = [
        Fault("unknown_scope", f"{scope[:40]!r} is not a scope; there are: {known}.", "/scopes")
        for scope in scopes
        if scope not in ApiToken.Scope.values
    ]
    if faults:
        raise Invalid(faults)


def _audit(
    outbox: Outbox,
    actor: str,
    action: str,
    subject: str,
    *,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
    reason: str,
) -> None:
    AuditEntry.objects.create(
        at=outbox.now(), actor=actor, action=action, subject=subject, before=before, after=after, reason=reason
    )
