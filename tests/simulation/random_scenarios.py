"""Random scenarios on a grid: every duration is a whole number of steps, and every agent is asked at every step.

A step is a hundredth of an hour and every share of work a finite decimal, so that two simulators that compute
differently agree to the last micro-dollar.
"""

from fractions import Fraction
from random import Random

from markets.simulation.scenarios import Failure, JobSpec, RowSpec, Scenario, Timing, TypeSpec

STEP = 36 * 10**6
HOUR = 3600 * 10**6


def random_scenario(seed: int) -> Scenario:
    chance = Random(seed)
    types = tuple(_type(chance, n) for n in range(chance.randint(2, 3)))
    jobs = tuple(_job(chance, n, types) for n in range(chance.randint(3, 6)))
    failures = tuple(
        Failure(chance.randint(0, 40) * STEP, kind.name, chance.randrange(kind.units), usable)
        for kind in types
        for usable in (False, True)
        if chance.random() < 0.2
    )
    return Scenario(
        f"random-{seed}",
        types,
        tuple(sorted(jobs, key=lambda job: job.submit_at)),
        timing=_timing(chance),
        failures=tuple(sorted(failures, key=lambda failure: failure.at)),
        horizon=150 * STEP,
    )


def _timing(chance: Random) -> Timing:
    return Timing(
        notice_us=chance.choice((0, 0, 2, 5)) * STEP,
        heartbeat_us=STEP,
        reaction_us=STEP,
        activation_us=chance.choice((0, 0, 1, 2)) * STEP,
        restore_us=chance.choice((0, 0, 1)) * STEP,
        release_us=chance.choice((0, 0, 1)) * STEP,
        cool_down_us=chance.choice((1, 4)) * STEP,
    )


def _type(chance: Random, number: int) -> TypeSpec:
    base = chance.randint(100, 900) * 1000
    return TypeSpec(f"type-{number}", chance.choice((1, 1, 2)), base, base + chance.randint(100, 2000) * 1000)


def _job(chance: Random, number: int, types: tuple[TypeSpec, ...]) -> JobSpec:
    checkpoints = chance.choice((1, 2, 4, 5))
    rows = tuple(
        _row(chance, kind, checkpoints) for kind in chance.sample(types, chance.choice((1, len(types), len(types))))
    )
    return JobSpec(
        f"job-{number}",
        rows,
        submit_at=chance.randint(0, 25) * STEP,
        tenant=f"tenant-{chance.randint(0, 2)}",
        policy=chance.choice(("hold", "break_even", "break_even", "break_even_now")),
        checkpoint_every=Fraction(1, checkpoints) if checkpoints > 1 else None,
        upgrade=chance.choice(("never", "at_checkpoint", "at_checkpoint", "now", "now")),
        mode=chance.choice(("stop_and_copy", "overlap")),
        seek_us=chance.choice((None, 3 * STEP, 20 * STEP)),
    )


def _row(chance: Random, kind: TypeSpec, checkpoints: int) -> RowSpec:
    steps = checkpoints * chance.choice((2, 4, 5, 8, 10))
    price = None if chance.random() < 0.1 else chance.randint(100, 2500) * 1000
    keep = None if price is None or chance.random() < 0.7 else price + chance.randint(0, 500) * 1000
    return RowSpec(kind.name, price, Fraction(steps * STEP, HOUR), keep)
