"""Decisions of agents put into effect: a named policy's for a queued job here, any agent's for a running one by API.

A decision is the tenant's own act through its agent, so it is checked like any other change of bids.
"""

import logging
from datetime import datetime
from functools import partial

from django.db import DatabaseError
from django.db.models import F, Q

from laissez.errors import Fault, Invalid, Refused
from laissez.events import Outbox, transact
from laissez.sdk.contexts import Decision
from laissez.sdk.policies import POLICIES
from markets.engine.money import parse_price
from markets.models import Bid, Clearing
from markets.selectors import contexts
from markets.services import actions, bids, funds, notices
from workers.models import Job
from workers.services import jobs, leases, migrations

logger = logging.getLogger(__name__)

JOBS_PER_TICK = 50
"""A tick must not wait for its queue: whoever is not asked now is asked by the next ticks, in turn."""


def advise_queue(cluster_id: int) -> None:
    """Ask the policies of queued jobs for which the exchange has moved since they were last asked, some at a time.

    A job whose policy fails, or whose new bids its tenant cannot back, keeps its bids, and stops no other job.
    """
    for job_id in _unadvised(cluster_id):
        try:
            transact(partial(_advise_one, job_id))
        except (ArithmeticError, ValueError, Refused, DatabaseError) as error:
            logger.warning("the policy of job %s was not followed: %s: %s", job_id, type(error).__name__, error)
            transact(partial(_park, job_id, f"{type(error).__name__}: {error}"))


def _unadvised(cluster_id: int) -> list[int]:
    """Jobs to ask now, those first that have waited longest; in two queries, each of an index's few rows."""
    newest = Clearing.objects.filter(cluster_id=cluster_id).order_by("-number").values_list("at", flat=True).first()
    if newest is None:
        return []
    rows = Job.objects.filter(cluster_id=cluster_id, state=Job.State.QUEUED).exclude(policy__in=("", "hold"))
    waiting = rows.filter(Q(advised_at=None) | Q(advised_at__lt=newest))
    longest_first = waiting.order_by(F("advised_at").asc(nulls_first=True), "id")
    return list(longest_first.values_list("id", flat=True)[:JOBS_PER_TICK])


def _advise_one(job_id: int, outbox: Outbox) -> None:
    job = jobs.lock([job_id]).get(job_id)
    if job is not None and job.state == Job.State.QUEUED:
        advise(job, cause="price", outbox=outbox)
        funds.reserve(job, outbox)


def _park(job_id: int, detail: str, outbox: Outbox) -> None:
    """Ask this job's policy again only when the exchange moves again, and tell its tenant."""
    job = jobs.lock([job_id]).get(job_id)
    if job is not None:
        Job.objects.filter(pk=job.pk).update(advised_at=outbox.now())
        data = {"outcome": "failed", "detail": detail[:500], "meaning": "stay"}
        outbox.add(f"job:{job.public_id}", "org.laissez.market.agent.failed.v1", job.public_id, data)


def advise(job: Job, *, cause: str, outbox: Outbox) -> None:
    """Let a queued job's named policy set its bids. A job with an agent of its own keeps the bids it was given."""
    policy = POLICIES.get(job.policy)
    if policy is None:
        return
    now = outbox.now()
    decision = policy(contexts.of(job, cause=cause, now=now), job.policy_params)
    prices = prices_of(decision)
    if prices:
        bids.change_prices(job, prices, origin=Bid.Origin.POLICY, outbox=outbox)
    Job.objects.filter(pk=job.pk).update(advised_at=now)


def prices_of(decision: Decision) -> dict[str, int]:
    """A decision's bids in micro-dollars per hour by accelerator type."""
    try:
        return {slug: parse_price(price) for slug, price in decision.bids.items()}
    except ValueError as error:
        raise Invalid([Fault("bad_price", f"bids: {error}.", "/decision/bids")]) from error


def decide(job: Job, decision: Decision, *, ask: int, outbox: Outbox) -> str:
    """Put a running job's agent's decision into effect.

    Args:
        ask: the number of the question that this answers.

    Returns:
        What was done, in words, for the host's log.

    Raises:
        Refused: bids that name foreign rows or are not covered; nothing is written then.
    """
    job = jobs.lock_one(job)
    if job.state != Job.State.RUNNING:
        raise Refused("not_running", f"The job is {job.state}; its agent has nothing to decide.", status=409)
    now = outbox.now()
    jobs.answered(job, ask)
    changed = 0
    if decision.bids:
        changed = bids.change_prices(job, prices_of(decision), origin=Bid.Origin.AGENT, outbox=outbox)
        funds.reserve(job, outbox)
    done = _act(job, decision, now, outbox)
    if changed or decision.kind != "stay":
        data = {
            "kind": decision.kind,
            "moment": decision.moment,
            "bids": {slug: str(price) for slug, price in decision.bids.items()},
            "reason": decision.reason,
            "progress": job.progress,
        }
        outbox.add(f"job:{job.public_id}", "org.laissez.market.agent.decided.v1", job.public_id, data)
    return done


def _act(job: Job, decision: Decision, now: datetime, outbox: Outbox) -> str:
    match decision.kind:
        case "migrate":
            return _move(job, decision.moment, now, outbox)
        case "checkpoint":
            jobs.request_checkpoint(job, now=now)
            return "a checkpoint was asked for"
        case "stop":
            jobs.stop(job, reason="agent", detail=decision.reason, now=now, outbox=outbox)
            actions.retire(job, now=now, outbox=outbox)
            return "the job saves its state and stops"
        case "rebid":
            _stay(job, outbox)
            return "the bids were changed"
        case _:
            return "the job stays"


def _stay(job: Job, outbox: Outbox) -> None:
    """Re-bidding the row it sits on takes an earlier `migrate` back, unless the move is under way already."""
    under_way = migrations.open_of(job)
    if job.leaving_since is not None and under_way is None and not _is_outbid(job):
        jobs.want_to_stay([job], outbox=outbox)


def _is_outbid(job: Job) -> bool:
    """Whether the row the job sits on bids less than its public price by now."""
    source = next((lease for lease in leases.open_leases(job) if leases.is_primary(lease)), None)
    if source is None:
        return True
    bid = Bid.objects.filter(job=job, type_id=source.type_id, closed_at=None).select_related("type").first()
    quote = source.type.quotes.filter(during__upper_inf=True).first()
    return bid is None or quote is None or notices.counted(bid) < quote.price_per_hour


def _move(job: Job, moment: str, now: datetime, outbox: Outbox) -> str:
    jobs.want_to_leave(job, moment=moment, now=now, outbox=outbox)
    if moment == "now" and migrations.leave_now(job, now=now, outbox=outbox):
        return "the move has started"
    return f"the job moves ({moment}) once it has somewhere to go"
