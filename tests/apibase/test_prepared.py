"""Statements that are prepared, and the rows and instances that come of them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from laissez.ids import new_ids
from laissez.prepared import array, run
from laissez.records import Reading, columns, instance
from markets.models import Bid
from tests import scenes
from workers.models import AcceleratorType, Job, Lease

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], "text"),
        ([1, -(2**62), None], "bigint"),
        (["", "NULL", "null", "a,b", "{}", '"', "\\", "\\N", " blank ", "\u00e9\n\t", None], "text"),
        ([datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), None], "timestamptz"),
    ],
)
def test_an_array_is_read_as_it_was_written(values: list[Any], kind: str) -> None:
    assert run(f"SELECT %s::{kind}[]", [array(values)]) == [(values,)]


def test_numbers_of_all_sizes_are_one_prepared_statement() -> None:
    before = run("SELECT count(*) FROM pg_prepared_statements")[0][0]
    for number in (1, 2**20, 2**40):
        assert run("SELECT %s + 1", [number]) == [(number + 1,)]
    assert run("SELECT count(*) FROM pg_prepared_statements")[0][0] == before + 1


def test_a_statement_without_rows_returns_none_and_its_faults_are_djangos() -> None:
    scenes.make_cluster()
    assert run("UPDATE workers_cluster SET name = 'other'") == []
    with pytest.raises(IntegrityError), transaction.atomic():
        run("UPDATE workers_cluster SET rule = 'none'")


def test_a_prepared_statement_is_counted_as_any_other() -> None:
    with CaptureQueriesContext(connection) as queries:
        run("SELECT 1")
    assert [query["sql"] for query in queries] == ["SELECT 1"]


def running_job() -> Job:
    cluster = scenes.make_cluster()
    host = scenes.make_host(cluster, nvidia_a10=1)
    job = scenes.submit(scenes.make_tenant(), ("nvidia-a10", "1.5"), ("nvidia-l4", "cap"))
    scenes.tick(cluster)
    host.settle()
    return job


def attributes(row: Any) -> dict[str, Any]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


@pytest.mark.parametrize("model", [Job, Lease, Bid, AcceleratorType])
def test_an_instance_is_what_a_query_set_would_have_made(model: Any) -> None:
    running_job()
    table = model._meta.db_table
    found = [instance(model, row) for row in run(f"SELECT {columns(model, 'it')} FROM {table} AS it ORDER BY it.id")]
    expected = list(model.objects.order_by("id"))
    assert [attributes(row) for row in found] == [attributes(row) for row in expected]
    assert all((row._state.adding, row._state.db) == (False, "default") for row in found)
    assert found == expected


def test_a_reading_follows_references_and_leaves_out_what_is_not_there(django_assert_num_queries: Any) -> None:
    job = running_job()
    read = Reading(Lease, "job", "job__cluster", "job__newest_checkpoint", "type", rest="WHERE row.job_id = %s")
    with django_assert_num_queries(1):
        (lease,) = read(job.pk)
        assert (lease.job, lease.job.cluster.slug, lease.type.slug) == (job, "gemm", "nvidia-a10")
        assert lease.job.newest_checkpoint is None
    assert read(0) == []


def test_ids_drawn_together_look_like_one_drawn_alone_and_are_all_different() -> None:
    names = new_ids("bid", at_once=3)
    drawn = [next(names) for _ in range(500)]
    assert len(set(drawn)) == 500
    assert all(len(name) == 24 and name.startswith("bid_") and name[4:].isalnum() for name in drawn)
