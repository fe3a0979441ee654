"""What the passing of time alone does to a floor: seek deadlines, cool-downs, and when to look again."""

from collections.abc import Iterator
from dataclasses import replace

from markets.engine.actions import Action, CoolDown, ReturnDestination, ReturnReason
from tests.engine.objects.floor import Floor, FloorJob, Tenure

COOL_DOWN_US = 60_000_000


def next_deadline(floor: Floor) -> int | None:
    """Return the earliest instant at which `plan` would act although nothing else has changed, if there is one.

    It lies in the past when it is already due.
    """
    return min((instant for job in floor.jobs for instant in _deadlines(job, floor.now)), default=None)


def cool_down(previous_us: int, *, first_us: int = COOL_DOWN_US) -> int:
    """Return for how long a row is closed after its previous cool-down of that length (0: it never had one)."""
    return 2 * previous_us if previous_us else first_us


def without_spent_destinations(floor: Floor) -> tuple[Floor, tuple[Action, ...]]:
    """Return the floor as if destinations past their seek deadline or on unusable units were given back already."""
    usable = {unit.id for unit in floor.units if unit.usable}
    actions: list[Action] = []
    jobs = []
    for job in floor.jobs:
        reason = _spent(job, floor.now, usable)
        if job.destination is not None and reason is not None:
            actions += abort(job, job.destination, reason)
            jobs.append(_without_destination(job, floor.now))
        else:
            jobs.append(job)
    return replace(floor, jobs=tuple(jobs)), tuple(actions)


def _spent(job: FloorJob, now: int, usable: set[int]) -> ReturnReason | None:
    """Return why the destination cannot be kept, apart from what the clearing will say."""
    if job.destination is None:
        return None
    if job.destination.unit not in usable:
        return "lost"
    return "seek_expired" if any(deadline <= now for deadline in _seek_deadlines(job)) else None


def _without_destination(job: FloorJob, now: int) -> FloorJob:
    """Return the job with its destination on the way out and, for an upgrade, that row closed."""
    destination = job.destination
    assert destination is not None
    rows = job.rows
    if is_upgrade(job, destination.type):
        rows = tuple(replace(row, closed_until=now + 1) if row.type == destination.type else row for row in rows)
    return replace(job, rows=rows, destination=None, seek_deadline=None, closing=(*job.closing, destination))


def abort(job: FloorJob, destination: Tenure, reason: ReturnReason) -> Iterator[Action]:
    """Yield what gives a destination back, and closes its row if it was an upgrade."""
    yield ReturnDestination(destination.lease, job.id, reason)
    if is_upgrade(job, destination.type):
        yield CoolDown(job.id, destination.type)


def is_upgrade(job: FloorJob, type_id: int) -> bool:
    """Return whether the type stands above the one that the job runs on in its table."""
    return job.source is not None and job.rank(type_id) < job.rank(job.source.type)


def _deadlines(job: FloorJob, now: int) -> Iterator[int]:
    if job.source is not None and job.source.notice is not None:
        yield job.source.notice.deadline
    yield from _seek_deadlines(job)
    if job.seeking and job.source is not None and job.destination is None:
        held = job.rank(job.source.type)
        yield from (row.closed_until for row in job.rows[: max(held, 0)] if row.closed_until > now)


def _seek_deadlines(job: FloorJob) -> Iterator[int]:
    """Yield when the destination is given back; while the source is under notice, that deadline decides instead."""
    under_notice = job.source is not None and job.source.notice is not None
    if job.destination is not None and job.seek_deadline is not None and not under_notice:
        yield job.seek_deadline
