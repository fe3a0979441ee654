"""The tenant's own corner of the API, and how every mutating endpoint keeps its promise to act once."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import sha256
from http import HTTPStatus
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from laissez import clock
from laissez.api import is_dry_run, page_of
from laissez.errors import Fault, Invalid
from laissez.events import Outbox, rehearse, transact
from markets.engine.money import format_price
from tenants import selectors
from tenants.auth import Principal, scope
from tenants.models import ApiToken
from tenants.services import accounts, idempotency

MAX_REASON = 500


def principal(request: Request) -> Principal:
    """Who is asking. Only behind a permission class, which has seen to it that somebody is."""
    if not isinstance(request.auth, Principal):
        raise TypeError("This view has no permission class.")
    return request.auth


def act_once(request: Request, work: Callable[[Outbox], Any], *, status: int = 200) -> Response:
    """Answer a request that writes: `work` runs in one transaction and returns the JSON body.

    With `?dry_run=true` the effect is shown and undone; with an `Idempotency-Key` it takes place at most once and a
    repeated request is answered with the same words.
    """
    if is_dry_run(request.query_params):
        return Response(rehearse(work))
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return Response(transact(work), status=status)
    answer = idempotency.once(
        principal(request).tenant, key=key, fingerprint=_fingerprint(request), status=status, work=work
    )
    headers = {"Idempotent-Replayed": "true"} if answer.replayed else {}
    return Response(answer.body, status=answer.status, headers=headers)


def _fingerprint(request: Request) -> str:
    """The request's place and body, whatever the order of the body's members."""
    body = json.dumps(request.data, sort_keys=True, default=str)
    return sha256(f"{request.method} {request.get_full_path()}\n{body}".encode()).hexdigest()


def make_once(request: Request, work: Callable[[Outbox], tuple[dict[str, Any], str]]) -> Response:
    """`act_once` for what is made with a secret: `work` returns the body and the secret, which is answered once.

    A repeated request is answered without it, since it is kept nowhere.
    """
    secrets: list[str] = []

    def without_secret(outbox: Outbox) -> dict[str, Any]:
        body, secret = work(outbox)
        secrets[:] = [secret]
        return body | {"secret": None}

    answer = act_once(request, without_secret, status=201)
    if answer.status_code == HTTPStatus.CREATED and "Idempotent-Replayed" not in answer:
        answer.data = answer.data | {"secret": secrets[0]}
    return answer


class TokensView(APIView):
    """The tenant's tokens."""

    permission_classes = [scope("tokens:write")]

    def get(self, request: Request) -> Response:
        """A page of them, newest first."""
        page = page_of(selectors.tokens(principal(request).tenant), request.query_params)
        now = clock.now()
        return Response(page.as_json([_token_json(token, now) for token in page.items]))

    def post(self, request: Request) -> Response:
        """Make one that may do no more, and lives no longer, than the asker. Its `secret` is shown this once."""
        asker = principal(request)
        body = _members(request, "name", "scopes", "days")
        scopes = _scopes(body, asker)
        days = None if body.get("days") is None else _whole(body, "days")

        def work(outbox: Outbox) -> tuple[dict[str, Any], str]:
            token, text = accounts.create_token(
                asker.tenant,
                name=_text(body, "name"),
                scopes=scopes,
                days=days,
                actor=asker.actor,
                grantor=asker.grantor,
                outbox=outbox,
            )
            return _token_json(token, outbox.now()), text

        return make_once(request, work)


class RevokeTokenView(APIView):
    """The end of a token."""

    permission_classes = [scope("tokens:write")]

    def post(self, request: Request, token: str) -> Response:
        """End it for ever."""
        asker = principal(request)
        reason = _members(request, "reason").get("reason") or "revoked through the API"
        if not isinstance(reason, str) or len(reason) > MAX_REASON:
            raise Invalid([Fault("bad_value", f"reason is not a text of at most {MAX_REASON} characters.", "/reason")])

        def work(outbox: Outbox) -> dict[str, Any]:
            accounts.revoke_token(asker.tenant, public_id=token, reason=reason, actor=asker.actor, outbox=outbox)
            row = selectors.tokens(asker.tenant).get(public_id=token)
            return _token_json(row, outbox.now())

        return act_once(request, work)


