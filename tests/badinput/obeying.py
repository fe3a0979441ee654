"""Hosts that do as they are told: they start what they are given, save when asked, and leave."""

from dataclasses import dataclass, field

from tests import scenes
from workers.models import Cluster, Job, Lease


@dataclass
class Floor:
    """A cluster and its hosts."""

    cluster: Cluster
    hosts: list[scenes.FakeHost]
    checkpoints: int = 0
    begun: set[str] = field(default_factory=set)

    def live(self) -> None:
        """One tick, and what every host makes of it."""
        scenes.tick(self.cluster)
        for host in self.hosts:
            host.settle()
            for entry in list(host.answer["leases"]):
                self._obey(host, Job.objects.get(public_id=entry["job"]), entry["lease"], entry["desired"])

    def _obey(self, host: scenes.FakeHost, job: Job, lease: str, desired: str) -> None:
        if desired == "run":
            if host.entry(job)["resume"]["state"] == "wait":
                return
            if lease not in self.begun:
                self.begun.add(lease)
                host.report(job, "first_step")
            desired = "stop" if self._save(host, job) == "stop" else "run"
        elif desired == "save":
            self._save(host, job)
        if desired != "run":
            host.end(job)

    def _save(self, host: scenes.FakeHost, job: Job) -> str:
        """Take a checkpoint, as a training program does now and then; what the program is to do then."""
        self.checkpoints += 1
        then: str = host.checkpoint(job, 0.5, sequence=self.checkpoints)["then"]
        return then

    def runs_on(self, job: Job) -> str:
        """The type of the job's only lease, or nothing."""
        held = Lease.objects.filter(job=job).exclude(state=Lease.State.CLOSED)
        return ",".join(held.values_list("type__slug", flat=True))
