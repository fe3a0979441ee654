"""`manage.py demo`: the paper's story on real processes, from a bid to a migrated, finished and billed job."""

import contextlib
import json
import logging
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from laissez.demo import outcome, seed, solo
from laissez.demo.stage import SETTLED_SECONDS, Stage, standing
from laissez.demo.story import CLUSTER, PROGRAMS, Story, StoryFailed
from laissez.management.commands.check_invariants import look
from laissez.sdk.client import LaissezError
from laissez.stack.places import StackError

Json = dict[str, Any]


class Command(BaseCommand):
    """Plays the story, tells it in sentences, and says what came of it."""

    help = "Start the whole stack with three emulated hosts and play the paper's story with two real training jobs."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """How fast, where, and what happens at the end."""
        parser.add_argument("--exit", action="store_true", help="stop everything when the story has ended")
        parser.add_argument(
            "--json", action="store_true", help="print the outcome as one JSON object, as the last line"
        )
        parser.add_argument("--port", type=int, default=8000, help="the port to listen on; 0 takes a free one")
        parser.add_argument("--speedup", type=float, default=15, help="of the meter and the emulated devices")
        parser.add_argument("--deadline", type=float, default=600, help="real seconds that the story may take")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Play it. With --json sentences go to standard error, so that standard output holds the outcome alone."""
        logging.getLogger("httpx").setLevel(logging.WARNING)
        self._sentences = self.stderr if options["json"] else self.stdout
        try:
            with contextlib.suppress(KeyboardInterrupt):
                self._play(options)
        except (StackError, StoryFailed, LaissezError) as error:
            raise CommandError(str(error)) from error

    def _play(self, options: Json) -> None:
        speedup = options["speedup"]
        with (
            standing(port=options["port"], speedup=speedup, say=self._say) as stage,
            solo.running(PROGRAMS) as alone,
        ):
            self._welcome(stage)
            story = Story(stage.clients, self._say, speedup, check=stage.check, deadline_seconds=options["deadline"])
            ended = self._outcome(stage, story.tell(), alone, speedup)
            self._say(summary(ended))
            if options["json"]:
                self.stdout.write(json.dumps(ended))
                self.stdout.flush()
            if not options["exit"]:
                self._say(f"Everything goes on running at {stage.url}/ until Ctrl-C.")
                with contextlib.suppress(KeyboardInterrupt):
                    stage.supervisor.wait()
        if faults := faults_of(ended):
            raise StoryFailed("; ".join(faults))

    def _welcome(self, stage: Stage) -> None:
        logins = ", ".join(f"{user} ({name})" for name, user in (*seed.TENANTS.values(), seed.GUEST))
        self._say(
            f"\nLaissez is up at {stage.url}/\n"
            f"  log in as {seed.OPERATOR} (operator), {logins}; password {stage.seeded.password}\n"
            f"  watch the prices at {stage.url}/market/{CLUSTER} and a tenant's jobs at {stage.url}/jobs\n"
            f"  bring a job of your own: laissez login --url {stage.url} --token {stage.seeded.guest_token}\n"
            f"  what the processes say is in {stage.log}\n"
        )

    def _outcome(self, stage: Stage, jobs: dict[str, str], alone: dict[str, solo.SoloRun], speedup: float) -> Json:
        stage.wait(lambda: outcome.is_settled(jobs), seconds=SETTLED_SECONDS, what="the last bill")
        digests = {app: solo.final_digest(printed(stage, app, job)) for app, job in jobs.items()}
        compared = {app: run.digest() for app, run in alone.items()}
        return outcome.collect(jobs, speedup=speedup) | {
            "final_params_sha256": digests,
            "bit_exact": None not in digests.values() and digests == compared,
            "invariants": look(),
        }

    def _say(self, text: str) -> None:
        self._sentences.write(text)
        self._sentences.flush()


def printed(stage: Stage, app: str, job: str) -> str:
    """All that a job wrote to its standard output."""
    client, pieces, after = stage.clients[app], [], 0
    while page := client.logs(job, after=after):
        pieces += [piece["text"] for piece in page["items"] if piece["stream"] == "stdout"]
        if not page["items"]:
            break
        after = page["next"]
    return "".join(pieces)


def faults_of(ended: Json) -> list[str]:
    """Why the outcome is not the one that the story promises; empty when it is."""
    faults = [f"{app} {state}" for app, state in ended["states"].items() if state != "succeeded"]
    if not ended["bit_exact"]:
        faults.append("the final parameters differ from an uninterrupted run's")
    return faults + list(ended["invariants"])


def summary(ended: Json) -> str:
    """The outcome for people."""
    prices = ", then ".join(f"${point['price']}" for point in ended["a10_prices"])
    moves = [
        f"  {move['job']} moved from {move['source']} to {move['destination']} and stood still for"
        f" {move['resume_seconds']} s; its loss was {move['loss_before']} before and {move['loss_after']} after"
        for move in ended["migrations"]
        if move["state"] == "done"
    ]
    bills = ", ".join(f"{app} paid ${bill}" for app, bill in ended["bills"].items())
    exact = "are, bit for bit, those of" if ended["bit_exact"] else "DIFFER from those of"
    sound = "All invariants hold." if not ended["invariants"] else "VIOLATED: " + "; ".join(ended["invariants"])
    lines = [f"\nAn hour on the A10 cost {prices}.", *moves, f"{bills}.", f"The parameters {exact} uninterrupted runs."]
    return "\n".join([*lines, sound])
