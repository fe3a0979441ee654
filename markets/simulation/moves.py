"""How a job of a simulation leaves one unit for another, and what of its work it takes along."""

from markets.engine.dynamics import gives_source_back
from markets.simulation.world import SimJob, SimMove, World


def move_those_ready(world: World) -> bool:
    """Let the jobs at their moment leave their sources where that is possible; return whether any did."""
    waiting = [job for job in world.alive() if job.source is not None and job.restoring_until is None]
    at_moment = [job for job in waiting if job.moment == "now" or job.at_checkpoint(world.now)]
    if not at_moment:
        return False
    giving = gives_source_back(world.floor_of(at_moment))
    for job in (job for job, gives in zip(at_moment, giving, strict=True) if gives):
        _move(world, job)
    return bool(giving.any())


def _move(world: World, job: SimJob) -> None:
    """Leave the source; with overlap not before the destination has taken its first step."""
    if job.spec.mode != "overlap" or not _destination_is_active(job):
        leave_source(world, job)
        return
    _save(job, world.now)
    job.pause(world.now)
    job.restoring_until = world.now + _restore_time(world, job)


def finish_overlap(world: World, job: SimJob) -> bool:
    """Give the source back once the destination takes its first step; return whether that was now."""
    if job.restoring_until is None or job.restoring_until > world.now or not _destination_is_active(job):
        return False
    leave_source(world, job)
    return True


def leave_source(world: World, job: SimJob) -> None:
    """Save the work where that is possible, then leave the source for the destination or for the queue."""
    if job.restoring_until is None:
        _save(job, world.now)
    lose_source(world, job)


def lose_source(world: World, job: SimJob) -> None:
    """Go on from the last checkpoint, at the destination or in the queue; the source is told to leave."""
    left, restored_at = job.source, job.restoring_until
    assert left is not None
    job.works_from, job.progress = None, job.saved
    job.source, job.destination = job.destination, None
    job.seek_deadline = job.decided = job.restoring_until = None
    world.dismiss(left)
    if job.source is None:
        return
    for row in job.rows:
        row.cool_down = 0
    world.moves.append(SimMove(world.now, job, left, job.source))
    if job.source.state == "active":
        job.works_from = world.now + _restore_time(world, job) if restored_at is None else restored_at


def return_destination(world: World, job: SimJob) -> None:
    """Give the destination back; a job that waited for its first step there goes on where it was."""
    assert job.destination is not None
    destination, job.destination = job.destination, None
    job.seek_deadline = job.decided = None
    if job.restoring_until is not None:
        job.restoring_until, job.works_from = None, world.now
    world.dismiss(destination)


def start_work(world: World, job: SimJob) -> None:
    """The device of the job's source is ready: restore, then compute."""
    job.works_from = world.now + _restore_time(world, job)


def _restore_time(world: World, job: SimJob) -> int:
    return world.scenario.timing.restore_us if job.saved else 0


def _save(job: SimJob, now: int) -> None:
    if job.spec.saves_any_time:
        job.saved = job.progress_at(now)


def _destination_is_active(job: SimJob) -> bool:
    return job.destination is not None and job.destination.state == "active"
