"""A plan carried out as a whole leaves the rows and tells the events that its actions did one by one."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from django.db import connection, transaction

from laissez.events import Outbox
from markets.engine.actions import Action
from markets.engine.dynamics import Plan, plan
from markets.models import Award, Bid, CoolDown, Notice
from markets.selectors import exchange
from markets.selectors import floor as floors
from markets.services.actions import Applier
from tenants.models import Entry
from tests.market.acted_one_by_one import KINDS, OneByOne
from tests.market.days import Day
from workers.models import Accelerator, Job, Lease, Migration
from workers.services import jobs

pytestmark = pytest.mark.django_db(transaction=True)

STEPS = 40
OWN_NAMES = ("id", "public_id", "transfer_id", "written_by", "opened_in", "closed_in")
PUBLIC_ID = re.compile("(?:lse|awd|ntc|mig|trf|txn|tra)_[0-9a-z]{20}")


@dataclass(frozen=True, slots=True)
class Effect:
    """What an applier has done, told without names that chance has given."""

    applied: Counter[Action]
    rows: dict[str, list[str]]
    events: dict[str, list[str]]


def plan_of(day: Day) -> Plan:
    return plan(floors.read(day.cluster, now=day.now).floor, day.cluster.rule)


def effect_of(hand: type[Applier] | type[OneByOne], day: Day, decided: Plan) -> Effect:
    """Carry a plan out, look, and undo it."""
    with transaction.atomic():
        outbox = Outbox(now=day.now)
        locked = jobs.lock(action.job for action in decided.actions)
        types = exchange.types_of(day.cluster)
        applier = hand(
            cluster=day.cluster, types=types, clearing=decided.clearing, jobs=locked, now=day.now, outbox=outbox
        )
        applier.apply_all(decided.actions)
        connection.check_constraints()
        names = names_of_rows()
        effect = Effect(Counter(applier.applied), rows_of(names), told(outbox, names))
        transaction.set_rollback(True)
    return effect


def names_of_rows() -> dict[object, str]:
    """Of every row that an applier may write: what it is, by its public id, and by its kind and id."""
    names: dict[object, str] = {}
    for lease in Lease.objects.all():
        names["lease", lease.pk] = names[lease.public_id] = f"lease of {lease.accelerator_id} with {lease.fence}"
    for award in Award.objects.all():
        names[award.public_id] = f"award of {award.type_id} to {award.job_id} since {award.since}"
    for notice in Notice.objects.all():
        names[notice.public_id] = f"notice about {names['lease', notice.lease_id]} from {notice.opened_at}"
    for move in Migration.objects.all():
        names[move.public_id] = f"move of {move.job_id} from {move.opened_at}"
    return names


def rows_of(names: dict[object, str]) -> dict[str, list[str]]:
    models = (Accelerator, Job, Lease, Award, Bid, Notice, Migration, CoolDown, Entry)
    return {model.__name__: sorted(str(plain(row, names)) for row in model.objects.values()) for model in models}


def plain(row: dict[str, Any], names: dict[object, str]) -> dict[str, Any]:
    leases = ("lease_id", "source_id", "destination_id")
    kept = {name: value for name, value in row.items() if name not in OWN_NAMES}
    return kept | {name: names["lease", kept[name]] for name in leases if kept.get(name) is not None}


def told(outbox: Outbox, names: dict[object, str]) -> dict[str, list[str]]:
    streams: dict[str, list[str]] = defaultdict(list)
    for draft in outbox.drafts:
        text = json.dumps([draft.type, draft.subject, draft.data], sort_keys=True)
        streams[draft.stream].append(PUBLIC_ID.sub(lambda found: names.get(found[0], "?"), text))
    return dict(streams)


def differences(one: dict[str, list[str]], other: dict[str, list[str]]) -> list[tuple[str, list[str], list[str]]]:
    """Tables, or streams, that are not the same in both, with the lines that are not."""
    names = sorted(one.keys() | other.keys())
    pairs = [(name, one.get(name, []), other.get(name, [])) for name in names]
    return [
        (name, [line for line in this if line not in that], [line for line in that if line not in this])
        for name, this, that in pairs
        if this != that
    ]


def kinds_of(actions: Iterable[Action]) -> set[str]:
    return {type(action).__name__ for action in actions}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [12])
def test_a_plan_as_a_whole_does_what_its_actions_did_one_by_one_be_it_fresh_or_stale(seed: int) -> None:
    day, seen, dropped = Day(Random(seed)), set(), 0
    stale = plan_of(day)
    for _ in range(STEPS):
        day.live()
        fresh = plan_of(day)
        for decided in (fresh, stale):
            effect = effect_of(Applier, day, decided)
            reference = effect_of(OneByOne, day, decided)
            assert differences(effect.rows, reference.rows) == []
            assert differences(effect.events, reference.events) == []
            assert effect.applied == reference.applied
            seen |= kinds_of(effect.applied)
            dropped += len(decided.actions) - sum(effect.applied.values())
        stale = fresh
        day.clear()
    assert {"OpenAward", "CloseAward", "HandOver", "GiveNotice", "ExecuteNotice"} <= seen
    assert dropped


@pytest.mark.slow
@pytest.mark.parametrize("seed", [13])
def test_a_plan_names_the_actions_of_one_job_in_the_order_of_their_kinds(seed: int) -> None:
    day = Day(Random(seed))
    for _ in range(STEPS):
        day.live()
        ranks: dict[int, list[int]] = defaultdict(list)
        for action in plan_of(day).actions:
            ranks[action.job].append(KINDS.index(type(action)))
        for found in ranks.values():
            assert [rank for rank in found if rank != COOLING] == sorted(rank for rank in found if rank != COOLING)
        day.clear()


COOLING = [kind.__name__ for kind in KINDS].index("CoolDown")
"""The one kind that a plan names in two places, and that no other looks at."""
