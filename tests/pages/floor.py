"""A market with a job that has moved, for pages to show; made by the same services as everything else."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from django.db import connections

from laissez.events import transact
from laissez.sdk.contexts import Decision
from markets.services import advising
from tenants.models import Member, Tenant
from tenants.services import accounts
from tests import scenes
from workers.models import Cluster, Job

T = TypeVar("T")
A10, L4, TRAINIUM = "nvidia-a10", "nvidia-l4", "aws-trainium"
PASSWORD = "correct horse battery"


def make_member(tenant: Tenant, username: str, role: Member.Role = Member.Role.OWNER) -> Member:
    """A person who can sign in with PASSWORD."""
    return transact(
        lambda outbox: accounts.add_member(
            tenant, username=username, password=PASSWORD, role=role, actor="a test", outbox=outbox
        )
    )


def apart(work: Callable[[], T]) -> T:
    """Run `work` in a thread of its own: an open browser's event loop occupies the test's, and services announce."""

    def run() -> T:
        try:
            return work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(run).result()


@dataclass
class Floor:
    """The paper's cluster with one host per type, and its two tenants, each with a member."""

    cluster: Cluster
    a10: scenes.FakeHost
    l4: scenes.FakeHost
    trainium: scenes.FakeHost
    aspen: Tenant
    birch: Tenant

    def settle(self) -> None:
        """Every host syncs until what it was told to do is confirmed."""
        for host in (self.a10, self.l4, self.trainium):
            host.settle()

    def run(self, tenant: Tenant, *rows: tuple[str, str], **fields: object) -> Job:
        """A job that has its device, confirmed."""
        job = scenes.submit(tenant, *rows, **fields)
        scenes.tick(self.cluster)
        self.settle()
        job.refresh_from_db()
        return job


def make_floor() -> Floor:
    """An empty market, ticked once."""
    cluster = scenes.make_cluster()
    Cluster.objects.filter(pk=cluster.pk).update(name="Matrix multiplication")
    floor = Floor(
        cluster=cluster,
        a10=scenes.make_host(cluster, "host-a10", nvidia_a10=1),
        l4=scenes.make_host(cluster, "host-l4", nvidia_l4=4),
        trainium=scenes.make_host(cluster, "host-trainium", aws_trainium=4),
        aspen=scenes.make_tenant("Aspen Vision"),
        birch=scenes.make_tenant("Birch Language"),
    )
    make_member(floor.aspen, "anna")
    make_member(floor.birch, "ben")
    scenes.tick(cluster)
    return floor


def decide(job: Job, kind: str, reason: str, *, moment: str = "now", **bids: str) -> str:
    """Let a running job's agent say something; `nvidia_l4="0.5"` names a bid."""
    spoken = {"kind": kind, "bids": {slug.replace("_", "-"): price for slug, price in bids.items()}}
    decision = Decision.from_json({**spoken, "moment": moment, "reason": reason})
    job.refresh_from_db()
    return transact(lambda outbox: advising.decide(job, decision, ask=job.ask_number, outbox=outbox))


def moved_job(floor: Floor, *, between: Callable[[], object] = lambda: None) -> Job:
    """Birch's job: trained on the A10, outbid there by Aspen's, and gone on with its state on an L4.

    `between` is called between the acts.
    """
    job = floor.run(floor.birch, (A10, "0.65"), (L4, "2.0"), name="text-classifier", agent={"policy": "hold"})
    between()
    floor.a10.report(job, "first_step")
    between()
    floor.a10.report(job, "progress", progress=0.2, step=200, loss=1.25)
    floor.a10.checkpoint(job, 0.25)
    floor.a10.report(job, "progress", progress=0.28, step=280, loss=1.1)
    between()
    floor.run(floor.aspen, (A10, "0.9"), (TRAINIUM, "2.0"), name="vision-transformer")
    floor.settle()
    decide(job, "migrate", "An L4 at $0.4755/h costs less for the work left than the A10 at $0.6500/h.")
    floor.a10.report(job, "log", stream="stdout", offset=0, text="step 250 loss 1.0312\nsaving\n")
    between()
    floor.a10.checkpoint(job, 0.3, sequence=2)
    floor.a10.end(job)
    floor.settle()
    between()
    floor.l4.report(job, "first_step")
    floor.l4.report(job, "progress", progress=0.4, step=400, loss=0.7731)
    between()
    floor.l4.checkpoint(job, 0.5)
    scenes.tick(floor.cluster)
    floor.settle()
    between()
    scenes.tick(floor.cluster)
    job.refresh_from_db()
    return job
