"""What hosts say twice, late or side by side takes effect once, and only with the words of the present lease."""

import logging
from typing import Any

import pytest

from laissez.errors import Refused
from laissez.events import Outbox, transact
from laissez.models import Event
from markets.services import submission
from tests import scenes
from tests.elapsing import pass_time
from tests.races.interleaving import overlapping
from tests.racing import race
from workers.models import Checkpoint, Host, Job, Lease, Migration, ProgressSample
from workers.services import hosts, leases, sync
from workers.services.reports import Report

pytestmark = pytest.mark.django_db(transaction=True)

A10, L4 = "nvidia-a10", "nvidia-l4"


def running() -> tuple[scenes.FakeHost, Job]:
    cluster = scenes.make_cluster()
    host = scenes.make_host(cluster, nvidia_a10=1)
    job = scenes.submit(scenes.make_tenant(), (A10, "1.0"))
    scenes.tick(cluster)
    host.settle()
    return host, job


def moving() -> tuple[scenes.FakeHost, scenes.FakeHost, Job]:
    """A job that has been outbid, with a confirmed destination on a second host."""
    cluster = scenes.make_cluster()
    old, new = scenes.make_host(cluster, "old", nvidia_a10=1), scenes.make_host(cluster, "new", nvidia_l4=1)
    job = scenes.submit(scenes.make_tenant("bob"), (A10, "0.65"), (L4, "2.0"))
    scenes.tick(cluster)
    old.settle()
    scenes.submit(scenes.make_tenant("alice"), (A10, "0.70"))
    scenes.tick(cluster)
    new.settle()
    old.sync()
    return old, new, job


def message(host: scenes.FakeHost, job: Job, **body: Any) -> sync.Message:
    """The next message, with one report, ready to be sent as often as one likes."""
    entry = host.entry(job)
    kind = body.pop("kind", "progress")
    report = Report(id=host.report_number + 1, lease=entry["lease"], fence=entry["fence"], kind=kind, body=body)
    seen = sync.Observed(lease=entry["lease"], fence=entry["fence"], state="running")
    return sync.Message(sequence=host.sequence + 1, healthy={}, observed=[seen], reports=[report])


def send(host: scenes.FakeHost, sent: sync.Message) -> sync.Answer:
    return transact(lambda outbox: sync.sync(host.host.pk, sent, outbox=outbox))


CHECKPOINT = {"sequence": 1, "uri": "memory://1", "sha256": "a" * 64, "size_bytes": 1, "progress": 0.5, "seconds": 0.1}


def test_the_same_message_many_times_at_once_is_taken_once_and_refused_as_a_replay_otherwise() -> None:
    host, job = running()
    sent = message(host, job, progress=0.25)
    outcomes = race(8, lambda _: send(host, sent))
    refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    assert {refusal.code for refusal in refused} == {"replayed_message"}
    assert (len(refused), sum(isinstance(outcome, sync.Answer) for outcome in outcomes)) == (7, 1)
    assert ProgressSample.objects.count() == 1


def test_a_report_repeated_in_a_later_message_is_answered_again_and_counts_once() -> None:
    host, job = running()
    first = message(host, job, kind="checkpoint", **CHECKPOINT)
    answer = send(host, first)
    again = sync.Message(sequence=first.sequence + 1, healthy={}, observed=first.observed, reports=first.reports)
    assert send(host, again).results == answer.results
    assert Checkpoint.objects.count() == 1


def test_a_checkpoint_that_comes_after_the_cancel_is_not_accepted() -> None:
    host, job = running()
    _, result = overlapping(lambda outbox: submission.cancel(job, outbox=outbox), lambda: host.checkpoint(job, 0.5))
    assert (result["accepted"], result["then"]) == (False, "stop")
    assert not Checkpoint.objects.exists()


