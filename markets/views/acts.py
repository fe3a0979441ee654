"""What a person can do to a job from its page: the same services as the API's, each answered with a sentence.

A form carries a key of its own, so that a second click finds the answer of the first and does nothing twice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from laissez.errors import NotFound, Refused
from laissez.events import Outbox
from laissez.ids import new_id
from markets.selectors import jobs as seen_jobs
from markets.selectors.jobs import JobView
from markets.services import submission
from markets.views import rendering
from tenants.auth import Principal
from tenants.services import idempotency
from tenants.views import tenant_page
from workers.models import Job
from workers.models.jobs import TERMINAL_JOB_STATES

MOST_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Button:
    """An act as the page offers it. `obstacle`: why it cannot be done at present, "" where it can."""

    act: str
    label: str
    obstacle: str = ""
    moment: str = ""

    @property
    def id(self) -> str:
        """A name that stays, so that the keyboard's focus does."""
        return f"act-{self.act}{'-' if self.moment else ''}{self.moment}"


def offered(seen: JobView) -> list[Button]:
    """The acts on a job that is not over, but for cancelling it, which is always possible.

    A queued job has nothing to save or to move, so these are left out, and the page says so.
    """
    job = seen.job
    if job.state in TERMINAL_JOB_STATES:
        return []
    if job.state == Job.State.STOPPED:
        return [Button("resume", "Resume")]
    if job.state == Job.State.QUEUED:
        return [Button("stop", "Stop bidding")]
    return [
        Button("checkpoint", "Checkpoint now", _checkpoint_obstacle(seen)),
        Button("migrate", "Move now", _move_obstacle(seen, "now"), "now"),
        Button("migrate", "Move at next checkpoint", _move_obstacle(seen, "checkpoint"), "checkpoint"),
        Button("stop", "Stop and keep its state"),
    ]


def _checkpoint_obstacle(seen: JobView) -> str:
    if seen.job.checkpoint_wanted_at is not None:
        return "asked for already"
    return "" if _steps(seen) else "its program has not started yet"


def _move_obstacle(seen: JobView, moment: str) -> str:
    under_way = next((row.state for row in seen.migrations if row.state not in ("done", "aborted")), None)
    if under_way is not None and under_way != "awarded":
        return "it is moving already"
    if seen.job.leaving_since is not None and seen.job.leave_moment in (moment, "now"):
        return "asked for already"
    if under_way is None and seen.award is None:
        return "it has won no other row"
    return ""


def _steps(seen: JobView) -> bool:
    return seen.primary is not None and seen.primary.state == "active"


def _checkpoint(job: Job, moment: str, outbox: Outbox) -> str:
    submission.checkpoint(job, outbox=outbox)
    return "A checkpoint is asked for. The program takes it at its next chance."


def _migrate(job: Job, moment: str, outbox: Outbox) -> str:
    submission.move(job, moment=moment, outbox=outbox)
    when = "as soon as its destination is ready" if moment == "now" else "at its program's next checkpoint"
    return f"The job moves {when}."


def _stop(job: Job, moment: str, outbox: Outbox) -> str:
    was_queued = job.state == Job.State.QUEUED
    submission.stop(job, outbox=outbox)
    if was_queued:
        return "The job is stopped and bids no more. Resume it when you like."
    return "The job saves its state and stops. Its device is given back as soon as the host confirms it."


def _resume(job: Job, moment: str, outbox: Outbox) -> str:
    submission.resume(job, outbox=outbox)
    return "The job is back in the queue and goes on from its newest checkpoint."


def _cancel(job: Job, moment: str, outbox: Outbox) -> str:
    was = job.state
    ended = submission.cancel(job, outbox=outbox)
    if ended.state != Job.State.CANCELLED or was == Job.State.CANCELLED:
        return f"The job had {'been ' if was == Job.State.CANCELLED else ''}{ended.state} already; nothing was changed."
    return "The job is cancelled. Its devices are given back as soon as their hosts confirm it."


Deed = Callable[[Job, str, Outbox], str]
_DEEDS: Mapping[str, Deed] = {
    "checkpoint": _checkpoint,
    "migrate": _migrate,
    "stop": _stop,
    "resume": _resume,
    "cancel": _cancel,
}


@require_POST
@tenant_page("jobs:write")
def act(request: HttpRequest, principal: Principal, job: str, act: str) -> HttpResponse:
    """Do one thing to one job and show it again, with what came of it."""
    found = find(principal, job)
    if act not in _DEEDS:
        raise Http404
    moment = request.POST.get("moment", "checkpoint")
    try:
        said = once(request, principal, f"{act} {moment} {found.public_id}", partial(_DEEDS[act], found, moment))
        messages.success(request, said)
    except Refused as refusal:
        messages.error(request, f"Nothing was done. {refusal.detail}")
    return HttpResponseRedirect(reverse("job", kwargs={"job": found.public_id}))


@require_POST
@tenant_page("jobs:write")
def cancel_several(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Cancel the jobs that were picked from the list: asked first, then done one by one, each whole."""
    wanted = [each for each in request.POST.getlist("job")[:MOST_AT_ONCE] if "\x00" not in each]
    rows = seen_jobs.visible_to(principal.tenant).filter(public_id__in=wanted).exclude(state__in=TERMINAL_JOB_STATES)
    picked = list(rows.order_by("-id"))
    if not picked:
        messages.info(request, "Nothing was cancelled: no job that could be was picked.")
        return HttpResponseRedirect(f"{reverse('jobs')}?pick")
    if "confirmed" not in request.POST:
        return rendering.page(request, "markets/jobs_cancel.html", principal, jobs=picked, key=new_id("key"))
    refused = [job for job in picked if not _is_cancelled(request, principal, job)]
    done = len(picked) - len(refused)
    messages.success(request, f"{done} {'job is' if done == 1 else 'jobs are'} cancelled.")
    return HttpResponseRedirect(reverse("jobs"))


def _is_cancelled(request: HttpRequest, principal: Principal, job: Job) -> bool:
    try:
        once(request, principal, f"cancel {job.public_id}", partial(_cancel, job, ""))
    except Refused as refusal:
        messages.error(request, f"{job.public_id} was not cancelled. {refusal.detail}")
        return False
    return True


def once(request: HttpRequest, principal: Principal, what: str, work: Callable[[Outbox], str]) -> str:
    """Do what a form asks for once, however often it is sent; returns the sentence to show.

    Raises:
        Refused: by the service; nothing is written then, not even the form's key.
    """
    key = request.POST.get("key") or new_id("key")
    answer = idempotency.once(
        principal.tenant,
        key=f"page {key} {what}",
        fingerprint=sha256(f"page {what}".encode()).hexdigest(),
        status=200,
        work=lambda outbox: {"said": work(outbox)},
    )
    said: str = answer.body["said"]
    return f"{said} (Sent twice, done once.)" if answer.replayed else said


def find(principal: Principal, public_id: str) -> Job:
    """The tenant's own job; somebody else's is not there."""
    try:
        return seen_jobs.find(principal.tenant, public_id)
    except NotFound:
        raise Http404 from None
