"""Changing bids of many of a tenant's jobs at once: a row names a job, an accelerator type, and what it is to bid now.

The rows of one job stand or fall together, as its launch table does when it is changed by itself: a table half changed
is one that nobody asked for. Jobs stand for themselves: what is refused to one is no other's matter. Everything happens
in one transaction, by a number of statements that no row adds to.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from laissez.errors import Conflict, Fault, Invalid, NotFound, Refused
from laissez.events import Outbox
from markets.engine.money import format_price, parse_price
from markets.selectors import tables
from markets.selectors.tables import OpenRow
from markets.services import bids, rebidding
from markets.services.bids import CAP, Rewrite, TableRow
from markets.services.rebidding import Wish
from tenants.models import Tenant
from workers.models import Job
from workers.services import owned

MOST_ROWS = 5_000
MOST_CHARACTERS = 64
"""Of an id or a name of a type: longer ones are nobody's."""

_FIELDS = ("job", "accelerator_type", "max_price_per_hour", "keep_price_per_hour", "expected_version")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one row; `fault` where it was refused."""

    job: str | None
    accelerator_type: str | None
    state: Literal["changed", "unchanged", "refused"]
    fault: Fault | None = None

    def as_json(self) -> dict[str, Any]:
        """As it stands in the answer."""
        body: dict[str, Any] = {"job": self.job, "accelerator_type": self.accelerator_type, "result": self.state}
        if self.fault is not None:
            body |= {"code": self.fault.code, "detail": self.fault.detail, "pointer": self.fault.pointer}
        return body


@dataclass(frozen=True, slots=True)
class _Asked:
    """A row as it was sent, with its place. `highest` None bids the cap; `keeps`: it says what its keep price is."""

    place: int
    job: str
    kind: str
    highest: int | None
    keep: int | None
    keeps: bool
    version: int | None

    @property
    def at(self) -> str:
        """The row's JSON pointer."""
        return f"/rows/{self.place}"


def change_bids(tenant: Tenant, rows: object, *, outbox: Outbox) -> list[Result]:
    """Give rows of launch tables new maxima, and keep prices where they say so; a result for each, in their order.

    Args:
        rows: at most 5,000 objects with job, accelerator_type, max_price_per_hour and, where wanted,
            keep_price_per_hour (null: the same as the maximum; left out: as before, unless that is less than the new
            maximum) and expected_version.

    Raises:
        Invalid: there are no rows, or too many.
    """
    given = _listed(rows)
    read = [_read(row, place) for place, row in enumerate(given)]
    faults = {place: row for place, row in enumerate(read) if isinstance(row, Fault)}
    by_job: dict[str, list[_Asked]] = defaultdict(list)
    for row in read:
        if isinstance(row, _Asked):
            by_job[row.job].append(row)
    _refuse_together(by_job, given, faults)
    changed = _change(tenant, by_job, faults, outbox)
    return [_result(row, faults.get(place), is_changed=place in changed) for place, row in enumerate(given)]


def _result(row: object, fault: Fault | None, *, is_changed: bool) -> Result:
    job, kind = (_named(row, field) for field in _FIELDS[:2])
    if fault is not None:
        return Result(job, kind, "refused", fault)
    return Result(job, kind, "changed" if is_changed else "unchanged")


def _named(row: object, field: str) -> str | None:
    value = row.get(field) if isinstance(row, dict) else None
    return value if isinstance(value, str) and len(value) <= MOST_CHARACTERS else None


def _listed(rows: object) -> list[Any]:
    if not isinstance(rows, list) or not rows:
        raise Invalid([Fault("no_rows", "There are no rows; give a list of at least one change.", "/rows")])
    if len(rows) > MOST_ROWS:
        detail = (
            f"There are {len(rows)} rows; at most {MOST_ROWS} are taken at once. Send the rest in further requests."
        )
        raise Invalid([Fault("too_many_rows", detail, "/rows")])
    return rows


# Each row by itself


