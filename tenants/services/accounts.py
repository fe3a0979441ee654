"""Who may act: tenants, their members and their tokens. Every change leaves an audit entry in its own transaction."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

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
USUAL_SCOPES = tuple(scope for scope in ApiToken.Scope.values if scope != ApiToken.Scope.TOKENS_WRITE)
"""Every scope but that of making further tokens, which is only given when it is asked for."""

OVERLAP_HOURS = 24
MOST_OVERLAP_HOURS = 7 * 24
MAX_NAME_LENGTH = 80


def create_tenant(name: str, *, credit_limit_microdollars: int = 0, actor: str, outbox: Outbox) -> Tenant:
    """A new tenant with an empty account. Refuses a name that is taken or unusable."""
    check_name(name, "/name")
    if Tenant.objects.filter(name=name).exists():
        raise Conflict("tenant_exists", f"There is already a tenant {name!r}.", "/name")
    try:
        with transaction.atomic():
            tenant = Tenant.objects.create(name=name, created_at=outbox.now())
    except IntegrityError:  # it was taken in between
        raise Conflict("tenant_exists", f"There is already a tenant {name!r}.", "/name") from None
    Account.objects.create(
        kind=Account.Kind.TENANT,
        tenant=tenant,
        balance_microdollars=0,
        held_microdollars=0,
        credit_limit_microdollars=credit_limit_microdollars,
    )
    audit(outbox, actor, "tenant.create", tenant.public_id, after={"name": name}, reason="a new tenant")
    outbox.add(tenant.stream, "org.laissez.tenant.created.v1", tenant.public_id, {"name": name})
    return tenant


def add_member(
    tenant: Tenant, *, username: str, password: str, role: Member.Role = Member.Role.OWNER, actor: str, outbox: Outbox
) -> Member:
    """A new person who may act for the tenant. Refuses a user name that is taken and a password that is too weak."""
    user = create_user(username, password)
    member = Member.objects.create(user=user, tenant=tenant, role=role)
    after = {"user": username, "role": role.value}
    audit(outbox, actor, "member.add", tenant.public_id, after=after, reason="a new member")
    outbox.add(tenant.stream, "org.laissez.member.added.v1", tenant.public_id, {"user": username, "role": role.value})
    return member


def grant(tenant: Tenant, *, amount_microdollars: int, key: str, reason: str, actor: str, outbox: Outbox) -> Transfer:
    """Give a tenant test money, as an operator. The same key again adds nothing and is not audited again."""
    ledger.lock_accounts([tenant])
    before = selectors.balance(tenant)
    transfer = ledger.top_up(tenant, amount_microdollars=amount_microdollars, key=key, reference=reason, outbox=outbox)
    after = selectors.balance(tenant)
    if after != before:
        audit(
            outbox,
            actor,
            "tenant.top_up",
            tenant.public_id,
            before={"balance": format_price(before)},
            after={"balance": format_price(after)},
            reason=reason,
        )
    return transfer


@dataclass(frozen=True, slots=True)
class Grantor:
    """Who makes a token: it can pass on what it may do itself and, if it is a token, lives no longer than that."""

    actor: str
    scopes: frozenset[str]
    expires_at: datetime | None = None


def create_token(
    tenant: Tenant,
    *,
    name: str,
    scopes: Iterable[str],
    days: int | None = None,
    actor: str,
    grantor: Grantor | None = None,
    outbox: Outbox,
) -> tuple[ApiToken, str]:
    """A new token of the tenant, valid for `days`. The text returned with it is shown once and kept nowhere.

    Args:
        days: from 1 to 366; None: 90, or as long as the grantor lives if that is shorter.
        grantor: bounds what the token may do; None for operators, who may grant everything.

    Raises:
        Refused: an unusable name, scope or lifetime; `scope_exceeded`, `outlives_maker` beyond the grantor.
    """
    wanted = sorted(set(scopes))
    check_name(name, "/name")
    _check_scopes(wanted)
    if days is not None and not 1 <= days <= 366:
        raise Refused("bad_lifetime", f"A token lives from 1 to 366 days, not {days}.", "/days")
    now = outbox.now()
    expires_at = _end(now + timedelta(days=days or TOKEN_DAYS), grantor, is_asked=days is not None)
    _check_grant(wanted, grantor)
    return _new_token(tenant, name, wanted, expires_at, actor=actor, reason="a new token", outbox=outbox)


def roll_token(
    tenant: Tenant, *, public_id: str, hours: int = OVERLAP_HOURS, grantor: Grantor, outbox: Outbox
) -> tuple[ApiToken, str]:
    """A new token in the place of one that ends `hours` later: same name, scopes and length of life.

    Raises:
        NotFound: another tenant's, or none.
        Conflict: `not_active`: it is revoked, has expired or was rolled already.
        Refused: `bad_overlap`; `scope_exceeded` when the grantor may not do what the token may.
    """
    if not 1 <= hours <= MOST_OVERLAP_HOURS:
        raise Refused(
            "bad_overlap", f"The old token ends 1 to {MOST_OVERLAP_HOURS} hours later, not {hours}.", "/hours"
        )
    old = _token(tenant, public_id)
    _check_grant(old.scopes, grantor)
    now = outbox.now()
    ends_at = min(old.expires_at, now + timedelta(hours=hours))
    expires_at = _end(now + (old.expires_at - old.created_at), grantor, is_asked=False)
    if old.expires_at > now:
        reason = f"in the place of {old.public_id}"
        new, text = _new_token(
            tenant, old.name, old.scopes, expires_at, actor=grantor.actor, reason=reason, outbox=outbox
        )
        usable = ApiToken.objects.filter(pk=old.pk, revoked_at=None, rolled_into=None)
    if old.expires_at <= now or not usable.update(rolled_into=new, expires_at=ends_at):
        raise Conflict("not_active", f"The token {old.name!r} is not active any more; make a new one.")
    before = {"expires_at": old.expires_at.isoformat()}
    after = {"expires_at": ends_at.isoformat(), "rolled_into": new.public_id}
    audit(outbox, grantor.actor, "token.roll", old.public_id, before=before, after=after, reason="rolled")
    data = {"name": old.name, "rolled_into": new.public_id, "expires_at": ends_at.isoformat()}
    outbox.add(tenant.stream, "org.laissez.token.rolled.v1", old.public_id, data)
    return new, text


def revoke_token(tenant: Tenant, *, public_id: str, reason: str, actor: str, outbox: Outbox) -> None:
    """End a token of the tenant for ever. Refuses one that is not the tenant's, or is revoked already."""
    token = _token(tenant, public_id)
    now = outbox.now()
    if not ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
        raise Conflict("already_revoked", f"The token {token.name!r} is revoked already.")
    audit(
        outbox,
        actor,
        "token.revoke",
        token.public_id,
        before={"revoked_at": None},
        after={"revoked_at": now.isoformat()},
        reason=reason,
    )
    outbox.add(tenant.stream, "org.laissez.token.revoked.v1", token.public_id, {"name": token.name})