class RollTokenView(APIView):
    """A new token in the place of an old one."""

    permission_classes = [scope("tokens:write")]

    def post(self, request: Request, token: str) -> Response:
        """Make it; the old one ends `hours` later, 24 by default. The new one's `secret` is shown this once."""
        asker = principal(request)
        body = _members(request, "hours")
        hours = accounts.OVERLAP_HOURS if body.get("hours") is None else _whole(body, "hours")

        def work(outbox: Outbox) -> tuple[dict[str, Any], str]:
            row, text = accounts.roll_token(
                asker.tenant, public_id=token, hours=hours, grantor=asker.grantor, outbox=outbox
            )
            return _token_json(row, outbox.now()), text

        return make_once(request, work)


def _token_json(token: ApiToken, now: datetime) -> dict[str, Any]:
    return {
        "token": token.public_id,
        "name": token.name,
        "prefix": token.prefix,
        "scopes": token.scopes,
        "state": selectors.token_state(token, now=now),
        "created_at": _time(token.created_at),
        "created_by": token.created_by,
        "expires_at": _time(token.expires_at),
        "last_used_at": _time(token.last_used_at),
        "revoked_at": _time(token.revoked_at),
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat().replace("+00:00", "Z")


def _members(request: Request, *known: str) -> Mapping[str, Any]:
    """The members of a body that is an object, or nothing, and has no others."""
    body = request.data if request.data is not None else {}
    if not isinstance(body, dict):
        raise Invalid([Fault("bad_body", f"The body is not an object with {', '.join(known)}.")])
    unknown = sorted(set(body) - set(known))
    if unknown:
        detail = "{!r} is not a field here; known are " + ", ".join(known) + "."
        raise Invalid([Fault("unknown_field", detail.format(name), f"/{name}") for name in unknown])
    return body


def _scopes(body: Mapping[str, Any], asker: Principal) -> list[str]:
    """What was asked for; all that the asker may do itself, but for making tokens, where nothing was."""
    value = body.get("scopes")
    if value is None:
        return sorted(asker.scopes & set(accounts.USUAL_SCOPES))
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Invalid([Fault("bad_value", "scopes is not a list of texts.", "/scopes")])
    return value


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise Invalid([Fault("bad_value", f"{name} is missing, or not a text.", f"/{name}")])
    return value


def _whole(body: Mapping[str, Any], name: str) -> int:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Invalid([Fault("bad_value", f"{name} is {value!r}, not a whole number.", f"/{name}")])
    return value


class BalanceView(APIView):
    """The tenant's funds."""

    permission_classes = [scope("billing:read")]

    def get(self, request: Request) -> Response:
        """Balance, what is held, and what is available."""
        funds = selectors.funds(principal(request).tenant)
        return Response(
            {
                "currency": "USD",
                "balance": format_price(funds.balance),
                "held": format_price(funds.held),
                "available": format_price(funds.available),
            }
        )


class StatementView(APIView):
    """The tenant's movements of money."""

    permission_classes = [scope("billing:read")]

    def get(self, request: Request) -> Response:
        """A page of them, newest first."""
        tenant = principal(request).tenant
        page = page_of(selectors.statement_entries(tenant), request.query_params)
        lines = selectors.statement_lines(tenant, page.items)
        return Response(page.as_json([_line_json(line) for line in lines]))


def _line_json(line: selectors.StatementLine) -> dict[str, Any]:
    return {
        "at": line.at.isoformat(),
        "kind": line.kind,
        "reference": line.reference,
        "amount": format_price(line.amount),
        "balance_after": format_price(line.balance_after),
        "currency": "USD",
    }
