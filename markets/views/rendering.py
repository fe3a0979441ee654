"""How a page of the market is rendered, whichever it is."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from tenants.auth import Principal

REFRESH_SECONDS = 2


def page(request: HttpRequest, template: str, principal: Principal | None, **context: Any) -> HttpResponse:
    """A rendered page. It updates itself unless its reader has paused it; a copy of it may be kept nowhere."""
    context |= {"principal": principal, "paused": "paused" in request.GET, "refresh_seconds": REFRESH_SECONDS}
    answer = render(request, template, context)
    answer["Cache-Control"] = "private, no-store"
    return answer
