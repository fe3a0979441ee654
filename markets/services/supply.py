"""What the exchange shows of each type besides its price: what a tick leaves behind, written where it has changed."""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from markets.engine.actions import Action, HandOver
from markets.engine.book import NONE
from markets.engine.depth import depth
from markets.engine.dynamics import Plan
from markets.engine.floor import Floor
from markets.models import Supply
from markets.selectors.exchange import leaving_and_waiting

_FIGURES = ("units_total", "units_free", "units_leaving", "waiting_awards", "depth")


def write(
    floor: Floor, decided: Plan, present: Mapping[int, Supply], applied: Iterable[Action]
) -> Mapping[int, Supply]:
    """Write down what there is of every type after a tick. What hosts took or gave meanwhile is the next one's to see.

    Args:
        floor: as the tick has read it.
        present: what is written so far, by type.
        applied: what the tick has done.

    Returns:
        What has changed, by type.
    """
    fresh = {row.type_id: row for row in _rows(floor, decided, applied)}
    changed = {
        type_id: row
        for type_id, row in fresh.items()
        if type_id not in present or _figures(present[type_id]) != _figures(row)
    }
    if changed:
        Supply.objects.bulk_create(
            changed.values(), update_conflicts=True, unique_fields=["type"], update_fields=_FIGURES
        )
    return changed


def _rows(floor: Floor, decided: Plan, applied: Iterable[Action]) -> Iterable[Supply]:
    usable = floor.units[floor.units["usable"] == 1]
    kinds = len(floor.types)
    totals = np.bincount(usable["type"], minlength=kinds)
    free = np.bincount(usable["type"][usable["lease"] == NONE], minlength=kinds)
    given = Counter(action.type for action in applied if isinstance(action, HandOver))
    depths, others = depth(decided.clearing), leaving_and_waiting(floor.types["id"].tolist())
    for type_id, total, unoccupied in zip(floor.types["id"].tolist(), totals.tolist(), free.tolist(), strict=True):
        leaving, waiting = others.get(type_id, (0, 0))
        yield Supply(
            type_id=type_id,
            units_total=total,
            units_free=unoccupied - given[type_id],
            units_leaving=leaving,
            waiting_awards=waiting,
            depth=list(depths[type_id]),
        )


def _figures(row: Supply) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in _FIGURES)
