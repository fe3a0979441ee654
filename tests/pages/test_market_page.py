"""The start page and the exchange, as anybody and as a tenant sees them."""

from datetime import timedelta

import pytest
from django.test import Client
from pytest_django import Settings

from laissez import clock
from laissez.models import Stream
from markets.models import PriceChange, Quote
from tenants.models import Member
from tests import scenes
from tests.pages.floor import A10, L4, PASSWORD, Floor, make_member
from tests.pages.reading import queries, reader, text_of
from workers.models import AcceleratorType, Cluster

pytestmark = pytest.mark.django_db


def test_the_start_page_shows_prices_to_anybody(floor: Floor) -> None:
    answer = Client().get("/")
    assert answer.status_code == 200
    assert "$0.6060/h" in text_of(answer)
    assert "$0.4755/h" in text_of(answer)


def test_a_stranger_is_sent_to_sign_in_and_back(settings: Settings) -> None:
    settings.PUBLIC_MARKET = False
    for path in ("/market/gemm", "/market/gemm/nvidia-a10", "/jobs", "/jobs/job_x"):
        answer = Client().get(path)
        assert answer.status_code == 302
        assert answer["Location"] == f"/login/?next={path}"


def test_a_market_that_is_not_public_shows_no_price_to_a_stranger(floor: Floor, settings: Settings) -> None:
    settings.PUBLIC_MARKET = False
    answer = Client().get("/")
    assert "Sign in to see the prices" in text_of(answer)
    assert "data-price" not in answer.content.decode()


def test_a_public_market_shows_a_stranger_prices_and_no_bids(floor: Floor) -> None:
    floor.run(floor.aspen, (A10, "0.987654"), name="aspens-secret")
    scenes.tick(floor.cluster)
    for path in ("/market/gemm", f"/market/gemm/{A10}", f"/market/gemm/{A10}/series.json"):
        answer = Client().get(path)
        assert answer.status_code == 200
        assert "aspens-secret" not in answer.content.decode()
        assert "0.987" not in answer.content.decode()


def test_a_page_that_updates_itself_is_loaded_anew_when_its_session_has_ended() -> None:
    answer = Client().get("/jobs", headers={"HX-Request": "true"})
    assert answer["HX-Refresh"] == "true"


def test_the_exchange_shows_price_base_cap_units_and_age(floor: Floor) -> None:
    floor.run(floor.aspen, (A10, "0.9"))
    scenes.submit(floor.birch, (A10, "0.687"))
    ben = reader("ben")
    scenes.tick(floor.cluster)
    text = text_of(ben.get("/market/gemm"))
    assert "Live Cleared 0." in text
    assert "nvidia-a10 $0.6870/h above $0.6870/h — $0.6060/h $2.0000/h 0 0 1 " in text


def test_a_unit_that_is_free_goes_at_the_price(floor: Floor) -> None:
    text = text_of(reader("ben").get("/market/gemm"))
    assert "nvidia-l4 $0.4755/h $0.4755/h — $0.4755/h $2.0000/h 4 0 4" in text


def test_a_market_without_ticks_says_since_when_it_is_stale(floor: Floor) -> None:
    floor.cluster.refresh_from_db()
    before = floor.cluster.last_tick_at
    assert before is not None
    Cluster.objects.update(last_tick_at=before - timedelta(seconds=60))
    text = text_of(reader("ben").get("/market/gemm"))
    assert f"Stale since {before - timedelta(seconds=60):%H:%M:%S} UTC" in text
    assert "prices are frozen" in text


def test_a_type_that_was_never_priced_shows_a_dash_and_no_zero(floor: Floor) -> None:
    scenes.make_cluster("video", {"acme-v1": ("0.5", "1.0")})
    text = text_of(reader("ben").get("/market/video"))
    assert "Not priced yet" in text
    assert "acme-v1 — — — — $0.5000/h $1.0000/h 0 0 0 no host" in text


