"""The paper's story through the real services: win, be outbid, checkpoint, migrate, finish, be billed."""

import pytest

from markets.models import Award, Bid, Clearing, Notice, Quote
from markets.services import metering
from tests import scenes
from workers.models import Job, Lease, Migration

pytestmark = pytest.mark.django_db(transaction=True)

A10, L4 = "nvidia-a10", "nvidia-l4"


def _price(slug: str) -> int:
    return Quote.objects.get(type__slug=slug, during__upper_inf=True).price_per_hour


def test_a_job_is_outbid_moves_to_the_next_row_and_finishes_there() -> None:
    cluster = scenes.make_cluster()
    a10 = scenes.make_host(cluster, "a10", nvidia_a10=1)
    l4 = scenes.make_host(cluster, "l4", nvidia_l4=2)
    alice, bob = scenes.make_tenant("alice"), scenes.make_tenant("bob")

    b = scenes.submit(bob, (A10, "0.65"), (L4, "2.0"))
    scenes.tick(cluster)
    b.refresh_from_db()
    assert b.state == Job.State.RUNNING
    lease = scenes.lease_of(b)
    assert (lease.type.slug, lease.state, lease.billed_during) == (A10, Lease.State.PENDING, None)
    a10.settle()
    lease.refresh_from_db()
    assert lease.state == Lease.State.ACTIVE
    assert _price(A10) == 606_000

    a = scenes.submit(alice, (A10, "0.70"), (L4, "0.50"))
    scenes.tick(cluster)
    assert _price(A10) == 650_000
    assert Notice.objects.get(job=b).reason == Notice.Reason.OUTBID
    assert Award.objects.get(job=a, state="waiting").type.slug == A10
    assert Award.objects.get(job=b, state="handed_over", type__slug=L4)
    l4.settle()
    a10.sync()
    assert a10.entry(b)["desired"] == "run"
    assert l4.entry(b)["resume"] == {"state": "wait"}

    result = a10.checkpoint(b, 0.5)
    assert (result["accepted"], result["then"]) == (True, "stop")
    a10.sync()
    assert a10.entry(b)["desired"] == "stop"
    l4.sync()
    assert l4.entry(b)["resume"]["state"] == "ready"
    a10.end(b)
    scenes.tick(cluster)
    assert scenes.lease_of(a).type.slug == A10
    l4.report(b, "first_step")
    move = Migration.objects.get(job=b)
    assert move.state == Migration.State.DONE
    assert move.first_step_at is not None
    l4.report(b, "exit", reason="completed", exit_code=0)
    l4.end(b)
    b.refresh_from_db()
    assert b.state == Job.State.SUCCEEDED
    scenes.tick(cluster)
    assert _price(A10) == 606_000
    metering.meter_cluster(cluster.pk)
    assert not Bid.objects.filter(job=b, closed_at=None).exists()
    assert all(row.metered_until == row.billed_during.upper for row in Lease.objects.filter(job=b))


def test_an_unchanged_book_is_skipped() -> None:
    cluster = scenes.make_cluster()
    scenes.make_host(cluster, nvidia_a10=1)
    scenes.submit(scenes.make_tenant(), (A10, "1.0"))
    scenes.tick(cluster)
    scenes.tick(cluster)
    cleared = Clearing.objects.count()
    assert scenes.tick(cluster) == "unchanged"
    assert Clearing.objects.count() == cleared
