"""`laissez bids`: bids of many jobs at once, from a table."""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from laissez.sdk import bidfile, terminal
from laissez.sdk.bidfile import BidFileError, Line
from laissez.sdk.client import Conflict, JsonObject
from laissez.sdk.session import USAGE, Session, fail, session_command

STANDARD_INPUT = "-"
NUMBERED = re.compile(r"\b([Rr])ow (\d+)\b")
HELP = """Set the prices that the CSV table FILE (or - for standard input) gives.

Its first line names the columns: job, accelerator_type, max_price_per_hour and, where wanted,
keep_price_per_hour and expected_version. A price is in dollars per accelerator-hour, such as 0.687, or the word
cap. Each row changes one row of a job's launch table. The rows of one job stand or fall together; jobs do not
touch each other.

\b
job,accelerator_type,max_price_per_hour
job_4k9wq...,nvidia-a10,0.72
job_4k9wq...,nvidia-l4,cap

Exit code 5 when a row was refused; the rows that were not are in force all the same.
"""
COLUMNS = [
    terminal.field("line"),
    terminal.field("job"),
    terminal.field("accelerator_type", "type"),
    terminal.field("code"),
    terminal.field("detail", "why"),
]


@click.group()
def bids() -> None:
    """Change bids of many jobs at once."""


@bids.command("set", help=HELP)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option("--dry-run", is_flag=True, help="Show what would come of each row; write nothing.")
@session_command
def bids_set(session: Session, file: Path, dry_run: bool) -> None:
    """As HELP says."""
    try:
        lines = bidfile.parse(_content(file), name=_name(file))
    except BidFileError as error:
        fail(str(error), USAGE)
    results = [result for part in bidfile.batches(lines) for result in _sent(session, part, dry_run=dry_run)]
    refused = [result for result in results if result["result"] == "refused"]
    _show(session, results, refused, dry_run=dry_run)
    if refused:
        sys.exit(Conflict.exit_code)


def _content(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == STANDARD_INPUT else file.read_bytes()
    except OSError as error:
        raise BidFileError(f"{file} cannot be read: {error.strerror}") from error


def _name(file: Path) -> str:
    return "standard input" if str(file) == STANDARD_INPUT else terminal.plain(file)


def _sent(session: Session, part: Sequence[Line], *, dry_run: bool) -> Iterator[JsonObject]:
    """The results of some rows, with the lines of the file in place of the places in the request."""
    answer = session.client.change_bids([line.row for line in part], dry_run=dry_run)
    for line, result in zip(part, answer["rows"], strict=True):
        yield {"line": line.number, **result} | (
            {"detail": _in_lines(str(result["detail"]), part)} if "detail" in result else {}
        )


def _in_lines(detail: str, part: Sequence[Line]) -> str:
    """A sentence about rows of the request as one about lines of the file."""

    def line(found: "re.Match[str]") -> str:
        place = int(found[2]) - 1
        word = "Line" if found[1] == "R" else "line"
        return f"{word} {part[place].number}" if place < len(part) else found[0]

    return NUMBERED.sub(line, detail)


def _show(session: Session, results: Sequence[JsonObject], refused: Sequence[JsonObject], *, dry_run: bool) -> None:
    if session.out.as_json or session.out.quiet:
        for result in results:
            session.out.item(result, key="job", text="")
        return
    counts = Counter(result["result"] for result in results)
    said = ", ".join(f"{counts[state]:,} {state}" for state in ("changed", "unchanged", "refused"))
    click.echo(f"{said}{' (nothing was written)' if dry_run else ''}.")
    if refused:
        click.echo(terminal.table(refused, COLUMNS))
