"""Random lives of jobs through the real services: whatever tenants, hosts, agents and operators may do."""

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from laissez import clock
from laissez.errors import Refused
from laissez.events import Outbox, transact
from laissez.sdk.contexts import Decision
from markets.services import advising, bulk, exchange, metering, submission
from tests import scenes
from workers.models import AcceleratorType, Host, Job, Lease
from workers.services import hosts, reconciling, reports

TYPES = ("nvidia-a10", "nvidia-l4", "aws-trainium")
MAX_JOBS = 6


class Floor:
    """A cluster with two hosts and two tenants. `act` does one thing, drawn by its own chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.cluster = scenes.make_cluster(notice_seconds=1, cool_down_seconds=1)
        self.hosts = [
            scenes.make_host(self.cluster, "host-1", nvidia_a10=1, nvidia_l4=1),
            scenes.make_host(self.cluster, "host-2", nvidia_l4=1, aws_trainium=1),
        ]
        self.tenants = [scenes.make_tenant("alice"), scenes.make_tenant("bob", 1)]
        self.told = 0
        self._sequence = 0

    def streams(self) -> list[str]:
        """Every stream of the floor whose snapshot holds rows."""
        jobs = [f"job:{name}" for name in Job.objects.order_by("id").values_list("public_id", flat=True)]
        return [f"market:{self.cluster.slug}", *(tenant.stream for tenant in self.tenants), *jobs]

    def act(self) -> str:
        """Do one thing, which may be refused; returns what it was."""
        acts: list[tuple[int, Callable[[], Any]]] = [
            (24, self.submit), (60, self.tick), (60, self.sync), (50, self.report), (12, self.rebid),
            (6, self.rebid_several), (10, self.decide), (2, self.stop), (6, self.resume), (2, self.cancel),
            (8, self.move), (30, self.end), (6, self.set_prices), (2, self.break_device),
            (2, self.lose), (2, self.drain), (4, self.meter),
        ]  # fmt: skip
        (chosen,) = self.chance.choices([act for _, act in acts], [weight for weight, _ in acts])
        with suppress(Refused):
            chosen()
        return chosen.__name__

    def tick(self) -> None:
        scenes.tick(self.cluster)
        advising.advise_queue(self.cluster.pk)

    def meter(self) -> None:
        metering.meter_cluster(self.cluster.pk)
        reconciling.reconcile()

    def submit(self) -> None:
        if Job.objects.filter(state__in=("queued", "running")).count() < MAX_JOBS:
            scenes.submit(
                self.chance.choice(self.tenants),
                *self.rows(),
                agent={"policy": self.chance.choice(["hold", "break_even"])},
                migration=self.chance.choice(["stop_and_copy", "overlap"]),
                upgrade=self.chance.choice(["never", "at_checkpoint", "now"]),
                max_attempts=2,
            )

    def rows(self) -> list[tuple[str, str]]:
        kinds = self.chance.sample(TYPES, self.chance.randint(1, 3))
        return [(kind, self.chance.choice(["0.9", "1.2", "1.6", "cap"])) for kind in kinds]

    def rebid(self) -> None:
        table = scenes.body(*self.rows())["rows"]
        self.change(lambda job, outbox: submission.change_table(job, table, expected_version=None, outbox=outbox))

    def rebid_several(self) -> None:
        """Some jobs of one tenant at once; a row that is refused is refused by itself."""
        tenant = self.chance.choice(self.tenants)
        names = list(Job.objects.filter(tenant=tenant).order_by("id").values_list("public_id", flat=True))
        rows = [
            {
                "job": name,
                "accelerator_type": self.chance.choice(TYPES),
                "max_price_per_hour": self.chance.choice(["0.95", "1.4", "cap"]),
            }
            for name in names
        ]
        transact(lambda outbox: bulk.change_bids(tenant, rows, outbox=outbox))

    def stop(self) -> None:
        self.change(lambda job, outbox: submission.stop(job, outbox=outbox))

    def resume(self) -> None:
        self.change(lambda job, outbox: submission.resume(job, outbox=outbox), state=Job.State.STOPPED)

    def cancel(self) -> None:
        self.change(lambda job, outbox: submission.cancel(job, outbox=outbox))

    def move(self) -> None:
        moment = self.chance.choice(["now", "checkpoint"])
        self.change(lambda job, outbox: submission.move(job, moment=moment, outbox=outbox))

    def decide(self) -> None:
        kind = self.chance.choice(["rebid", "rebid", "migrate", "migrate", "checkpoint", "stop"])
        bids = {self.chance.choice(TYPES): self.chance.choice(["0.95", "1.3"])} if kind == "rebid" else {}
        moment = self.chance.choice(["now", "checkpoint"])
        decision = Decision.from_json({"kind": kind, "moment": moment, "bids": bids})
        self.change(lambda job, outbox: advising.decide(job, decision, ask=1, outbox=outbox))

    def change(self, work: Callable[[Job, Outbox], object], **lookup: object) -> None:
        found = Job.objects.filter(**lookup or {"state__in": ("queued", "running")}).order_by("id")
        jobs = list(found.select_related("tenant", "cluster"))
        if jobs:
            job = self.chance.choice(jobs)
            transact(lambda outbox: work(job, outbox))

    def sync(self) -> None:
        host = self.chance.choice(self.hosts)
        host.sync(forget=self.chance.random() < 0.1)

    def report(self) -> None:
        """One or two reports in one message, now and then one that does not fit."""
        host = self.chance.choice(self.hosts)
        if host.answer.get("leases"):
            host.sync(*(self.a_report(host) for _ in range(self.chance.randint(1, 2))))

    def a_report(self, host: scenes.FakeHost) -> reports.Report:
        entry = self.chance.choice(host.answer["leases"])
        host.report_number += 1
        self._sequence += 1
        kinds = [self.progress, self.checkpoint, self.checkpoint, self.checkpoint, self.others, self.others, self.exit]
        kind, body = self.chance.choice(kinds)()
        return reports.Report(host.report_number, entry["lease"], entry["fence"], kind, body)

    def progress(self) -> tuple[str, dict[str, Any]]:
        return "progress", {"progress": self.chance.random(), "step": 1, "loss": 0.5}

    def checkpoint(self) -> tuple[str, dict[str, Any]]:
        sequence = self._sequence if self.chance.random() < 0.9 else 1  # the second time refused by the database
        return "checkpoint", {
            "sequence": sequence, "uri": "memory://it", "sha256": f"{self._sequence:064x}", "size_bytes": 10,
            "progress": self.chance.random(), "step": 3, "seconds": 0.01, "requested": False,
        }  # fmt: skip

    def exit(self) -> tuple[str, dict[str, Any]]:
        return "exit", {"reason": self.chance.choice(["completed", "failed", "killed", "host_lost"]), "exit_code": 1}

    def others(self) -> tuple[str, dict[str, Any]]:
        return self.chance.choice(
            [("first_step", {}), ("first_step", {}), ("agent", {"outcome": "silent"}), ("nonsense", {})]
        )

    def end(self) -> None:
        host = self.chance.choice(self.hosts)
        closing = [entry for entry in host.answer.get("leases", []) if self.is_closing(entry["lease"])]
        if closing:
            host.states[self.chance.choice(closing)["lease"]] = "ended"
            host.sync()

    def is_closing(self, lease: str) -> bool:
        return Lease.objects.filter(public_id=lease, state=Lease.State.CLOSING).exists()

    def break_device(self) -> None:
        broken = self.chance.choice(self.hosts)
        row = broken.host.accelerators.order_by("id")[0]
        row.healthy = not row.healthy
        row.save(update_fields=["healthy"])

    def lose(self) -> None:
        """A host has been silent for an hour; what it says next brings it back."""
        long_ago = clock.now() - timedelta(hours=1)
        host = self.chance.choice(self.hosts)
        Host.objects.filter(pk=host.host.pk).update(last_heard_at=long_ago)
        transact(lambda outbox: hosts.lose(host.host.pk, heard_since=long_ago, outbox=outbox))

    def drain(self) -> None:
        host = Host.objects.get(pk=self.chance.choice(self.hosts).host.pk)
        change = hosts.drain if host.state == Host.State.READY else hosts.approve
        transact(lambda outbox: change(host, actor="test", reason="a test", outbox=outbox))

    def set_prices(self) -> None:
        row = AcceleratorType.objects.get(slug=self.chance.choice(TYPES))
        base = self.chance.randint(500_000, 1_000_000)
        transact(
            lambda outbox: exchange.set_prices(
                row, base=base, cap=2_000_000, actor="test", reason="a test", expected_version=row.version,
                outbox=outbox,
            )
        )  # fmt: skip
