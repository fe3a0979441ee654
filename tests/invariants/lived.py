"""A little market that has lived through the real services, in which every detector has something to look at.

`mover` is outbid on the A10, moves to an L4 and finishes. `winner` sits on the A10 under notice, because `rival` has
won it and waits. `steady` has run on an L4 for some minutes. `climber` runs on an L4 and has just been handed the
Trainium that it likes better. `quitter` was cancelled, `sleeper` was stopped.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from laissez.events import transact
from markets.services import metering, submission
from tests import scenes
from tests.elapsing import pass_time
from workers.models import Cluster, Job, Lease
from workers.services import reconciling

A10, L4, TRAINIUM = "nvidia-a10", "nvidia-l4", "aws-trainium"
LIVED_SECONDS = 130


def nothing() -> None:
    """What is done between the acts of a life, unless a test wants to look."""


@dataclass
class Market:
    """The market while it lives. `look` is called between its acts."""

    look: Callable[[], None] = nothing
    cluster: Cluster = field(init=False)
    hosts: dict[str, scenes.FakeHost] = field(init=False)
    jobs: dict[str, Job] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cluster = scenes.make_cluster()
        self.hosts = {
            A10: scenes.make_host(self.cluster, "host-a10", nvidia_a10=1),
            L4: scenes.make_host(self.cluster, "host-l4", nvidia_l4=3),
        }
        self.alice, self.bob = scenes.make_tenant("alice"), scenes.make_tenant("bob")

    def live(self) -> "Market":
        """The whole life, as the module says."""
        self.begin()
        self.elapse()
        self.outbid_and_move()
        self.finish()
        self.go_on()
        return self

    def elapse(self) -> None:
        """Two minutes and a bit pass: more than everything has lasted so far, and less than a silent host may take."""
        pass_time(LIVED_SECONDS)

    def turn(self) -> None:
        """What a second brings: hosts speak, the market is cleared, leases are billed. A lease is confirmed in two."""
        for host in self.hosts.values():
            host.sync()
        scenes.tick(self.cluster)
        self.look()
        metering.meter_cluster(self.cluster.pk)
        reconciling.reconcile()
        self.look()

    def submit(self, name: str, *rows: tuple[str, str], **fields: object) -> Job:
        tenant = self.bob if name in ("mover", "rival") else self.alice
        self.jobs[name] = scenes.submit(tenant, *rows, name=name, **fields)
        return self.jobs[name]

    def begin(self) -> None:
        self.submit("mover", (A10, "0.65"), (L4, "2.0"))
        self.submit("steady", (L4, "cap"))
        for host in self.hosts.values():
            scenes.tick(self.cluster)
            self.look()
            host.settle()
        self.hosts[L4].checkpoint(self.jobs["steady"], 0.1)
        self.hosts[A10].checkpoint(self.jobs["mover"], 0.25)
        self.look()

    def outbid_and_move(self) -> None:
        mover = self.jobs["mover"]
        self.turn()
        self.submit("winner", (A10, "0.70"), (L4, "0.50"))
        self.turn()
        self.turn()
        self.hosts[L4].sync()
        assert self.hosts[A10].checkpoint(mover, 0.5, sequence=2)["then"] == "stop"
        self.look()
        self.hosts[A10].end(mover)
        self.turn()
        self.hosts[L4].report(mover, "first_step")
        self.turn()

    def finish(self) -> None:
        mover = self.jobs["mover"]
        self.hosts[L4].report(mover, "exit", reason="completed", exit_code=0)
        self.look()
        self.hosts[L4].end(mover)
        self.turn()
        for name, end in (("quitter", submission.cancel), ("sleeper", submission.stop)):
            job = self.submit(name, (L4, "1.0"))
            self.turn()
            self.hosts[L4].settle()
            transact(lambda outbox, end=end, job=job: end(job, outbox=outbox))
            self.look()
            self.hosts[L4].end(job)
            self.turn()

    def go_on(self) -> None:
        self.submit("climber", (TRAINIUM, "1.5"), (L4, "1.0"))
        self.turn()
        self.turn()
        self.hosts[TRAINIUM] = scenes.make_host(self.cluster, "host-trainium", aws_trainium=1)
        self.turn()
        self.submit("rival", (A10, "0.90"))
        self.turn()
        self.hosts[TRAINIUM].settle()
        self.hosts[A10].checkpoint(self.jobs["winner"], 0.2)
        self.look()


def lease_of(name: str, state: str | None = None) -> Lease:
    """A job's newest lease."""
    return scenes.lease_of(Job.objects.get(name=name), **({"state": state} if state else {}))
