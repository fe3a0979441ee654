"""The host's decisions, without a host: facts and the time in, commands out."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from workers.host.decisions import (
    Ask,
    Checkpoint,
    Continue,
    Forget,
    ObservedLease,
    Refuse,
    Renew,
    Resume,
    Save,
    Start,
    Stop,
    decide,
)
from workers.host.devices import emulated
from workers.host.protocol import DesiredLease, ResumePoint

DEVICES = emulated("nvidia-a10=1,nvidia-l4=2")
SENT, NOW, TTL = 100.0, 101.0, 15.0
WISH = DesiredLease(
    lease="lea_1",
    job="job_1",
    fence=7,
    index=0,
    accelerator_type="nvidia-a10",
    desired="run",
    grace_seconds=20.0,
    deadline_seconds=None,
    ask=0,
    cause="heartbeat",
    checkpoint=False,
    resume=ResumePoint("none"),
    spec={},
    artifact=None,
    expected_hours=None,
)
VIEW = ObservedLease("lea_1", 7, 0, "running")
RENEWED = Renew("lea_1", SENT + TTL)


def commands(desired, observed, stale=()):
    return decide(desired, observed, DEVICES, sent_at=SENT, now=NOW, lease_ttl_seconds=TTL, stale=frozenset(stale))


def test_a_new_lease_is_started_on_its_free_device():
    assert commands([WISH], []) == [Start(WISH)]


def test_a_new_lease_waits_while_another_one_holds_its_device():
    other = ObservedLease("lea_0", 6, 0, "running", told="stop")
    assert commands([WISH], [other]) == []
    assert commands([WISH], [replace(other, state="ended")]) == [Start(WISH)]


def test_two_new_leases_for_one_device_are_not_both_started():
    assert commands([WISH, replace(WISH, lease="lea_2", fence=8)], []) == [Start(WISH)]


def test_a_lease_for_a_missing_or_different_device_is_refused():
    assert isinstance(commands([replace(WISH, index=9)], [])[0], Refuse)
    assert isinstance(commands([replace(WISH, index=1)], [])[0], Refuse)


def test_an_unhealthy_device_gets_no_lease():
    broken = (replace(DEVICES[0], healthy=False), *DEVICES[1:])
    assert decide([WISH], [], broken, sent_at=SENT, now=NOW, lease_ttl_seconds=TTL) == []


def test_a_lease_told_to_leave_before_it_was_seen_is_told_as_ended():
    refusal = commands([replace(WISH, desired="stop")], [])[0]
    assert isinstance(refusal, Refuse)
    assert refusal.reason == "stopped"


def test_a_lease_is_renewed_from_the_moment_the_message_was_sent():
    assert commands([WISH], [VIEW]) == [RENEWED]


def test_a_hard_deadline_cuts_the_renewal_short():
    assert commands([replace(WISH, deadline_seconds=3.0)], [VIEW]) == [Renew("lea_1", NOW + 3.0)]


def test_saving_is_said_once_and_can_be_taken_back():
    save = replace(WISH, desired="save")
    assert commands([save], [VIEW]) == [Save("lea_1", NOW + 20.0), RENEWED]
    assert commands([save], [replace(VIEW, told="save")]) == [RENEWED]
    assert commands([WISH], [replace(VIEW, told="save")]) == [Continue("lea_1"), RENEWED]


def test_a_checkpoint_after_which_the_job_goes_on_is_asked_for_until_it_has_come():
    wanted = replace(WISH, checkpoint=True)
    assert commands([wanted], [VIEW]) == [Checkpoint("lea_1", wanted=True), RENEWED]
    assert commands([wanted], [replace(VIEW, checkpointing=True)]) == [RENEWED]
    assert commands([WISH], [replace(VIEW, checkpointing=True)]) == [Checkpoint("lea_1", wanted=False), RENEWED]


def test_term_comes_before_a_hard_deadline():
    save = replace(WISH, desired="save", deadline_seconds=20.0)
    assert commands([save], [VIEW])[0] == Save("lea_1", NOW + 15.0)
    assert commands([replace(save, deadline_seconds=4.0)], [VIEW])[0] == Save("lea_1", NOW + 2.0)
    assert commands([replace(save, grace_seconds=3.0)], [VIEW])[0] == Save("lea_1", NOW + 3.0)


def test_stopping_goes_before_saving_and_is_never_taken_back():
    stop = replace(WISH, desired="stop")
    assert isinstance(commands([stop], [replace(VIEW, told="save")])[0], Stop)
    assert commands([stop], [replace(VIEW, told="stop")]) == [RENEWED]
    assert commands([WISH], [replace(VIEW, told="stop")]) == [RENEWED]


def test_a_waiting_lease_resumes_when_the_control_plane_knows_from_where():
    waiting = replace(VIEW, resumed=False, state="standby")
    assert commands([replace(WISH, resume=ResumePoint("wait"))], [waiting]) == [RENEWED]
    ready = ResumePoint("ready", "file:///x", "0" * 64, 0.5, 5)
    assert commands([replace(WISH, resume=ready)], [waiting]) == [Resume("lea_1", ready), RENEWED]


def test_the_agent_is_asked_when_the_number_has_grown_and_the_job_runs():
    asked = replace(WISH, ask=3)
    assert commands([asked], [replace(VIEW, asked=2)]) == [Ask("lea_1", 3), RENEWED]
    assert commands([asked], [replace(VIEW, asked=3)]) == [RENEWED]
    assert commands([asked], [replace(VIEW, state="standby")]) == [RENEWED]


def test_a_lease_with_another_fence_or_a_refused_one_is_stopped_and_not_renewed():
    assert [type(command) for command in commands([replace(WISH, fence=8)], [VIEW])] == [Stop]
    assert [type(command) for command in commands([WISH], [VIEW], stale=["lea_1"])] == [Stop]


def test_an_unlisted_lease_is_stopped_and_when_ended_and_told_forgotten():
    assert [type(command) for command in commands([], [VIEW])] == [Stop]
    assert commands([], [replace(VIEW, told="stop")]) == []
    assert commands([], [replace(VIEW, state="ended")]) == []
    assert commands([], [replace(VIEW, state="ended", reported=True)]) == [Forget("lea_1")]


def test_an_ended_lease_that_is_still_listed_is_left_alone():
    assert commands([WISH], [replace(VIEW, state="ended", reported=True)]) == []


def test_a_shim_that_cannot_be_reached_is_told_nothing_but_keeps_its_device():
    silent = replace(VIEW, connected=False)
    assert commands([replace(WISH, desired="stop", ask=9)], [silent]) == [RENEWED]
    assert commands([replace(WISH, lease="lea_2")], [silent]) == []


WISHES = st.builds(
    replace,
    st.just(WISH),
    lease=st.sampled_from(["lea_1", "lea_2", "lea_3"]),
    fence=st.integers(7, 8),
    index=st.integers(0, 3),
    desired=st.sampled_from(["run", "save", "stop"]),
    ask=st.integers(0, 2),
)
VIEWS = st.builds(
    ObservedLease,
    st.sampled_from(["lea_1", "lea_2", "lea_3", "lea_4"]),
    st.integers(7, 8),
    st.integers(0, 2),
    st.sampled_from(["ready", "standby", "running", "saving", "ended"]),
    st.booleans(),
    st.integers(0, 2),
    st.booleans(),
    st.sampled_from(["run", "save", "stop"]),
    st.booleans(),
)


@given(
    st.lists(WISHES, unique_by=lambda wish: wish.lease, max_size=3),
    st.lists(VIEWS, unique_by=lambda view: view.lease, max_size=4),
)
def test_no_device_is_ever_given_to_a_second_lease_and_nothing_ended_is_disturbed(desired, observed):
    given = commands(desired, observed)
    started = [command.desired.index for command in given if isinstance(command, Start)]
    busy = [view.index for view in observed if view.state != "ended"]
    assert len(set(started)) == len(started)
    assert not set(started) & set(busy)
    ended = {view.lease for view in observed if view.state == "ended"}
    assert all(isinstance(c, Forget) for c in given if getattr(c, "lease", None) in ended)
    listed = {wish.lease for wish in desired}
    assert all(command.lease in listed for command in given if isinstance(command, Renew))
    assert given == commands(desired, observed)
