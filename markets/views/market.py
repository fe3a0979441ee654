"""The pages that everybody sees: the start page and the exchange tables."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from laissez import clock
from markets.selectors import exchange, overview
from markets.views.rendering import page
from tenants.views import sign_in_first, viewer
from workers.models import Cluster


@require_safe
def landing(request: HttpRequest) -> HttpResponse:
    """What this is, and the prices now, for anybody."""
    now = clock.now()
    tables = [exchange.of(cluster, now=now) for cluster in _clusters()]
    return page(request, "markets/landing.html", viewer(request), now=now, tables=tables)


@require_safe
def markets(request: HttpRequest) -> HttpResponse:
    """The first cluster's exchange; the others are one step from there."""
    first = next(iter(_clusters()), None)
    return redirect("landing") if first is None else redirect("market", cluster=first.slug)


@require_safe
def market(request: HttpRequest, cluster: str) -> HttpResponse:
    """One exchange table, with the reader's own bids. For whoever is signed in."""
    if not request.user.is_authenticated:
        return sign_in_first(request)
    clusters = _clusters()
    found = next((each for each in clusters if each.slug == cluster), None)
    if found is None:
        raise Http404
    now = clock.now()
    table = exchange.of(found, now=now)
    reader = viewer(request)
    sees_bids = reader is not None and "jobs:read" in reader.scopes
    own = overview.own_bids(reader.tenant, found, table) if reader is not None and sees_bids else []
    return page(
        request,
        "markets/market.html",
        reader,
        now=now,
        table=table,
        own=own,
        own_cut=len(own) == overview.MOST_BIDS,
        sees_bids=sees_bids,
        clusters=clusters,
    )


def _clusters() -> list[Cluster]:
    return list(Cluster.objects.order_by("slug"))
