"""A little market for tests: clusters, hosts that say what a host would say, and jobs, all through the real services.

Nothing runs: a `FakeHost` syncs as its test tells it to. Time is the database's own.
"""

from dataclasses import dataclass, field
from typing import Any

from laissez import clock
from laissez.events import transact
from markets.services import scheduling, submission
from tenants.models import Tenant
from tenants.services import accounts
from workers.models import AcceleratorType, Cluster, Host, Job, Lease
from workers.services import hosts, sync
from workers.services.reports import Report

MICRO = 1_000_000
PAPER_TYPES = {"nvidia-a10": ("0.606", "2.0"), "nvidia-l4": ("0.4755", "2.0"), "aws-trainium": ("0.804", "2.0")}


@dataclass
class FakeHost:
    """A host's side of the conversation. What it observes of a lease is what the test last said, else `ready`."""

    host: Host
    key: str
    sequence: int = 0
    report_number: int = 0
    states: dict[str, str] = field(default_factory=dict)
    answer: dict[str, Any] = field(default_factory=dict)

    def sync(self, *reports: Report, forget: bool = False) -> dict[str, Any]:
        """Send one message with every known lease and these reports; keep and return the answer."""
        self.sequence += 1
        leases = {entry["lease"]: entry for entry in self.answer.get("leases", [])}
        observed = [
            sync.Observed(lease=name, fence=entry["fence"], state=self.states.get(name, "ready"))
            for name, entry in leases.items()
            if not forget
        ]
        message = sync.Message(sequence=self.sequence, healthy={}, observed=observed, reports=reports)
        self.answer = transact(lambda outbox: sync.sync(self.host.pk, message, outbox=outbox)).as_json()
        return self.answer

    def settle(self) -> dict[str, Any]:
        """Sync until new leases have been seen and confirmed."""
        self.sync()
        return self.sync()

    def entry(self, job: Job) -> dict[str, Any]:
        """What the last answer wants of a job's lease here."""
        return next(entry for entry in self.answer["leases"] if entry["job"] == job.public_id)

    def report(self, job: Job, kind: str, **body: Any) -> dict[str, Any]:
        """Sync with one report about a job's lease here, and return the report's result."""
        entry = self.entry(job)
        self.report_number += 1
        sent = Report(id=self.report_number, lease=entry["lease"], fence=entry["fence"], kind=kind, body=body)
        answer = self.sync(sent)
        result: dict[str, Any] = answer["results"].get(str(sent.id), {"refused": answer["refused"]})
        return result

    def checkpoint(self, job: Job, progress: float, *, sequence: int = 1) -> dict[str, Any]:
        """Report a committed checkpoint."""
        entry = self.entry(job)
        uri = f"memory://{job.public_id}/{entry['lease']}-{sequence}.tar"
        return self.report(
            job,
            "checkpoint",
            sequence=sequence,
            uri=uri,
            sha256=f"{sequence:064x}",
            size_bytes=1000,
            progress=progress,
            step=int(progress * 1000),
            seconds=0.01,
            requested=False,
        )

    def end(self, job: Job) -> None:
        """Say that a job's process here has gone and the device is clean."""
        self.states[self.entry(job)["lease"]] = "ended"
        self.sync()


def make_cluster(slug: str = "gemm", types: dict[str, tuple[str, str]] | None = None, **settings: Any) -> Cluster:
    """A cluster with accelerator types at base and cap prices in dollars per hour."""
    cluster = Cluster.objects.create(slug=slug, name=slug, **settings)
    for place, (name, (base, cap)) in enumerate((types or PAPER_TYPES).items()):
        AcceleratorType.objects.create(
            cluster=cluster,
            slug=name,
            name=name,
            position=place,
            base_price_per_hour=round(float(base) * MICRO),
            cap_price_per_hour=round(float(cap) * MICRO),
        )
    return cluster


def make_host(cluster: Cluster, name: str = "host-1", **units: int) -> FakeHost:
    """An approved host with emulated devices: `make_host(cluster, nvidia_a10=1)`."""
    now = clock.now()
    devices = [
        hosts.Device(index=index, type=kind, emulated=True)
        for index, kind in enumerate(slug.replace("_", "-") for slug, count in units.items() for _ in range(count))
    ]
    code = hosts.issue_code(cluster, approves=True, now=now)
    enrolment = transact(
        lambda outbox: hosts.enrol(
            code=code, name=name, isolation="none", version="test", devices=devices, now=now, outbox=outbox
        )
    )
    fake = FakeHost(host=enrolment.host, key=enrolment.key)
    fake.sync()
    return fake


def make_tenant(name: str = "alice", dollars: int = 100) -> Tenant:
    """A tenant with funds."""

    def work(outbox: Any) -> Tenant:
        tenant = accounts.create_tenant(name, actor="test", outbox=outbox)
        if dollars:
            accounts.grant(
                tenant,
                amount_microdollars=dollars * MICRO,
                key=f"grant-{name}",
                reason="test money",
                actor="test",
                outbox=outbox,
            )
        return tenant

    return transact(work)


def body(*rows: tuple[str, str], cluster: str = "gemm", **fields: Any) -> dict[str, Any]:
    """A submission with these rows of type and maximum."""
    return {
        "cluster": cluster,
        "name": "job",
        "command": ["python", "train.py"],
        "rows": [{"accelerator_type": kind, "max_price_per_hour": price} for kind, price in rows],
    } | fields


def submit(tenant: Tenant, *rows: tuple[str, str], cluster: str = "gemm", **fields: Any) -> Job:
    """Queue a job."""
    return transact(lambda outbox: submission.submit(tenant, body(*rows, cluster=cluster, **fields), outbox=outbox))


def tick(cluster: Cluster) -> scheduling.Outcome:
    """Clear once."""
    return scheduling.tick(cluster.pk)


def lease_of(job: Job, **lookup: Any) -> Lease:
    """A job's newest lease."""
    found = Lease.objects.filter(job=job, **lookup).order_by("-id").first()
    assert found is not None
    return found
