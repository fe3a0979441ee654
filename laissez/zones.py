"""The reader's time zone: from `?zone=` for one page, else from the cookie `zone`, else UTC.

Only pages are written in it. The API and the admin speak UTC, whoever asks.
"""

from collections.abc import Callable
from datetime import datetime, tzinfo
from functools import cache
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

COOKIE = "zone"
KEPT_SECONDS = 365 * 24 * 3600
WITHOUT_ZONE = ("/api/", "/admin/", "/static/")


class ZoneMiddleware:
    """Activates the reader's zone while a page is rendered."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer in the zone that was asked for; a name that is none counts as not given."""
        if request.path_info.startswith(WITHOUT_ZONE):
            return self.get_response(request)
        asked = named(request.GET.get("zone", "")) or named(unquote(request.COOKIES.get(COOKIE, "")))
        with timezone.override(asked or timezone.get_default_timezone()):
            return self.get_response(request)


def named(name: str) -> ZoneInfo | None:
    """The zone of this name; None where there is none. The name is looked up in a list, never in the file system."""
    return ZoneInfo(name) if name in _names() else None


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones())


def offset(at: datetime, zone: tzinfo | None = None) -> str:
    """How far the zone (by default the reader's) was from UTC at that time: `+05:30`; `UTC` for UTC itself."""
    there = at.astimezone(zone or timezone.get_current_timezone())
    text = there.strftime("%z")
    return "UTC" if there.tzname() == "UTC" else f"{text[:3]}:{text[3:5]}"


@require_POST
def choose(request: HttpRequest) -> HttpResponse:
    """Keep a zone for this browser and go back to the page; an unknown name changes nothing."""
    back = request.POST.get("next", "/")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}):
        back = "/"
    answer = HttpResponseRedirect(_without_zone(back))
    zone = named(request.POST.get("zone", ""))
    if zone is not None:
        answer.set_cookie(COOKIE, zone.key, max_age=KEPT_SECONDS, samesite="Lax")
    return answer


def _without_zone(address: str) -> str:
    """The page's address without a zone of its own, which would outdo the choice."""
    parts = urlsplit(address)
    kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "zone"]
    return urlunsplit(parts._replace(query=urlencode(kept)))
