"""The tenant's own corner of the API, and how every mutating endpoint keeps its promise to act once."""

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from laissez.api import is_dry_run, page_of
from laissez.events import Outbox, rehearse, transact
from markets.engine.money import format_price
from tenants import selectors
from tenants.auth import Principal, scope
from tenants.services import idempotency


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
