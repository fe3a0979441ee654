"""What the command line says about a market and a job: columns of its tables, and sentences."""

from collections.abc import Callable
from typing import Any

from laissez.sdk import terminal
from laissez.sdk.client import JsonObject

MARKET_COLUMNS = [
    terminal.field("accelerator_type", "type"),
    terminal.field("price_per_hour", "price", terminal.price),
    terminal.field("base_price_per_hour", "base", terminal.price),
    terminal.field("cap_price_per_hour", "cap", terminal.price),
    terminal.field("units_free", "free"),
    terminal.field("units_total", "total"),
    terminal.field("waiting_awards", "waiting"),
]


HISTORY_COLUMNS = [
    terminal.field("at", "from", terminal.instant),
    terminal.field("price_per_hour", "price", terminal.price),
    terminal.field("lease_price_per_hour", "lease price", terminal.price),
    terminal.field("base_price_per_hour", "base", terminal.price),
    terminal.field("cap_price_per_hour", "cap", terminal.price),
]
RECEIPT_COLUMNS = [
    terminal.field("accelerator_type", "type"),
    terminal.field("price_per_hour", "price", terminal.price),
    terminal.field("lease_price_per_hour", "lease price", terminal.price),
    terminal.field("set_by", "set by"),
    terminal.field("base_price_per_hour", "base", terminal.price),
    terminal.field("cap_price_per_hour", "cap", terminal.price),
    terminal.field("supply", "units"),
    terminal.field("accepted"),
    terminal.field("rejected"),
]


def receipt_text(receipt: JsonObject) -> str:
    """When and by which rule it was cleared, what set each price, and where to look before and after."""
    rule = f"{terminal.plain(receipt['rule'])} v{terminal.plain(receipt['rule_version'])}"
    head = f"{terminal.plain(receipt['cluster'])} #{receipt['number']}, {terminal.instant(receipt['at'])}, rule {rule}"
    ends = [f"{name} #{receipt[name]}" for name in ("previous", "next") if receipt.get(name) is not None]
    return "\n".join([head, terminal.table(receipt["types"], RECEIPT_COLUMNS), *([", ".join(ends)] if ends else [])])


def market_title(exchange: JsonObject) -> str:
    """The cluster, and how old its figures are."""
    age = exchange.get("age_seconds")
    moment = f"{float(age):.1f} s old" if age is not None else "age unknown"
    stale = "  STALE: no tick for a while, prices are frozen" if exchange.get("stale") else ""
    return f"{terminal.plain(exchange.get('cluster'))}, {moment}{stale}"


def submission_text(submitted: JsonObject, *, dry_run: bool) -> str:
    """What was agreed: the id, the table and what it may cost."""
    head = "Nothing was written. This would be submitted:" if dry_run else f"Submitted {submitted['job']}."
    notes = [f"warning: {terminal.plain(warning)}" for warning in submitted.get("warnings") or []]
    rows = submitted.get("rows") or []
    table = [terminal.table(rows, ROW_COLUMNS)] if rows else []
    sentence = submitted.get("explanation")
    return "\n".join([head, *([terminal.plain(sentence)] if sentence else []), *table, *notes])


LIST_COLUMNS = [
    terminal.field("job"),
    terminal.field("name"),
    terminal.field("state"),
    terminal.field("holds", "runs on"),
    terminal.field("price_per_hour", "price", terminal.price),
    terminal.field("cost", None, terminal.dollars),
    terminal.field("progress", None, terminal.percent),
    terminal.field("explanation", "why"),
]


ROW_COLUMNS = [
    terminal.field("accelerator_type", "bids on"),
    terminal.field("max_price_per_hour", "max", terminal.price),
    terminal.field("keep_price_per_hour", "keep", terminal.price),
    terminal.field("price_per_hour", "price now", terminal.price),
    terminal.field("units_free", "free"),
]
LEASE_COLUMNS = [
    terminal.field("accelerator_type", "lease on"),
    terminal.field("state"),
    terminal.field("reason", "ended as"),
    terminal.field("active_at", "from", terminal.instant),
    terminal.field("ended_at", "to", terminal.instant),
    terminal.field("cost", None, terminal.dollars),
    terminal.field("lease", "id"),
]
MIGRATION_COLUMNS = [
    terminal.field("from", "move from"),
    terminal.field("to"),
    terminal.field("mode"),
    terminal.field("state"),
    terminal.field("reason"),
    terminal.field("resume_seconds", "resumed in", lambda seconds: f"{float(seconds):.2f} s"),
]
CHECKPOINT_COLUMNS = [
    terminal.field("checkpoint"),
    terminal.field("progress", None, terminal.percent),
    terminal.field("step"),
    terminal.field("size_bytes", "bytes"),
    terminal.field("committed_at", "at", terminal.instant),
]


def job_text(shown: JsonObject) -> str:
    """The page of a job for a terminal."""
    head = f"{terminal.plain(shown.get('name'))}  {shown['job']}  in {terminal.plain(shown.get('cluster'))}"
    facts = [f"{label}: {show(shown[name])}" for label, name, show in FACTS if shown.get(name) is not None]
    tables = [
        terminal.table(shown[name], columns)
        for name, columns in (
            ("rows", ROW_COLUMNS),
            ("leases", LEASE_COLUMNS),
            ("migrations", MIGRATION_COLUMNS),
            ("checkpoints", CHECKPOINT_COLUMNS),
        )
        if shown.get(name)
    ]
    return "\n\n".join(["\n".join([head, state_line(shown), *facts]), *tables])


def state_line(shown: JsonObject) -> str:
    """The state with the server's sentence about it."""
    sentence = shown.get("explanation") or shown.get("reason") or "no reason given"
    return f"{shown['state']}: {terminal.plain(sentence)}"


def _in_one_line(value: object) -> str:
    """An object (award, notice) as text that fits into a line."""
    if isinstance(value, dict):
        return ", ".join(
            f"{terminal.plain(name)} {terminal.plain(part)}" for name, part in value.items() if part is not None
        )
    return terminal.plain(value)


FACTS: list[tuple[str, str, Callable[[Any], str]]] = [
    ("progress", "progress", terminal.percent),
    ("loss", "loss", terminal.short),
    ("cost so far", "cost", terminal.dollars),
    ("price now", "price_per_hour", terminal.price),
    ("award", "award", _in_one_line),
    ("notice", "notice", _in_one_line),
]
