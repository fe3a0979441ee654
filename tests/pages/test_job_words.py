"""What a job's page says, from values alone: reasons, facts, folded decisions, thinned series, events in words."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.errors import Fault
from laissez.models import Event
from markets.models import Award, Bid, Notice
from markets.selectors.exchange import Exchange, ExchangeRow
from markets.selectors.history import Decision, Reported, Sample
from markets.selectors.jobs import JobView
from markets.views import decisions, facts, progress, reasons, table_draft, telling
from workers.models import AcceleratorType, Cluster, Job, Lease

START = datetime(2026, 1, 1, 14, 2, tzinfo=UTC)
CLUSTER = Cluster(pk=1, slug="gemm", name="gemm")
TYPES = {
    slug: AcceleratorType(
        pk=number, cluster=CLUSTER, slug=slug, base_price_per_hour=500_000, cap_price_per_hour=2_000_000
    )
    for number, slug in enumerate(("a10", "l4"), 1)
}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def quote(slug: str, *, price: int | None = 600_000, free: int = 0, total: int = 1) -> ExchangeRow:
    given: dict[str, object] = dict.fromkeys(ExchangeRow.__dataclass_fields__)
    given |= {"type": TYPES[slug], "price": price, "lease_price": price}
    return ExchangeRow(**{**given, "units_total": total, "units_free": free, "units_leaving": 0, "waiting_awards": 0})


def bid(slug: str, price: int | None, position: int = 0) -> Bid:
    return Bid(type=TYPES[slug], max_price_per_hour=price, position=position)


def seen(job: Job, *bids: Bid, rows: tuple[ExchangeRow, ...] = (), **around: object) -> JobView:
    table = Exchange(cluster=CLUSTER, rows=rows, as_of=START, age_seconds=0.0, is_stale=False)
    lists = {"leases": [], "migrations": [], "checkpoints": [], "award": None, "notice": None}
    return JobView(job=job, table=table, bids=list(bids), **{**lists, **around})  # type: ignore[arg-type]


def queued(**fields: object) -> Job:
    return Job(state="queued", reason="submitted", upgrade="never", queue_deadline=at(900), **fields)


def running(slug: str = "a10", state: str = "active") -> tuple[Job, Lease]:
    job = Job(state="running", reason="handed_over", upgrade="at_checkpoint")
    lease = Lease(pk=1, type=TYPES[slug], state=state)
    lease.primary_during = type("Span", (), {"upper": None})()
    return job, lease


@pytest.mark.parametrize(
    ("price", "row", "words"),
    [
        (570_000, quote("a10"), "outbid by $0.0300/h on a10"),
        (600_000, quote("a10"), "equals the price of a10, and no unit is free"),
        (600_000, quote("a10", free=1), "a10 is decided at the next tick"),
        (None, quote("a10"), "a10 is decided at the next tick"),
        (400_000, quote("a10"), "$0.1000/h under the base price of a10"),
        (570_000, quote("a10", total=0), "no host offers a10"),
        (570_000, quote("a10", price=None), "a10 has not been priced yet"),
    ],
)
def test_a_queued_job_says_in_a_few_words_what_it_lacks(price: int | None, row: ExchangeRow, words: str) -> None:
    assert reasons.reason(seen(queued(), bid("a10", price), rows=(row,))) == words


def test_of_several_obstacles_the_smallest_is_told() -> None:
    rows = (quote("a10", price=900_000), quote("l4"))
    assert reasons.reason(seen(queued(), bid("a10", 700_000), bid("l4", 590_000), rows=rows)) == (
        "outbid by $0.0100/h on l4"
    )
    assert reasons.reason(seen(queued())) == "its launch table is empty"
    assert reasons.reason(seen(queued(), award=Award(type=TYPES["l4"]))) == "won l4, waits for the unit to come free"


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (Job(state="stopped", reason="budget"), "over budget"),
        (Job(state="stopped", reason="stopped"), "stopped by hand"),
        (Job(state="stopped", reason="agent"), "its agent stopped it"),
        (Job(state="failed", reason="failed", reason_detail="exit code 3"), "exit code 3"),
        (Job(state="succeeded", reason="completed"), "exit code 0"),
        (Job(state="expired", reason="queue_timeout"), "no device won in time"),
    ],
)
def test_every_other_state_has_its_reason_too(job: Job, words: str) -> None:
    assert reasons.reason(seen(job)) == words


def test_a_running_job_says_how_far_it_is_outbid_and_what_follows() -> None:
    job, lease = running()
    notice = Notice(lease=lease, reason="outbid", price_per_hour=590_000, bid_per_hour=570_000, deadline=at(30))
    view = seen(job, bid("a10", 570_000), rows=(quote("a10"),), leases=[lease], notice=notice)
    assert reasons.reason(view) == "outbid by $0.0300/h"
    step = facts.next_step(view, facts.Outlook())
    assert step.text == "It saves its state and leaves a10 unless it bids more than $0.6000/h or moves first."
    assert (step.until, step.at) == ("By", at(30))


def test_where_it_sits_in_its_table_is_why_it_is_here() -> None:
    job, lease = running("l4")
    rows = (quote("a10", price=700_000), quote("l4", free=1))
    view = seen(job, bid("a10", 650_000), bid("l4", None, 1), rows=rows, leases=[lease])
    assert reasons.reason(view) == "row 2 of 2 of its launch table"
    assert facts.why(view, []).text == (
        "It is row 2 of its launch table, the first that the bids win: a10 costs $0.7000/h against its own $0.6500/h."
    )
    step = facts.next_step(view, facts.Outlook(finish_seconds=90))
    assert step.text == (
        "It trains on here, about 1 min 30 s more at its present speed. If it wins a10 it moves there at a checkpoint."
    )


@pytest.mark.parametrize("state", ["stopped", "succeeded", "failed", "cancelled", "expired", "queued", "running"])
def test_what_comes_next_is_said_in_every_state(state: str) -> None:
    job = Job(state=state, reason="x", upgrade="never", queue_deadline=at(9))
    assert facts.next_step(seen(job), facts.Outlook()).text.endswith(".")


def test_a_budget_lasts_as_long_as_its_rest_at_the_present_price() -> None:
    assert facts.runway_seconds(budget=1_000_000, cost=500_000, price=500_000) == 3600
    assert facts.runway_seconds(budget=1_000_000, cost=500_000, price=500_000, speedup=60) == 60
    assert facts.runway_seconds(budget=1, cost=2, price=1) == 0
    assert facts.runway_seconds(budget=None, cost=0, price=1) is None
    assert facts.runway_seconds(budget=1, cost=0, price=None) is None


def test_the_end_is_foretold_from_the_speed_since_the_first_report() -> None:
    first, second = Sample(at(0), 1, 0.2, None, None), Sample(at(10), 1, 0.4, None, None)
    assert facts.finish_seconds(first, second) == pytest.approx(30)
    assert facts.finish_seconds(first, first) is None
    assert facts.finish_seconds(first, Sample(at(10), 2, 0.4, None, None)) is None
    assert facts.finish_seconds(None, second) is None


# Decisions


def decision(number: int, kind: str = "rebid", *, failed: bool = False, **bids: str) -> Decision:
    return Decision(number, at(number), kind, "now", bids, f"reason {number}", None, failed)


def test_a_run_of_re_bids_is_one_entry_with_count_range_and_span() -> None:
    run = [decision(number, a10=f"0.{61 + number % 6}") for number in range(12, 0, -1)]
    (entry,) = decisions.fold(run)
    assert (entry.count, entry.newest.number, entry.since) == (12, 12, at(1))
    assert [each.words for each in entry.ranges] == ["from $0.6100/h to $0.6600/h"]
    assert entry.key == "decision-1"


def test_what_differs_parts_a_run_and_short_runs_stay_apart() -> None:
    told = [
        decision(9, a10="0.7"),
        decision(8, l4="0.7"),
        decision(7, "migrate"),
        *(decision(number, a10="0.6875") for number in (6, 5, 4)),
        decision(3, "crashed", failed=True),
        decision(2, a10="0.6"),
        decision(1, a10="0.6"),
    ]
    entries = decisions.fold(told)
    assert [entry.count for entry in entries] == [1, 1, 1, 3, 1, 1, 1]
    assert entries[3].ranges[0].words == "$0.6875/h"
    assert entries[4].newest.failed


def test_repeated_failures_fold_but_stay_failures() -> None:
    (entry,) = decisions.fold([decision(number, "crashed", failed=True) for number in (3, 2, 1)])
    assert entry.count == 3
    assert entry.newest.failed


@given(st.lists(st.tuples(st.sampled_from(["rebid", "migrate", "stay"]), st.booleans()), max_size=30))
def test_folding_loses_and_reorders_no_decision(kinds: list[tuple[str, bool]]) -> None:
    told = [decision(-number, kind, failed=failed, a10="0.5") for number, (kind, failed) in enumerate(kinds)]
    assert [member for entry in decisions.fold(told) for member in entry.members] == told


def test_a_price_that_is_none_is_left_out_of_the_range() -> None:
    assert decisions.fold([decision(1, a10="NaN"), decision(0, a10="x")])[0].ranges == ()
    assert decisions.Range("a10", Decimal("0.5"), Decimal("0.5")).words == "$0.5000/h"


# Progress


def samples(count: int, lease: int = 1, start: int = 0) -> list[Sample]:
    return [Sample(at(start + n), lease, n / 10_000, n, None if n % 7 else 1 / (n + 1)) for n in range(count)]


def test_a_thinned_series_keeps_its_ends_its_extremes_and_the_edges_of_leases() -> None:
    many = [*samples(3000), *samples(2000, lease=2, start=5000)]
    peak = many[1234] = Sample(many[1234].at, 1, 0.1, 1234, 99.0)
    few = progress.thinned(many, 200)
    assert len(few) <= 210
    assert peak in few
    assert {many[0], many[2999], many[3000], many[-1]} <= set(few)
    assert few == sorted(few, key=lambda sample: sample.at)
    assert progress.thinned(many[:200], 200) == many[:200]


def test_a_change_of_lease_is_a_gap_and_no_line() -> None:
    drawn = progress.series([*samples(2), *samples(2, lease=2, start=10)], as_of=at(20))
    assert drawn["series"][0]["y"] == [0.0, 0.01, None, 0.0, 0.01]
    assert drawn["series"][1]["y"] == [1.0, None, None, 1.0, None]
    assert drawn["gaps"] == [
        {"from": "2026-01-01T14:02:01Z", "to": "2026-01-01T14:02:10Z", "why": "between two leases"}
    ]
    assert progress.series([], as_of=at(0))["x"] == []
    assert progress.summary(Reported(0, 0, None, None, None, None, None), loss=None) == ""


# Events


def event(type_: str, number: int = 1, **data: object) -> Event:
    return Event(seq=number, type=type_, subject="x", at=START, data=data)


@pytest.mark.parametrize(
    ("type_", "data", "title", "detail"),
    [
        ("org.laissez.market.job.running.v1", {"reason": "handed_over"}, "Job running", "handed over"),
        (
            "org.harmonaize.checkpoint.completed.v1",
            {"progress": 0.25, "size_bytes": 1000, "blocking_s": 0.5},
            "Checkpoint completed",
            "at 25 %, 1,000 bytes, took 0.5 s",
        ),
        (
            "org.laissez.market.notice.opened.v1",
            {"reason": "outbid", "price_per_hour": "0.6", "bid_per_hour": "0.5", "accelerator_type": "a10"},
            "Notice opened",
            "a10, outbid, price $0.6000/h against its own $0.5000/h",
        ),
        (
            "org.laissez.market.agent.failed.v1",
            {"outcome": "crashed", "detail": "boom"},
            "Agent failed",
            "crashed, taken for “stay”, boom",
        ),
        (
            "org.laissez.market.bid.opened.v1",
            {"accelerator_type": "a10", "max_price_per_hour": "cap"},
            "Bid opened",
            "a10 the cap",
        ),
        ("org.laissez.market.headroom.changed.v1", {"whatever": [1]}, "Headroom changed", ""),
    ],
)
def test_an_event_is_told_with_its_numbers(type_: str, data: dict[str, object], title: str, detail: str) -> None:
    told = telling.told(event(type_, **data))
    assert (told.title, told.detail) == (title, detail)


def test_a_bid_that_gave_way_to_its_next_value_is_told_once() -> None:
    closed = event("org.laissez.market.bid.closed.v1", 1, accelerator_type="a10")
    opened = event("org.laissez.market.bid.opened.v1", 2, accelerator_type="a10")
    withdrawn = event("org.laissez.market.bid.closed.v1", 3, accelerator_type="l4")
    assert [told.number for told in telling.all_told([withdrawn, opened, closed])] == [3, 2]


KNOWN = (
    "reason",
    "progress",
    "size_bytes",
    "blocking_s",
    "bids",
    "rows",
    "price_per_hour",
    "max_price_per_hour",
    "kind",
)
JUNK = (
    st.none()
    | st.integers(-(10**15), 10**15)
    | st.sampled_from(["", "cap", "0.5", "<b>"])
    | st.lists(st.integers(), max_size=2)
)


@given(st.dictionaries(st.sampled_from(KNOWN), JUNK))
def test_no_data_of_an_event_breaks_its_telling(data: dict[str, object]) -> None:
    for subject in ("job", "lease", "notice", "award", "migration", "checkpoint", "agent", "bid", "else"):
        changed = Event(seq=1, type=f"org.laissez.market.{subject}.changed.v1", subject="x", at=START, data=data)
        assert telling.told(changed).title


# The launch table as it is typed


def test_rows_are_read_in_order_until_the_first_that_is_missing() -> None:
    typed = {"rows-0-accelerator_type": " a10 ", "rows-0-max_price_per_hour": "CAP", "rows-2-accelerator_type": "l4"}
    rows = table_draft.read(typed)
    assert table_draft.submitted(rows) == [{"accelerator_type": "a10", "max_price_per_hour": "cap"}]


def test_a_fault_is_shown_at_the_field_that_its_pointer_names() -> None:
    rows = [table_draft.DraftRow("a10"), table_draft.DraftRow("l4")]
    faults = [
        Fault("bad_price", "no price", "/rows/1/max_price_per_hour"),
        Fault("bad_row", "no row", "/rows/0"),
        Fault("x", "elsewhere", "/rows/7/command"),
        Fault("y", "general", "/rows"),
    ]
    marked, others = table_draft.faulted(rows, faults)
    assert marked[1].faults == {"max_price_per_hour": "no price"}
    assert marked[0].faults == {"accelerator_type": "no row"}
    assert others == ["elsewhere", "general"]
    assert table_draft.focus_after(marked, "save") == (0, "accelerator_type")


def test_the_keyboard_goes_on_where_the_row_went() -> None:
    rows = [table_draft.DraftRow(name) for name in ("a", "b", "c")]
    assert table_draft.focus_after(rows, "up-2") == (1, "up")
    assert table_draft.focus_after(rows, "up-1") == (0, "down")
    assert table_draft.focus_after(rows, "down-1") == (2, "up")
    assert table_draft.focus_after(rows, "add") == (2, "accelerator_type")
    assert table_draft.focus_after(rows, "remove-0") == (-1, "add")
    assert table_draft.focus_after(rows, "check") == (-1, "")


ACTS = [f"{verb}-{place}" for verb in ("up", "down", "remove", "else") for place in (0, 1, 19, 20, 9999, "x")] + ["add"]


@given(st.lists(st.sampled_from("abc"), max_size=20), st.sampled_from(ACTS))
def test_no_button_loses_a_row_but_remove(names: list[str], act: str) -> None:
    rows = [table_draft.DraftRow(name) for name in names]
    after = table_draft.edited(rows, act, types=["a10"])
    gone = len(rows) - len(after)
    assert gone <= (1 if act.startswith("remove-") else 0)
    if gone == 0 and not act.startswith("add"):
        assert sorted(row.accelerator_type for row in after) == sorted(names)
