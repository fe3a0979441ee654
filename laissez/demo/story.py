"""The paper's story, acted by two tenants through the API: B trains on the only A10, A outbids it, B moves on.

Nothing here is special to the demo's jobs; any client could do the same.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from laissez.sdk import archive, jobfile
from laissez.sdk.client import Client, JsonObject, LaissezError, ServerFault, Unavailable

CLUSTER = "gemm"
CONTESTED_TYPE = "nvidia-a10"
A, B = "app-a", "app-b"
PROGRAMS = {A: "vision_transformer", B: "text_classifier"}
A_ARRIVES_AT = 0.358
"""B's progress when A is submitted; in the paper 4.944 minutes after B."""
POLL_SECONDS = 0.5
OVER = {"succeeded", "failed", "cancelled", "expired", "stopped"}


class StoryFailed(Exception):
    """The story did not come to its end; the message says where it stopped."""


@dataclass(slots=True)
class Story:
    """One telling. `clients`: app to its tenant's client; `say` takes sentences; `speedup`: of meter and devices."""

    clients: Mapping[str, Client]
    say: Callable[[str], None]
    speedup: float
    check: Callable[[], object] = lambda: None
    """Called at every look; raises when there is no point in going on."""
    deadline_seconds: float = 600
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    jobs: dict[str, str] = field(default_factory=dict)
    _began: float = 0.0
    _seen: dict[str, object] = field(default_factory=dict)
    _price: str | None = None

    def tell(self) -> dict[str, str]:
        """Acts it out and returns the ids of the jobs, by app. Raises StoryFailed when the deadline passes first."""
        self._began = self.clock()
        self.submit(B)
        self._watch(lambda shown: shown[B]["progress"] >= A_ARRIVES_AT or shown[B]["state"] in OVER)
        self.submit(A)
        self._watch(lambda shown: all(job["state"] in OVER for job in shown.values()))
        return dict(self.jobs)

    def submit(self, app: str) -> None:
        """Packs, uploads and submits one of the two programs."""
        described = jobfile.load(Path(__file__).parent / PROGRAMS[app] / "job.yaml")
        client = self.clients[app]
        packed = {place: archive.pack(directory) for place, directory in described.directories.items()}
        artifacts = {place: str(client.upload(content)["artifact"]) for place, content in packed.items()}
        submitted = client.submit(described.with_artifacts(artifacts))
        self.jobs[app] = str(submitted["job"])
        self._tell(f"{_named(app)} is submitted as {submitted['job']}.")

    def _watch(self, reached: Callable[[dict[str, JsonObject]], bool]) -> None:
        """Polls and narrates until the condition on the jobs (by app) holds."""
        for shown in self._polls():
            for app, job in shown.items():
                self._narrate(app, job)
            self._narrate_price()
            if reached(shown):
                return
        states = ", ".join(f"{_named(app)} {seen}" for app, seen in self._seen.items())
        raise StoryFailed(f"the story did not end within {self.deadline_seconds:.0f} seconds: {states}")

    def _polls(self) -> Iterator[dict[str, JsonObject]]:
        """The jobs again and again until the deadline; a server that is away for a while is waited for."""
        while self.clock() - self._began < self.deadline_seconds:
            self.check()
            try:
                yield {app: self.clients[app].job(job) for app, job in self.jobs.items()}
            except (Unavailable, ServerFault) as error:
                self._tell(f"The server does not answer ({error}); asking again.")
            self.pause(POLL_SECONDS)

    def _narrate(self, app: str, job: JsonObject) -> None:
        """A sentence when something about a job has changed that a person would notice."""
        notice, award = job.get("notice"), job.get("award")
        key = (
            job["state"],
            job.get("reason"),
            job.get("holds"),
            bool(notice),
            str(award),
            len(job.get("leases") or []),
        )
        if self._seen.get(app) == key:
            return
        self._seen[app] = key
        self._tell(f"{_named(app)}, {job['progress'] * 100:.0f} % done: {job.get('explanation') or job['state']}")

    def _narrate_price(self) -> None:
        try:
            types = next(iter(self.clients.values())).market(CLUSTER)["types"]
        except LaissezError:
            return
        price = next((str(row["price_per_hour"]) for row in types if row["accelerator_type"] == CONTESTED_TYPE), None)
        if price is not None and price != self._price:
            self._price = price
            self._tell(f"The price of the A10 is ${price} an hour.")

    def _tell(self, sentence: str) -> None:
        minute = (self.clock() - self._began) * self.speedup / 60
        self.say(f"[minute {minute:5.2f}] {sentence}")


def _named(app: str) -> str:
    return f"{app.removeprefix('app-').upper()} ({PROGRAMS[app].replace('_', ' ')})"
