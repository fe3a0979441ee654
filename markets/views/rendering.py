"""How a page of the market is rendered, whichever it is."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from laissez.models import Stream
from tenants.auth import Principal


def page(
    request: HttpRequest,
    template: str,
    principal: Principal | None,
    *,
    streams: Mapping[str, int] | None = None,
    status: int = 200,
    **context: Any,
) -> HttpResponse:
    """A rendered page; a copy of it may be kept nowhere.

    Args:
        streams: the streams that the page follows, each with the number of the last event that it shows already
            (`cursors`). None: the page is not live, and loads nothing that would make it so.
    """
    followed = None if streams is None else " ".join(f"{name}@{seq}" for name, seq in sorted(streams.items()))
    context |= {"principal": principal, "streams": followed}
    answer = render(request, template, context, status=status)
    answer["Cache-Control"] = "private, no-store"
    return answer


def cursors(names: Iterable[str]) -> dict[str, int]:
    """Streams with their last numbers, 0 for one that has told nothing yet.

    Call it before the page's rows are read: what happens in between is then told twice, not lost.
    """
    wanted = list(names)
    return dict.fromkeys(wanted, 0) | dict(Stream.objects.filter(name__in=wanted).values_list("name", "last_seq"))
