"""What a plan asks of its applier, one frozen value per act.

The applier carries actions out in the order given, under the lock under which the floor was read, and drops one whose
row has changed since. All of them are safe to drop: the next plan asks again for what is still needed.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

NoticeReason = Literal["outbid", "below_base", "claimed", "drained"]
MARKET_REASONS: tuple[NoticeReason, ...] = ("outbid", "below_base", "claimed", "drained")
ReturnReason = Literal["seek_expired", "lost", "not_needed"]


@dataclass(frozen=True, slots=True)
class OpenAward:
    """Write a waiting award of `type` for `job`, since now. Any earlier award of the job was closed just before."""

    job: int
    type: int


@dataclass(frozen=True, slots=True)
class CloseAward:
    """Close the waiting award as lost: the clearing no longer repeats it."""

    award: int
    job: int
    outcome: Literal["lost"] = "lost"


@dataclass(frozen=True, slots=True)
class HandOver:
    """Give the free unit to the job: mark its award handed over and write a pending lease with the unit's next fence.

    award None: the award was opened by an OpenAward of this same plan. If the job has a source, the lease is its
    destination and gets the seek deadline now + seek time (None where the job has no such limit); otherwise it is
    the job's source and the job is running from now on.
    """

    job: int
    type: int
    unit: int
    award: int | None


@dataclass(frozen=True, slots=True)
class GiveNotice:
    """Open a notice on the lease (the job's source) with this reason and deadline, and ask the agent.

    outbid: somebody else has its place. below_base: its keep price is under the base price. claimed: it has won a
    better row and somebody waits for its unit. drained: its unit is no longer usable.
    """

    lease: int
    job: int
    reason: NoticeReason
    deadline: int


@dataclass(frozen=True, slots=True)
class WithdrawNotice:
    """Withdraw the open notice: the clearing gives the unit back, or nobody claims it any more."""

    notice: int
    lease: int
    job: int


@dataclass(frozen=True, slots=True)
class ExecuteNotice:
    """The deadline is reached: mark the notice executed and tell the lease to leave (state closing).

    The host saves the state and ends the workload. If the job has a destination, that is its source from now on;
    otherwise the job is queued and keeps its award.
    """

    notice: int
    lease: int
    job: int


@dataclass(frozen=True, slots=True)
class ReturnDestination:
    """Abort the migration: tell the destination to leave (state closing); the job goes on at its source.

    A pending migrate decision lapses with it (leaving becomes False).
    seek_expired: the job did not move in its seek time. lost: outbid there, or the unit failed.
    not_needed: it was a fall-back, and the source is the job's own again.
    """

    lease: int
    job: int
    reason: ReturnReason


@dataclass(frozen=True, slots=True)
class CoolDown:
    """Close the row of `type` for seeking: closed_until = now + cool_down(previous length of this row).

    A completed move of the job resets the lengths of all its rows to zero.
    """

    job: int
    type: int


@dataclass(frozen=True, slots=True)
class LapseMove:
    """Forget the pending migrate decision (leaving becomes False): the job keeps its unit and has nowhere to go."""

    job: int


Action: TypeAlias = (
    OpenAward
    | CloseAward
    | HandOver
    | GiveNotice
    | WithdrawNotice
    | ExecuteNotice
    | ReturnDestination
    | CoolDown
    | LapseMove
)
