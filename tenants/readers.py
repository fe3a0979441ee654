"""Readers of the feed: whom a token or a session stands for, at the door and again every two seconds, many at once."""

from collections.abc import Iterable, Mapping

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.utils.crypto import constant_time_compare

from laissez import clock
from laissez.feed.streams import Reader
from tenants.auth import ROLE_SCOPES, SESSION_TENANT, Principal
from tenants.models import ApiToken, Member


def of(principal: Principal | None, *, is_operator: bool) -> Reader:
    """The reader that a principal is; an operator may have no tenant and be none."""
    if principal is None:
        return Reader(is_operator=is_operator)
    return Reader(tenant=principal.tenant.public_id, scopes=principal.scopes, is_operator=is_operator)


def of_tokens(public_ids: Iterable[str]) -> Mapping[str, Reader]:
    """The readers of these tokens. Those revoked or expired by now are left out."""
    rows = ApiToken.objects.filter(public_id__in=list(public_ids), revoked_at=None, expires_at__gt=clock.now())
    return {
        public_id: Reader(tenant=tenant, scopes=frozenset(scopes))
        for public_id, tenant, scopes in rows.values_list("public_id", "tenant__public_id", "scopes")
    }


def of_sessions(keys: Iterable[str]) -> Mapping[str, Reader]:
    """The readers of these sessions. Left out: sessions that ended, and people who may sign in no more."""
    rows = Session.objects.filter(session_key__in=list(keys), expire_date__gt=clock.now())
    contents = {row.session_key: row.get_decoded() for row in rows}
    contents = {key: content for key, content in contents.items() if _names_a_user(content)}
    users = User.objects.filter(is_active=True).in_bulk({int(content[SESSION_KEY]) for content in contents.values()})
    members: dict[int, list[Member]] = {}
    for member in Member.objects.filter(user_id__in=users).select_related("tenant").order_by("id"):
        members.setdefault(member.user_id, []).append(member)
    readers = {}
    for key, content in contents.items():
        user = users.get(int(content[SESSION_KEY]))
        if user is not None and _has_its_password(user, content):
            readers[key] = _person(user, members.get(user.pk, []), chosen=content.get(SESSION_TENANT))
    return readers


def _names_a_user(content: Mapping[str, object]) -> bool:
    backend = content.get(BACKEND_SESSION_KEY)
    return str(content.get(SESSION_KEY, "")).isdecimal() and backend in settings.AUTHENTICATION_BACKENDS


def _has_its_password(user: User, content: Mapping[str, object]) -> bool:
    """Whether the session was begun with the password that the person has now."""
    return constant_time_compare(str(content.get(HASH_SESSION_KEY, "")), user.get_session_auth_hash())


def _person(user: User, members: list[Member], *, chosen: object) -> Reader:
    if not members:
        return Reader(is_operator=user.is_staff)
    member = next((member for member in members if member.tenant.public_id == chosen), members[0])
    scopes = ROLE_SCOPES[Member.Role(member.role)]
    return Reader(tenant=member.tenant.public_id, scopes=scopes, is_operator=user.is_staff)
