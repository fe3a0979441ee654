"""What the pages under /settings share: how they are shown, and how a refusal comes back to its field."""

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from laissez import clock
from laissez.errors import Fault
from tenants import selectors
from tenants.auth import MANAGING, SESSION_TENANT, Principal
from tenants.views import tenant_page


def page(
    request: HttpRequest, template: str, principal: Principal, *, status: int = 200, **context: Any
) -> HttpResponse:
    """A page of settings; a copy of it may be kept nowhere."""
    answer = render(request, template, frame(request, principal) | context, status=status)
    answer["Cache-Control"] = "private, no-store"
    return answer


def frame(request: HttpRequest, principal: Principal | None) -> dict[str, Any]:
    """What every page of settings shows around its own."""
    scopes = principal.scopes if principal else frozenset()
    return {
        "principal": principal,
        "now": clock.now(),
        "sees_tokens": "tokens:write" in scopes,
        "manages": MANAGING in scopes,
        "tenants": [member.tenant for member in selectors.memberships(request.user.pk or 0)],
    }


def by_field(faults: Sequence[Fault]) -> dict[str, str]:
    """What is wrong, by the name of the field; under `whole` what concerns all of it."""
    found: dict[str, str] = {}
    for fault in faults:
        name = fault.pointer.removeprefix("/") or "whole"
        found[name] = " ".join(filter(None, [found.get(name), fault.detail]))
    return found


@tenant_page("prices:read")
def settings(request: HttpRequest, principal: Principal) -> HttpResponse:
    """The first page that the reader may see."""
    return redirect("tokens" if "tokens:write" in principal.scopes else "members")


@require_POST
@tenant_page("prices:read")
def choose_tenant(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Act for another of one's own tenants from now on."""
    wanted = request.POST.get("tenant", "")
    if any(member.tenant.public_id == wanted for member in selectors.memberships(request.user.pk or 0)):
        request.session[SESSION_TENANT] = wanted
    target = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure())
    return redirect(target if is_ours else "settings")
