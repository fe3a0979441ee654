"""A launch table while somebody changes it: what is typed, what the buttons do, and what it would cost. Values only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from laissez.errors import Fault
from markets.engine.money import format_price
from markets.models import Bid
from markets.selectors.exchange import Exchange
from markets.services.bids import CAP, MAX_ROWS, TableRow

FIELDS = ("accelerator_type", "max_price_per_hour", "keep_price_per_hour")
MOST_ROWS_READ = 64
LONGEST = 80


@dataclass(frozen=True, slots=True)
class DraftRow:
    """One row as it was typed, and what is wrong with it by field."""

    accelerator_type: str
    max_price_per_hour: str = ""
    keep_price_per_hour: str = ""
    faults: Mapping[str, str] = field(default_factory=dict)


def of_bids(bids: Sequence[Bid]) -> list[DraftRow]:
    """The present launch table, as it would be typed."""
    return [
        DraftRow(
            accelerator_type=bid.type.slug,
            max_price_per_hour=CAP if bid.max_price_per_hour is None else _typed(bid.max_price_per_hour),
            keep_price_per_hour="" if bid.keep_price_per_hour is None else _typed(bid.keep_price_per_hour),
        )
        for bid in bids
    ]


def _typed(price: int) -> str:
    """A price with the decimals that it has, four at least."""
    return format_price(price).removesuffix("00")


def read(form: Mapping[str, str]) -> list[DraftRow]:
    """What was typed into `rows-0-accelerator_type` and so on."""
    rows = []
    for place in range(MOST_ROWS_READ):
        if f"rows-{place}-{FIELDS[0]}" not in form:
            break
        slug, highest, keep = (_typed_in(form, f"rows-{place}-{name}") for name in FIELDS)
        rows.append(DraftRow(slug, highest, keep))
    return rows


def _typed_in(form: Mapping[str, str], name: str) -> str:
    """One field without what no database could look for."""
    return form.get(name, "").replace("\x00", "").strip()[:LONGEST]


def submitted(rows: Sequence[DraftRow]) -> list[dict[str, str]]:
    """The rows as the API takes them, so that its own check judges them."""
    return [_submitted(row) for row in rows]


def _submitted(row: DraftRow) -> dict[str, str]:
    highest = row.max_price_per_hour
    given = {
        "accelerator_type": row.accelerator_type,
        "max_price_per_hour": CAP if highest.lower() == CAP else highest.removeprefix("$"),
    }
    if row.keep_price_per_hour:
        given["keep_price_per_hour"] = row.keep_price_per_hour.removeprefix("$")
    return given


def edited(rows: Sequence[DraftRow], act: str, *, types: Sequence[str]) -> list[DraftRow]:
    """The rows after `add`, `remove-1`, `up-1` or `down-1`; anything else leaves them as they are."""
    verb, _, number = act.partition("-")
    place = int(number) if number.isdecimal() and len(number) < 4 else None
    changed = list(rows)
    if verb == "add" and len(changed) < MAX_ROWS:
        taken = {row.accelerator_type for row in changed}
        changed.append(DraftRow(next((slug for slug in types if slug not in taken), types[0] if types else "")))
    elif place is not None and place < len(changed):
        other = place + {"up": -1, "down": 1}.get(verb, 0)
        if verb == "remove":
            del changed[place]
        elif other != place and 0 <= other < len(changed):
            changed[place], changed[other] = changed[other], changed[place]
    return changed


def focus_after(rows: Sequence[DraftRow], act: str) -> tuple[int, str]:
    """Where the keyboard goes on, given the rows after an act: a row's place, and its field or button.

    `(-1, "add")` is the button under the rows, `(-1, "")` the page's beginning.
    """
    faulty = next((place for place, row in enumerate(rows) if row.faults), None)
    if faulty is not None:
        return faulty, next(iter(rows[faulty].faults))
    verb, _, number = act.partition("-")
    if verb == "add" and rows:
        return len(rows) - 1, FIELDS[0]
    if verb not in ("up", "down") or not number.isdecimal():
        return -1, "add" if verb == "remove" else ""
    place = min(max(int(number[:4]) + {"up": -1, "down": 1}[verb], 0), len(rows) - 1)
    at_the_end = place == (0 if verb == "up" else len(rows) - 1)
    return place, {"up": "down", "down": "up"}[verb] if at_the_end else verb


def faulted(rows: Sequence[DraftRow], faults: Sequence[Fault]) -> tuple[list[DraftRow], list[str]]:
    """The rows with each fault at the field that its pointer names, and what concerns no field."""
    by_field: dict[tuple[int, str], str] = {}
    others = []
    for fault in faults:
        where = _place(fault.pointer, len(rows))
        if where is None:
            others.append(fault.detail)
        else:
            by_field[where] = " ".join(part for part in (by_field.get(where), fault.detail) if part)
    marked = [
        DraftRow(
            row.accelerator_type,
            row.max_price_per_hour,
            row.keep_price_per_hour,
            {name: by_field[place, name] for name in FIELDS if (place, name) in by_field},
        )
        for place, row in enumerate(rows)
    ]
    return marked, others


def _place(pointer: str, rows: int) -> tuple[int, str] | None:
    parts = pointer.split("/")
    if len(parts) < 3 or parts[1] != "rows" or not parts[2].isdecimal() or int(parts[2]) >= rows:
        return None
    name = parts[3] if len(parts) > 3 else FIELDS[0]
    return (int(parts[2]), name if name in FIELDS else FIELDS[0])


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a launch table comes to at present prices. Prices in micro-dollars per hour, `hold` in micro-dollars.

    `wins` is the place of the first row that would win now, from 0; None where none would.
    """

    wins: int | None
    slug: str
    price: int | None
    most: int
    hold: int


def estimate(table: Sequence[TableRow], exchange: Exchange, *, held: int | None, hold: int) -> Estimate:
    """The first row that wins at present prices, and the most that any row can cost an hour.

    Args:
        held: the primary key of the type that the job runs on, which needs no free unit.
        hold: what is set aside behind these bids.
    """
    most = max((_dearest(row) for row in table), default=0)
    for place, row in enumerate(table):
        quote = exchange.row(row.type.slug)
        is_held = row.type.pk == held
        own = _counted(row, row.keep_price or row.max_price if is_held else row.max_price)
        if quote is None or quote.price is None or quote.units_total == 0:
            continue
        if own > quote.price or (own == quote.price and (is_held or quote.units_free > 0)):
            return Estimate(place, row.type.slug, quote.price, most, hold)
    return Estimate(None, "", None, most, hold)


def _counted(row: TableRow, price: int | None) -> int:
    cap: int = row.type.cap_price_per_hour
    return cap if price is None else min(price, cap)


def _dearest(row: TableRow) -> int:
    return _counted(row, None if row.max_price is None else max(row.max_price, row.keep_price or 0))