def _read(row: object, place: int) -> "_Asked | Fault":
    """A row that is well formed, else its first fault."""
    at, name = f"/rows/{place}", f"Row {place + 1}"
    if not isinstance(row, dict):
        return Fault("bad_row", f"{name} is not an object with {', '.join(_FIELDS[:3])}.", at)
    if unknown := sorted(set(row).difference(_FIELDS)):
        known = ", ".join(_FIELDS)
        return Fault(
            "unknown_field", f"{name}: {unknown[0]!r} is not a field here; known are {known}.", f"{at}/{unknown[0]}"
        )
    for field in _FIELDS[:2]:
        value = row.get(field)
        if not isinstance(value, str) or not 0 < len(value) <= MOST_CHARACTERS:
            detail = f"{name}: {field} is {_shown(value)}; it must be a text of 1 to {MOST_CHARACTERS} characters."
            return Fault("bad_value", detail, f"{at}/{field}")
    version = row.get("expected_version")
    if version is not None and (not isinstance(version, int) or isinstance(version, bool)):
        detail = f"{name}: expected_version is {_shown(version)}; it must be a whole number, or be left out."
        return Fault("bad_value", detail, f"{at}/expected_version")
    try:
        highest = _price(row, "max_price_per_hour")
        keep = None if row.get("keep_price_per_hour") is None else _price(row, "keep_price_per_hour")
    except _BadPrice as error:
        return Fault("bad_price", f"{name}, {error.field}: {error}.", f"{at}/{error.field}")
    return _Asked(place, row["job"], row["accelerator_type"], highest, keep, "keep_price_per_hour" in row, version)


class _BadPrice(ValueError):
    """A price that cannot be read; `field` names it."""

    def __init__(self, field: str, detail: str) -> None:
        self.field = field
        super().__init__(detail)


def _price(row: Mapping[str, Any], field: str) -> int | None:
    """Micro-dollars per hour; None for the word `cap`, which only a maximum may be."""
    value = row.get(field)
    if value == CAP and field == "max_price_per_hour":
        return None
    if not isinstance(value, str):
        raise _BadPrice(field, f'{_shown(value)} is not a price in quotes, such as "0.687"')
    try:
        return parse_price(value)
    except ValueError as error:
        raise _BadPrice(field, str(error)[:200]) from error


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."


# The rows of each job together


def _refuse_together(by_job: dict[str, list[_Asked]], given: Sequence[Any], faults: dict[int, Fault]) -> None:
    """Take out the jobs of which some row could not even be read."""
    for place in list(faults):
        for row in by_job.pop(_named(given[place], "job") or "", ()):
            faults[row.place] = _because_of(place, row)


def _because_of(place: int, row: _Asked) -> Fault:
    detail = f"Row {place + 1} is of the same job and was refused, so none of the job's rows was changed."
    return Fault("job_refused", detail, row.at)


def _change(
    tenant: Tenant, by_job: Mapping[str, Sequence[_Asked]], faults: dict[int, Fault], outbox: Outbox
) -> set[int]:
    """Put into force what can be, and add the faults of what cannot. Returns the places of rows that changed a bid."""
    found = owned.lock(tenant, by_job)
    types = tables.types_in({job.cluster_id for job in found.values()})
    present = tables.open_rows([job.pk for job in found.values()], types)
    wishes, changing = [], {}
    for name, asked in by_job.items():
        job = found.get(name)
        rows = [] if job is None else present.get(job.pk, [])
        if wrong := _wrong(asked, job, rows):
            faults |= {row.place: wrong.get(row.place) or _because_of(min(wrong), row) for row in asked}
        elif job is not None and (places := _differing(asked, rows)):
            wishes.append(Wish(Rewrite(job, rows, _repriced(asked, rows)), _document(job, asked)))
            changing[name] = places
    refused = rebidding.put(tenant, wishes, outbox).refused if wishes else {}
    for name, refusal in refused.items():
        faults |= {place: _at(place, refusal) for place in changing.pop(name)}
    return {place for places in changing.values() for place in places}


