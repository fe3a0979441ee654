"""One accelerator type: its history as chart, table and file, its depth, and the receipt behind its price."""

import csv
import io
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.test import Client
from pytest_django.plugin import DjangoDbBlocker

from laissez import clock
from markets.models import Clearing
from markets.selectors import prices
from tests import scenes
from tests.flushing import standing
from tests.pages.floor import A10, L4, Floor, make_floor
from tests.pages.reading import queries, reader, text_of
from workers.models import AcceleratorType

pytestmark = pytest.mark.django_db
HOSTILE = "<script>alert(1)</script>\N{RIGHT-TO-LEFT OVERRIDE}{{ 7 }}%{x}<b>"


@pytest.fixture(scope="module")
def untouched_floor(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Floor]:
    """Aspen holds the A10; Birch bids for it, in vain."""
    with standing(django_db_blocker):
        made = make_floor()
        made.run(made.aspen, (A10, "0.987654"), name="aspens-secret")
        scenes.submit(made.birch, (A10, "0.687"), name=HOSTILE)
        scenes.tick(made.cluster)
        yield made


def test_price_now_and_bid_needed_are_two_numbers(floor: Floor) -> None:
    text = text_of(Client().get(f"/market/gemm/{A10}"))
    assert "Price now $0.6870/h" in text
    assert "before $0.6060/h" in text
    assert "Bid needed to win above $0.6870/h and it may still lose to a holder who bids more" in text
    assert "Units in use 1 of 1 (100 %)" in text


def test_the_price_is_explained_by_its_receipt(floor: Floor) -> None:
    text = text_of(Client().get(f"/market/gemm/{A10}"))
    assert "had 1 unit for 1 accepted bid; the highest bid that lost set the price: $0.6870/h ." in text
    assert "1 bid lost at the last clearing" in text
    first = Clearing.objects.order_by("number").first()
    assert first is not None
    earlier = text_of(Client().get(f"/market/gemm/{A10}?clearing={first.number}&range=6h"))
    assert "An earlier receipt." in earlier
    assert "so the price is the base price: $0.6060/h" in earlier


@pytest.mark.parametrize("number", ["999999", "-1", "x", "9" * 40, "\N{ARABIC-INDIC DIGIT ONE}"])
def test_a_receipt_that_is_not_there_is_said_to_be_missing(floor: Floor, number: str) -> None:
    answer = Client().get(f"/market/gemm/{A10}", {"clearing": number})
    assert answer.status_code == 200
    assert "There is no receipt" in text_of(answer) or "had 1 unit" in text_of(answer)


def test_chart_table_and_file_show_the_same_points(floor: Floor) -> None:
    series = Client().get(f"/market/gemm/{A10}/series.json?range=6h").json()
    file = list(csv.DictReader(io.StringIO(Client().get(f"/market/gemm/{A10}/prices.csv?range=6h").content.decode())))
    assert series["points"] == file
    kind = AcceleratorType.objects.get(slug=A10)
    now = clock.now()
    assert series["points"] == prices.rows_json(prices.history(kind, now - timedelta(hours=6), now))
    assert series["series"][0]["y"] == [float(point["price_per_hour"]) for point in series["points"]]


def test_own_bids_and_leases_are_drawn_and_nobody_elses(floor: Floor) -> None:
    own = reader("ben").get(f"/market/gemm/{A10}/series.json").json()
    assert [each["name"] for each in own["series"]][3:] == [f"Your bid: {HOSTILE}"]
    assert own["bands"] == []
    other = reader("anna").get(f"/market/gemm/{A10}/series.json").json()
    assert [each["name"] for each in other["series"]][3:] == ["Your bid: aspens-secret"]
    assert len(other["bands"]) == 1
    assert "aspens-secret" not in str(Client().get(f"/market/gemm/{A10}/series.json").json())


def test_a_hostile_name_is_only_a_name(floor: Floor) -> None:
    page = reader("ben").get(f"/market/gemm/{A10}").content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_a_market_without_history_says_so(floor: Floor) -> None:
    scenes.make_cluster("video", {"acme-v1": ("0.5", "1.0")})
    text = text_of(Client().get("/market/video/acme-v1"))
    assert "No price is known in the last hour." in text
    assert "It has not been cleared yet." in text
    assert Client().get("/market/video/acme-v1/series.json").json()["x"] == []


def test_what_is_not_there_is_not_found(floor: Floor) -> None:
    for path in ("/market/gemm/nope", "/market/nope/nvidia-a10", "/market/gemm/nope/series.json"):
        assert Client().get(path).status_code == 404


def test_the_number_of_queries_does_not_grow_with_bids(floor: Floor) -> None:
    client = reader("ben")
    few = queries(client, f"/market/gemm/{A10}")
    for number in range(3):
        scenes.submit(floor.birch, (A10, "0.61"), (L4, "0.5"), name=f"job {number}")
    scenes.tick(floor.cluster)
    assert queries(client, f"/market/gemm/{A10}") <= few + 2
