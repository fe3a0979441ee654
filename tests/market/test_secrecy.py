"""What a winner would pay at most shows nowhere: not in answers, events, sockets, depth, pages or errors."""

import json
import re
from itertools import zip_longest
from typing import Any

import pytest
from django.test import Client

from laissez import clock
from laissez.events import transact
from laissez.feed import replay
from laissez.feed.hub import frame_of
from tenants.models import Member, Tenant
from tenants.services import accounts
from tests import scenes
from workers.models import Cluster, Job, Lease

pytestmark = pytest.mark.django_db

A10, L4 = "nvidia-a10", "nvidia-l4"
PASSWORD = "correct horse battery"
MASKS = [
    (re.compile(pattern), put)
    for pattern, put in (
        (r'(?s)<nav class="tabs".*?</nav>', "CLUSTERS"),
        (r'(?s)<div class="timeline".*?<ul class="legend"', "DRAWN BY TIME"),
        (r"<time.*?</time>", "TIME"),
        (r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)?", "TIME"),
        (r"\d\d:\d\d:\d\d", "TIME"),
        (r"\b([a-z]{3})_[0-9a-z]{12,}", r"\1_ID"),
        (r'(name="(csrfmiddlewaretoken|key)" value=)"[^"]*"', r"\1"),
        (r'data-age="[^"]*">[^<]*<', "AGE<"),
        (r"\b\d+(\.\d+)? (s|min)\b", "AGE"),
        (r'"age_seconds": ?[\d.]+', "AGE"),
    )
]
"""What no two markets share: times and what is drawn by them, ages, ids drawn by chance, keys of forms, the other."""


class World:
    """A market with one holder on the A10 that bids `most`, two losers, and somebody to read its answers."""

    def __init__(self, slug: str, most: str) -> None:
        self.slug = slug
        self.cluster = scenes.make_cluster(slug)
        self.host = scenes.make_host(self.cluster, f"host-{slug}", nvidia_a10=1, nvidia_l4=1)
        self.winner = self.submit("winner", (A10, most), (L4, most))
        self.turn()
        self.loser = self.submit("loser", (A10, "0.9"))
        self.turn()
        self.submit("lower", (A10, "0.7"), (L4, "0.5"))
        self.turn()
        self.person = transact(self._person)

    def _person(self, outbox: Any) -> Member:
        name = f"reader-{self.slug}"
        return accounts.add_member(self.loser.tenant, username=name, password=PASSWORD, actor="a test", outbox=outbox)

    def submit(self, name: str, *rows: tuple[str, str]) -> Job:
        """A job of a tenant of that name."""
        tenant = Tenant.objects.filter(name=f"{name}-{self.slug}").first()
        tenant = tenant or scenes.make_tenant(f"{name}-{self.slug}")
        return scenes.submit(tenant, *rows, cluster=self.slug, name=name)

    def turn(self) -> None:
        """Clear, let the host follow, and clear again."""
        scenes.tick(self.cluster)
        self.host.settle()
        scenes.tick(self.cluster)

    def seen(self) -> dict[str, str]:
        """Whatever anybody but the winner is shown, by its place, with what no two markets share taken out."""
        return self._masked_all({**self._answers(), **self._pages(), **self._errors(), "socket": self.told()})

    def _masked_all(self, shown: dict[str, str]) -> dict[str, str]:
        return {self._masked(place): self._masked(text) for place, text in shown.items()}

    def _masked(self, text: str) -> str:
        for pattern, put in MASKS:
            text = pattern.sub(put, text)
        return text.replace(self.slug, "here")

    def _answers(self) -> dict[str, str]:
        base = f"/api/v1/markets/{self.slug}"
        numbers = self.cluster.clearings.order_by("number").values_list("number", flat=True)
        paths = [base, f"{base}/types/{A10}/history", f"{base}/types/{A10}/price-changes"]
        paths += [f"{base}/receipts/{number}" for number in numbers]
        paths += [f"/api/v1/events/snapshot?stream=market:{self.slug}", f"/api/v1/jobs/{self.loser.public_id}"]
        return self._read(self._client(), paths)

    def _pages(self) -> dict[str, str]:
        market = f"/market/{self.slug}"
        types = [f"{market}/{kind}{part}" for kind in (A10, L4) for part in ("", "/series.json", "/prices.csv")]
        job = f"/jobs/{self.loser.public_id}"
        own = [job, f"{job}/bids", "/jobs"]
        stranger, reader = Client(), self._client()
        self._have_ticked()
        landing = stranger.get("/").content.decode()
        section = re.search(rf'<section id="prices-{self.slug}".*?</section>', landing, re.DOTALL)
        assert section is not None
        shown = self._read(stranger, [market, *types]) | self._read(reader, own)
        return shown | {"start page": section.group()}

    def _errors(self) -> dict[str, str]:
        """What a rival is answered who tries bids without making them."""
        client = self._client()
        tried = {}
        for price in ("0.1", "0.95", "5.0"):
            body = scenes.body((A10, price), cluster=self.slug)
            answer = client.post("/api/v1/jobs?dry_run=true", json.dumps(body), content_type="application/json")
            tried[f"a bid of {price}"] = f"{answer.status_code} {answer.content.decode()}"
        return tried

    def told(self) -> str:
        """The frames that a socket is sent."""
        told = replay.page(f"market:{self.slug}", after=0)
        return self._masked("\n".join(frame_of(event).text for event in told))

    def _have_ticked(self) -> None:
        """A market that has not ticked for three seconds calls itself stale."""
        Cluster.objects.update(last_tick_at=clock.now())

    def _client(self) -> Client:
        client = Client()
        client.force_login(self.person.user)
        return client

    def _read(self, client: Client, paths: list[str]) -> dict[str, str]:
        shown = {}
        for path in paths:
            self._have_ticked()
            answer = client.get(path)
            assert answer.status_code == 200, (path, answer.status_code)
            shown[path] = answer.content.decode()
        return shown


def differences(one: World, other: World) -> list[tuple[str, str, str]]:
    """The lines that two worlds show differently, with their place."""
    left, right = one.seen(), other.seen()
    assert left.keys() == right.keys()
    return [
        (place, first, second)
        for place in left
        for first, second in zip_longest(left[place].splitlines(), right[place].splitlines(), fillvalue="")
        if first != second
    ]


def test_two_markets_that_differ_in_a_winners_maximum_look_the_same_until_a_bid_wins() -> None:
    one, other = World("zq1", "1.0"), World("zq2", "1.9")
    assert differences(one, other) == []
    for world in (one, other):
        world.submit("bolder", (A10, "0.95"))
        world.turn()
    assert differences(one, other) == []
    for world in (one, other):
        world.submit("boldest", (A10, "1.5"))
        world.turn()
    assert one.told() != other.told()
    assert Lease.objects.filter(job=one.winner).exists()
