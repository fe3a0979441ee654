"""A tenant's jobs: the list, one job, and what can be done to it. Rows are found through scoped selectors only."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from laissez import clock
from laissez.api import page_of
from laissez.errors import NotFound, Refused
from laissez.events import transact
from markets.selectors import history, overview
from markets.selectors import jobs as seen_jobs
from markets.services import submission
from markets.views import lines, rendering
from tenants.auth import Principal
from tenants.views import tenant_page
from workers.models import Job

JOBS_SHOWN = 25
CHECKPOINTS_SHOWN = 10


@require_safe
@tenant_page("jobs:read")
def jobs(request: HttpRequest, principal: Principal) -> HttpResponse:
    """The tenant's jobs, newest first."""
    rows = seen_jobs.visible_to(principal.tenant)
    try:
        page = page_of(rows, {"limit": str(JOBS_SHOWN)} | _given(request, "cursor"))
    except Refused:
        return redirect("jobs")  # a cursor that is no longer good: begin at the top
    now = clock.now()
    seen = overview.views_of(page.items, now=now)
    costs = lines.costs_of(seen, now)
    return rendering.page(
        request,
        "markets/jobs.html",
        principal,
        now=now,
        lines=[lines.job_line(each, costs) for each in seen],
        next_cursor=page.next_cursor,
        is_first="cursor" not in request.GET,
    )


@require_safe
@tenant_page("jobs:read")
def job(request: HttpRequest, principal: Principal, job: str) -> HttpResponse:
    """One job: where it is and why, what it costs, and how it came there."""
    found = _found(principal, job)
    now = clock.now()
    seen = seen_jobs.view(found, now=now)
    costs = lines.costs_of([seen], now)
    line = lines.job_line(seen, costs)
    return rendering.page(
        request,
        "markets/job.html",
        principal,
        now=now,
        is_over=line.is_over,
        line=line,
        seen=seen,
        table=lines.table_lines(seen, overview.standings(seen.bids, seen.table)),
        leases=lines.lease_lines(seen, costs),
        moves=lines.move_lines(seen),
        timeline=lines.timeline_of(seen, costs, now),
        checkpoints=list(reversed(seen.checkpoints))[:CHECKPOINTS_SHOWN],
        notices=history.notices(found),
        decisions=history.decisions(found),
        log=history.log_tail(found),
        may_write="jobs:write" in principal.scopes,
    )


@require_POST
@tenant_page("jobs:write")
def cancel(request: HttpRequest, principal: Principal, job: str) -> HttpResponseRedirect:
    """End a job for good, and show it. A second click finds it ended and changes nothing."""
    found = _found(principal, job)
    ended = transact(lambda outbox: submission.cancel(found, outbox=outbox))
    if ended.state == Job.State.CANCELLED:
        messages.success(request, "The job is cancelled. Its devices are given back as soon as their hosts confirm it.")
    else:
        messages.info(request, f"The job had {ended.state} already; nothing was changed.")
    return HttpResponseRedirect(reverse("job", kwargs={"job": found.public_id}))


def _found(principal: Principal, public_id: str) -> Job:
    """The tenant's own job; somebody else's is not there."""
    try:
        return seen_jobs.find(principal.tenant, public_id)
    except NotFound:
        raise Http404 from None


def _given(request: HttpRequest, name: str) -> dict[str, str]:
    value = request.GET.get(name)
    return {} if value is None else {name: value}
