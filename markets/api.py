"""The market's API: the exchange for everybody with `prices:read`, a tenant's jobs, and an agent's way back in."""

import csv
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from io import StringIO
from typing import Any

from django.db.models import Q
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from laissez import clock
from laissez.api import page_of
from laissez.errors import Conflict, Fault, Invalid, NotFound, Refused
from laissez.events import Outbox, transact
from laissez.sdk.contexts import Decision
from markets import presentation
from markets.models import PriceChange
from markets.selectors import contexts, exchange, overview, prices, receipts
from markets.selectors import jobs as seen_jobs
from markets.services import advising, bulk, costing, submission
from tenants.api import act_once, principal
from tenants.auth import scope
from workers.auth import HostAuthentication, IsHost, host_of
from workers.models import AcceleratorType, Cluster, Host, Job, Lease
from workers.services import jobs, sync

FIRST_YEAR, LAST_YEAR = 1970, 2999
MINIMAL = "return=minimal"
"""A preference of RFC 7240: whoever has it needs no more of an answer than what was changed."""


class MarketsView(APIView):
    """The clusters."""

    permission_classes = [scope("prices:read")]

    def get(self, request: Request) -> Response:
        """A page of their names, in the order of the alphabet."""
        page = page_of(Cluster.objects.all(), request.query_params, order=("slug",))
        return Response(page.as_json([cluster.slug for cluster in page.items]))


class MarketView(APIView):
    """One exchange table."""

    permission_classes = [scope("prices:read")]

    def get(self, request: Request, cluster: str) -> Response:
        """Every type with its prices and supply, and how old they are."""
        return Response(presentation.exchange(exchange.of(_cluster(cluster), now=clock.now())))


class CsvRenderer(BaseRenderer):
    """The points of a history as a table; nothing else is ever a file here."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(self, data: Any, *_context: Any, **_more: Any) -> str:
        """A line of names, a line per point; empty where a gap begins."""
        text = StringIO()
        lines = csv.DictWriter(text, prices.COLUMNS, lineterminator="\r\n")
        lines.writeheader()
        lines.writerows(data["points"])
        return text.getvalue()


class PriceHistoryView(APIView):
    """The prices of one type over time."""

    permission_classes = [scope("prices:read")]
    renderer_classes = [JSONRenderer, CsvRenderer]

    def get(self, request: Request, cluster: str, kind: str) -> Response:
        """Steps from `from` to `to` (the last day unless given), at most `limit` of them, as JSON or CSV."""
        found = _type(cluster, kind)
        now = clock.now()
        end = _moment(request, "to", now)
        start = _moment(request, "from", end - prices.DAY)
        if not timedelta(0) < end - start <= prices.LONGEST_RANGE:
            days = prices.LONGEST_RANGE.days
            detail = f"From {clock.rfc3339(start)} to {clock.rfc3339(end)} is no stretch of up to {days} days."
            raise Refused("bad_range", f"{detail} Give a later end, or ask for a part at a time.", "/from")
        history = prices.history(found, start, end, limit=_points(request))
        return Response(prices.history_json(history))


class PriceChangesView(APIView):
    """The announced base and cap prices of one type."""

    permission_classes = [scope("prices:read")]

    def get(self, request: Request, cluster: str, kind: str) -> Response:
        """A page of them, newest first: scheduled, in force and cancelled ones."""
        rows = PriceChange.objects.filter(type=_type(cluster, kind)).select_related("type")
        page = page_of(rows, request.query_params)
        return Response(page.as_json([exchange.public_change(row) for row in page.items]))


class ReceiptView(APIView):
    """One recorded clearing."""

    permission_classes = [scope("prices:read")]

    def get(self, request: Request, cluster: str, number: int) -> Response:
        """What set each price, without anybody's bid, and the numbers of its neighbours."""
        receipt = receipts.of(_cluster(cluster), number)
        if receipt is None:
            raise NotFound("receipt")
        return Response(receipts.public(receipt))


class JobsView(APIView):
    """A tenant's jobs."""

    def get_permissions(self) -> list[Any]:
        """Reading and submitting are different scopes."""
        return [scope("jobs:write" if self.request.method == "POST" else "jobs:read")()]

    def get(self, request: Request) -> Response:
        """A page of them, newest first; `state` narrows."""
        rows = seen_jobs.visible_to(principal(request).tenant)
        if state := request.query_params.get("state"):
            if state not in Job.State.values:
                raise Refused(
                    "bad_state", f"state is {state[:40]!r}; known are {', '.join(Job.State.values)}.", "/state"
                )
            rows = rows.filter(Q(state=state))
        page = page_of(rows, request.query_params)
        now = clock.now()
        return Response(page.as_json(presentation.jobs(overview.views_of(page.items, now=now, whole=True), now=now)))

    def post(self, request: Request) -> Response:
        """Queue a job, once per `Idempotency-Key`."""
        tenant = principal(request).tenant

        def work(outbox: Outbox) -> dict[str, Any]:
            job = submission.submit(tenant, request.data, outbox=outbox)
            return _job_json_afresh(job)

        return act_once(request, work, status=201)