def _token(tenant: Tenant, public_id: str) -> ApiToken:
    token = ApiToken.objects.filter(tenant=tenant, public_id=public_id).first()
    if token is None:
        raise NotFound("token")
    return token


def _new_token(
    tenant: Tenant, name: str, scopes: list[str], expires_at: datetime, *, actor: str, reason: str, outbox: Outbox
) -> tuple[ApiToken, str]:
    text = new_token(TOKEN_KIND)
    token = ApiToken.objects.create(
        tenant=tenant,
        name=name,
        prefix=shown_prefix(text),
        digest=digest(text),
        scopes=scopes,
        created_at=outbox.now(),
        expires_at=expires_at,
        created_by=actor,
    )
    after = {"name": name, "scopes": scopes, "expires_at": expires_at.isoformat()}
    audit(outbox, actor, "token.create", token.public_id, after=after, reason=reason)
    outbox.add(tenant.stream, "org.laissez.token.created.v1", token.public_id, {"name": name, "scopes": scopes})
    return token, text


def _end(wanted: datetime, grantor: Grantor | None, *, is_asked: bool) -> datetime:
    """When a token ends: not after the token that makes it."""
    if grantor is None or grantor.expires_at is None or wanted <= grantor.expires_at:
        return wanted
    if is_asked:
        raise Refused("outlives_maker", "A token cannot make one that lives longer than itself.", "/days")
    return grantor.expires_at


def _check_grant(scopes: Iterable[str], grantor: Grantor | None) -> None:
    beyond = sorted(set(scopes) - grantor.scopes) if grantor is not None else []
    if beyond:
        detail = f"Nobody can grant what they may not do themselves: {', '.join(beyond)}."
        raise Refused("scope_exceeded", detail, "/scopes", 403)


def create_user(username: str, password: str) -> User:
    """Somebody who may sign in.

    Raises:
        Conflict: `user_exists`.
        Invalid: an unusable name or a weak password.
    """
    if User.objects.filter(username=username).exists():
        raise Conflict("user_exists", f"There is already a user {username!r}.", "/user")
    user = User(username=username)
    faults = []
    try:
        validate_password(password, user)
    except ValidationError as error:
        faults += [Fault("bad_password", message, "/password") for message in error.messages]
    user.set_password(password)
    try:
        user.full_clean()
    except ValidationError as error:
        faults += [Fault("bad_user", message, "/user") for message in error.messages]
    if faults:
        raise Invalid(faults)
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError:  # somebody with the same name came in between
        raise Conflict("user_exists", f"There is already a user {username!r}.", "/user") from None
    return user


def check_name(name: str, pointer: str) -> None:
    """That a name of a tenant or token can be shown."""
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


def audit(
    outbox: Outbox,
    actor: str,
    action: str,
    subject: str,
    *,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
    reason: str,
) -> None:
    """Leave an audit entry."""
    AuditEntry.objects.create(
        at=outbox.now(), actor=actor, action=action, subject=subject, before=before, after=after, reason=reason
    )
