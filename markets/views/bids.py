"""Changing a job's launch table: rows typed, judged by the API's own check, and put over the version they were read at.

Somebody who changed the table meanwhile is not overwritten: both versions are shown side by side.
"""

import json
from collections.abc import Sequence
from functools import partial
from hashlib import sha256

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from laissez import clock
from laissez.errors import Refused
from laissez.events import Outbox, rehearse
from laissez.ids import new_id
from markets.models import Bid
from markets.selectors import jobs as seen_jobs
from markets.selectors.jobs import JobView
from markets.services import bids as launch_tables
from markets.services import funds, submission
from markets.views import acts, rendering, table_draft
from markets.views.table_draft import DraftRow
from tenants.auth import Principal
from tenants.views import tenant_page
from workers.models import Job


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page("bids:write")
def edit(request: HttpRequest, principal: Principal, job: str) -> HttpResponse:
    """The launch table as a form. Its buttons edit, check or save; only saving writes."""
    found = acts.find(principal, job)
    if found.state not in (Job.State.QUEUED, Job.State.RUNNING):
        messages.info(request, f"The job is {found.state} and has no bids to change.")
        return _back(found)
    seen = seen_jobs.view(found, now=clock.now())
    if request.method != "POST":
        return _form(request, principal, seen, table_draft.of_bids(seen.bids), version=found.version)
    rows, version, act = table_draft.read(request.POST), _version(request, found), request.POST.get("act", "save")
    if act == "save":
        return _save(request, principal, seen, rows, version)
    if act == "check":
        return _form(request, principal, seen, rows, version=version, act=act)
    changed = table_draft.edited(rows, act, types=[row.type.slug for row in seen.table.rows])
    return _form(request, principal, seen, changed, version=version, act=act)


def _save(
    request: HttpRequest, principal: Principal, seen: JobView, rows: Sequence[DraftRow], version: int
) -> HttpResponse:
    given = table_draft.submitted(rows)
    typed = sha256(json.dumps(given).encode()).hexdigest()  # the same form with other rows is another wish
    change = partial(_change, seen.job, given, version)
    try:
        said = acts.once(request, principal, f"bids {version} {seen.job.public_id} {typed}", change)
    except Refused as refusal:
        if refusal.code == "version_conflict":
            return _conflict(request, principal, seen, rows)
        return _form(request, principal, seen, rows, version=version, refusal=refusal)
    messages.success(request, said)
    return _back(seen.job)


def _change(job: Job, rows: object, version: int, outbox: Outbox) -> str:
    changed = submission.change_table(job, rows, expected_version=version, outbox=outbox)
    return f"The launch table is changed; it counts from the next tick on. This is its version {changed.version}."


def _form(
    request: HttpRequest,
    principal: Principal,
    seen: JobView,
    rows: Sequence[DraftRow],
    *,
    version: int,
    act: str = "",
    refusal: Refused | None = None,
) -> HttpResponse:
    """The form with what is typed, its faults where they were asked for, and what it would cost where that is known."""
    estimate, found = _rehearsed(seen, rows)
    faults = refusal if refusal is not None else found if act == "check" else None
    marked, others = table_draft.faulted(rows, () if faults is None else faults.faults)
    return rendering.page(
        request,
        "markets/job_bids.html",
        principal,
        status=200 if refusal is None else refusal.status,
        now=clock.now(),
        job=seen.job,
        seen=seen,
        types=seen.table.rows,
        rows=marked,
        most_rows=launch_tables.MAX_ROWS,
        version=version,
        faults=others,
        fault_count=0 if faults is None else len(faults.faults),
        estimate=estimate,
        focus=table_draft.focus_after(marked, act),
        key=new_id("key"),
    )


def _rehearsed(seen: JobView, rows: Sequence[DraftRow]) -> tuple[table_draft.Estimate | None, Refused | None]:
    """What these rows would come to, as saving them would have it; or why they could not be saved."""
    given = table_draft.submitted(rows)

    def work(outbox: Outbox) -> int:
        return funds.needed_for(submission.change_table(seen.job, given, expected_version=None, outbox=outbox))

    try:
        table = launch_tables.parse_table(given, seen.job.cluster)
        hold = rehearse(work)
    except Refused as refusal:
        return None, refusal
    held = None if seen.primary is None else seen.primary.type_id
    return table_draft.estimate(table, seen.table, held=held, hold=hold), None


def _conflict(request: HttpRequest, principal: Principal, seen: JobView, rows: Sequence[DraftRow]) -> HttpResponse:
    """Both versions; which one counts is for the reader to say."""
    present = seen_jobs.view(acts.find(principal, seen.job.public_id), now=clock.now())
    return rendering.page(
        request,
        "markets/job_bids_conflict.html",
        principal,
        status=409,
        now=clock.now(),
        job=present.job,
        mine=rows,
        seen=present,
        set_at=max((bid.opened_at for bid in present.bids if bid.origin == Bid.Origin.TENANT), default=None),
        key=new_id("key"),
    )


def _version(request: HttpRequest, job: Job) -> int:
    """The version that the rows were read at; a form without one conflicts with every other."""
    text = request.POST.get("expected_version", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _back(job: Job) -> HttpResponseRedirect:
    return HttpResponseRedirect(reverse("job", kwargs={"job": job.public_id}))
