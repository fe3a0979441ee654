"""What a simulation leaves behind, as values and as one JSON object."""

from dataclasses import dataclass
from fractions import Fraction

from markets.engine.clearing import Clearing
from markets.engine.money import amount, format_price
from markets.simulation.scenarios import A10, MINUTE, Scenario
from markets.simulation.world import SimJob, SimLease, SimMove, World


@dataclass(frozen=True, slots=True)
class PricePoint:
    """From this instant on the public price of a type (micro-dollars per hour) is this."""

    at: int
    type: str
    price: int


@dataclass(frozen=True, slots=True)
class BidPoint:
    """From this instant on a job bids this on a row; None is the cap."""

    at: int
    job: str
    type: str
    value: int | None


@dataclass(frozen=True, slots=True)
class LeasePart:
    """One lease: billed from start to end; cost in micro-dollars, rounded for show (a bill rounds only its sum)."""

    job: str
    type: str
    start: int
    end: int
    cost: int


@dataclass(frozen=True, slots=True)
class Move:
    """One migration at the instant at which the source was left."""

    at: int
    job: str
    source: str
    destination: str
    mode: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A job saved its state when this share of it was done."""

    at: int
    job: str
    type: str
    progress: Fraction


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a simulation says. bills in micro-dollars; finished: jobs that completed, and when."""

    scenario: str
    prices: tuple[PricePoint, ...]
    bids: tuple[BidPoint, ...]
    leases: tuple[LeasePart, ...]
    moves: tuple[Move, ...]
    checkpoints: tuple[Checkpoint, ...]
    bills: dict[str, int]
    finished: dict[str, int]

    def prices_of(self, accelerator_type: str) -> tuple[PricePoint, ...]:
        """Return the prices of one type in order."""
        return tuple(point for point in self.prices if point.type == accelerator_type)

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON values: instants in minutes as numbers, money in dollars as decimal text."""
        types = sorted({point.type for point in self.prices})
        return {
            "scenario": self.scenario,
            "a10_prices": self._price_list(A10),
            "prices": {name: self._price_list(name) for name in types},
            "bids": [
                {"job": bid.job, "minute": _minute(bid.at), "type": bid.type, "value": _bid(bid.value)}
                for bid in self.bids
            ],
            "leases": [
                {
                    "job": lease.job,
                    "type": lease.type,
                    "start_minute": _minute(lease.start),
                    "end_minute": _minute(lease.end),
                    "cost": format_price(lease.cost),
                }
                for lease in self.leases
            ],
            "migrations": [
                {
                    "job": move.job,
                    "minute": _minute(move.at),
                    "source": move.source,
                    "destination": move.destination,
                    "mode": move.mode,
                }
                for move in self.moves
            ],
            "checkpoints": [
                {
                    "job": each.job,
                    "minute": _minute(each.at),
                    "type": each.type,
                    "progress": round(float(each.progress), 6),
                }
                for each in self.checkpoints
            ],
            "bills": {job: format_price(bill) for job, bill in self.bills.items()},
            "finish_minute": {job: _minute(at) for job, at in self.finished.items()},
        }

    def _price_list(self, accelerator_type: str) -> list[dict[str, object]]:
        return [
            {"minute": _minute(point.at), "price": format_price(point.price)}
            for point in self.prices_of(accelerator_type)
        ]


class Recorder:
    """Notes prices, bids and moves as a simulation goes along."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._prices: list[PricePoint] = []
        self._bids: list[BidPoint] = []
        self._checkpoints: list[Checkpoint] = []
        self._last_price: dict[str, int] = {}
        self._last_bid: dict[tuple[str, str], int | None] = {}

    def prices(self, world: World, clearing: Clearing | None) -> None:
        """Note the public prices that have changed; called once an instant, when the market has come to rest."""
        if clearing is None:
            return
        for type_id, price in clearing.prices.items():
            name = world.names[type_id]
            if self._last_price.get(name) != price.public:
                self._last_price[name] = price.public
                self._prices.append(PricePoint(world.now, name, price.public))

    def bids(self, world: World, job: SimJob) -> None:
        """Note the bids of a job that have changed since they were noted last."""
        for row in job.rows:
            key = (job.spec.name, world.names[row.type])
            if key not in self._last_bid or self._last_bid[key] != row.max_price:
                self._last_bid[key] = row.max_price
                self._bids.append(BidPoint(world.now, *key, row.max_price))

    def checkpoint(self, world: World, job: SimJob, lease: SimLease) -> None:
        """Note that a job has saved its state on this lease."""
        self._checkpoints.append(Checkpoint(world.now, job.spec.name, world.names[lease.type], job.saved))

    def report(self, world: World) -> Report:
        """Return what was noted, with leases and bills."""
        totals = {job.spec.name: 0 for job in world.jobs}
        for lease in world.leases:
            totals[lease.job.spec.name] += lease.paid
        return Report(
            scenario=self._scenario.name,
            prices=tuple(self._prices),
            bids=tuple(self._bids),
            leases=tuple(_lease_part(world, lease) for lease in world.leases),
            moves=tuple(_move(world, move) for move in world.moves),
            checkpoints=tuple(self._checkpoints),
            bills={name: amount(total) for name, total in totals.items()},
            finished={job.spec.name: job.finished_at for job in world.jobs if job.finished_at is not None},
        )


def _lease_part(world: World, lease: SimLease) -> LeasePart:
    end = world.now if lease.ended_at is None else lease.ended_at
    start = end if lease.active_from is None else lease.active_from
    return LeasePart(lease.job.spec.name, world.names[lease.type], start, end, amount(lease.paid))


def _move(world: World, move: SimMove) -> Move:
    source, destination = world.names[move.source.type], world.names[move.destination.type]
    return Move(move.at, move.job.spec.name, source, destination, move.job.spec.mode)


def _minute(instant: int) -> float:
    return round(instant / MINUTE, 6)


def _bid(value: int | None) -> str:
    return "cap" if value is None else format_price(value)
