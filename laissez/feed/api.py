"""The feed by REST: a page of events after a cursor, a stream's snapshot, and the schemas of the vocabulary.

Who asks is a matter of `tenants`, which subclasses these views.
"""

from abc import ABC, abstractmethod
from datetime import timedelta

from django.conf import settings
from django.http import HttpResponse
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from laissez.api import problem
from laissez.errors import NotFound, Refused
from laissez.feed import envelopes, replay, snapshots, streams, vocabulary
from laissez.feed.replay import LostCursor
from laissez.feed.streams import Reader

DEFAULT_LIMIT = 100


class StreamView(ABC, APIView):
    """Something about the stream that `?stream=` names, for whoever may read it."""

    permission_classes = [AllowAny]

    @abstractmethod
    def reader(self, request: Request) -> Reader:
        """Who asks."""

    def stream(self, request: Request) -> str:
        """The name that was asked for.

        Raises:
            Refused: 401, 403 or 404.
        """
        name = request.query_params.get("stream", "")
        if not 0 < len(name) <= streams.MAX_NAME_CHARACTERS:
            detail = f"Name a stream of 1 to {streams.MAX_NAME_CHARACTERS} characters: ?stream=market:gemm"
            raise Refused("stream_missing", detail, "/stream")
        streams.may_read(self.reader(request), name)
        return name


class EventsView(StreamView):
    """Events, again."""

    def get(self, request: Request) -> HttpResponse:
        """Those after a cursor, oldest first; without `after` from the oldest that is kept."""
        name = self.stream(request)
        limit = min(_whole(request, "limit", DEFAULT_LIMIT), replay.MAX_PAGE)
        held = replay.range_of(name)
        after = _whole(request, "after", held.oldest - 1)
        try:
            replay.check(name, after, held)
            events = replay.page(name, after=after, limit=max(1, limit))
            if events and events[0].seq != after + 1:  # purged between the two looks
                raise replay.gone(name, replay.range_of(name))
        except LostCursor as lost:
            return _lost(request, name, lost)
        retention = timedelta(days=settings.EVENT_RETENTION_DAYS)
        items = [envelopes.envelope(event, retention=retention) for event in events]
        return Response({"items": items, "last": held.last, "oldest": held.oldest})


class SnapshotView(StreamView):
    """A stream's rows."""

    def get(self, request: Request) -> Response:
        """As of its last number; the events after that make the next one."""
        return Response(snapshots.snapshot(self.stream(request)))


class SchemasView(APIView):
    """The vocabulary."""

    permission_classes = [AllowAny]

    def get(self, request: Request) -> Response:
        """Every type with what it says and for whom."""
        types = vocabulary.all_types()
        return Response(
            {
                "items": [
                    {
                        "type": each.name,
                        "audience": each.audience,
                        "summary": each.summary,
                        "dataschema": vocabulary.ADDRESS + each.name,
                    }
                    for each in types
                ]
            }
        )


class SchemaView(APIView):
    """One word of it."""

    permission_classes = [AllowAny]

    def get(self, request: Request, name: str) -> Response:
        """The JSON Schema of its data."""
        found = vocabulary.known(name)
        if found is None:
            raise NotFound("event type")
        return Response(found.document(), content_type="application/schema+json")


def _lost(request: Request, name: str, lost: LostCursor) -> HttpResponse:
    members = {"oldest": lost.held.oldest, "last": lost.held.last, "snapshot": snapshots.address_of(name)}
    return problem(
        request._request, status=lost.status, code=lost.code, detail=lost.detail, faults=lost.faults, members=members
    )


def _whole(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise Refused("bad_value", f"{name} is {text[:40]!r}, not a whole number from 0.", f"/{name}")
    return int(text)
