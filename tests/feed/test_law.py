"""The law: a snapshot and the events after it are the next snapshot."""

import json
from typing import Any

import pytest

from laissez.feed import vocabulary
from laissez.feed.folding import fold
from laissez.feed.replay import page
from laissez.feed.snapshots import snapshot
from laissez.feed.vocabulary import EventType
from laissez.models import Event
from tests.feed.lives import Floor
from tests.invariants.lived import Market
from workers.models import Job

pytestmark = pytest.mark.django_db(transaction=True)

STEPS = 40
MOST_STEPS = 400
"""The market's seconds are real ones, so a life may need more steps until something runs in it."""
LOOK_EVERY = 8


class Law:
    """Follows streams by their snapshots; at each look the last ones and what was told since are the present ones."""

    def __init__(self) -> None:
        self._before: dict[str, dict[str, Any]] = {}

    def look(self, streams: list[str]) -> None:
        for stream in streams:
            now = json.loads(json.dumps(snapshot(stream)))
            # A job tells all of its life; a cluster of a test was there before it told anything.
            first = {"seq": 0, "entities": {}} if stream.startswith("job:") else now
            then = self._before.get(stream, first)
            self._before[stream] = now
            told = page(stream, after=then["seq"])
            assert [event.seq for event in told] == list(range(then["seq"] + 1, now["seq"] + 1))
            folded = fold(then["entities"], [(event.type, event.subject, event.data) for event in told])
            assert differences(folded, now["entities"]) == {}, (stream, [event.type for event in told])


def differences(folded: dict[str, Any], present: dict[str, Any]) -> dict[tuple[str, str], tuple[Any, Any]]:
    """Rows that are not the same in both, by kind and subject."""
    both = [(rows.get(kind, {}), kind) for rows in (folded, present) for kind in {*folded, *present}]
    names = {(kind, subject) for rows, kind in both for subject in rows}
    pairs = {name: tuple(rows.get(name[0], {}).get(name[1]) for rows in (folded, present)) for name in names}
    return {name: (pair[0], pair[1]) for name, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.slow
def test_the_law_holds_in_a_market_in_which_jobs_are_outbid_and_move() -> None:
    law = Law()

    def look() -> None:
        names = Job.objects.order_by("id").values_list("public_id", flat=True)
        law.look(["market:gemm", *(f"job:{name}" for name in names)])

    market = Market(look=look)
    market.begin()
    market.outbid_and_move()
    market.finish()
    market.go_on()
    kinds = set(Event.objects.values_list("type", flat=True))
    assert {f"org.laissez.market.migration.{word}.v1" for word in ("awarded", "restoring", "done")} <= kinds


@pytest.mark.parametrize("seed", [107])
def test_the_law_holds_whatever_tenants_hosts_agents_and_operators_do(seed: int) -> None:
    law, floor = Law(), Floor(seed)
    ran = Event.objects.filter(type="org.laissez.market.lease.active.v1")
    for step in range(MOST_STEPS):
        floor.act()
        if (step + 1) % LOOK_EVERY == 0:
            law.look(floor.streams())
        if step >= STEPS and ran.exists():
            break
    law.look(floor.streams())
    assert ran.exists()


ROW = "org.laissez.test.row"


def test_folding_puts_rows_in_and_takes_them_out_and_leaves_the_snapshot_as_it_was() -> None:
    vocabulary.register(
        [
            EventType(f"{ROW}.put.v1", "operators", "A test.", {}, entity="row"),
            EventType(f"{ROW}.taken.v1", "operators", "A test.", {}, entity="row", removes=True),
            EventType(f"{ROW}.seen.v1", "operators", "A test.", {}),
        ]
    )
    before = {"row": {"a": {"n": 1}}}
    told = [
        (f"{ROW}.put.v1", "b", {"n": 2}),
        (f"{ROW}.seen.v1", "b", {"n": 9}),
        (f"{ROW}.put.v1", "a", {"n": 3}),
        (f"{ROW}.taken.v1", "b", {}),
        (f"{ROW}.taken.v1", "never", {}),
        ("org.laissez.unheard.of.v1", "c", {}),
    ]
    assert fold(before, told) == {"row": {"a": {"n": 3}}}
    assert before == {"row": {"a": {"n": 1}}}
