"""The pages that everybody sees: the start page and the exchange tables."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from laissez import clock
from markets.selectors import exchange, overview
from markets.selectors.exchange import Exchange, ExchangeRow
from markets.views import replay
from markets.views.rendering import cursors, page
from tenants.auth import Principal
from tenants.views import sign_in_first, viewer
from workers.models import Cluster

P = ParamSpec("P")


def market_page(
    view: Callable[Concatenate[HttpRequest, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """A page of the market: for anybody while the market is public, else for whoever is signed in."""

    @wraps(view)
    def answer(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not settings.PUBLIC_MARKET and not request.user.is_authenticated:
            return sign_in_first(request)
        return view(request, *args, **kwargs)

    return answer


def stream_of(cluster: Cluster) -> str:
    """The stream that tells what happens on a cluster's exchange."""
    return f"market:{cluster.slug}"


def sees_bids(reader: Principal | None) -> bool:
    """Whether somebody may read the bids and leases of a tenant of theirs."""
    return reader is not None and "jobs:read" in reader.scopes


@require_safe
def landing(request: HttpRequest) -> HttpResponse:
    """What this is, the prices now for whoever may see the market, and the paper's figure replayed."""
    clusters = _clusters() if settings.PUBLIC_MARKET or request.user.is_authenticated else []
    streams = cursors(map(stream_of, clusters))
    now = clock.now()
    return page(
        request,
        "markets/landing.html",
        viewer(request),
        streams=streams or None,
        now=now,
        tables=[exchange.of(cluster, now=now, with_trends=True) for cluster in clusters],
        replay=replay.paper(),
        market_is_closed=not settings.PUBLIC_MARKET and not request.user.is_authenticated,
        may_sign_up=settings.SIGNUP == "open",
    )


@require_safe
def markets(request: HttpRequest) -> HttpResponse:
    """The first cluster's exchange; the others are one step from there."""
    first = next(iter(_clusters()), None)
    return redirect("landing") if first is None else redirect("market", cluster=first.slug)


@require_safe
@market_page
def market(request: HttpRequest, cluster: str) -> HttpResponse:
    """One exchange table, with the reader's own bids. `?type=` and `?free=1` leave rows out."""
    clusters = _clusters()
    found = next((each for each in clusters if each.slug == cluster), None)
    if found is None:
        raise Http404
    streams = cursors([stream_of(found)])
    now = clock.now()
    table = exchange.of(found, now=now, with_trends=True)
    reader = viewer(request)
    own = overview.own_bids(reader.tenant, found, table) if reader is not None and sees_bids(reader) else []
    return page(
        request,
        "markets/market.html",
        reader,
        streams=streams,
        now=now,
        table=table,
        rows=_asked_for(table, request),
        own=own,
        own_cut=len(own) == overview.MOST_BIDS,
        sees_bids=sees_bids(reader),
        clusters=clusters,
        wanted=request.GET.get("type", ""),
        only_free=_only_free(request),
    )


def _asked_for(table: Exchange, request: HttpRequest) -> list[ExchangeRow]:
    words = request.GET.get("type", "").casefold().split()
    return [
        row
        for row in table.rows
        if all(word in f"{row.type.name} {row.type.slug}".casefold() for word in words)
        and (row.units_free > 0 or not _only_free(request))
    ]


def _only_free(request: HttpRequest) -> bool:
    return request.GET.get("free") == "1"


def _clusters() -> list[Cluster]:
    return list(Cluster.objects.order_by("slug"))
