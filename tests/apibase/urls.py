"""A small API behind the ground's conventions."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.urls import path
from rest_framework import serializers
from rest_framework.exceptions import Throttled
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from laissez.api import page_of
from laissez.errors import Conflict, Fault, Invalid, NotFound, Refused
from laissez.events import Outbox
from laissez.ids import new_id
from laissez.models import AuditEntry
from tenants import selectors
from tenants.api import act_once, principal
from tenants.auth import scope
from tenants.services import ledger

OPEN: dict[str, Any] = {"authentication_classes": [], "permission_classes": []}


class Row(serializers.Serializer[Any]):
    """One row of a launch table."""

    max_price = serializers.DecimalField(max_digits=12, decimal_places=6)


class Table(serializers.Serializer[Any]):
    """A name and rows."""

    name = serializers.CharField(max_length=5)
    rows = Row(many=True)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["name"] == "whole":
            raise serializers.ValidationError("The whole is wrong.", code="whole")
        return attrs


ERRORS: dict[str, Exception] = {
    "refused": Refused("too_low", "It is too low.", "/rows/0/max_price"),
    "invalid": Invalid([Fault("a", "A is wrong.", "/a"), Fault("b", "B is wrong.", "/b")]),
    "missing": NotFound("job"),
    "conflict": Conflict("busy", "It is busy."),
    "http404": Http404("secret detail"),
    "forbidden": PermissionDenied("secret detail"),
    "throttled": Throttled(wait=3),
    "broken": LookupError("secret detail"),
}


class ErrorView(APIView):
    def get(self, request: Request, name: str) -> Response:
        raise ERRORS[name]


class TableView(APIView):
    def post(self, request: Request) -> Response:
        table = Table(data=request.data)
        table.is_valid(raise_exception=True)
        return Response(table.data)


class AuditView(APIView):
    def get(self, request: Request) -> Response:
        page = page_of(AuditEntry.objects.all(), request.query_params, order=("-at", "actor", "id"))
        return Response(page.as_json([entry.pk for entry in page.items]))


class SpendView(APIView):
    permission_classes = [scope("bids:write")]

    def post(self, request: Request) -> Response:
        tenant = principal(request).tenant
        amount = int(request.data["amount"])

        def work(outbox: Outbox) -> dict[str, Any]:
            ledger.charge(tenant, amount_microdollars=amount, reference="lse", key=new_id("test"), outbox=outbox)
            return {"left": selectors.balance(tenant)}

        return act_once(request, work, status=201)


urlpatterns = [
    path("api/errors/<str:name>", ErrorView.as_view(**OPEN)),
    path("api/tables", TableView.as_view(**OPEN)),
    path("api/audit", AuditView.as_view(**OPEN)),
    path("api/spend", SpendView.as_view()),
    path("page/errors/<str:name>", ErrorView.as_view(**OPEN)),
]

handler400 = "laissez.api.handle_bad_request"
handler403 = "laissez.api.handle_forbidden"
handler404 = "laissez.api.handle_not_found"
handler500 = "laissez.api.handle_server_error"
