"""What is done to a job from its page: through the services, once, and with the reason when it is refused."""

import re

import pytest

from tenants.models import Member
from tests import scenes
from tests.pages.floor import A10, L4, Floor, make_member, moved_job
from tests.pages.reading import reader, text_of
from workers.models import Job

pytestmark = pytest.mark.django_db


def said(floor: Floor, job: Job, act: str, **fields: str) -> str:
    """What the page says after an act of Ben's."""
    return text_of(reader("ben").post(f"/jobs/{job.public_id}/{act}", fields, follow=True))


def test_a_running_job_takes_a_checkpoint_stops_and_is_resumed(floor: Floor) -> None:
    job = floor.run(floor.birch, (L4, "2.0"))
    assert "A checkpoint is asked for." in said(floor, job, "checkpoint")
    assert "Checkpoint now asked for already" in text_of(reader("ben").get(f"/jobs/{job.public_id}"))
    assert "The job saves its state and stops." in said(floor, job, "stop")
    job.refresh_from_db()
    assert job.state == Job.State.STOPPED
    assert "The job is back in the queue" in said(floor, job, "resume")
    job.refresh_from_db()
    assert job.state == Job.State.QUEUED


def test_a_job_that_has_won_another_row_is_told_to_move_there(floor: Floor) -> None:
    job = floor.run(floor.birch, (A10, "0.65"), (L4, "2.0"), agent={"policy": "hold"})
    page = text_of(reader("ben").get(f"/jobs/{job.public_id}"))
    assert "Move now it has won no other row" in page
    scenes.submit(floor.aspen, (A10, "0.9"))
    scenes.tick(floor.cluster)
    assert "it has won no other row" not in text_of(reader("ben").get(f"/jobs/{job.public_id}"))
    assert "The job moves at its program&#x27;s next checkpoint." in said(floor, job, "migrate", moment="checkpoint")
    assert "The job moves as soon as its destination is ready." in said(floor, job, "migrate", moment="now")
    job.refresh_from_db()
    assert job.leave_moment == "now"


@pytest.mark.parametrize(
    ("act", "fields", "sentence"),
    [
        ("checkpoint", {}, "The job is queued; only a running job can take a checkpoint."),
        ("migrate", {"moment": "now"}, "The job is queued; only a running job can move."),
        ("migrate", {"moment": "later"}, "it must be now or checkpoint."),
        ("resume", {}, "The job is queued; only a stopped job can be resumed."),
        ("stop", {"key": "\N{SNOWMAN}"}, "printable ASCII characters."),
    ],
)
def test_an_act_that_is_refused_says_why_and_changes_nothing(
    floor: Floor, act: str, fields: dict[str, str], sentence: str
) -> None:
    job = scenes.submit(floor.birch, (A10, "0.7"))
    before = Job.objects.filter(pk=job.pk).values()[0]
    text = said(floor, job, act, **fields)
    assert "Nothing was done." in text
    assert sentence in text.replace("&#x27;", "'")
    assert Job.objects.filter(pk=job.pk).values()[0] == before


def test_a_form_that_is_sent_twice_acts_once_and_says_so(floor: Floor) -> None:
    job = scenes.submit(floor.birch, (A10, "0.7"))
    ben = reader("ben")
    page = ben.get(f"/jobs/{job.public_id}").content.decode()
    key = re.search(r'name="key" value="([^"]+)"', page)
    assert key is not None
    first = text_of(ben.post(f"/jobs/{job.public_id}/stop", {"key": key[1]}, follow=True))
    again = text_of(ben.post(f"/jobs/{job.public_id}/stop", {"key": key[1]}, follow=True))
    assert "The job is stopped and bids no more." in first
    assert "The job is stopped and bids no more. Resume it when you like. (Sent twice, done once.)" in again
    anew = said(floor, job, "stop")
    assert "Nothing was done. The job is stopped; that can no longer be changed." in anew


def test_who_may_only_look_is_offered_nothing_and_refused_everything(floor: Floor) -> None:
    make_member(floor.birch, "vera", Member.Role.VIEWER)
    job = scenes.submit(floor.birch, (L4, "2.0"))
    vera = reader("vera")
    page = vera.get(f"/jobs/{job.public_id}").content.decode()
    assert "your role has no right to write jobs" in page
    assert "Change bids" not in page
    assert "pick=1" not in vera.get("/jobs").content.decode()
    for act in ("stop", "resume", "checkpoint", "migrate", "bids"):
        assert vera.post(f"/jobs/{job.public_id}/{act}").status_code == 403
    assert vera.post("/jobs/cancel", {"job": job.public_id, "confirmed": "yes"}).status_code == 403
    for act in ("stop", "resume", "checkpoint", "migrate", "bids"):
        assert reader("anna").post(f"/jobs/{job.public_id}/{act}").status_code == 404
    job.refresh_from_db()
    assert job.state == Job.State.QUEUED


def test_an_ended_job_offers_nothing(floor: Floor) -> None:
    job = scenes.submit(floor.birch, (L4, "2.0"))
    said(floor, job, "cancel")
    page = text_of(reader("ben").get(f"/jobs/{job.public_id}"))
    assert "The job is over: nothing can be done to it any more." in page
    assert "Next Nothing: it is over, and bids no more." in page
    assert "nothing was changed." in said(floor, job, "cancel")


def test_several_jobs_are_cancelled_after_one_more_question(floor: Floor) -> None:
    mine = [scenes.submit(floor.birch, (L4, "2.0"), name=f"number-{number}") for number in range(3)]
    theirs = scenes.submit(floor.aspen, (L4, "2.0"))
    ben = reader("ben")
    assert mine[0].public_id in ben.get("/jobs?pick=1").content.decode()
    picked = {"job": [mine[0].public_id, mine[1].public_id, theirs.public_id, "job_nothing"]}
    question = text_of(ben.post("/jobs/cancel", picked))
    assert "Cancel 2 jobs for good?" in question
    assert "number-2" not in question
    assert not Job.objects.filter(state=Job.State.CANCELLED).exists()
    answer = text_of(ben.post("/jobs/cancel", {**picked, "confirmed": "yes", "key": "k"}, follow=True))
    assert "2 jobs are cancelled." in answer
    states = {job.pk: job.state for job in Job.objects.all()}
    assert [states[job.pk] for job in (*mine, theirs)] == ["cancelled", "cancelled", "queued", "queued"]
    assert "no job that could be was picked" in text_of(ben.post("/jobs/cancel", {}, follow=True))


def test_what_no_database_could_look_for_is_simply_not_there(floor: Floor) -> None:
    job = scenes.submit(floor.birch, (A10, "0.65"))
    ben = reader("ben")
    assert ben.get("/jobs/new", {"from": "\x00"}).status_code == 404
    assert "no job that could be was picked" in text_of(ben.post("/jobs/cancel", {"job": "\x00"}, follow=True))
    table = {"rows-0-accelerator_type": "\x00x", "rows-0-max_price_per_hour": "1\x00", "act": "check"}
    assert ben.post(f"/jobs/{job.public_id}/bids", table).status_code == 200


def test_a_job_that_moved_keeps_its_story_when_it_is_over(floor: Floor) -> None:
    job = moved_job(floor)
    said(floor, job, "cancel")
    page = reader("ben").get(f"/jobs/{job.public_id}").content.decode()
    assert re.findall(r'class="node (\w+)"', page) == ["handed_over", "handed_over", "moved", "finished"]
