"""Policies: decisions as pure functions of a context and parameters, the same live and in the simulator.

`break_even` is the paper's (LaissezCloud 2025, section 5): bid what makes staying as dear as the cheapest alternative.
The agent answers "migrate" rather than a higher bid once it is outbid at a checkpoint, where moving loses nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import TypeAlias

from laissez.sdk.contexts import Context, Decision, Moment, Row
from laissez.sdk.economics import Alternative, break_even_bid

Policy: TypeAlias = Callable[[Context, Mapping[str, object]], Decision]


def hold(context: Context, params: Mapping[str, object]) -> Decision:
    """Leave the bids as the tenant stated them; the job's own settings move it."""
    return Decision("stay", reason="The policy is to hold the stated bids.")


def break_even(context: Context, params: Mapping[str, object]) -> Decision:
    """Bid the break-even price on every row but the last; move when outbid at a checkpoint."""
    return _follow(context, _break_even_bids(context, redo_on_held_row=True))


def break_even_now(context: Context, params: Mapping[str, object]) -> Decision:
    """Like break_even, but count the row the job runs on at the work that is left there now."""
    return _follow(context, _break_even_bids(context, redo_on_held_row=False))


def checkpoint_boundary(context: Context, params: Mapping[str, object]) -> Decision:
    """Leave the bids as stated, and move only where nothing is lost: save first when a notice comes in between."""
    if context.state != "running" or not (context.notice or _upgrade(context)):
        return Decision("stay", reason="Nothing asks the job to move.")
    if context.notice and _unsaved(context) and context.cause == "notice":
        return Decision("checkpoint", reason=f"Save {_percent(_unsaved(context))} of the work before the deadline.")
    if context.moving:
        return Decision("stay", reason="The job moves at its next checkpoint.")
    return Decision("migrate", moment=_moment(context), reason="Move at a checkpoint, where no work is lost.")


POLICIES: Mapping[str, Policy] = {
    "hold": hold,
    "break_even": break_even,
    "break_even_now": break_even_now,
    "checkpoint_boundary": checkpoint_boundary,
}


def _break_even_bids(context: Context, *, redo_on_held_row: bool) -> dict[str, Decimal]:
    """Return the bid of each row that can be computed; the last row bids its stated maximum."""
    bids = {}
    for place, row in enumerate(context.rows[:-1]):
        others = list(_alternatives(context, place, redo_on_held_row=redo_on_held_row))
        quote = context.exchange.get(row.accelerator_type)
        if row.expected_hours is None or quote is None or not others:
            continue
        left = 1 - (context.progress if row.accelerator_type == context.holds else context.last_checkpoint)
        bids[row.accelerator_type] = break_even_bid(
            row.expected_hours, left=left, alternatives=others, at_most=quote.cap_price_per_hour
        )
    return bids


def _alternatives(context: Context, place: int, *, redo_on_held_row: bool) -> Iterator[Alternative]:
    """Yield the later rows that are to be had (a free unit, or the job's own), and the last row in any case."""
    last = len(context.rows) - 1
    for later in range(place + 1, len(context.rows)):
        row = context.rows[later]
        price = _price_to_be_had(context, row, is_last=later == last)
        if price is None or row.expected_hours is None:
            continue
        runs_here = row.accelerator_type == context.holds
        share = 1 - (context.progress if runs_here and not redo_on_held_row else context.last_checkpoint)
        yield Alternative(price, row.expected_hours, share)


def _price_to_be_had(context: Context, row: Row, *, is_last: bool) -> Decimal | None:
    """Return the exchange price where a unit is free or held, the stated maximum for the last row, else None."""
    quote = context.exchange.get(row.accelerator_type)
    if quote is None:
        return None
    if quote.units_free > 0 or row.accelerator_type in (context.holds, context.destination):
        return quote.price_per_hour
    if not is_last:
        return None
    stated = context.stated.get(row.accelerator_type)
    return quote.cap_price_per_hour if stated is None else min(stated, quote.cap_price_per_hour)


def _follow(context: Context, bids: Mapping[str, Decimal]) -> Decision:
    """Turn computed bids into a decision."""
    changed = {name: bid for name, bid in bids.items() if bid != _present_bid(context, name)}
    if context.stale:
        return Decision("stay", reason="The exchange is stale: its prices are not to be acted on.")
    if context.state != "running" or context.holds is None:
        return _rebid(changed, "queued")
    if context.moving:
        return _rebid(_without_raise(context, changed), "moving")
    price, bid = _held(context, bids)
    if _should_move(context, bid, price):
        reason = f"On {context.holds} staying is worth {_usd(bid)} and the price is {_usd(price)}: move."
        return Decision("migrate", _without_raise(context, changed), _moment(context), reason)
    return _rebid(changed, f"on {context.holds}, where staying is worth {_usd(bid)} and the price is {_usd(price)}")


def _should_move(context: Context, bid: Decimal, price: Decimal) -> bool:
    """Return whether to leave the held row, where the computed bid and the public price are these."""
    if context.notice is not None and context.notice.reason in ("outbid", "below_base"):
        return bid <= price
    if context.notice is not None or _upgrade(context):
        return True
    return context.cause == "checkpoint" and bid < price and _later_row_to_be_had(context)


def _later_row_to_be_had(context: Context) -> bool:
    """Return whether a row below the held one has a free unit."""
    names = [row.accelerator_type for row in context.rows]
    held = names.index(context.holds) if context.holds in names else len(names)
    quotes = (context.exchange.get(name) for name in names[held + 1 :])
    return any(quote is not None and quote.units_free > 0 for quote in quotes)


def _upgrade(context: Context) -> bool:
    """Return whether the job already pays for a unit of an earlier row than the one it runs on."""
    names = [row.accelerator_type for row in context.rows]
    if context.destination not in names or context.holds not in names:
        return context.destination is not None
    return names.index(context.destination) < names.index(context.holds)


def _held(context: Context, bids: Mapping[str, Decimal]) -> tuple[Decimal, Decimal]:
    """Return the public price of the held row and what the job bids there from now on."""
    name = context.holds or ""
    quote = context.exchange.get(name)
    price = quote.price_per_hour if quote is not None else Decimal(0)
    present = _present_bid(context, name)
    cap = quote.cap_price_per_hour if quote is not None else Decimal(0)
    return price, bids.get(name, cap if present is None else present)


def _without_raise(context: Context, bids: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """Return the bids without one that would win back the row that the job is leaving."""
    present = _present_bid(context, context.holds or "")
    return {name: bid for name, bid in bids.items() if name != context.holds or (present is None or bid < present)}


def _present_bid(context: Context, name: str) -> Decimal | None:
    """Return the max price of a row as it stands; None where it bids the cap."""
    row = context.row(name)
    return row.max_price_per_hour if row is not None else None


def _moment(context: Context) -> Moment:
    """Return now at a checkpoint, where nothing is lost, else the next checkpoint."""
    return "now" if context.cause == "checkpoint" or not _unsaved(context) else "checkpoint"


def _unsaved(context: Context) -> Decimal:
    return context.progress - context.last_checkpoint


def _percent(share: Decimal) -> str:
    return f"{100 * share:.1f} %"


def _usd(price: Decimal) -> str:
    """A price as the pages show it."""
    return f"${price:.4f}/h"


def _rebid(bids: Mapping[str, Decimal], where: str) -> Decision:
    if not bids:
        return Decision("stay", reason=f"The bids still break even ({where}).")
    shown = ", ".join(f"{name} at {_usd(bid)}" for name, bid in bids.items())
    return Decision("rebid", bids, reason=f"Break even now: {shown} ({where}).")
