"""The page of a tenant's tokens: made, rolled and revoked there. A token's text is in one answer and nowhere else."""

import uuid
from collections.abc import Callable
from hashlib import sha256

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from laissez.errors import Fault, Invalid, Refused
from laissez.events import Outbox, transact
from tenants import selectors
from tenants.auth import Principal
from tenants.models import ApiToken
from tenants.services import accounts, idempotency
from tenants.views import settings, tenant_page

MOST_SHOWN = 200
ALLOWS = {
    "prices:read": "see prices and free units",
    "jobs:read": "see jobs, their logs and costs",
    "jobs:write": "upload, submit, stop and cancel jobs",
    "bids:write": "change what jobs bid",
    "billing:read": "see the balance and the statement",
    "webhooks:write": "change where events are sent to",
    "tokens:write": "make, roll and revoke tokens, none stronger than itself",
}


@require_safe
@tenant_page("tokens:write")
def tokens(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Every token with its state, and the form for another."""
    return _page(request, principal)


@require_POST
@tenant_page("tokens:write")
def create(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Make a token and show its text, this once."""
    name, scopes = request.POST.get("name", "").strip(), request.POST.getlist("scopes")
    typed: dict[str, object] = {"name": name, "scopes": scopes, "days": request.POST.get("days", "")}

    def work(outbox: Outbox) -> tuple[ApiToken, str]:
        return accounts.create_token(
            principal.tenant,
            name=name,
            scopes=scopes,
            days=_whole(typed["days"], "days"),
            actor=principal.actor,
            grantor=principal.grantor,
            outbox=outbox,
        )

    return _made(request, principal, work, typed=typed)


@require_POST
@tenant_page("tokens:write")
def roll(request: HttpRequest, principal: Principal, token: str) -> HttpResponse:
    """Make a token in the place of this one, and show its text, this once."""

    def work(outbox: Outbox) -> tuple[ApiToken, str]:
        hours = _whole(request.POST.get("hours", ""), "hours")
        return accounts.roll_token(
            principal.tenant, public_id=token, hours=hours, grantor=principal.grantor, outbox=outbox
        )

    return _made(request, principal, work)


@require_POST
@tenant_page("tokens:write")
def revoke(request: HttpRequest, principal: Principal, token: str) -> HttpResponse:
    """End a token. A second click finds it ended and says so."""
    try:
        transact(
            lambda outbox: accounts.revoke_token(
                principal.tenant, public_id=token, reason="revoked on the page", actor=principal.actor, outbox=outbox
            )
        )
    except Refused as refusal:
        return _page(request, principal, status=refusal.status, faults=settings.by_field(refusal.faults))
    messages.success(request, "The token is revoked. Whoever still uses it is refused from now on.")
    return redirect("tokens")


def _made(
    request: HttpRequest,
    principal: Principal,
    work: Callable[[Outbox], tuple[ApiToken, str]],
    *,
    typed: dict[str, object] | None = None,
) -> HttpResponse:
    """Make a token once per form. Sent a second time, the form makes nothing, and the text is gone by then."""
    texts: list[str] = []

    def once(outbox: Outbox) -> dict[str, str]:
        token, text = work(outbox)
        texts[:] = [text]
        return {"token": token.public_id}

    key = request.POST.get("key", "")
    fingerprint = sha256(f"{request.path} {sorted(request.POST.lists())}".encode()).hexdigest()
    try:
        answer = idempotency.once(principal.tenant, key=f"token-{key}", fingerprint=fingerprint, status=201, work=once)
    except Refused as refusal:
        faults = settings.by_field(refusal.faults)
        return _page(request, principal, status=refusal.status, faults=faults, typed=typed)
    made = selectors.tokens(principal.tenant).get(public_id=answer.body["token"])
    return _page(request, principal, made=made, text=None if answer.replayed else texts[0])


def _page(
    request: HttpRequest,
    principal: Principal,
    *,
    status: int = 200,
    made: ApiToken | None = None,
    text: str | None = None,
    faults: dict[str, str] | None = None,
    typed: dict[str, object] | None = None,
) -> HttpResponse:
    rows = list(selectors.tokens(principal.tenant)[:MOST_SHOWN])
    return settings.page(
        request,
        "tenants/tokens.html",
        principal,
        status=status,
        rows=rows,
        made=made,
        text=text,
        faults=faults or {},
        typed=typed or {"name": "", "scopes": accounts.USUAL_SCOPES, "days": str(accounts.TOKEN_DAYS)},
        allows={scope: what for scope, what in ALLOWS.items() if scope in principal.scopes},
        key=str(uuid.uuid4()),
        server=request.build_absolute_uri("/").rstrip("/"),
        overlap=accounts.OVERLAP_HOURS,
        most_overlap=accounts.MOST_OVERLAP_HOURS,
        most_shown=MOST_SHOWN if len(rows) == MOST_SHOWN else None,
    )


def _whole(text: object, name: str) -> int:
    if not isinstance(text, str) or not (text.isascii() and text.isdecimal() and len(text) < 6):
        raise Invalid([Fault("bad_value", f"{name}: {str(text)[:20]!r} is not a whole number.", f"/{name}")])
    return int(text)
