"""Who comes in and who goes: sign-up, invitations, and the members of a tenant.

An invitation's code is shown once to whoever makes it; the one update that marks it as used decides between two who
come with the same code. Changes of members take the tenant's lock, so that an owner always stays.
"""

from datetime import timedelta

from django.contrib.auth.models import User

from laissez.credentials import digest, is_well_formed, new_token
from laissez.errors import Conflict, Fault, Invalid, NotFound, Refused
from laissez.events import Outbox
from tenants.models import Invitation, Member, Tenant
from tenants.services import accounts

INVITATION_KIND = "invite"
INVITATION_DAYS = 7
MAX_NOTE_LENGTH = 80
UNUSABLE_NAME = "This user name cannot be used; choose another. Letters, digits and @ . + - _ can stand in it."


def sign_up(*, username: str, password: str, tenant_name: str, outbox: Outbox) -> Member:
    """A user with a tenant of their own, at once or not at all.

    Raises:
        Invalid: with every fault. A name that is taken is told as any other that cannot be used.
    """
    user = _new_user(username, password, faults=_tenant_name_faults(tenant_name))
    return _found(user, tenant_name, actor=f"user {username}", outbox=outbox)


def invite(
    tenant: Tenant | None, *, role: str, note: str = "", days: int = INVITATION_DAYS, actor: str, outbox: Outbox
) -> tuple[Invitation, str]:
    """A way in for one person. The code returned with it is shown once and kept nowhere.

    Args:
        tenant: where to; None: to found a tenant of their own, as its owner.
        days: from 1 to 30.
    """
    faults = []
    if role not in Member.Role.values or (tenant is None and role != Member.Role.OWNER):
        faults.append(Fault("bad_role", f"role is {role[:40]!r}; known are {', '.join(Member.Role.values)}.", "/role"))
    if len(note) > MAX_NOTE_LENGTH or not note.isprintable():
        faults.append(Fault("bad_note", f"The note is not a line of at most {MAX_NOTE_LENGTH} characters.", "/note"))
    if not 1 <= days <= 30:
        faults.append(Fault("bad_lifetime", f"An invitation lives from 1 to 30 days, not {days}.", "/days"))
    if faults:
        raise Invalid(faults)
    now = outbox.now()
    code = new_token(INVITATION_KIND)
    row = Invitation.objects.create(
        tenant=tenant,
        role=role,
        digest=digest(code),
        note=note,
        created_at=now,
        created_by=actor,
        expires_at=now + timedelta(days=days),
    )
    after = {"tenant": None if tenant is None else tenant.public_id, "role": role}
    accounts.audit(outbox, actor, "invitation.create", row.public_id, after=after, reason=note or "an invitation")
    return row, code


def withdraw(tenant: Tenant, *, public_id: str, actor: str, outbox: Outbox) -> None:
    """End an invitation that nobody has used."""
    row = Invitation.objects.filter(tenant=tenant, public_id=public_id).first()
    if row is None:
        raise NotFound("invitation")
    now = outbox.now()
    if not Invitation.objects.filter(pk=row.pk, used_at=None, withdrawn_at=None).update(withdrawn_at=now):
        raise Conflict("invitation_over", "The invitation was used or withdrawn already.")
    accounts.audit(outbox, actor, "invitation.withdraw", row.public_id, reason="withdrawn")


def accept_as_new(code: str, *, username: str, password: str, tenant_name: str = "", outbox: Outbox) -> Member:
    """Come in as a new user.

    Raises:
        NotFound: `invitation_invalid`: unknown, used, withdrawn or expired, which are told apart nowhere.
        Invalid: an unusable name, a weak password; the invitation stays good.
    """
    row = _usable(code, outbox)
    user = _new_user(username, password, faults=[] if row.tenant else _tenant_name_faults(tenant_name))
    return _let_in(row, user, tenant_name, outbox)


def accept_as(user: User, code: str, *, tenant_name: str = "", outbox: Outbox) -> Member:
    """Come in as somebody who has a login already.

    Raises:
        NotFound: `invitation_invalid`.
        Conflict: `member_already`; the invitation stays good.
    """
    row = _usable(code, outbox)
    if row.tenant and Member.objects.filter(user=user, tenant=row.tenant).exists():
        raise Conflict("member_already", f"You are a member of {row.tenant} already.")
    if row.tenant is None and (faults := _tenant_name_faults(tenant_name)):
        raise Invalid(faults)
    return _let_in(row, user, tenant_name, outbox)


def _usable(code: str, outbox: Outbox) -> Invitation:
    """The invitation of a code, if it is good and not being used by somebody else; locked."""
    if not is_well_formed(code, kind=INVITATION_KIND):
        raise NotFound("invitation", "invitation_invalid")
    good = Invitation.objects.select_for_update(of=("self",)).filter(
        digest=digest(code), used_at=None, withdrawn_at=None
    )
    row = good.select_related("tenant").first()
    if row is None or row.expires_at <= outbox.now():
        raise NotFound("invitation", "invitation_invalid")
    return row


