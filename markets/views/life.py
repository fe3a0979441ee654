"""A job's rows as the values that its timeline is drawn from: stays, marks, moves, and nodes with the cost by then."""

from collections.abc import Iterator
from datetime import datetime

from markets.selectors.jobs import JobView
from markets.templatetags.figures import dollars, words
from markets.views import timeline
from markets.views.paid import Costs
from workers.models import Lease, Migration
from workers.models.jobs import TERMINAL_JOB_STATES

GONE_OVER = (Migration.State.RESTORING, Migration.State.DONE)


def drawn(seen: JobView, costs: Costs) -> timeline.Timeline:
    """Its life as a drawing."""
    return timeline.draw(
        start=seen.job.submitted_at,
        end=seen.job.finished_at or costs.now,
        hardware=_hardware(seen),
        stays=[_stay(lease, costs) for lease in seen.leases],
        marks=marks(seen),
        moves=[_move(row) for row in seen.migrations],
        nodes=nodes(seen, costs),
    )


def told(seen: JobView, costs: Costs) -> list[timeline.Step]:
    """Its life as the lines of a table."""
    return timeline.steps(nodes(seen, costs), marks(seen))


def summary(seen: JobView, costs: Costs) -> str:
    """Its life in one sentence, for whoever does not see the drawing."""
    used = list(dict.fromkeys(lease.type.slug for lease in seen.leases))
    if not used:
        return "It has not had a device yet, and has cost nothing."
    total = sum(costs.of(lease) for lease in seen.leases)
    moves = sum(row.state in GONE_OVER for row in seen.migrations)
    counts = (
        f"{_counted(len(seen.leases), 'lease')} on {', then '.join(used)}",
        _counted(moves, "move"),
        _counted(len(seen.checkpoints), "checkpoint"),
        f"{dollars(total)} {'in all' if seen.job.state in TERMINAL_JOB_STATES else 'so far'}",
    )
    return f"{'; '.join(counts)}."


def _counted(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def marks(seen: JobView) -> list[timeline.Mark]:
    """Its checkpoints."""
    return [timeline.Mark(row.lease.type.slug, row.committed_at, row.progress) for row in seen.checkpoints]


def nodes(seen: JobView, costs: Costs) -> list[timeline.Node]:
    """The points at which its cost by then is told: each hand-over, move and end, and the present."""
    found = [*_handed_over(seen, costs), *_moved(seen, costs), *_ended(seen, costs), _last(seen, costs)]
    return sorted(found, key=lambda node: node.at)


def _total(seen: JobView, costs: Costs, at: datetime) -> int:
    return sum(costs.until(lease, at) for lease in seen.leases)


def _handed_over(seen: JobView, costs: Costs) -> Iterator[timeline.Node]:
    for lease in seen.leases:
        at = lease.during.lower
        yield timeline.Node(lease.type.slug, at, "handed_over", _total(seen, costs, at))


def _moved(seen: JobView, costs: Costs) -> Iterator[timeline.Node]:
    for row in seen.migrations:
        if row.state in GONE_OVER:
            at = _gone_over_at(row)
            yield timeline.Node(
                row.destination.type.slug, at, "moved", _total(seen, costs, at), f"from {row.source.type.slug}"
            )


def _ended(seen: JobView, costs: Costs) -> Iterator[timeline.Node]:
    """Ends that no move and no end of the job tells of already."""
    left = {row.source_id for row in seen.migrations if row.state in GONE_OVER}
    final = None if seen.job.finished_at is None or not seen.leases else seen.leases[-1].pk
    for lease in seen.leases:
        at = lease.during.upper
        if at is not None and lease.pk not in left and lease.pk != final:
            yield timeline.Node(lease.type.slug, at, "ended", _total(seen, costs, at), words(lease.reason))


def _last(seen: JobView, costs: Costs) -> timeline.Node:
    job = seen.job
    if job.finished_at is None:
        where = timeline.WAITING if seen.primary is None else seen.primary.type.slug
        return timeline.Node(where, costs.now, "now", _total(seen, costs, costs.now))
    last = seen.leases[-1] if seen.leases else None
    until = job.finished_at if last is None else max(job.finished_at, last.during.upper or costs.now)
    total = sum(costs.of(lease) for lease in seen.leases)
    return timeline.Node(timeline.WAITING if last is None else last.type.slug, until, "finished", total, job.state)


def _stay(lease: Lease, costs: Costs) -> timeline.Stay:
    paid = costs.paid(lease)
    return timeline.Stay(
        hardware=lease.type.slug,
        start=lease.during.lower,
        end=lease.during.upper,
        first_step=lease.first_step_at,
        cost=costs.of(lease),
        state=lease.state,
        stopped=lease.closing_at,
        price=None if paid is None else paid.average,
    )


def _move(row: Migration) -> timeline.Move:
    return timeline.Move(row.source.type.slug, row.destination.type.slug, _gone_over_at(row), row.state)


def _gone_over_at(row: Migration) -> datetime:
    return row.first_step_at or row.source_stopped_at or row.opened_at


def _hardware(seen: JobView) -> list[str]:
    """The launch table's order; once it is closed, the order in which it was submitted, of what was used."""
    used = {lease.type.slug for lease in seen.leases}
    open_rows = [bid.type.slug for bid in seen.bids]
    stated = [row["accelerator_type"] for row in seen.job.spec["rows"]]
    return [*open_rows, *(name for name in stated if name in used)] or stated