def _wrong(asked: Sequence[_Asked], job: Job | None, rows: Sequence[OpenRow]) -> dict[int, Fault]:
    """What keeps rows from being put into one launch table, by their places."""
    by_kind = {row.type.slug: row for row in rows}
    seen: dict[str, int] = {}
    wrong = {}
    for each in asked:
        fault = _fault(each, job, by_kind, seen.setdefault(each.kind, each.place))
        if fault is not None:
            wrong[each.place] = fault
    return wrong


def _fault(asked: _Asked, job: Job | None, by_kind: Mapping[str, OpenRow], first: int) -> Fault | None:
    """The first thing wrong with a row; `first` is the place of the first row that names the same job and type."""
    name = f"Row {asked.place + 1}"
    if job is None:
        return _moved(NotFound("job").faults[0], f"{asked.at}/job")
    try:
        rebidding.check(job, asked.version)
    except Conflict as refusal:
        field = "expected_version" if refusal.code == "version_conflict" else "job"
        return _moved(refusal.faults[0], f"{asked.at}/{field}")
    row = by_kind.get(asked.kind)
    if row is None:
        known = ", ".join(by_kind) or "none"
        detail = f"{name}: the launch table of {job.public_id} has no row for {_shown(asked.kind)}; it has {known}."
        return Fault("unknown_row", detail, f"{asked.at}/accelerator_type")
    if first != asked.place:
        detail = f"{name} names the same job and type as row {first + 1}; keep one of them."
        return Fault("repeated_row", detail, f"{asked.at}/accelerator_type")
    keep = asked.keep if asked.keeps else None
    return next(iter(bids.price_faults(row.type, asked.highest, keep, asked.place, asked.at)), None)


def _moved(fault: Fault, pointer: str) -> Fault:
    return Fault(fault.code, fault.detail, pointer)


def _at(place: int, refusal: Refused) -> Fault:
    return _moved(refusal.faults[0], f"/rows/{place}/max_price_per_hour")


def _differing(asked: Sequence[_Asked], rows: Sequence[OpenRow]) -> list[int]:
    """The places of those that ask for something else than there is."""
    by_kind = {row.type.slug: row for row in rows}
    return [each.place for each in asked if _wanted(each, row := by_kind[each.kind]) != _as_it_is(row)]


def _repriced(asked: Sequence[_Asked], rows: Sequence[OpenRow]) -> list[TableRow]:
    """The launch table as it is to be."""
    by_kind = {each.kind: each for each in asked}
    return [_as_it_is(row) if row.type.slug not in by_kind else _wanted(by_kind[row.type.slug], row) for row in rows]


def _as_it_is(row: OpenRow) -> TableRow:
    return TableRow(row.type, row.max_price_per_hour, row.keep_price_per_hour)


def _wanted(asked: _Asked, row: OpenRow) -> TableRow:
    if asked.keeps:
        return TableRow(row.type, asked.highest, asked.keep)
    return bids.repriced(row, asked.highest)


def _document(job: Job, asked: Sequence[_Asked]) -> list[dict[str, Any]]:
    """The rows of the job's document with the new prices, for when it is resumed."""
    by_kind = {each.kind: each for each in asked}
    return [
        row | _prices(by_kind[row["accelerator_type"]], row) if row["accelerator_type"] in by_kind else row
        for row in job.spec["rows"]
    ]


def _prices(asked: _Asked, row: Mapping[str, Any]) -> dict[str, Any]:
    highest = CAP if asked.highest is None else format_price(asked.highest)
    keep = row.get("keep_price_per_hour")
    if asked.keeps:
        keep = None if asked.keep is None else format_price(asked.keep)
    elif keep is not None and (asked.highest is None or parse_price(keep) < asked.highest):
        keep = None
    return {"max_price_per_hour": highest, "keep_price_per_hour": keep}
