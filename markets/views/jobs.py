"""A tenant's jobs: the list, one job, and what streams into its page. Rows are found through scoped selectors only."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from laissez import clock
from laissez.api import page_of
from laissez.errors import Refused
from laissez.ids import new_id
from markets.selectors import history, overview, positions
from markets.selectors import jobs as seen_jobs
from markets.selectors.jobs import JobView
from markets.services import funds, metering
from markets.views import acts, decisions, facts, life, lines, progress, rendering, telling
from markets.views.paid import costs_of
from tenants.auth import Principal
from tenants.views import tenant_page
from workers.models import Job

JOBS_SHOWN = 25
CHECKPOINTS_SHOWN = 10
SAMPLES_LISTED = 40
LONGEST_SEARCH = 120


@dataclass(frozen=True, slots=True)
class Tab:
    """One state to narrow the list to, "" for all, with how many jobs are in it and its address."""

    state: str
    count: int
    address: str
    is_chosen: bool


@require_safe
@tenant_page("jobs:read")
def jobs(request: HttpRequest, principal: Principal) -> HttpResponse:
    """The tenant's jobs, newest first. `state` and `q`, a part of the name, narrow; `pick` is for acting on many."""
    streams = rendering.cursors([principal.tenant.stream])
    state, search = _state(request), request.GET.get("q", "").replace("\x00", "").strip()[:LONGEST_SEARCH]
    mine = seen_jobs.visible_to(principal.tenant)
    named = mine.filter(name__icontains=search) if search else mine
    try:
        page = page_of(named.filter(state=state) if state else named, {"limit": str(JOBS_SHOWN)} | _given(request))
    except Refused:
        return redirect("jobs")  # a cursor that is no longer good: begin at the top
    now = clock.now()
    seen = overview.views_of(page.items, now=now)
    costs = metering.running_costs([lease for view in seen for lease in view.leases], now)
    may_write = "jobs:write" in principal.scopes
    is_picking = may_write and "pick" in request.GET
    shown = [lines.job_line(each, costs) for each in seen]
    return rendering.page(
        request,
        "markets/jobs.html",
        principal,
        streams=None if is_picking else streams,
        now=now,
        lines=shown,
        tabs=_tabs(overview.counts_by_state(named), state, search),
        state=state,
        search=search,
        is_narrowed=bool(state or search),
        next_page=_address(state=state, q=search, cursor=page.next_cursor) if page.next_cursor else "",
        first_page=_address(state=state, q=search) if "cursor" in request.GET else "",
        may_pick=may_write and not is_picking and any(not line.is_over for line in shown),
        pick_address=f"{_address(state=state, q=search, pick='1')}",
        all_address=_address(state=state, q=search),
        is_picking=is_picking,
        may_write=may_write,
    )


def _state(request: HttpRequest) -> str:
    given = request.GET.get("state", "")
    return given if given in Job.State.values else ""


def _given(request: HttpRequest) -> dict[str, str]:
    return {"cursor": request.GET["cursor"]} if "cursor" in request.GET else {}


def _tabs(counts: Mapping[str, int], chosen: str, search: str) -> list[Tab]:
    """All, and each state in which there is a job, or which is chosen."""
    shown = [state for state in Job.State.values if counts.get(state) or state == chosen]
    return [
        Tab("", sum(counts.values()), _address(q=search), is_chosen=not chosen),
        *(Tab(each, counts.get(each, 0), _address(state=each, q=search), is_chosen=each == chosen) for each in shown),
    ]


def _address(**wanted: str | None) -> str:
    given = {name: value for name, value in wanted.items() if value}
    return f"?{urlencode(given)}" if given else "?"


@require_safe
@tenant_page("jobs:read")
def job(request: HttpRequest, principal: Principal, job: str) -> HttpResponse:
    """One job: where it is and why, what it costs, what comes next, and how it came there."""
    found = acts.find(principal, job)
    streams = rendering.cursors([f"job:{found.public_id}", f"market:{found.cluster.slug}"])
    found.refresh_from_db()
    now = clock.now()
    seen = seen_jobs.view(found, now=now)
    costs = costs_of(seen.leases, now)
    line = lines.job_line(seen, costs.totals)
    reported = history.reported(found, seen.primary)
    notices = list(history.notices(found))
    outlook = _outlook(seen, line, reported)
    return rendering.page(
        request,
        "markets/job.html",
        principal,
        streams=streams,
        now=now,
        job=found,
        line=line,
        seen=seen,
        why=facts.why(seen, notices),
        next=facts.next_step(seen, outlook),
        outlook=outlook,
        buttons=acts.offered(seen) if "jobs:write" in principal.scopes else [],
        may_write="jobs:write" in principal.scopes,
        may_bid="bids:write" in principal.scopes and found.state in (Job.State.QUEUED, Job.State.RUNNING),
        key=new_id("key"),
        timeline=life.drawn(seen, costs),
        steps=life.told(seen, costs),
        life=life.summary(seen, costs),
        leases=lines.lease_lines(seen, costs),
        table=lines.table_lines(seen, overview.standings(seen.bids, seen.table), positions.of(seen.bids)),
        decisions=decisions.fold(history.decisions(found)),
        moves=lines.move_lines(seen),
        notices=notices,
        checkpoints=list(reversed(seen.checkpoints))[:CHECKPOINTS_SHOWN],
        samples=list(reversed(history.samples(found, most=SAMPLES_LISTED))),
        sample_count=reported.count,
        progress_summary=progress.summary(reported, loss=found.loss),
        log=history.log_tail(found),
        events=telling.all_told(history.events(found)),
    )


def _outlook(seen: JobView, line: lines.JobLine, reported: history.Reported) -> facts.Outlook:
    """How long the budget lasts at the present price, and the work at the present speed."""
    primary = seen.primary
    return facts.Outlook(
        runway_seconds=facts.runway_seconds(
            budget=seen.job.budget_microdollars,
            cost=line.cost,
            price=None if primary is None else line.price,
            speedup=funds.speedup(),
        ),
        finish_seconds=facts.finish_seconds(reported.here, reported.last),
    )


@require_safe
@tenant_page("jobs:read")
def series(request: HttpRequest, principal: Principal, job: str) -> HttpResponse:
    """What its chart of progress and loss is drawn from."""
    samples = progress.thinned(history.samples(acts.find(principal, job)))
    return _unkept(JsonResponse(progress.series(samples, as_of=clock.now())))


@require_safe
@tenant_page("jobs:read")
def series_csv(request: HttpRequest, principal: Principal, job: str) -> HttpResponse:
    """The same points as a file."""
    found = acts.find(principal, job)
    text = progress.as_csv(progress.thinned(history.samples(found)))
    answer = HttpResponse(text, content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{found.public_id}-progress.csv"'
    return _unkept(answer)


@require_safe
@tenant_page("jobs:read")
def log(request: HttpRequest, principal: Principal, job: str) -> HttpResponse:
    """What its processes have written since `?after=`, a cursor that this answer or the page gave out."""
    text = request.GET.get("after", "0")
    after = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0
    tail = history.log_tail(acts.find(principal, job), after=after)
    return _unkept(JsonResponse({"text": tail.text, "cursor": tail.cursor, "is_cut": tail.is_cut}))


def _unkept(answer: HttpResponse) -> HttpResponse:
    answer["Cache-Control"] = "private, no-store"
    return answer
