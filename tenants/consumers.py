"""The feed's two doors: `/ws/feed` for browsers, by session and origin, and `/api/v1/feed` for programs, by token."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http.cookie import parse_cookie
from django.http.request import split_domain_port, validate_host
from django.urls import path
from rest_framework.exceptions import AuthenticationFailed

from laissez.errors import Refused
from laissez.feed.consumer import FOREIGN_STATUS, FeedConsumer
from laissez.feed.streams import ANONYMOUS, Reader
from tenants import readers
from tenants.auth import token_of


class TokenGate:
    """`Authorization: Bearer lz_live_...`. No origin is asked for: a browser cannot send this header to a socket."""

    def admit(self, headers: Mapping[str, str]) -> tuple[str | None, Reader]:
        """The token's reader."""
        scheme, _, text = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise Refused("not_authenticated", "Send a token: Authorization: Bearer lz_live_...", status=401)
        try:
            token = token_of(text.strip())
        except AuthenticationFailed as failure:
            raise Refused(str(failure.get_codes()), str(failure.detail), status=401) from failure
        return token.public_id, Reader(tenant=token.tenant.public_id, scopes=frozenset(token.scopes))

    def readers(self, credentials: Iterable[str]) -> Mapping[str, Reader]:
        """Those of these tokens that are still good."""
        return readers.of_tokens(credentials)


class SessionGate:
    """The session's cookie, from pages of our own. While the market is public, anybody may listen to it."""

    def admit(self, headers: Mapping[str, str]) -> tuple[str | None, Reader]:
        """The signed-in person's reader, else an anonymous one."""
        if not is_own_origin(headers.get("origin", ""), host=headers.get("host", "")):
            raise Refused("foreign_origin", "This page is not one of ours.", status=FOREIGN_STATUS)
        key = _session_key(headers.get("cookie", ""))
        reader = readers.of_sessions([key]).get(key) if key else None
        if reader is not None:
            return key, reader
        if not settings.PUBLIC_MARKET:
            raise Refused("not_authenticated", "Sign in first.", status=401)
        return None, ANONYMOUS

    def readers(self, credentials: Iterable[str]) -> Mapping[str, Reader]:
        """The readers of those of these sessions that go on."""
        return readers.of_sessions(credentials)


def is_own_origin(origin: str, *, host: str) -> bool:
    """Whether a page of this origin is our own: of the host that it speaks to, or one that is trusted by name."""
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:  # no browser writes such an origin
        return False
    domain, _ = split_domain_port(host.lower())
    return (
        parts.scheme in ("http", "https")
        and parts.netloc.lower() == host.lower()
        and bool(domain)
        and validate_host(domain, settings.ALLOWED_HOSTS)
    )


def _session_key(cookies: str) -> str:
    """Read as views read it: another application's odd cookie beside it does no harm."""
    return parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME, "")


# Channels routes to ASGI applications with what Django has for views.
for_browsers: Any = FeedConsumer(SessionGate())
for_programs: Any = FeedConsumer(TokenGate())
websocket_urlpatterns = [path("ws/feed", for_browsers), path("api/v1/feed", for_programs)]
