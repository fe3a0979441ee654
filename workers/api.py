"""The host's half of the API, and what tenants upload and read of their processes."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.http import HttpResponse
from rest_framework.parsers import BaseParser
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from laissez.bodies import MendingJSONParser
from laissez.errors import Fault, Invalid, NotFound, Refused
from laissez.events import Outbox, transact
from tenants.api import principal
from tenants.auth import scope
from workers.auth import HostAuthentication, IsHost, host_of
from workers.models import Job, LogChunk
from workers.services import artifacts, hosts, sync
from workers.services.reports import Report

MAX_ITEMS = 1000
LOG_PAGE = 200


class UploadParser(BaseParser):
    """Takes the body as it is, as `content`: one byte more than allowed, so that too many are noticed."""

    media_type = "application/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> dict[str, Any]:
        """Read it."""
        return {"content": stream.read(artifacts.MAX_BYTES + 1)}


class ArtifactsView(APIView):
    """Uploads."""

    permission_classes = [scope("jobs:write")]
    parser_classes = [UploadParser]

    def post(self, request: Request) -> Response:
        """Keep a packed directory and answer with its id; the same bytes again get the same one."""
        content = request.data["content"] if isinstance(request.data, dict) else b""
        row = artifacts.store(principal(request).tenant, content)
        return Response({"artifact": row.public_id, "sha256": row.sha256, "size_bytes": row.size_bytes}, status=201)


class JobLogsView(APIView):
    """What a job's processes wrote."""

    permission_classes = [scope("jobs:read")]

    def get(self, request: Request, job: str) -> Response:
        """The pieces after a cursor, oldest first."""
        found = Job.objects.filter(tenant=principal(request).tenant, public_id=job).first()
        if found is None:
            raise NotFound("job")
        after = _whole(request.query_params, "after", 0)
        rows = list(LogChunk.objects.filter(job=found, pk__gt=after).select_related("lease").order_by("pk")[:LOG_PAGE])
        items = [
            {"offset": row.pk, "stream": row.stream, "lease": row.lease.public_id, "text": row.text} for row in rows
        ]
        return Response({"items": items, "next": rows[-1].pk if rows else after, "has_more": len(rows) == LOG_PAGE})


class EnrolView(APIView):
    """Joining with a one-time code."""

    authentication_classes: list[Any] = []
    permission_classes = [AllowAny]

    def post(self, request: Request) -> Response:
        """Use up the code; the key in the answer is shown this once."""
        body = _object(request.data)
        enrolment = transact(partial(_enrol, body))
        host = enrolment.host
        return Response({"host": host.public_id, "key": enrolment.key, "state": host.state}, status=201)


def _enrol(body: Mapping[str, Any], outbox: Outbox) -> hosts.Enrolment:
    devices = [
        hosts.Device(index=_index(entry, place), type=str(entry.get("type", "")), emulated=bool(entry.get("emulated")))
        for place, entry in enumerate(_objects(body, "accelerators"))
    ]
    return hosts.enrol(
        code=_text(body, "code", 200),
        name=_text(body, "name", 120),
        isolation=_text(body, "isolation", 32),
        version=_text(body, "version", 64),
        devices=devices,
        now=outbox.now(),
        outbox=outbox,
    )


class SyncView(APIView):
    """Observed state in, desired state out."""

    authentication_classes = [HostAuthentication]
    permission_classes = [IsHost]
    parser_classes = [MendingJSONParser]

    def post(self, request: Request) -> Response:
        """Take in one message of a host."""
        host = host_of(request)
        try:
            message = _message(_object(request.data))
            answer = transact(lambda outbox: sync.sync(host.pk, message, outbox=outbox))
        except Refused as refusal:
            transact(partial(sync.report_refusal, host.pk, refusal))
            raise
        return Response(answer.as_json())


class HostArtifactView(APIView):
    """The packed directory of a lease."""

    authentication_classes = [HostAuthentication]
    permission_classes = [IsHost]

    def get(self, request: Request, sha256: str) -> HttpResponse:
        """The bytes, for a host that has a lease needing them; bounded, as uploads are."""
        path = artifacts.for_host(host_of(request), sha256)
        return HttpResponse(path.read_bytes(), content_type="application/x-tar")


def _message(body: Mapping[str, Any]) -> sync.Message:
    return sync.Message(
        sequence=_required_whole(body, "sequence"),
        healthy={
            _index(entry, place): bool(entry.get("healthy"))
            for place, entry in enumerate(_objects(body, "accelerators"))
        },
        observed=[
            sync.Observed(
                lease=str(entry.get("lease")),
                fence=_required_whole(entry, "fence", f"/leases/{place}"),
                state=_observed_state(entry, place),
            )
            for place, entry in enumerate(_objects(body, "leases"))
        ],
        reports=[_report(entry, f"/reports/{place}") for place, entry in enumerate(_objects(body, "reports"))],
    )


_OBSERVED = ("ready", "standby", "running", "saving", "ended")


def _observed_state(entry: Mapping[str, Any], place: int) -> str:
    state = entry.get("state")
    if state not in _OBSERVED:
        detail = f"state is {state!r}; it must be one of {', '.join(_OBSERVED)}."
        raise Invalid([Fault("bad_value", detail, f"/leases/{place}/state")])
    return str(state)


def _report(entry: Mapping[str, Any], at: str) -> Report:
    return Report(
        id=_required_whole(entry, "id", at),
        lease=str(entry.get("lease")),
        fence=_required_whole(entry, "fence", at),
        kind=str(entry.get("kind")),
        body={name: value for name, value in entry.items() if name not in {"id", "lease", "fence", "kind"}},
    )


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Invalid([Fault("bad_body", "The body is not a JSON object.")])
    return value


def _objects(body: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = body.get(name, [])
    if not isinstance(value, list) or len(value) > MAX_ITEMS or not all(isinstance(entry, dict) for entry in value):
        raise Invalid([Fault("bad_value", f"{name} is not a list of at most {MAX_ITEMS} objects.", f"/{name}")])
    return value


def _text(body: Mapping[str, Any], name: str, most: int) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= most:
        raise Invalid([Fault("bad_value", f"{name} is not a text of 1 to {most} characters.", f"/{name}")])
    return value


def _index(entry: Mapping[str, Any], place: int) -> int:
    return _required_whole(entry, "index", f"/accelerators/{place}")


def _required_whole(body: Mapping[str, Any], name: str, at: str = "") -> int:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise Invalid([Fault("bad_value", f"{name} is {value!r}, not a whole number from 0.", f"{at}/{name}")])
    return value


def _whole(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, str(default))
    if not text.isdecimal() or len(text) > 18:
        raise Refused("bad_value", f"{name} is {text[:40]!r}, not a whole number from 0.", f"/{name}")
    return int(text)
