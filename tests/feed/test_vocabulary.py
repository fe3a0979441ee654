"""Every type of event is declared once, described, and held to what it promises."""

from typing import Any

import pytest
from django.test import Client, override_settings
from jsonschema import Draft202012Validator

from laissez.events import Outbox, transact
from laissez.feed import vocabulary
from laissez.feed.schemas import COUNT, TEXT, one_of, or_null, record
from laissez.feed.vocabulary import BadData, EventType, UnknownType
from laissez.models import Event
from tests import scenes

pytestmark = pytest.mark.django_db

PRODUCT = [each for each in vocabulary.all_types() if not each.name.startswith(("org.laissez.test", "type"))]


def test_every_type_has_a_valid_schema_a_summary_and_an_audience() -> None:
    assert len(PRODUCT) > 50
    for each in PRODUCT:
        Draft202012Validator.check_schema(each.document())
        assert each.summary.endswith("."), each.name
        assert each.audience in {"public", "holder", "tenant", "operators"}, each.name
        assert each.name.endswith(".v1"), each.name
        assert each.name.startswith(("org.laissez.", "org.harmonaize.")), each.name


def test_only_prices_and_supply_coalesce() -> None:
    assert {each.name for each in PRODUCT if each.coalesces} == {
        "org.laissez.market.price.changed.v1",
        "org.laissez.market.supply.changed.v1",
    }


def test_what_the_public_hears_names_no_bid_and_no_tenant() -> None:
    for each in PRODUCT:
        if each.audience == "public":
            assert not {"bid", "job", "tenant", "max_price_per_hour", "lease"} & set(each.schema["properties"]), each


def test_schemas_are_served_to_everybody(client: Client) -> None:
    items = client.get("/api/v1/schemas").json()["items"]
    assert {each.name for each in PRODUCT} <= {item["type"] for item in items}
    name = "org.laissez.market.price.changed.v1"
    schema = client.get(f"/api/v1/schemas/{name}").json()
    assert (schema["title"], schema["x-entity"], schema["x-coalesces"]) == (name, "exchange", True)
    assert client.get("/api/v1/schemas/org.laissez.nothing.v1").status_code == 404


def test_what_a_market_tells_is_what_the_schemas_say() -> None:
    cluster = scenes.make_cluster()
    scenes.make_host(cluster, nvidia_a10=1)
    scenes.submit(scenes.make_tenant(), ("nvidia-a10", "0.7"))
    scenes.tick(cluster)
    for event in Event.objects.all():
        found = vocabulary.find(event.type)
        Draft202012Validator(dict(found.schema)).validate(event.data)


def tell(type_: str, data: dict[str, Any]) -> None:
    transact(lambda outbox: outbox.add("ops", type_, "it", data))


def test_an_event_that_nobody_has_declared_cannot_be_told() -> None:
    with pytest.raises(UnknownType, match="not in the vocabulary"):
        Outbox().add("ops", "org.laissez.nobody.knows.v1", "it", {})


@pytest.mark.parametrize(
    "data", [{}, {"name": "a"}, {"name": "a", "isolation": 3}, {"name": "a", "isolation": "none", "secret": 1}]
)
def test_data_that_its_type_does_not_describe_cannot_be_told_outside_production(data: dict[str, Any]) -> None:
    with pytest.raises(BadData, match=r"org\.laissez\.ops\.host\.enrolled\.v1"):
        tell("org.laissez.ops.host.enrolled.v1", data)
    assert not Event.objects.exists()
    with override_settings(PRODUCTION=True):
        tell("org.laissez.ops.host.enrolled.v1", data)
    assert Event.objects.count() == 1


def test_a_type_is_declared_once() -> None:
    first = EventType("org.laissez.test.once.v1", "operators", "A test.", record(n=COUNT))
    vocabulary.register([first, first])
    with pytest.raises(ValueError, match="declared twice"):
        vocabulary.register([EventType("org.laissez.test.once.v1", "operators", "Another.", record(n=COUNT))])


def test_null_is_allowed_where_it_is_said() -> None:
    schema = record(word=or_null(one_of(["a", "b"])), text=TEXT, optional=["text"])
    validator = Draft202012Validator(dict(schema))
    assert [validator.is_valid(each) for each in ({"word": None}, {"word": "a"}, {"word": "c"}, {"text": "x"})] == [
        True,
        True,
        False,
        False,
    ]
