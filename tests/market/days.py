"""Days of a market in an instant: the real services under a clock of the test's own, chance deciding who does what.

Three hosts, two tenants and a dozen jobs win, lose, move, raise, lower, give up, expire and lose devices.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeVar

from django.db import transaction

from laissez import clock
from laissez.errors import Refused
from laissez.events import Outbox, publish
from markets.models import Bid
from markets.services import exchange, scheduling, submission
from tests import scenes
from workers.models import AcceleratorType, Cluster, Job
from workers.services import sync
from workers.services.reports import Report

T = TypeVar("T")
TYPES = tuple(scenes.PAPER_TYPES)
MOST_OPEN = 14


@dataclass
class Day:
    """A cluster with its own time, `now`."""

    chance: Random
    rule: str = "launch_table"
    now: datetime = field(default_factory=clock.now)
    cluster: Cluster = field(init=False)

    def __post_init__(self) -> None:
        self.cluster = scenes.make_cluster(rule=self.rule)
        names = (("a10", {"nvidia_a10": 2}), ("l4", {"nvidia_l4": 2}), ("trainium", {"aws_trainium": 1}))
        self.hosts = [scenes.make_host(self.cluster, name, **units) for name, units in names]
        self.tenants = [scenes.make_tenant(name, dollars=1_000_000) for name in ("alice", "bob")]

    def do(self, work: Callable[[Outbox], T]) -> T | None:
        """One transaction at the day's present time; what is refused is undone."""
        try:
            with transaction.atomic(durable=True):
                outbox = Outbox(now=self.now)
                result = work(outbox)
                publish(outbox.drafts, at=self.now)
                return result
        except Refused:
            return None

    def step(self) -> None:
        """Somebody does something, some time passes, hosts speak, and the market is cleared."""
        self.live()
        self.clear()

    def live(self) -> None:
        """What happens between two ticks."""
        for act, odds in self._odds().items():
            if self.chance.random() < odds:
                act()
        self.now += timedelta(seconds=self.chance.choice((1, 1, 7, 31, 65, 400)))
        for host in self.hosts:
            if self.chance.random() < 0.6:
                self._sync(host)

    def clear(self) -> scheduling.Outcome | None:
        """One tick."""
        return self.do(lambda outbox: scheduling._tick(self.cluster.pk, outbox))

    def _odds(self) -> dict[Callable[[], object], float]:
        return {self._submit: 0.3, self._rebid: 0.6, self._cancel: 0.05, self._move: 0.1, self._reprice: 0.08}

    def _jobs(self) -> list[Job]:
        return list(Job.objects.filter(state__in=("queued", "running")).order_by("id"))

    def _submit(self) -> None:
        if len(self._jobs()) >= MOST_OPEN:
            return
        chosen = self.chance.sample(TYPES, self.chance.randint(1, 3))
        body = scenes.body(
            *((kind, self._price()) for kind in chosen),
            upgrade=self.chance.choice(("never", "now", "at_checkpoint")),
            queue_timeout_seconds=self.chance.choice((60, 3600)),
        )
        self.do(lambda outbox: submission.submit(self.chance.choice(self.tenants), body, outbox=outbox))

    def _price(self) -> str:
        return self.chance.choice(
            ("cap", f"{self.chance.uniform(0.5, 2.1):.2f}", f"{self.chance.choice((1, 1.5)):.2f}")
        )

    def _rebid(self) -> None:
        if jobs := self._jobs():
            job = self.chance.choice(jobs)
            bids = Bid.objects.filter(job=job, closed_at=None).select_related("type").order_by("position")
            rows: list[dict[str, Any]] = [
                {"accelerator_type": bid.type.slug, "max_price_per_hour": self._price()} for bid in bids
            ]
            self.chance.shuffle(rows)
            self.do(lambda outbox: submission.change_table(job, rows, expected_version=None, outbox=outbox))

    def _cancel(self) -> None:
        if jobs := self._jobs():
            self.do(lambda outbox: submission.cancel(self.chance.choice(jobs), outbox=outbox))

    def _move(self) -> None:
        if jobs := self._jobs():
            self.do(lambda outbox: submission.move(self.chance.choice(jobs), moment="now", outbox=outbox))

    def _reprice(self) -> None:
        row = AcceleratorType.objects.get(cluster=self.cluster, slug=self.chance.choice(TYPES))
        base, cap = self.chance.randint(400_000, 900_000), self.chance.randint(1_000_000, 2_500_000)
        self.do(
            lambda outbox: exchange.set_prices(
                row, base=base, cap=cap, actor="op", reason="why", expected_version=row.version, outbox=outbox
            )
        )

    def _sync(self, host: scenes.FakeHost) -> None:
        """What a host would say: it confirms, ends what it was told to end, and sometimes a device is ill."""
        entries = {entry["lease"]: entry for entry in host.answer.get("leases", [])}
        observed = [
            sync.Observed(lease=name, fence=entry["fence"], state="ended" if entry["desired"] == "stop" else "ready")
            for name, entry in entries.items()
        ]
        host.sequence += 1
        message = sync.Message(
            sequence=host.sequence,
            healthy={0: self.chance.random() > 0.04},
            observed=observed,
            reports=tuple(self._reports(host, entries)),
        )
        answer = self.do(lambda outbox: sync.sync(host.host.pk, message, outbox=outbox))
        host.answer = {} if answer is None else answer.as_json()

    def _reports(self, host: scenes.FakeHost, entries: dict[str, Any]) -> list[Report]:
        reports = []
        for name, entry in entries.items():
            if self.chance.random() < 0.3:
                host.report_number += 1
                ends = self.chance.random() < 0.15
                kind, body = ("exit", {"reason": "completed", "exit_code": 0}) if ends else ("first_step", {})
                reports.append(Report(id=host.report_number, lease=name, fence=entry["fence"], kind=kind, body=body))
        return reports
