"""Random floors with everything that a floor can show, sound or not: the engine has to plan on what it is given."""

from random import Random

from hypothesis import strategies as st

from markets.engine.floor import (
    NOTICE_REASONS,
    FloorJob,
    OpenNotice,
    TableRow,
    Tenure,
    TypeOffer,
    Unit,
    WaitingAward,
)
from tests.engine.objects.floor import Floor

NOW = 10
FOREIGN_LEASES = 900
GONE_UNIT = 999


def floors() -> st.SearchStrategy[Floor]:
    return st.integers(0, 2**32).map(lambda seed: random_floor(Random(seed)))


def random_floor(chance: Random) -> Floor:
    return chance.choice((odd_floor, odd_floor, crowded_floor))(chance)


def crowded_floor(chance: Random) -> Floor:
    """Most units are held by jobs that want another type, at few different bids: who comes first matters."""
    types = tuple(TypeOffer(type_id, 2, 30) for type_id in range(chance.randint(2, 3)))
    units = [Unit(n, chance.choice(types).id, usable=chance.random() < 0.97) for n in range(chance.randint(4, 12))]
    seats = chance.sample(units, len(units))
    jobs = tuple(_seeker(chance, number, types, seats) for number in range(1, chance.randint(6, 16)))
    leases = {tenure.unit: tenure.lease for job in jobs for tenure in tenures(job)}
    occupied = tuple(Unit(unit.id, unit.type, unit.usable, leases.get(unit.id)) for unit in units)
    return Floor(NOW, 30, types, occupied, jobs)


def _seeker(chance: Random, number: int, types: tuple[TypeOffer, ...], seats: list[Unit]) -> FloorJob:
    source = destination = None
    if seats and chance.random() < 0.75:
        seat = seats.pop()
        notice = OpenNotice(number, "claimed", NOW + 5) if chance.random() < 0.2 else None
        source = Tenure(number * 10, seat.id, seat.type, "active", 0, notice)
    if source is not None and seats and chance.random() < 0.2:
        seat = seats.pop()
        destination = Tenure(number * 10 + 1, seat.id, seat.type, "pending", 0)
    rows = tuple(
        TableRow(kind.id, chance.choice((8, 9, 10)), chance.choice((None, 9, 10)), 0)
        for kind in chance.sample(types, len(types))
    )
    waits = destination is None and chance.random() < 0.5
    award = WaitingAward(number * 100, rows[0].type, chance.randint(0, 2)) if waits else None
    return FloorJob(number, number, rows, source, destination, award=award, seeking=chance.random() < 0.9)


def odd_floor(chance: Random) -> Floor:
    """Awards that nobody wins, notices long past, jobs without a row where they sit, units that no longer exist."""
    types = tuple(_type(chance, type_id) for type_id in sorted(chance.sample(range(20), chance.randint(0, 4))))
    units = _units(chance, types)
    seats = list(units)
    chance.shuffle(seats)
    numbers = sorted(chance.sample(range(1, 60), chance.randint(0, 12) if types else chance.randint(0, 2)))
    jobs = tuple(_job(chance, number, types, seats) for number in numbers)
    leases = {tenure.unit: tenure.lease for job in jobs for tenure in tenures(job)}
    for seat in seats:
        if chance.random() < 0.15:
            leases[seat.id] = FOREIGN_LEASES + seat.id
    occupied = tuple(Unit(unit.id, unit.type, unit.usable, leases.get(unit.id)) for unit in units)
    return Floor(NOW, chance.choice((0, 30)), types, occupied, jobs)


def shuffled(floor: Floor, chance: Random) -> Floor:
    """Return the same floor written down in another order."""
    columns = [list(column) for column in (floor.types, floor.units, floor.jobs)]
    for column in columns:
        chance.shuffle(column)
    return Floor(floor.now, floor.notice_us, *map(tuple, columns))


def tenures(job: FloorJob) -> tuple[Tenure, ...]:
    return tuple(tenure for tenure in (job.source, job.destination, *job.closing) if tenure is not None)


def _type(chance: Random, type_id: int) -> TypeOffer:
    base = chance.randint(1, 6)
    return TypeOffer(type_id, base, base + chance.randint(0, 14))


def _units(chance: Random, types: tuple[TypeOffer, ...]) -> tuple[Unit, ...]:
    kinds = [kind.id for kind in types for _ in range(chance.choice((0, 1, 1, 2, 4)))]
    numbers = chance.sample(range(100), len(kinds))
    return tuple(
        Unit(number, kind, usable=chance.random() < 0.85) for number, kind in sorted(zip(numbers, kinds, strict=True))
    )


def _job(chance: Random, number: int, types: tuple[TypeOffer, ...], seats: list[Unit]) -> FloorJob:
    shape = chance.choice(("queued", "running", "running", "moving", "moving", "astray"))
    source = _tenure(chance, number * 10, types, seats) if shape in ("running", "moving") else None
    destination = _tenure(chance, number * 10 + 1, types, seats) if shape in ("moving", "astray") else None
    many = chance.choice((0, 0, 0, 1, 2))
    closing = tuple(_tenure(chance, number * 10 + 2 + n, types, seats, closing=True) for n in range(many))
    award = chance.random() < (0.1 if destination is not None else 0.4) and len(types)
    return FloorJob(
        number,
        chance.randint(1, 4),
        _rows(chance, types, [tenure.type for tenure in (source, destination) if tenure is not None]),
        source,
        destination,
        award=WaitingAward(number * 100, chance.choice(types).id, chance.randint(0, NOW)) if award else None,
        seeking=chance.random() < 0.6,
        leaving=chance.random() < 0.3,
        seek_deadline=chance.choice((None, NOW - 1, NOW, NOW + 3, NOW + 8)) if destination is not None else None,
        closing=tuple(tenure for tenure in closing if tenure is not None),
    )


def _tenure(
    chance: Random, lease: int, types: tuple[TypeOffer, ...], seats: list[Unit], *, closing: bool = False
) -> Tenure | None:
    if not seats:
        return None
    seat = seats.pop()
    unit = GONE_UNIT if chance.random() < 0.03 else seat.id
    if closing:
        return Tenure(lease, unit, seat.type, "closing", 0)
    state = "active" if chance.random() < 0.7 else "pending"
    return Tenure(lease, unit, seat.type, state, 0, _notice(chance, lease) if chance.random() < 0.5 else None)


def _notice(chance: Random, lease: int) -> OpenNotice:
    deadline = chance.choice((NOW - 4, NOW, NOW + 2, NOW + 9))
    return OpenNotice(lease * 10, chance.choice(NOTICE_REASONS), deadline, answered=chance.random() < 0.5)


def _rows(chance: Random, types: tuple[TypeOffer, ...], seats: list[int]) -> tuple[TableRow, ...]:
    """Most jobs have a row for where they sit, and some have rows of a type that is not this cluster's."""
    kinds = [kind.id for kind in types if chance.random() < 0.6 or (kind.id in seats and chance.random() < 0.8)]
    if chance.random() < 0.1:
        kinds.append(77)
    chance.shuffle(kinds)
    return tuple(_row(chance, kind) for kind in kinds)


def _row(chance: Random, kind: int) -> TableRow:
    price = None if chance.random() < 0.1 else chance.randint(1, 20)
    keep = None if chance.random() < 0.5 else chance.randint(1, 20)
    closed_until = 0 if chance.random() < 0.6 else chance.choice((NOW - 1, NOW, NOW + 1, NOW + 6))
    return TableRow(kind, price, keep, chance.randint(0, 3), closed_until)
