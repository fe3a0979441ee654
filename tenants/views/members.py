"""The page of a tenant's members: everybody sees who is here, owners invite, change roles and remove."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from laissez import clock
from laissez.errors import Refused
from laissez.events import transact
from tenants import selectors
from tenants.auth import MANAGING, Principal
from tenants.models import Invitation, Member
from tenants.services import people
from tenants.views import settings, tenant_page

MAY = {
    "owner": "everything, members among it",
    "engineer": "jobs, bids and tokens",
    "finance": "prices and bills",
    "viewer": "see prices, jobs and bills",
}


@require_safe
@tenant_page("prices:read")
def members(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Who may act for the tenant, and who is invited."""
    return _page(request, principal)


@require_POST
@tenant_page(MANAGING)
def invite(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Make an invitation and show its address, this once."""
    role, note = request.POST.get("role", ""), request.POST.get("note", "").strip()
    try:
        row, code = transact(
            lambda outbox: people.invite(principal.tenant, role=role, note=note, actor=principal.actor, outbox=outbox)
        )
    except Refused as refusal:
        return _page(request, principal, refusal=refusal, typed={"role": role, "note": note})
    address = request.build_absolute_uri(reverse("join", kwargs={"code": code}))
    return _page(request, principal, invited=row, address=address)


@require_POST
@tenant_page(MANAGING)
def withdraw(request: HttpRequest, principal: Principal, invitation: str) -> HttpResponse:
    """End an invitation that nobody has used."""
    try:
        transact(
            lambda outbox: people.withdraw(principal.tenant, public_id=invitation, actor=principal.actor, outbox=outbox)
        )
    except Refused as refusal:
        return _page(request, principal, refusal=refusal)
    messages.success(request, "The invitation is withdrawn; its address leads nowhere now.")
    return redirect("members")


@require_POST
@tenant_page(MANAGING)
def change_role(request: HttpRequest, principal: Principal, member: int) -> HttpResponse:
    """Give a member another role."""
    role = request.POST.get("role", "")
    try:
        changed = transact(
            lambda outbox: people.change_role(
                principal.tenant, member_id=member, role=role, actor=principal.actor, outbox=outbox
            )
        )
    except Refused as refusal:
        return _page(request, principal, refusal=refusal)
    messages.success(request, f"{changed.user} is {changed.role} now.")
    return redirect("members")


@require_POST
@tenant_page(MANAGING)
def remove(request: HttpRequest, principal: Principal, member: int) -> HttpResponse:
    """End a membership."""
    try:
        name = transact(
            lambda outbox: people.remove(principal.tenant, member_id=member, actor=principal.actor, outbox=outbox)
        )
    except Refused as refusal:
        return _page(request, principal, refusal=refusal)
    messages.success(request, f"{name} is no member any more. Tokens they made stay good: revoke those too if need be.")
    return redirect("members")


def _page(
    request: HttpRequest,
    principal: Principal,
    *,
    refusal: Refused | None = None,
    invited: Invitation | None = None,
    address: str = "",
    typed: dict[str, str] | None = None,
) -> HttpResponse:
    return settings.page(
        request,
        "tenants/members.html",
        principal,
        status=200 if refusal is None else refusal.status,
        faults={} if refusal is None else settings.by_field(refusal.faults),
        rows=list(selectors.members(principal.tenant)),
        invitations=lambda: selectors.open_invitations(principal.tenant, now=clock.now()),
        invited=invited,
        address=address,
        typed=typed or {"role": Member.Role.ENGINEER, "note": ""},
        may=MAY,
        days=people.INVITATION_DAYS,
    )
