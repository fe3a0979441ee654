"""The daemon's memory: numbers only grow, reports stay until acknowledged, an end is told once."""

from __future__ import annotations

import pytest

from workers.host import eventlog
from workers.host.eventlog import EventLog, OutputLog
from workers.host.journal import Journal

EXIT = {"kind": "exit", "reason": "completed"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.sqlite3"


def test_message_numbers_grow_across_restarts(path):
    first = Journal(path)
    numbers = [first.next_message(), first.next_message()]
    first.close()
    second = Journal(path)
    numbers.append(second.next_message())
    second.new_boot()
    numbers.append(second.next_message())
    second.close()
    assert numbers == sorted(set(numbers))


def test_reports_stay_in_order_until_they_are_acknowledged(path):
    journal = Journal(path)
    first = journal.report("lea_1", 7, {"kind": "first_step"})
    journal.close()
    journal = Journal(path)
    second = journal.report("lea_1", 7, {"kind": "progress", "progress": 0.5})
    assert [report["id"] for report in journal.pending()] == [first, second]
    assert journal.pending()[0] == {"id": first, "lease": "lea_1", "fence": 7, "kind": "first_step"}
    journal.settle(first, {}, [])
    assert [report["id"] for report in journal.pending()] == [second]
    journal.settle(0, {}, [second])
    assert journal.pending() == []
    journal.close()


def test_a_message_holds_a_bounded_part_of_the_reports(path):
    journal = Journal(path)
    for _ in range(10):
        journal.report("lea_1", 7, {"kind": "log", "text": "x" * 1000})
    assert len(journal.pending(most_bytes=3500)) == 3
    assert len(journal.pending(most_bytes=10)) == 1
    journal.close()


def test_what_a_shim_said_is_taken_in_once(path):
    journal = Journal(path)
    journal.know("lea_1", 7, 0)
    journal.take_in("lea_1", 7, [{"kind": "first_step"}, EXIT], 120)
    known = journal.lease("lea_1")
    assert (known.offset, known.ended) == (120, True)
    assert not journal.end("lea_1", 7, {**EXIT, "reason": "host_lost"})
    assert [report["kind"] for report in journal.pending()] == ["first_step", "exit"]
    journal.close()


def test_an_end_without_a_shims_word_is_told_once(path):
    journal = Journal(path)
    journal.know("lea_1", 7, 0)
    assert journal.end("lea_1", 7, EXIT)
    assert not journal.end("lea_1", 7, EXIT)
    assert len(journal.pending()) == 1
    journal.close()


def test_a_checkpoint_is_reported_once_and_its_answer_outlives_the_daemon(path):
    journal = Journal(path)
    number = journal.report("lea_1", 7, {"kind": "checkpoint"}, checkpoint=1)
    assert journal.report("lea_1", 7, {"kind": "checkpoint"}, checkpoint=1) is None
    assert journal.checkpoint_result("lea_1", 1) is None
    journal.settle(number, {number: {"accepted": True, "then": "stop"}}, [])
    journal.close()
    journal = Journal(path)
    assert journal.checkpoint_reported("lea_1", 1)
    assert journal.checkpoint_result("lea_1", 1) == {"accepted": True, "then": "stop"}
    assert journal.pending() == []
    journal.forget("lea_1")
    assert not journal.checkpoint_reported("lea_1", 1)
    journal.close()


def test_a_shims_journal_is_read_on_from_where_it_was_left(tmp_path):
    log = EventLog(tmp_path / "events")
    log.append({"kind": "first_step"})
    events, offset = eventlog.read(tmp_path / "events", 0)
    assert events == [{"n": 1, "kind": "first_step"}]
    assert eventlog.read(tmp_path / "events", offset) == ([], offset)
    log.append(EXIT)
    assert eventlog.read(tmp_path / "events", offset)[0] == [{"n": 2, **EXIT}]
    assert eventlog.read(tmp_path / "nothing", 0) == ([], 0)


def test_a_line_that_a_kill_has_cut_is_not_read(tmp_path):
    (tmp_path / "events").write_bytes(b'{"n": 1, "kind": "first_step"}\n{"n": 2, "ki')
    events, offset = eventlog.read(tmp_path / "events", 0)
    assert len(events) == 1
    assert offset == 31


def test_a_line_that_a_full_disk_has_cut_short_is_passed_over(tmp_path):
    (tmp_path / "events").write_bytes(b'{"n": 1, "kind": "lo{"n": 2, "kind": "first_step"}\n{"n": 3, "kind": "log"}\n')
    assert [event["n"] for event in eventlog.read(tmp_path / "events", 0)[0]] == [3]


def test_text_holds_no_character_that_a_database_refuses(tmp_path):
    EventLog(tmp_path / "events").append({"kind": "log", "text": "a\0b"})
    assert eventlog.read(tmp_path / "events", 0)[0][0]["text"] == "a\ufffdb"


def test_output_is_kept_up_to_its_cap_and_the_cut_is_told_once(tmp_path):
    output = OutputLog(EventLog(tmp_path / "events"), 10)
    assert output.write("stdout", "12345")
    assert output.write("stdout", "67890\u00e9")
    assert not output.write("stderr", "more")
    events, _ = eventlog.read(tmp_path / "events", 0)
    assert [(event["offset"], event["text"]) for event in events[:2]] == [(0, "12345"), (5, "67890")]
    assert "may log 10 bytes" in events[2]["text"]
    assert len(events) == 3
