"""Who is asking, and for which tenant: tokens for programs, sessions for people.

Whichever way a request came in, `request.auth` is a `Principal`, and `request.auth.tenant` is all that it may see.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rest_framework import authentication, permissions
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from laissez.credentials import digest, is_well_formed
from tenants import selectors
from tenants.models import ApiToken, Member, Tenant
from tenants.services.accounts import TOKEN_KIND, Grantor

if TYPE_CHECKING:
    from rest_framework.views import APIView  # it imports the default authentication, which is here

MANAGING = "members:write"
"""What owners may do beyond every token: invite, change and remove members."""

READING = frozenset({"prices:read", "jobs:read", "billing:read"})
ROLE_SCOPES = {
    Member.Role.OWNER: frozenset({*ApiToken.Scope.values, MANAGING}),
    Member.Role.ENGINEER: frozenset(ApiToken.Scope.values),
    Member.Role.FINANCE: frozenset({"prices:read", "billing:read"}),
    Member.Role.VIEWER: READING,
}
LAST_USE_STEP = timedelta(minutes=1)
SESSION_TENANT = "tenant"


@dataclass(frozen=True, slots=True)
class Principal:
    """The asker: the tenant it acts for, what it may do, its name for the audit trail, and when its token ends."""

    tenant: Tenant
    scopes: frozenset[str]
    actor: str
    expires_at: datetime | None = None

    @property
    def grantor(self) -> Grantor:
        """The asker as somebody who makes tokens."""
        return Grantor(self.actor, self.scopes, self.expires_at)

    @property
    def is_authenticated(self) -> bool:
        """A principal exists only once it is proven, as REST framework's permissions want to hear."""
        return True


class TokenAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer lz_live_...`. Every state in which a token is no good has a code of its own."""

    def authenticate(self, request: Request) -> tuple[Principal, Principal] | None:
        """The principal of the token, None when there is no bearer token at all; 401 otherwise."""
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = token_of(text.strip())
        principal = Principal(token.tenant, frozenset(token.scopes), f"token {token.public_id}", token.expires_at)
        return principal, principal

    def authenticate_header(self, request: Request) -> str:
        """The challenge of a 401."""
        return 'Bearer realm="laissez"'


def token_of(text: str) -> ApiToken:
    """The token of this text, for requests and for sockets; its use is noted.

    Raises:
        AuthenticationFailed: `token_malformed`, `token_unknown`, `token_revoked`, `token_expired`.
    """
    if not is_well_formed(text, kind=TOKEN_KIND):
        raise AuthenticationFailed("This is not a token, or a part of it is missing.", "token_malformed")
    found = selectors.token_of_digest(digest(text))
    if found is None:
        raise AuthenticationFailed("There is no such token.", "token_unknown")
    token, now = found
    if token.revoked_at is not None:
        raise AuthenticationFailed(f"The token {token.name!r} was revoked.", "token_revoked")
    if token.expires_at <= now:
        raise AuthenticationFailed(f"The token {token.name!r} has expired.", "token_expired")
    if token.last_used_at is None or token.last_used_at < now - LAST_USE_STEP:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


class SessionAuthentication(authentication.SessionAuthentication):
    """The signed-in person's session, with its CSRF check. The tenant is the one chosen, else the oldest membership."""

    def authenticate(self, request: Request) -> tuple[object, Principal] | None:
        """The person and their principal, None when nobody is signed in; 403 for a person without a tenant."""
        found = super().authenticate(request)
        if found is None:
            return None
        user = found[0]
        principal = principal_of(user.pk, str(user), chosen=request._request.session.get(SESSION_TENANT))
        if principal is None:
            raise PermissionDenied("This user belongs to no tenant.", "no_tenant")
        return user, principal


def principal_of(user_id: int, username: str, *, chosen: str | None = None) -> Principal | None:
    """The principal of a signed-in person, for pages as well as for the API. None when they belong to no tenant.

    `chosen` is the public id of the tenant that the person picked; one that is not theirs is ignored.
    """
    members = list(selectors.memberships(user_id))
    if not members:
        return None
    member = next((member for member in members if member.tenant.public_id == chosen), members[0])
    return Principal(member.tenant, ROLE_SCOPES[Member.Role(member.role)], f"user {username}")


def scope(needed: str) -> type[permissions.BasePermission]:
    """A permission class that asks for one scope: `permission_classes = [scope("jobs:write")]`."""

    class HasScope(permissions.BasePermission):
        code = "scope_missing"
        message = f"This needs the scope {needed}."

        def has_permission(self, request: Request, view: "APIView") -> bool:
            return isinstance(request.auth, Principal) and needed in request.auth.scopes

    return HasScope