class JobView(APIView):
    """One job."""

    permission_classes = [scope("jobs:read")]

    def get(self, request: Request, job: str) -> Response:
        """Where it is, why, what it costs, and its whole history."""
        found = seen_jobs.find(principal(request).tenant, job)
        answer = Response(_job_json(found))
        answer["ETag"] = f'"{found.version}"'
        return answer


class JobActView(ABC, APIView):
    """One act on one job; the subclasses say which."""

    permission_classes = [scope("jobs:write")]

    @abstractmethod
    def act(self, job: Job, request: Request, outbox: Outbox) -> Job:
        """Do it; the job is the tenant's own."""

    def post(self, request: Request, job: str) -> Response:
        """Do it once per `Idempotency-Key`, and answer with the job as it is then."""
        found = submission.of_tenant(principal(request).tenant, job)
        return act_once(request, lambda outbox: _job_json_afresh(self.act(found, request, outbox)))


class CancelView(JobActView):
    """Cancel."""

    def act(self, job: Job, request: Request, outbox: Outbox) -> Job:
        """In every state."""
        return submission.cancel(job, outbox=outbox)


class StopView(JobActView):
    """Stop, keeping the state."""

    def act(self, job: Job, request: Request, outbox: Outbox) -> Job:
        """Save and stop."""
        return submission.stop(job, outbox=outbox)


class ResumeView(JobActView):
    """Resume a stopped job."""

    def act(self, job: Job, request: Request, outbox: Outbox) -> Job:
        """Back to the queue."""
        return submission.resume(job, outbox=outbox)


class CheckpointView(JobActView):
    """Take a checkpoint."""

    def act(self, job: Job, request: Request, outbox: Outbox) -> Job:
        """At the workload's next chance."""
        return submission.checkpoint(job, outbox=outbox)


class MigrateView(JobActView):
    """Move to what has been won."""

    def act(self, job: Job, request: Request, outbox: Outbox) -> Job:
        """Now, or at the next checkpoint."""
        moment = _members(request, "moment").get("moment", "checkpoint")
        return submission.move(job, moment=moment, outbox=outbox)


class BidsView(APIView):
    """A job's launch table."""

    permission_classes = [scope("bids:write")]

    def put(self, request: Request, job: str) -> Response:
        """Replace it; `If-Match` guards against somebody else's change.

        Answered with the whole job; with `Prefer: return=minimal`, with its launch table and version alone, which
        takes less time.
        """
        tenant = principal(request).tenant
        version = _version(request.headers.get("If-Match"))
        rows = _members(request, "rows").get("rows")
        is_minimal = MINIMAL in request.headers.get("Prefer", "").replace(" ", "").lower().split(",")

        def work(outbox: Outbox) -> dict[str, Any]:
            written = submission.change_table_of(tenant, job, rows, expected_version=version, outbox=outbox)
            return presentation.launch_table(written.job, written.table) if is_minimal else _job_json(written.job)

        answer = act_once(request, work)
        if is_minimal:
            answer["Preference-Applied"] = MINIMAL
        return answer


class BulkBidsView(APIView):
    """Bids of many jobs at once."""

    permission_classes = [scope("bids:write")]

    def post(self, request: Request) -> Response:
        """Change at most 5,000 rows of launch tables in one transaction; each row is answered for by itself.

        A row that is refused, with code, detail and pointer, takes the other rows of its job with it, and no other
        job's. The answer is 200 as soon as the list as such can be read.
        """
        tenant = principal(request).tenant
        rows = _members(request, "rows").get("rows")

        def work(outbox: Outbox) -> dict[str, Any]:
            return presentation.bulk_change(bulk.change_bids(tenant, rows, outbox=outbox))

        return act_once(request, work)


class HostContextView(APIView):
    """What an agent is told."""

    authentication_classes = [HostAuthentication]
    permission_classes = [IsHost]

    def get(self, request: Request, lease: str) -> Response:
        """The context of the job whose primary lease this is."""
        row = _spoken_for(host_of(request), lease, request.query_params.get("fence"))
        now = clock.now()
        job = row.job
        cause = job.ask_cause if job.ask_number > job.answered_number else "heartbeat"
        context = contexts.of(job, cause=cause, now=now, cost_microdollars=costing.cost_of(job, now))
        return Response(context.to_json())


