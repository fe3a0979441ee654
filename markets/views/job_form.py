"""The job form: what is typed becomes the API's submission, which the API's own code checks and queues.

`new` shows and submits it, `check` says while somebody types what is wrong and what it would cost, by a rehearsed
submission. Without scripts every button is a submit button, and the page comes back with everything that was typed.
"""

import json
import uuid
from collections.abc import Sequence
from hashlib import sha256

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from laissez import clock
from laissez.bodies import unstorable
from laissez.errors import Fault, NotFound, Refused
from laissez.events import Outbox, rehearse
from markets.selectors import jobs as seen_jobs
from markets.services import funds, submission
from markets.views import job_draft, job_rows, job_uploads, rendering
from markets.views.job_draft import Draft
from markets.views.job_sheet import EVERY_FIELD, Checked, Market, Sheet
from tenants.auth import Principal
from tenants.services import idempotency
from tenants.views import tenant_page

KEY_PREFIX = "form-"
REUSED = "This form has queued a job already, with other values. Submit again to queue this one as a further job."


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page("jobs:write")
def new(request: HttpRequest, principal: Principal) -> HttpResponse:
    """The form, empty or after a job; sent in, it acts on its table or queues the job."""
    now = clock.now()
    if request.method != "POST":
        draft, market = _first(request, principal, Market.of(request.GET.get("cluster", ""), now))
        return _page(request, principal, Sheet(draft, market, key=_fresh_key()))
    draft, faults = job_uploads.take(principal.tenant, job_draft.of_post(request.POST), request.FILES)
    market = Market.of(draft.value("cluster"), now)
    act = request.POST.get("act", "")
    if not act and not faults:
        return _submit(request, principal, draft, market)
    done = job_rows.act(draft, act, types=market.types, cost=market.expected)
    checks = act in ("", "check")
    sheet = Sheet(
        done.draft,
        market,
        key=request.POST.get("key", ""),
        touched=EVERY_FIELD if checks else _touched(request, faults),
        focus=done.focus,
        said=done.said,
        checked=Checked((*faults, *_rehearsed(principal, done.draft).faults)) if faults else None,
        is_rejected=checks or bool(faults),
    )
    return _page(request, principal, sheet, status=400 if faults else 200)


@require_POST
@tenant_page("jobs:write")
def check(request: HttpRequest, principal: Principal) -> HttpResponse:
    """The parts of the form that follow from what is typed: faults, costs, the job written in other ways."""
    draft = job_draft.of_post(request.POST)
    market = Market.of(draft.value("cluster"), clock.now())
    sheet = Sheet(draft, market, key="", touched=_touched(request))
    return _page(request, principal, sheet, template="markets/job_form_check.html")


def _page(
    request: HttpRequest,
    principal: Principal,
    sheet: Sheet,
    *,
    template: str = "markets/job_form.html",
    status: int = 200,
) -> HttpResponse:
    checked = sheet.checked or _rehearsed(principal, sheet.draft)
    server = request.build_absolute_uri("/").rstrip("/")
    context = sheet.context(principal.tenant, checked, server=server)
    is_swapped = request.headers.get("HX-Request") == "true"  # form.js moves the focus then
    context["focus"] = "" if is_swapped else sheet.focus
    return rendering.page(request, template, principal, status=status, **context)


def _submit(request: HttpRequest, principal: Principal, draft: Draft, market: Market) -> HttpResponse:
    """Queue the job, once per form; a refused one comes back with its faults at their fields."""
    body = draft.body()
    key = request.POST.get("key", "")

    def work(outbox: Outbox) -> dict[str, str]:
        return {"job": submission.submit(principal.tenant, body, outbox=outbox).public_id}

    faults: Sequence[Fault] = list(unstorable(body))
    status = 400
    if not faults:
        try:
            answer = idempotency.once(
                principal.tenant, key=KEY_PREFIX + key, fingerprint=_fingerprint(body), status=201, work=work
            )
        except Refused as refusal:
            faults, status = refusal.faults, refusal.status
            if refusal.code in ("idempotency_key_reused", "bad_idempotency_key"):
                faults, key = [Fault(refusal.code, REUSED)], _fresh_key()
        else:
            if not answer.replayed:
                messages.success(request, f"{body['name']} is queued.")
            return redirect("job", job=answer.body["job"])
    sheet = Sheet(draft, market, key=key, touched=EVERY_FIELD, checked=Checked(tuple(faults)), is_rejected=True)
    return _page(request, principal, sheet, status=status)


def _rehearsed(principal: Principal, draft: Draft) -> Checked:
    """What submitting would say and set aside now, by submitting and undoing it."""
    body = draft.body()
    if faults := list(unstorable(body)):
        return Checked(tuple(faults))

    def work(outbox: Outbox) -> int | None:
        hold = funds.open_hold(submission.submit(principal.tenant, body, outbox=outbox))
        return None if hold is None else hold.amount_microdollars

    try:
        return Checked((), hold=rehearse(work))
    except Refused as refusal:
        return Checked(refusal.faults)


def _first(request: HttpRequest, principal: Principal, market: Market) -> tuple[Draft, Market]:
    """The draft to begin with: another job's, or one row for the type that was asked for."""
    if template := request.GET.get("from"):
        try:
            job = seen_jobs.find(principal.tenant, template)
        except NotFound:
            raise Http404 from None
        return job_draft.of_document(job.spec), Market.of(job.cluster.slug, clock.now())
    wanted = request.GET.get("type", "")
    slug = wanted if wanted in market.types else next(iter(market.types), "")
    return Draft({"cluster": market.slug}, [{"accelerator_type": slug}]), market


def _touched(request: HttpRequest, faults: Sequence[Fault] = ()) -> str:
    """Which fields their reader has been at and may be told of, those of `faults` among them."""
    known = request.POST.get("touched", "")
    return (
        known if known == EVERY_FIELD else " ".join([known, *(fault.pointer[1:].replace("/", "-") for fault in faults)])
    )


def _fingerprint(body: object) -> str:
    return sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()


def _fresh_key() -> str:
    return str(uuid.uuid4())
