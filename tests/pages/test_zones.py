"""Times are written in the reader's zone, which a cookie or the address names; the API speaks UTC."""

import re

import pytest
from django.test import Client

from tests.pages.floor import Floor
from tests.pages.reading import text_of

pytestmark = pytest.mark.django_db


def ticked(client: Client, path: str = "/market/gemm/nvidia-a10") -> str:
    """The zone that the page's times are in."""
    (offset,) = set(re.findall(r"since \d\d:\d\d:\d\d (\S+)", text_of(client.get(path))))
    return offset


@pytest.fixture
def client(floor: Floor) -> Client:
    return Client()


def test_times_are_utc_until_a_zone_is_known(client: Client) -> None:
    assert ticked(client) == "UTC"


def test_the_cookie_names_the_zone_and_the_address_outdoes_it(client: Client) -> None:
    client.cookies["zone"] = "Asia%2FKolkata"
    assert ticked(client) == "+05:30"
    assert "Times are in Asia/Kolkata (+05:30)." in text_of(client.get("/"))
    assert ticked(client, "/market/gemm/nvidia-a10?zone=America/New_York")[0] == "-"


@pytest.mark.parametrize("name", ["../../etc/passwd", "Mars/Olympus", "\x00", "x" * 5000, "%00", "zoneinfo"])
def test_a_name_that_is_no_zone_counts_as_none(client: Client, name: str) -> None:
    assert "Times are UTC." in text_of(client.get("/", {"zone": name}))
    client.cookies["zone"] = name.replace("\x00", "")
    assert "Times are UTC." in text_of(client.get("/"))


def test_a_chosen_zone_is_kept_and_leads_back_to_the_page(client: Client) -> None:
    answer = client.post("/zone", {"zone": "Europe/Paris", "next": "/market/gemm?free=1&zone=UTC"})
    assert answer["Location"] == "/market/gemm?free=1"
    assert answer.cookies["zone"].value == "Europe/Paris"
    assert client.post("/zone", {"zone": "Mars", "next": "https://elsewhere.example/"})["Location"] == "/"


def test_a_zone_choice_does_not_change_the_api(client: Client) -> None:
    client.cookies["zone"] = "Asia/Kolkata"
    assert "+05:30" not in client.get("/market/gemm/nvidia-a10/series.json").content.decode()
