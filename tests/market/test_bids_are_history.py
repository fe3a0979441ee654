"""What the database itself keeps of bids: a change closes a row and opens another, and a row names what there is."""

import pytest
from django.db import IntegrityError, connection, transaction

from markets.models import Bid
from tests import scenes

pytestmark = pytest.mark.django_db

CLOSING = {"closed_at", "closed_in"}
FIXED = [field.attname for field in Bid._meta.concrete_fields if field.attname not in CLOSING]
OTHER = {
    "public_id": "'bid_other'", "origin": "'agent'", "accepted_at": "now() - interval '1 day'",
    "opened_at": "now() - interval '1 day'", "keep_price_per_hour": "max_price_per_hour + 1",
}  # fmt: skip


@pytest.fixture(autouse=True)
def a_bid() -> None:
    cluster = scenes.make_cluster()
    scenes.submit(scenes.make_tenant(), ("nvidia-a10", "1.5"))
    assert cluster.bids.count() == 1


def sql(statement: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.parametrize("column", FIXED)
def test_nothing_but_its_end_changes_as_a_bid_closes(column: str) -> None:
    with pytest.raises(IntegrityError, match="closes a row and opens another"):
        sql(f'UPDATE markets_bid SET closed_at = clock_timestamp(), "{column}" = {OTHER.get(column, f"{column} + 1")}')


@pytest.mark.parametrize("change", ["closed_at = clock_timestamp()", "closed_at = NULL", "closed_in = closed_in"])
def test_a_closed_bid_stays_as_it_is(change: str) -> None:
    sql("UPDATE markets_bid SET closed_at = clock_timestamp()")
    with pytest.raises(IntegrityError, match="closes a row and opens another"):
        sql(f"UPDATE markets_bid SET {change}")


@pytest.mark.parametrize("said", ["", ", closed_in = 7"])
def test_a_bid_names_the_transaction_that_closed_it_whatever_that_says(said: str) -> None:
    sql(f"UPDATE markets_bid SET closed_at = clock_timestamp() {said}")
    sql("UPDATE workers_cluster SET name = (SELECT pg_current_xact_id()::text)")
    bid = Bid.objects.select_related("cluster").get()
    assert str(bid.closed_in) == bid.cluster.name


@pytest.mark.parametrize("column", ["cluster_id", "job_id", "type_id"])
def test_a_bid_for_what_is_not_there_is_refused(column: str) -> None:
    sql("UPDATE markets_bid SET closed_at = clock_timestamp()")
    names = [name for name in FIXED if name not in {"id", "opened_in"}]
    values = [{"public_id": "'bid_other'", "position": "1", column: "-1"}.get(name, f'"{name}"') for name in names]
    listed = ", ".join(f'"{name}"' for name in names)
    with pytest.raises(IntegrityError, match="is_of_its_cluster"):
        sql(f"INSERT INTO markets_bid ({listed}) SELECT {', '.join(values)} FROM markets_bid")


@pytest.mark.parametrize("table", ["workers_job", "workers_acceleratortype"])
def test_what_a_bid_names_stays(table: str) -> None:
    named = "job_id" if table == "workers_job" else "type_id"
    with pytest.raises(IntegrityError, match="is_of_its_cluster"):
        sql(f"DELETE FROM {table} WHERE id IN (SELECT {named} FROM markets_bid)")
    with pytest.raises(IntegrityError):
        sql("DELETE FROM workers_cluster; SET CONSTRAINTS ALL IMMEDIATE")