def test_a_checkpoint_that_comes_before_the_cancel_stays_committed() -> None:
    host, job = running()
    sent = message(host, job, kind="checkpoint", **CHECKPOINT)

    def report(outbox: Outbox) -> sync.Answer:
        return sync.sync(host.host.pk, sent, outbox=outbox)

    answer, _ = overlapping(report, lambda: transact(lambda outbox: submission.cancel(job, outbox=outbox)))
    assert next(iter(answer.results.values()))["accepted"]
    job.refresh_from_db()
    assert (job.state, job.newest_checkpoint) == (Job.State.CANCELLED, Checkpoint.objects.get())


def test_a_checkpoint_of_a_lease_that_was_lost_is_refused_while_the_job_runs_elsewhere() -> None:
    cluster = scenes.make_cluster()
    lost, other = scenes.make_host(cluster, "lost", nvidia_a10=1), scenes.make_host(cluster, "other", nvidia_a10=1)
    job = scenes.submit(scenes.make_tenant(), (A10, "1.0"))
    scenes.tick(cluster)
    if not lost.settle()["leases"]:
        lost, other = other, lost
        lost.settle()
    other.sync()
    pass_time(120)
    Host.objects.filter(pk=other.host.pk).update(last_heard_at=Host.objects.get(pk=other.host.pk).enrolled_at)
    other.sync()
    long_ago = Host.objects.get(pk=lost.host.pk).last_heard_at
    assert transact(lambda outbox: hosts.lose(lost.host.pk, heard_since=long_ago, outbox=outbox))
    scenes.tick(cluster)
    other.settle()
    assert other.checkpoint(job, 0.5)["accepted"]
    assert lost.checkpoint(job, 0.9)["accepted"] is False
    job.refresh_from_db()
    assert (job.progress, job.newest_checkpoint) == (0.5, Checkpoint.objects.get())
    assert job.newest_checkpoint.lease.host == other.host


def test_the_word_of_a_source_counts_no_more_once_its_destination_speaks_for_the_job() -> None:
    old, new, job = moving()

    def take_over(outbox: Outbox) -> sync.Answer:
        return sync.sync(new.host.pk, message(new, job, kind="progress", progress=0.0), outbox=outbox)

    assert old.checkpoint(job, 0.5) == {
        "accepted": True,
        "checkpoint": Checkpoint.objects.get().public_id,
        "then": "stop",
    }
    new.sync()
    _, result = overlapping(take_over, lambda: old.checkpoint(job, 0.6, sequence=2))
    assert (result["accepted"], result["code"], result["then"]) == (False, "not_primary", "stop")
    assert Checkpoint.objects.get() == Job.objects.get(pk=job.pk).newest_checkpoint


def test_source_and_destination_report_side_by_side_and_the_move_is_made_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    old, new, job = moving()
    assert old.checkpoint(job, 0.5)["then"] == "stop"
    new.sync()
    old.sync()
    acts = (lambda: old.end(job), lambda: new.report(job, "first_step"))
    with caplog.at_level(logging.WARNING, logger="laissez.events"):
        results = race(2, lambda number: acts[number]())
    assert [result for result in results if isinstance(result, Exception)] == []
    assert caplog.text == ""
    move = Migration.objects.get()
    assert (move.state, move.first_step_at is not None) == (Migration.State.DONE, True)
    assert Event.objects.filter(type="org.laissez.market.migration.done.v1").count() == 1
    assert leases.is_primary(scenes.lease_of(job, type__slug=L4))


def test_a_host_that_speaks_while_it_is_declared_lost_is_either_heard_or_lost() -> None:
    host, job = running()
    pass_time(120)
    heard = Host.objects.get().last_heard_at

    def lose() -> bool:
        return transact(lambda outbox: hosts.lose(host.host.pk, heard_since=heard, outbox=outbox))

    def speak() -> dict[str, Any]:
        return host.sync()

    results = race(2, lambda number: (lose, speak)[number]())
    assert [result for result in results if isinstance(result, Exception)] == []
    lost = results[0]
    assert Host.objects.get().state == Host.State.READY
    lease = scenes.lease_of(job)
    assert (lease.state, lease.reason) == (("closed", "host_lost") if lost else ("active", ""))
    assert Lease.objects.exclude(state=Lease.State.CLOSED).count() == (0 if lost else 1)
