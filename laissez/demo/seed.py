"""What the story needs before it begins: a cluster with prices, two tenants with test money, logins, codes for hosts.

Safe to run again on the same database: what is there is used, tokens and the password are drawn anew.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from django.contrib.auth import get_user_model

from laissez.demo.story import CLUSTER, A, B
from laissez.events import Outbox, transact
from markets.engine.money import MICRO_PER_DOLLAR, parse_price
from markets.models import Quote
from markets.services import exchange, submission
from tenants.models import ApiToken, Member, Tenant
from tenants.services import accounts
from workers.models import Accelerator, AcceleratorType, Cluster, Host, Job
from workers.services import hosts

ACTOR, REASON = "manage.py demo", "what the demo needs"
CAP_PRICE_PER_HOUR = "2.000000"
TYPES = (
    ("nvidia-a10", "NVIDIA A10", "0.606000", 1),
    ("nvidia-l4", "NVIDIA L4", "0.475500", 4),
    ("aws-trainium", "AWS Trainium", "0.804000", 4),
)
"""Slug, name, base price in US dollars per accelerator-hour, units on the demo's one host of that type."""
TENANTS = {A: ("Aspen Vision", "anna"), B: ("Birch Language", "ben")}
"""Who submits which app: the tenant and its member's user name."""
GUEST = ("Guest", "guest")
"""A tenant for whoever watches: nothing of the story is theirs."""
OPERATOR = "operator"
FUNDS_MICRODOLLARS = 100 * MICRO_PER_DOLLAR


@dataclass(frozen=True, slots=True)
class Seeded:
    """What the rest of the demo needs: a token per app, and the password of every login."""

    tokens: dict[str, str]
    guest_token: str
    password: str


def seed() -> Seeded:
    """Cluster, tenants, logins."""
    password = secrets.token_urlsafe(9)
    transact(_seed_cluster)
    _seed_operator(password)
    tokens = {app: transact(partial(_seed_tenant, *tenant, password)) for app, tenant in TENANTS.items()}
    return Seeded(tokens=tokens, guest_token=transact(partial(_seed_tenant, *GUEST, password)), password=password)


def enrolment_code(host_name: str) -> str | None:
    """A one-time code for a host that is approved at once; None when a host of this name has enrolled before."""
    if Host.objects.filter(cluster__slug=CLUSTER, name=host_name).exclude(state=Host.State.RETIRED).exists():
        return None
    cluster = Cluster.objects.get(slug=CLUSTER)
    return transact(lambda outbox: hosts.issue_code(cluster, approves=True, now=outbox.now()))


def units_ready(since: datetime) -> dict[str, int]:
    """Usable units by type, of hosts that have been heard since a moment."""
    heard = Host.objects.filter(cluster__slug=CLUSTER, state=Host.State.READY, last_heard_at__gte=since)
    usable = Accelerator.objects.filter(host__in=heard, healthy=True)
    return {slug: usable.filter(type__slug=slug).count() for slug, *_ in TYPES}


def units_priced() -> dict[str, int]:
    """Units by type that the present prices count with."""
    quotes = Quote.objects.filter(type__cluster__slug=CLUSTER, during__upper_inf=True)
    return dict(quotes.values_list("type__slug", "supply"))


def cancel_leftovers() -> list[str]:
    """Cancels what an earlier demo's tenants have left open, so that every device comes free; the ids of the jobs."""
    tenants = [name for name, _ in (*TENANTS.values(), GUEST)]
    open_states = [Job.State.QUEUED, Job.State.RUNNING, Job.State.STOPPED]
    left = list(Job.objects.filter(tenant__name__in=tenants, state__in=open_states).order_by("pk"))
    for job in left:
        transact(partial(_cancel, job))
    return [job.public_id for job in left]


def _cancel(job: Job, outbox: Outbox) -> None:
    submission.cancel(job, outbox=outbox)


def _seed_cluster(outbox: Outbox) -> None:
    cluster = Cluster.objects.filter(slug=CLUSTER).first()
    if cluster is None:
        cluster = exchange.create_cluster(
            CLUSTER, name="Matrix multiplication", actor=ACTOR, reason=REASON, outbox=outbox
        )
    for slug, name, base, _ in TYPES:
        if not AcceleratorType.objects.filter(cluster=cluster, slug=slug).exists():
            exchange.create_type(
                cluster,
                slug,
                name=name,
                base=parse_price(base),
                cap=parse_price(CAP_PRICE_PER_HOUR),
                actor=ACTOR,
                reason=REASON,
                outbox=outbox,
            )


def _seed_operator(password: str) -> None:
    user, _ = get_user_model().objects.get_or_create(
        username=OPERATOR, defaults={"is_staff": True, "is_superuser": True}
    )
    user.set_password(password)
    user.save()


def _seed_tenant(name: str, username: str, password: str, outbox: Outbox) -> str:
    """A token of the tenant, which is made, funded and given its member where it is missing."""
    tenant = Tenant.objects.filter(name=name).first()
    if tenant is None:
        tenant = accounts.create_tenant(name, actor=ACTOR, outbox=outbox)
        accounts.grant(
            tenant,
            amount_microdollars=FUNDS_MICRODOLLARS,
            key=f"demo-{tenant.public_id}",
            reason=REASON,
            actor=ACTOR,
            outbox=outbox,
        )
    member = Member.objects.filter(tenant=tenant, user__username=username).first()
    if member is None:
        accounts.add_member(tenant, username=username, password=password, actor=ACTOR, outbox=outbox)
    else:
        member.user.set_password(password)
        member.user.save()
    _, token = accounts.create_token(tenant, name="demo", scopes=ApiToken.Scope.values, actor=ACTOR, outbox=outbox)
    return token
