"""What the buttons of the form's launch table do: each gives a new draft, the field to go on from, and a sentence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from markets.services.bids import MAX_ROWS
from markets.views.job_draft import Draft, Row


@dataclass(frozen=True, slots=True)
class Acted:
    """The draft after an act; `focus` is the id of what the keyboard goes on from, `said` is read out loud."""

    draft: Draft
    focus: str = ""
    said: str = ""


def act(draft: Draft, name: str, *, types: Sequence[str], cost: Callable[[Row], int | None]) -> Acted:
    """Do what a button says: `add`, `sort`, `up-1`, `down-1`, `remove-1`, `drop`, `drop-1`; anything else does nothing.

    Args:
        types: the accelerator types that may be bid for.
        cost: what a row is expected to cost now, None where that is unknown.
    """
    verb, _, number = name.partition("-")
    place = int(number) if number.isdecimal() and len(number) < 4 else None
    rows = list(draft.rows)
    if verb == "add":
        return _add(draft, types)
    if verb == "sort":
        ordered = sorted(rows, key=lambda row: (cost(row) is None, cost(row) or 0))
        return Acted(replace(draft, rows=ordered), "act-sort", "Ordered by expected cost, the lowest first.")
    if verb == "drop" and place is None:
        without = {**draft.values, "artifact": "", "artifact-name": ""}
        return Acted(replace(draft, values=without), "f-upload", "The files are taken out of the job.")
    if place is None or place >= len(rows):
        return Acted(draft)
    if verb == "drop":
        rows[place] = {**rows[place], "artifact": "", "artifact-name": ""}
        return Acted(
            replace(draft, rows=rows), f"f-rows-{place}-upload", f"Row {place + 1} has no files of its own now."
        )
    if verb == "remove":
        del rows[place]
        focus = f"act-remove-{min(place, len(rows) - 1)}" if rows else "act-add"
        return Acted(replace(draft, rows=rows), focus, f"Row {place + 1} is gone; {len(rows)} are left.")
    return _moved(draft, rows, verb, place)


def _moved(draft: Draft, rows: list[Row], verb: str, place: int) -> Acted:
    other = place + {"up": -1, "down": 1}.get(verb, 0)
    if other == place or not 0 <= other < len(rows):
        return Acted(draft)
    rows[place], rows[other] = rows[other], rows[place]
    is_at_end = other == (0 if verb == "up" else len(rows) - 1)
    turned = {"up": "down", "down": "up"}[verb] if is_at_end else verb
    return Acted(replace(draft, rows=rows), f"act-{turned}-{other}", f"Now row {other + 1} of {len(rows)}.")


def _add(draft: Draft, types: Sequence[str]) -> Acted:
    if len(draft.rows) >= MAX_ROWS:
        return Acted(draft, "act-add", f"A launch table has at most {MAX_ROWS} rows.")
    taken = {row.get("accelerator_type") for row in draft.rows}
    fresh: Row = {"accelerator_type": next((name for name in types if name not in taken), types[0] if types else "")}
    place = len(draft.rows)
    return Acted(
        replace(draft, rows=[*draft.rows, fresh]), f"f-rows-{place}-accelerator_type", f"Row {place + 1} is new."
    )
