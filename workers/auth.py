"""Hosts prove themselves with their own key, on their own routes; no tenant's token opens them."""

from rest_framework import authentication, permissions
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request
from rest_framework.views import APIView

from laissez.errors import Refused
from workers.models import Host
from workers.services import hosts


class HostAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer lz_host_...`."""

    def authenticate(self, request: Request) -> tuple[Host, Host] | None:
        """The host that owns the key; 401 for any other bearer."""
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        try:
            host = hosts.authenticate(key.strip())
        except Refused as refusal:
            raise AuthenticationFailed(refusal.detail, refusal.code) from refusal
        return host, host

    def authenticate_header(self, request: Request) -> str:
        """The challenge of a 401."""
        return 'Bearer realm="laissez-host"'


class IsHost(permissions.BasePermission):
    """Lets hosts in."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Whether the request carries a host's key."""
        return isinstance(request.auth, Host)


def host_of(request: Request) -> Host:
    """The host that asks. Only behind `IsHost`."""
    if not isinstance(request.auth, Host):
        raise TypeError("This view has no permission class.")
    return request.auth
