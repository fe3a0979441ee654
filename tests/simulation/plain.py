"""A second simulator that shares nothing with the project's but the scenario values: whole time steps, plain lists.

It walks through every step of the clock instead of jumping, clears by inserting one proposal after another into sorted
lists, counts work in whole steps, and computes bids with fractions. It only plays scenarios whose every duration is a
whole number of steps and in which every agent is asked at every step.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import count

from markets.simulation.scenarios import JobSpec, Scenario

HOUR = 3600 * 10**6


@dataclass
class Seat:
    """A lease."""

    number: int
    owner: "Player"
    kind: str
    unit: int
    ready: int
    active: int | None = None
    gone: int | None = None
    leaves: int | None = None
    warning: tuple[str, int] | None = None
    cost: int = 0
    rate: int = 0


@dataclass
class Player:
    """A job. Its table is a list of type names; bids, keeps, ages and closed rows are looked up by name."""

    spec: JobSpec
    number: int
    tenant: str
    table: list[str]
    bid: dict[str, int]
    keep: dict[str, int | None]
    age: dict[str, int]
    closed: dict[str, int] = field(default_factory=dict)
    patience: dict[str, int] = field(default_factory=dict)
    here: Seat | None = None
    there: Seat | None = None
    prize: tuple[str, int] | None = None
    seek_end: int | None = None
    old: list[Seat] = field(default_factory=list)
    saved: Fraction = Fraction(0)
    done: Fraction = Fraction(0)
    start: int | None = None
    wish: str | None = None
    first_step: int | None = None
    fresh_checkpoint: bool = False
    end: int | None = None

    def share(self, now: int) -> Fraction:
        if self.start is None or now <= self.start:
            return self.done
        return self.done + Fraction(now - self.start) / (self.hours(self.here.kind) * HOUR)

    def hours(self, kind: str) -> Fraction:
        return next(row.hours for row in self.spec.rows if row.type == kind)

    def above(self, kind: str) -> bool:
        """Is this type better than the one I run on?"""
        return self.here is not None and self.table.index(kind) < self.table.index(self.here.kind)

    def stay_bid(self, kind: str) -> int:
        return max(self.bid[kind], self.keep[kind] or 0)

    def seats(self) -> list[Seat]:
        return [seat for seat in (self.here, self.there) if seat is not None] + self.old


class PlainSimulator:
    def __init__(self, scenario: Scenario, step: int) -> None:
        self.scenario, self.step, self.time = scenario, step, scenario.timing
        self.kinds = {kind.name: kind for kind in scenario.types}
        self.units = [(kind.name, n) for kind in scenario.types for n in range(kind.units)]
        self.broken: set[int] = set()
        self.taken: dict[int, Seat] = {}
        self.players: list[Player] = []
        self.seats: list[Seat] = []
        self.numbers = count()
        self.quotes = {kind.name: kind.base for kind in scenario.types}
        self.prices: list[tuple[int, str, int]] = []
        self.moves: list[tuple[int, str, str, str]] = []
        self.now = 0

    def run(self) -> "PlainSimulator":
        waiting = list(self.scenario.jobs)
        while True:
            self.break_units()
            self.settle()
            self.work()
            self.settle()
            for spec in [spec for spec in waiting if spec.submit_at == self.now]:
                waiting.remove(spec)
                self.players.append(self.enter(spec))
            self.think()
            self.trade()
            over = not waiting and not self.playing() and not self.taken
            if over or self.now + self.step > self.scenario.horizon:
                return self
            self.now += self.step
            for seat in self.taken.values():
                if seat.active is not None:
                    seat.cost += seat.rate * self.step

    def playing(self) -> list[Player]:
        return [player for player in self.players if player.end is None]

    def enter(self, spec: JobSpec) -> Player:
        names = [row.type for row in spec.rows]
        bids = {row.type: self.kinds[row.type].cap if row.max_price is None else row.max_price for row in spec.rows}
        keeps = {row.type: row.keep_price for row in spec.rows}
        ages = dict.fromkeys(names, self.now)
        return Player(spec, len(self.players), spec.tenant or spec.name, names, bids, keeps, ages)

    # What happens by itself

    def break_units(self) -> None:
        for failure in self.scenario.failures:
            if failure.at != self.now:
                continue
            unit = self.units.index((failure.type, failure.unit))
            if failure.usable:
                self.broken.discard(unit)
                continue
            self.broken.add(unit)
            for player in self.playing():
                if player.here is not None and player.here.unit == unit:
                    self.depart(player)

    def settle(self) -> bool:
        moved = False
        for seat in sorted(self.taken.values(), key=lambda seat: seat.number):
            if seat.leaves is not None and seat.leaves <= self.now:
                self.vacate(seat)
                moved = True
            elif seat.leaves is None and seat.active is None and seat.ready <= self.now:
                seat.active = self.now
                moved = True
                if seat.owner.here is seat:
                    seat.owner.start = self.now + self.restoring(seat.owner)
        for player in self.playing():
            arrived = player.there is not None and player.there.active is not None
            if player.first_step is not None and player.first_step <= self.now and arrived:
                self.depart(player)
                moved = True
            asked = player.wish or ("now" if player.spec.upgrade == "now" else "checkpoint")
            if asked == "now" or player.share(self.now) == player.saved:
                moved |= self.step_over(player)
        return moved

    def step_over(self, player: Player) -> bool:
        if player.here is None or player.first_step is not None:
            return False
        arrived = player.there is not None and player.there.active is not None
        warned = player.here.warning is not None
        claimed = warned and player.here.warning[0] == "claimed" and player.there is None
        if not (arrived or (warned and player.wish is not None) or claimed):
            return False
        if arrived and player.spec.mode == "overlap":
            player.done, player.start = player.share(self.now), None
            player.first_step = self.now + self.restoring(player)
        else:
            self.depart(player)
        return True

    def restoring(self, player: Player) -> int:
        return self.time.restore_us if player.saved else 0

    def depart(self, player: Player) -> None:
        left, begun = player.here, player.first_step
        player.done, player.start = player.saved, None
        player.here, player.there = player.there, None
        player.wish = player.seek_end = player.first_step = None
        self.dismiss(left)
        if player.here is not None:
            player.patience.clear()
            self.moves.append((self.now, player.spec.name, left.kind, player.here.kind))
            if player.here.active is not None:
                player.start = self.now + self.restoring(player) if begun is None else begun

    def dismiss(self, seat: Seat) -> None:
        seat.leaves = self.now + self.time.release_us
        seat.warning = None
        seat.owner.old.append(seat)
        if seat.leaves <= self.now:
            self.vacate(seat)

    def vacate(self, seat: Seat) -> None:
        seat.gone = self.now
        seat.owner.old.remove(seat)
        del self.taken[seat.unit]

    def work(self) -> None:
        for player in self.playing():
            share = player.share(self.now)
            if player.start is None or share <= player.done:
                continue
            if share >= 1:
                player.end, player.start, player.prize = self.now, None, None
                seats = [seat for seat in (player.here, player.there) if seat is not None]
                player.here = player.there = None
                for seat in seats:
                    self.dismiss(seat)
            elif player.spec.checkpoint_every is not None and share % player.spec.checkpoint_every == 0:
                player.saved, player.fresh_checkpoint = share, True

    # What agents decide

    def think(self) -> None:
        for player in self.playing():
            fresh, player.fresh_checkpoint = player.fresh_checkpoint, False
            if player.spec.policy != "hold":
                self.decide(player, fresh, now_counts=player.spec.policy == "break_even_now")

    def decide(self, player: Player, fresh: bool, *, now_counts: bool) -> None:
        worth = {kind: self.worth(player, kind, now_counts) for kind in player.table[:-1]}
        here = player.here.kind if player.here is not None else None
        moving = player.wish is not None or player.first_step is not None
        leave = False
        if here is not None and not moving:
            price, bid = self.quotes[here], worth.get(here, player.bid[here])
            better = player.there is not None and player.above(player.there.kind)
            below = player.table[player.table.index(here) + 1 :]
            if player.here.warning is not None and player.here.warning[0] in ("outbid", "below_base"):
                leave = bid <= price
            elif player.here.warning is not None or better:
                leave = True
            else:
                leave = fresh and bid < price and any(self.has_free_unit(kind) for kind in below)
        for kind, value in worth.items():
            raises_what_it_leaves = kind == here and (moving or leave) and value > player.bid[kind]
            if value != player.bid[kind] and not raises_what_it_leaves:
                player.bid[kind], player.age[kind] = value, self.now
        if leave and player.first_step is None:
            saved = fresh or player.share(self.now) == player.saved
            player.wish = "now" if saved else "checkpoint"

    def worth(self, player: Player, kind: str, now_counts: bool) -> int:
        here = player.here.kind if player.here is not None else None
        mine = {here, player.there.kind if player.there is not None else None}
        unsaved, left_here = 1 - player.saved, 1 - player.share(self.now)
        costs = []
        for later in player.table[player.table.index(kind) + 1 :]:
            price = self.quotes[later]
            if not self.has_free_unit(later) and later not in mine:
                if later != player.table[-1]:
                    continue
                stated = player.spec.rows[-1].max_price
                price = self.kinds[later].cap if stated is None else min(stated, self.kinds[later].cap)
            share = left_here if now_counts and later == here else unsaved
            costs.append(price * player.hours(later) * share)
        left = left_here if kind == here else unsaved
        return max(1, min(self.kinds[kind].cap, round(min(costs) / (player.hours(kind) * left))))

    def has_free_unit(self, kind: str) -> bool:
        return any(
            name == kind and unit not in self.broken and unit not in self.taken
            for unit, (name, _) in enumerate(self.units)
        )

    # What the market does

    def trade(self) -> None:
        for _ in range(500):
            settled = self.settle()
            if not self.round() and not settled:
                break
        else:
            raise RuntimeError("no rest")
        for kind, price in self.quotes.items():
            last = [point for point in self.prices if point[1] == kind]
            if not last or last[-1][2] != price:
                self.prices.append((self.now, kind, price))

    def round(self) -> bool:
        """Clear once, decide everything from that, then do it; return whether there was anything to do."""
        spent = {player.number for player in self.playing() if self.is_spent(player)}
        lists, losers = self.clear(spent)
        self.quote(lists, losers)
        main = {entry[3].number: kind for kind, entries in lists.items() for entry in entries if entry[2] == 0}
        side = {entry[3].number for entries in lists.values() for entry in entries if entry[2] == 1}
        todo: list[Callable[[], None]] = [partial(self.abort, self.players[number]) for number in sorted(spent)]
        fate: dict[int, str] = {}
        moving: dict[int, Seat | None] = {}
        for player in self.playing():
            there = moving[player.number] = None if player.number in spent else player.there
            fate[player.number] = self.fate(player, there, main.get(player.number), player.number in side)
        staying: set[int] = set()
        for player in self.playing():
            there = moving[player.number]
            if there is not None:
                fall_back = player.wish is None and not player.above(there.kind)
                if player.number not in main or (fall_back and fate[player.number] == "stays"):
                    todo.append(partial(self.abort, player))
                else:
                    staying.add(there.unit)
            if fate[player.number] in ("stays", "better"):
                staying.add(player.here.unit)
        need = self.award(main, fate, moving, staying, todo)
        self.warn(fate, moving, need, todo)
        for act in todo:
            act()
        return bool(todo)

    def is_spent(self, player: Player) -> bool:
        if player.there is None:
            return False
        expired = player.seek_end is not None and player.seek_end <= self.now and player.here.warning is None
        return player.there.unit in self.broken or expired

    def fate(self, player: Player, there: Seat | None, won: str | None, side: bool) -> str:
        """What becomes of the unit that a player runs on."""
        if player.here is None:
            return "queued"
        kind = player.here.kind
        if player.here.unit in self.broken:
            return "drained"
        if side or (there is None and won == kind):
            return "stays"
        if there is None and won is not None and player.above(won):
            return "better"
        under = min(player.stay_bid(kind), self.kinds[kind].cap) < self.kinds[kind].base
        return "below_base" if under else "outbid"

    def award(self, main, fate, moving, staying: set[int], todo: list) -> dict[str, int]:
        """Close and open awards and seat the earliest; return how many units of each type are still missing."""
        queue = []
        for player in self.playing():
            free_to_win = moving[player.number] is None and fate[player.number] != "stays"
            wins = main.get(player.number) if free_to_win else None
            prize = player.prize
            if prize is not None and prize[0] != wins:
                better = wins is not None and player.table.index(wins) < player.table.index(prize[0])
                todo.append(partial(self.lose_prize, player, cooling=player.above(prize[0]) and not better))
            if wins is not None:
                if prize is None or prize[0] != wins:
                    prize = (wins, self.now)
                    todo.append(partial(setattr, player, "prize", prize))
                queue.append((prize[1], player.number, wins))
        free = {kind: [u for u, (name, _) in enumerate(self.units) if name == kind] for kind in self.kinds}
        missing = dict.fromkeys(self.kinds, 0)
        for kind, units in free.items():
            missing[kind] -= sum(u in self.taken and u not in self.broken and u not in staying for u in units)
            units[:] = [u for u in units if u not in self.broken and u not in self.taken]
        for _, number, kind in sorted(queue):
            if free[kind] and len(self.players[number].seats()) < 2:
                todo.append(partial(self.seat, self.players[number], kind, free[kind].pop(0)))
            else:
                missing[kind] += 1
        return {kind: missing[kind] - len(free[kind]) for kind in self.kinds}

    def lose_prize(self, player: Player, *, cooling: bool) -> None:
        if cooling:
            self.cool(player, player.prize[0])
        player.prize = None

    def seat(self, player: Player, kind: str, unit: int) -> None:
        seat = Seat(next(self.numbers), player, kind, unit, self.now + self.time.activation_us)
        self.taken[unit] = seat
        self.seats.append(seat)
        player.prize = None
        if player.here is None:
            player.here = seat
        else:
            player.there = seat
            if player.spec.seek_us is not None:
                player.seek_end = self.now + player.spec.seek_us

    def warn(self, fate, moving, need: dict[str, int], todo: list) -> None:
        """Give, withdraw and execute warnings."""
        claimed = set()
        for kind, missing in need.items():
            leavers = [
                (player.here.warning is None, min(player.stay_bid(kind), self.kinds[kind].cap), -player.number)
                for player in self.playing()
                if fate[player.number] == "better" and player.here.kind == kind
            ]
            claimed |= {-number for *_, number in sorted(leavers)[: max(0, missing)]}
        for player in self.playing():
            if player.here is None:
                continue
            number = player.number
            if fate[number] == "stays" and moving[number] is None and player.wish is not None:
                todo.append(partial(setattr, player, "wish", None))
            reason = fate[number] if fate[number] in ("outbid", "below_base", "drained") else None
            reason = "claimed" if number in claimed else reason
            warning = player.here.warning
            if warning is None and reason is not None:
                todo.append(partial(setattr, player.here, "warning", (reason, self.now + self.time.notice_us)))
            elif warning is not None and reason is None:
                todo.append(partial(setattr, player.here, "warning", None))
            elif warning is not None and warning[1] <= self.now:
                todo.append(partial(self.depart, player))

    def abort(self, player: Player) -> None:
        seat = player.there
        if player.above(seat.kind):
            self.cool(player, seat.kind)
        player.there = player.seek_end = player.wish = None
        if player.first_step is not None:
            player.first_step, player.start = None, self.now
        self.dismiss(seat)

    def cool(self, player: Player, kind: str) -> None:
        length = player.patience[kind] = 2 * player.patience.get(kind, 0) or self.time.cool_down_us
        player.closed[kind] = self.now + length

    def clear(self, spent: set[int]):
        """Insert proposals one by one into a list per type, best first, and push out whoever is beyond the supply."""
        room = dict.fromkeys(self.kinds, 0)
        for unit, (name, _) in enumerate(self.units):
            room[name] += unit not in self.broken
        lists = {name: [] for name in self.kinds}
        losers = {name: [] for name in self.kinds}
        pending = [claim for player in self.playing() for claim in self.claims(player, spent)]
        while pending:
            role, player, rows, holds = pending.pop()
            if not rows:
                continue
            (kind, bid), rest = rows[0], rows[1:]
            bid = min(bid, self.kinds[kind].cap)
            if bid < self.kinds[kind].base:
                pending.append((role, player, rest, holds))
                continue
            key = (-bid, holds != kind, player.age[kind], player.number, role)
            lists[kind].append((key, bid, role, player, rest, holds))
            lists[kind].sort(key=lambda entry: entry[0])
            if len(lists[kind]) > room[kind]:
                *_, role, player, rest, holds = out = lists[kind].pop()
                losers[kind].append((out[1], player.tenant))
                pending.append((role, player, rest, holds))
        return lists, losers

    def claims(self, player: Player, spent: set[int]):
        home = player.here if player.here is not None and player.here.unit not in self.broken else None
        if player.there is not None and player.number not in spent:
            yield 0, player, [(player.there.kind, player.stay_bid(player.there.kind))], player.there.kind
            if home is not None:
                yield 1, player, [(home.kind, player.stay_bid(home.kind))], home.kind
            return
        if home is None:
            prize = player.prize[0] if player.prize is not None else None
            yield 0, player, [(kind, player.bid[kind]) for kind in player.table], prize
            return
        place = player.table.index(home.kind)
        rows = [(kind, player.bid[kind]) for kind in player.table]
        rows[place] = (home.kind, player.stay_bid(home.kind))
        awake = [
            row
            for row in rows[:place]
            if player.spec.upgrade in (("now",) if player.spec.checkpoint_every is None else ("now", "at_checkpoint"))
            and player.closed.get(row[0], 0) <= self.now
            and not (player.number in spent and row[0] == player.there.kind)
        ]
        yield 0, player, awake + rows[place:], home.kind

    def quote(self, winners, losers) -> None:
        for kind, offer in self.kinds.items():
            self.quotes[kind] = max([offer.base, *(bid for bid, _ in losers[kind])])
            tenants = {entry[3].tenant for entry in winners[kind]}
            rivals = [bid for bid, tenant in losers[kind] if len(tenants) > 1 or tenant not in tenants]
            lease_price = max([offer.base, *rivals]) if tenants else offer.base
            for seat in self.taken.values():
                if seat.kind == kind:
                    seat.rate = min(lease_price, offer.cap, seat.owner.stay_bid(kind))