def _let_in(row: Invitation, user: User, tenant_name: str, outbox: Outbox) -> Member:
    Invitation.objects.filter(pk=row.pk).update(used_at=outbox.now(), used_by=user)
    actor = f"user {user.get_username()}"
    if row.tenant is None:
        return _found(user, tenant_name, actor=actor, outbox=outbox)
    return _add(user, row.tenant, Member.Role(row.role), actor=actor, reason=row.public_id, outbox=outbox)


def _found(user: User, tenant_name: str, *, actor: str, outbox: Outbox) -> Member:
    tenant = accounts.create_tenant(tenant_name, actor=actor, outbox=outbox)
    return _add(user, tenant, Member.Role.OWNER, actor=actor, reason="a new tenant", outbox=outbox)


def _add(user: User, tenant: Tenant, role: Member.Role, *, actor: str, reason: str, outbox: Outbox) -> Member:
    member = Member.objects.create(user=user, tenant=tenant, role=role)
    data = {"user": user.get_username(), "role": role.value}
    accounts.audit(outbox, actor, "member.add", tenant.public_id, after=data, reason=reason)
    outbox.add(tenant.stream, "org.laissez.member.added.v1", tenant.public_id, data)
    return member


def _new_user(username: str, password: str, *, faults: list[Fault]) -> User:
    """A new user. What is wrong with the name is never told, so that nobody can ask who is here."""
    unusable = Fault("bad_user_name", UNUSABLE_NAME, "/user")
    try:
        if "\x00" in username:
            raise Invalid([unusable])
        user = accounts.create_user(username, password)
    except Conflict:
        faults = [*faults, unusable]
    except Invalid as invalid:
        faults = [*faults, *(unusable if fault.pointer == "/user" else fault for fault in invalid.faults)]
    if faults:
        raise Invalid(list(dict.fromkeys(faults)))
    return user


def _tenant_name_faults(name: str) -> list[Fault]:
    try:
        accounts.check_name(name, "/tenant_name")
    except Refused as refusal:
        return list(refusal.faults)
    if Tenant.objects.filter(name=name).exists():
        return [Fault("bad_name", "This tenant name cannot be used; choose another.", "/tenant_name")]
    return []


# Members


def change_role(tenant: Tenant, *, member_id: int, role: str, actor: str, outbox: Outbox) -> Member:
    """Give a member another role. Invitations that they made as an owner, and nobody has used, end with it.

    Raises:
        NotFound: no member of this tenant.
        Conflict: `last_owner`.
    """
    if role not in Member.Role.values:
        raise Refused("bad_role", f"role is {role[:40]!r}; known are {', '.join(Member.Role.values)}.", "/role")
    member = _member(tenant, member_id)
    former = member.role
    if former == role:
        return member
    _keep_an_owner(tenant, member)
    member.role = role
    member.save(update_fields=["role"])
    name = member.user.get_username()
    _withdraw_theirs(tenant, name, actor=actor, outbox=outbox)
    accounts.audit(
        outbox,
        actor,
        "member.change_role",
        tenant.public_id,
        before={"user": name, "role": former},
        after={"user": name, "role": role},
        reason="by an owner",
    )
    data = {"user": name, "role": role, "previous_role": former}
    outbox.add(tenant.stream, "org.laissez.member.role_changed.v1", tenant.public_id, data)
    return member


def remove(tenant: Tenant, *, member_id: int, actor: str, outbox: Outbox) -> str:
    """End a membership at once, with the open invitations that the person made: none of them is a way back.

    The login stays, and tokens that the person made stay good until they are revoked.

    Returns:
        The user's name.

    Raises:
        NotFound: no member of this tenant.
        Conflict: `last_owner`.
    """
    member = _member(tenant, member_id)
    _keep_an_owner(tenant, member)
    name, role = member.user.get_username(), member.role
    member.delete()
    _withdraw_theirs(tenant, name, actor=actor, outbox=outbox)
    before = {"user": name, "role": role}
    accounts.audit(outbox, actor, "member.remove", tenant.public_id, before=before, reason="by an owner")
    outbox.add(tenant.stream, "org.laissez.member.removed.v1", tenant.public_id, {"user": name, "role": role})
    return name


def _withdraw_theirs(tenant: Tenant, name: str, *, actor: str, outbox: Outbox) -> None:
    """Withdraw the open invitations that a member made. Others of the tenant's owners can make new ones."""
    theirs = Invitation.objects.filter(tenant=tenant, created_by=f"user {name}", used_at=None, withdrawn_at=None)
    for public_id in list(theirs.order_by("pk").values_list("public_id", flat=True)):
        if theirs.filter(public_id=public_id).update(withdrawn_at=outbox.now()):
            reason = "whoever made it is no owner any more"
            accounts.audit(outbox, actor, "invitation.withdraw", public_id, reason=reason)


def _member(tenant: Tenant, member_id: int) -> Member:
    """A member under the tenant's lock, so that two owners cannot remove each other."""
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    member = Member.objects.filter(tenant=tenant, pk=member_id).select_related("user").first()
    if member is None:
        raise NotFound("member")
    return member


def _keep_an_owner(tenant: Tenant, member: Member) -> None:
    others = Member.objects.filter(tenant=tenant, role=Member.Role.OWNER, user__is_active=True).exclude(pk=member.pk)
    if member.role == Member.Role.OWNER and not others.exists():
        raise Conflict("last_owner", "This is the last owner; make somebody else an owner first.")
