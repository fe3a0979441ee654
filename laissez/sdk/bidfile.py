"""A table of bids as a spreadsheet saves it: read with every fault named by its line, field, value and remedy."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from laissez.sdk.client import JsonObject

NEEDED = ("job", "accelerator_type", "max_price_per_hour")
OPTIONAL = ("keep_price_per_hour", "expected_version")
MOST_ROWS = 5_000
"""As many rows as the server takes at once."""

SHOWN_FAULTS = 20
SHOWN_CHARACTERS = 40


class BidFileError(Exception):
    """The file cannot be read as a table of bids; nothing was sent."""


@dataclass(frozen=True, slots=True)
class Line:
    """One row, with the line of the file on which it stands."""

    number: int
    row: JsonObject


def parse(content: bytes, *, name: str) -> list[Line]:
    """The rows of a CSV file.

    Args:
        content: text in UTF-8, with or without a mark at its beginning, its cells parted by commas, semicolons or tabs.
        name: how the file is called in what is said about it.

    Raises:
        BidFileError: with every fault.
    """
    text = _decoded(content, name)
    lines = csv.reader(StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    try:
        return list(_rows(lines, name))
    except csv.Error as error:
        raise BidFileError(f"{name}, line {lines.line_num}: {error}; is it a CSV file?") from error


def batches(lines: Sequence[Line], most: int = MOST_ROWS) -> Iterator[list[Line]]:
    """The lines in parts of at most so many; those of one job stay together, for they stand or fall together."""
    by_job: dict[str, list[Line]] = {}
    for line in lines:
        by_job.setdefault(line.row["job"], []).append(line)
    part: list[Line] = []
    for together in by_job.values():
        if part and len(part) + len(together) > most:
            yield part
            part = []
        part += together
    if part:
        yield part


def _decoded(content: bytes, name: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BidFileError(f"{name}, line {line} is not UTF-8: save the table as “CSV UTF-8” and try again") from error
    if "\x00" in text:
        raise BidFileError(f"{name} contains NULs: it is not a text in UTF-8; save the table as “CSV UTF-8”")
    return text


def _delimiter(text: str) -> str:
    head = text.split("\n", 1)[0]
    return max(",;\t", key=head.count)


def _rows(lines: Any, name: str) -> Iterator[Line]:
    header = [cell.strip() for cell in next(lines, [])]
    _check_header(header, name)
    faults: list[str] = []
    for cells in lines:
        if not any(cell.strip() for cell in cells):
            continue
        where = f"{name}, line {lines.line_num}"
        if len(cells) != len(header):
            faults.append(f"{where} has {len(cells)} cells, not {len(header)} as the first line; add or drop some")
            continue
        row: JsonObject = {field: cell.strip() for field, cell in zip(header, cells, strict=True) if cell.strip()}
        found = list(_faults(row, where))
        faults += found
        if not found:
            yield Line(lines.line_num, row)
    if faults:
        more = len(faults) - SHOWN_FAULTS
        raise BidFileError("\n".join(faults[:SHOWN_FAULTS] + ([f"... and {more} more"] if more > 0 else [])))


def _check_header(header: Sequence[str], name: str) -> None:
    known = ", ".join((*NEEDED, *OPTIONAL))
    if missing := [field for field in NEEDED if field not in header]:
        raise BidFileError(f"{name}: the first line does not name {', '.join(missing)}; known are {known}")
    if unknown := [field for field in header if field not in (*NEEDED, *OPTIONAL)]:
        raise BidFileError(f"{name}: {_shown(unknown[0])} in the first line is not a column here; known are {known}")
    if len(set(header)) < len(header):
        raise BidFileError(f"{name}: the first line names a column twice; keep one of each")


def _faults(row: JsonObject, where: str) -> Iterator[str]:
    """What is missing or cannot be read in a row; turns its version into the number that it is."""
    for field in NEEDED:
        if field not in row:
            yield f"{where}: {field} is empty; fill it in or drop the line"
    version = row.get("expected_version")
    if version is None:
        return
    if version.isascii() and version.isdecimal() and len(version) < SHOWN_CHARACTERS:
        row["expected_version"] = int(version)
    else:
        yield f"{where}: expected_version is {_shown(version)}, not a whole number; leave it empty to overwrite any"


def _shown(value: str) -> str:
    return repr(value if len(value) <= SHOWN_CHARACTERS else value[:SHOWN_CHARACTERS] + "...")
