"""How the command line shows things: tables for people, one JSON object a line for programs, ids alone when asked."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import click

UNKNOWN = "—"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column: its heading, and the text of one row's cell."""

    heading: str
    cell: Callable[[Row], str]


@dataclass(frozen=True, slots=True)
class Output:
    """Standard output in the wished form, and progress on standard error where somebody watches."""

    as_json: bool
    quiet: bool

    def items(self, items: Iterable[Row], columns: Sequence[Column], *, key: str, empty: str) -> None:
        """A list of things. `key` names the id; `empty` says what to do when there is none."""
        if self.as_json:
            for item in items:
                self.json(item)
        elif self.quiet:
            for item in items:
                click.echo(item[key])
        else:
            rows = list(items)
            click.echo(table(rows, columns) if rows else empty)

    def item(self, item: Row, *, key: str, text: str) -> None:
        """One thing: as JSON, as its id, or as the text given."""
        if self.as_json:
            self.json(item)
        else:
            click.echo(item.get(key, "") if self.quiet else text)

    def json(self, item: Row) -> None:
        """One line of NDJSON."""
        click.echo(json.dumps(item, ensure_ascii=False, separators=(", ", ": ")))

    def note(self, text: str) -> None:
        """Something said beside the answer; for people at a terminal only."""
        if sys.stderr.isatty() and not self.quiet:
            click.echo(text, err=True)


def table(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """Columns side by side, as wide as their widest cell."""
    lines = [[column.heading for column in columns], *([column.cell(row) for column in columns] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def field(name: str, heading: str | None = None, show: Callable[[Any], str] | None = None) -> Column:
    """The column of one field, shown as text unless `show` says otherwise; a missing value is a dash, never 0."""

    def cell(row: Row) -> str:
        value = row.get(name)
        return UNKNOWN if value is None or value == "" else (show or plain)(value)

    return Column(heading or name.replace("_", " "), cell)


def plain(value: object) -> str:
    """Text that cannot drive the terminal: control characters are shown, not obeyed."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in str(value))


def price(value: object) -> str:
    """`$0.6870/h`; the words `cap` and the like pass through."""
    return f"{dollars(value)}/h" if _is_number(value) else plain(value)


def dollars(value: object) -> str:
    """`$0.6870`: at least four decimals, more where there are more."""
    if not _is_number(value):
        return plain(value)
    amount = Decimal(str(value))
    places = max(4, -int(amount.normalize().as_tuple().exponent))
    return f"{'-' if amount < 0 else ''}${abs(amount):.{places}f}"


def percent(value: object) -> str:
    """0.358 as `35.8 %`."""
    return f"{Decimal(str(value)) * 100:.1f} %" if _is_number(value) else plain(value)


def instant(value: object) -> str:
    """`2026-11-29 17:15:29 UTC` from an RFC 3339 time."""
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return plain(value)
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def short(value: object) -> str:
    """A measured figure such as a loss, to four digits."""
    return f"{float(str(value)):.4g}" if _is_number(value) else plain(value)


def _is_number(value: object) -> bool:
    try:
        return Decimal(str(value)).is_finite()
    except ArithmeticError:
        return False