class HostDecisionView(APIView):
    """What an agent has decided."""

    authentication_classes = [HostAuthentication]
    permission_classes = [IsHost]

    def post(self, request: Request, lease: str) -> Response:
        """Put it into effect under the lease's fence; a decision that cannot be is answered with why, and is a stay."""
        body = request.data if isinstance(request.data, dict) else {}
        host, fence = host_of(request), body.get("fence")
        row = _spoken_for(host, lease, fence)
        decision, ask = _decision(body.get("decision")), _ask(body.get("ask"))

        def work(outbox: Outbox) -> str:
            jobs.lock_one(row.job)
            _lease_of(host, lease, fence)  # again: it may have stopped speaking for its job meanwhile
            return advising.decide(row.job, decision, ask=ask, outbox=outbox)

        try:
            detail = transact(work)
        except Refused as refusal:
            transact(partial(_tell_refused, row.job, refusal))
            return Response({"applied": False, "code": refusal.code, "detail": refusal.detail})
        return Response({"applied": True, "detail": detail})


def _tell_refused(job: Job, refusal: Refused, outbox: Outbox) -> None:
    data = {"outcome": "refused", "code": refusal.code, "detail": refusal.detail, "meaning": "stay"}
    outbox.add(f"job:{job.public_id}", "org.laissez.market.agent.failed.v1", job.public_id, data)


def _decision(value: Any) -> Decision:
    try:
        return Decision.from_json(value)
    except ValueError as error:
        raise Invalid([Fault("bad_decision", f"{error}.", "/decision")]) from error


def _ask(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**62:
        raise Invalid([Fault("bad_value", f"ask is {value!r}, not the number of a question.", "/ask")])
    return value


def _spoken_for(host: Host, public_id: str, fence: Any) -> Lease:
    """`_lease_of`, telling operators of a host that comes with a stale fence."""
    try:
        return _lease_of(host, public_id, fence)
    except Conflict as refusal:
        if refusal.code == "stale_fence":
            transact(partial(sync.report_refusal, host.pk, refusal))
        raise


def _lease_of(host: Host, public_id: str, fence: Any) -> Lease:
    """The primary lease of this host with this fence; anything else is no such lease, or a stale one."""
    row = Lease.objects.filter(host=host, public_id=public_id).select_related("job__cluster", "job__tenant").first()
    if row is None:
        raise NotFound("lease")
    if str(row.fence) != str(fence):
        raise Conflict("stale_fence", f"Lease {public_id} has fence {row.fence}, not {fence}.", "/fence")
    if row.state == Lease.State.CLOSED or row.primary_during is None or row.primary_during.upper is not None:
        raise Conflict("not_primary", f"Lease {public_id} does not speak for its job any more.")
    return row


def _members(request: Request, *known: str) -> Mapping[str, Any]:
    """The members of a body that is an object and has no others."""
    body = request.data
    if not isinstance(body, dict):
        raise Invalid([Fault("bad_body", f"The body is not an object with {', '.join(known)}.")])
    unknown = sorted(set(body) - set(known))
    if unknown:
        detail = "{!r} is not a field here; known are " + ", ".join(known) + "."
        raise Invalid([Fault("unknown_field", detail.format(name), f"/{name}") for name in unknown])
    return body


def _cluster(slug: str) -> Cluster:
    found = Cluster.objects.filter(slug=slug).first()
    if found is None:
        raise NotFound("cluster")
    return found


def _type(cluster: str, slug: str) -> AcceleratorType:
    found = AcceleratorType.objects.select_related("cluster").filter(cluster__slug=cluster, slug=slug).first()
    if found is None:
        raise NotFound("accelerator type")
    return found


def _moment(request: Request, name: str, default: datetime) -> datetime:
    """An RFC 3339 time of the query; a plus sign that was not escaped has arrived as a blank."""
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+"))
        if moment.tzinfo is None or not FIRST_YEAR <= moment.year <= LAST_YEAR:
            raise ValueError("it has no zone, or no clock of ours ever shows it")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        detail = f"{name} is {text[:40]!r}; give a time with its zone, such as 2026-11-29T16:00:00Z."
        raise Refused("bad_time", detail, f"/{name}") from None


def _points(request: Request) -> int:
    text = request.query_params.get("limit", str(prices.MOST_POINTS))
    if text.isascii() and text.isdecimal() and 2 <= int(text[:9]) <= prices.MOST_POINTS:
        return int(text[:9])
    detail = f"limit is {text[:40]!r}; give a whole number from 2 to {prices.MOST_POINTS}."
    raise Refused("bad_limit", detail, "/limit")


def _version(header: str | None) -> int | None:
    if header is None:
        return None
    text = header.strip().strip('"')
    if not text.isdecimal():
        raise Refused("bad_if_match", f"If-Match is {header[:40]!r}; send the ETag that the job was shown with.")
    return int(text)


def _job_json_afresh(job: Job) -> dict[str, Any]:
    """The job as it is by now, whatever became of it in other hands."""
    job.refresh_from_db()
    return _job_json(job)


def _job_json(job: Job) -> dict[str, Any]:
    """A job that is as it was just read, or written under its lock."""
    now = clock.now()
    return presentation.job(seen_jobs.view(job, now=now), now=now)