def test_own_bids_are_shown_and_nobody_elses(floor: Floor) -> None:
    floor.run(floor.aspen, (A10, "0.987654"), name="aspens-secret")
    scenes.submit(floor.birch, (A10, "0.612345"), (L4, "2.0"), name="birches-own")
    scenes.tick(floor.cluster)
    ben, anna = (reader(name).get("/market/gemm").content.decode() for name in ("ben", "anna"))
    assert "birches-own" in ben
    assert "birches-own" not in anna
    assert "aspens-secret" in anna
    assert "aspens-secret" not in ben
    assert "0.9877" in anna
    assert "0.9877" not in ben


def test_a_reader_without_a_tenant_sees_the_market_but_no_bids(
    floor: Floor, django_user_model: type, client: Client
) -> None:
    operator = django_user_model.objects.create_superuser("operator", password=PASSWORD)  # type: ignore[attr-defined]
    client.force_login(operator)
    answer = client.get("/market/gemm")
    assert answer.status_code == 200
    assert "Your bids" not in text_of(answer)
    jobs = client.get("/jobs")
    assert jobs.status_code == 403
    assert "belongs to no tenant" in text_of(jobs)


def test_finance_sees_prices_but_no_bids_and_no_jobs(floor: Floor) -> None:
    make_member(floor.birch, "fin", Member.Role.FINANCE)
    scenes.submit(floor.birch, (L4, "2.0"), name="birches-own")
    client = reader("fin")
    assert "birches-own" not in client.get("/market/gemm").content.decode()
    assert client.get("/jobs").status_code == 403


def test_an_unknown_cluster_is_not_found(floor: Floor) -> None:
    assert reader("ben").get("/market/nope").status_code == 404


def test_the_market_without_a_name_is_the_first_one(floor: Floor) -> None:
    assert reader("ben").get("/market/")["Location"] == "/market/gemm"


def test_rows_are_left_out_by_the_address(floor: Floor) -> None:
    floor.run(floor.aspen, (A10, "0.9"))
    scenes.tick(floor.cluster)
    client = Client()
    text = text_of(client.get("/market/gemm?type=NVIDIA"))
    assert "nvidia-l4" in text
    assert "aws-trainium" not in text
    assert "nvidia-a10" not in text_of(client.get("/market/gemm?free=1"))
    assert "No accelerator matches" in text_of(client.get("/market/gemm?type=%3Cscript%3E"))


def test_an_announced_change_is_shown_with_its_time_on_both_pages(floor: Floor) -> None:
    now = clock.now()
    PriceChange.objects.create(
        type=AcceleratorType.objects.get(slug=A10),
        base_price_per_hour=700_000,
        cap_price_per_hour=2_100_000,
        reason_class=PriceChange.ReasonClass.ENERGY,
        reason="in the operator's words",
        actor="operator",
        announced_at=now,
        effective_at=now + timedelta(days=2),
    )
    when = f"{now + timedelta(days=2):%d %b %Y %H:%M:%S} UTC"
    assert f"From {when} : base $0.7000/h, cap $2.1000/h" in text_of(Client().get("/market/gemm"))
    text = text_of(Client().get(f"/market/gemm/{A10}"))
    assert f"from {when} the base price is $0.7000/h and the cap $2.1000/h (price of energy)" in text
    assert "operator's words" not in text


def test_the_page_follows_its_market_from_the_last_event_it_shows(floor: Floor) -> None:
    last = Stream.objects.get(name="market:gemm").last_seq
    assert f'data-streams="market:gemm@{last}"' in Client().get("/market/gemm").content.decode()


def test_the_number_of_queries_does_not_grow_with_types_and_bids(floor: Floor) -> None:
    client = reader("ben")
    few = queries(client, "/market/gemm")
    for number in range(4):
        scenes.submit(floor.birch, (A10, "0.61"), (L4, "0.5"), name=f"job {number}")
    scenes.tick(floor.cluster)
    assert Quote.objects.exists()
    assert queries(client, "/market/gemm") <= few + 2  # the seats and awards behind own bids
