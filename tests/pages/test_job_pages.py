"""The list of jobs and the page of one, as their tenant sees them and as others do not."""

import re

import pytest
from django.test import Client

from tenants.models import Member
from tests import scenes
from tests.pages.floor import A10, L4, Floor, make_floor, make_member, moved_job
from tests.pages.reading import queries, reader, text_of
from workers.models import Job

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert('1')</script>\N{RIGHT-TO-LEFT OVERRIDE}{{ 7 }}"


@pytest.fixture
def floor() -> Floor:
    return make_floor()


def test_an_empty_list_says_how_to_submit(floor: Floor) -> None:
    text = text_of(reader("ben").get("/jobs"))
    assert "No jobs yet" in text
    assert "laissez job submit job.yaml" in text


def test_the_list_says_state_reason_hardware_price_cost_and_progress(floor: Floor) -> None:
    job = floor.run(floor.birch, (L4, "0.5"), name="sweep")
    floor.l4.report(job, "progress", progress=0.5, step=5, loss=0.1)
    text = text_of(reader("ben").get("/jobs"))
    assert "sweep running Running on nvidia-l4 at $0.4755/h, bidding $0.5000/h." in text
    assert "$0.4755/h $0.5000/h" in text
    assert "50 %" in text


def test_a_queued_job_says_why_it_waits(floor: Floor) -> None:
    floor.run(floor.aspen, (A10, "0.9"))
    scenes.submit(floor.birch, (A10, "0.62"), name="patient")
    scenes.tick(floor.cluster)
    text = text_of(reader("ben").get("/jobs"))
    assert "patient queued Waiting: its $0.6200/h for nvidia-a10 does not beat the price $0.6200/h" in text


def test_another_tenants_job_is_not_there(floor: Floor) -> None:
    job = scenes.submit(floor.birch, (L4, "2.0"), name="birches-own")
    anna = reader("anna")
    assert "birches-own" not in anna.get("/jobs").content.decode()
    stranger = anna.get(f"/jobs/{job.public_id}")
    missing = anna.get("/jobs/job_nothing")
    assert stranger.status_code == missing.status_code == 404
    assert text_of(stranger).split("Request id")[0] == text_of(missing).split("Request id")[0]
    assert anna.post(f"/jobs/{job.public_id}/cancel").status_code == 404
    job.refresh_from_db()
    assert job.state == Job.State.QUEUED


def test_a_hostile_name_is_only_text(floor: Floor) -> None:
    job = scenes.submit(floor.birch, (L4, "2.0"), name=HOSTILE)
    for path in ("/jobs", f"/jobs/{job.public_id}", "/market/gemm"):
        page = reader("ben").get(path).content.decode()
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert" in page
        assert "{{ 7 }}" in page
        assert re.search(r"<bdi>[^<]*\N{RIGHT-TO-LEFT OVERRIDE}[^<]*</bdi>", page)


def test_what_a_workload_and_an_agent_say_is_only_text(floor: Floor) -> None:
    job = floor.run(floor.birch, (L4, "2.0"))
    floor.l4.report(job, "log", stream="stdout", offset=0, text="</pre><img src=x onerror=alert(1)>\n")
    floor.l4.report(job, "agent", outcome="crashed", detail="<b>boom</b>")
    page = reader("ben").get(f"/jobs/{job.public_id}").content.decode()
    assert "<img src=x" not in page
    assert "&lt;img src=x" in page
    assert "<b>boom" not in page
    assert "&lt;b&gt;boom" in page
    assert "crashed, taken for “stay”" in page


def test_the_page_of_a_job_that_moved_tells_its_whole_story(floor: Floor) -> None:
    job = moved_job(floor)
    answer = reader("ben").get(f"/jobs/{job.public_id}")
    text = text_of(answer)
    assert "Running on nvidia-l4 at $0.4755/h, bidding $2.0000/h. It moved here from nvidia-a10" in text
    assert "0.7731" in text
    assert "migrate now at 28 %" in text
    assert "An L4 at $0.4755/h costs less" in text
    assert "nvidia-a10 → nvidia-l4 stop and copy, done" in text
    assert "first step" in text
    assert "source stopped" in text
    assert "outbid on nvidia-a10 answered: migrated" in text
    assert "step 250 loss 1.0312" in text
    assert "2. nvidia-l4 runs here" in text
    page = answer.content.decode()
    assert page.count('class="arrow down done"') == 1
    assert page.count('class="tick"') == 3
    assert page.count('class="bar active"') == 1
    assert page.count('class="bar closed"') == 1


def test_the_newest_words_of_a_long_log_are_shown(floor: Floor) -> None:
    job = floor.run(floor.birch, (L4, "2.0"))
    for number in range(3):
        lines = "".join(f"chunk {number} line {line}\n" for line in range(150))
        floor.l4.report(job, "log", stream="stdout", offset=10_000 * number, text=lines)
    page = reader("ben").get(f"/jobs/{job.public_id}").content.decode()
    assert "chunk 2 line 149" in page
    assert "chunk 1 line 149\nchunk 2 line 0" in page
    assert "chunk 0 line" not in page


def test_a_job_is_cancelled_once_and_says_so(floor: Floor) -> None:
    job = scenes.submit(floor.birch, (L4, "2.0"))
    ben = reader("ben")
    assert "Cancel it for good" in ben.get(f"/jobs/{job.public_id}").content.decode()
    answer = ben.post(f"/jobs/{job.public_id}/cancel", follow=True)
    job.refresh_from_db()
    assert job.state == Job.State.CANCELLED
    assert "The job is cancelled." in text_of(answer)
    assert "Cancel it for good" not in answer.content.decode()
    finished_at = job.finished_at
    assert ben.post(f"/jobs/{job.public_id}/cancel").status_code == 302
    job.refresh_from_db()
    assert job.finished_at == finished_at


def test_cancelling_needs_the_token_of_the_form(floor: Floor) -> None:
    job = scenes.submit(floor.birch, (L4, "2.0"))
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = reader("ben").cookies
    assert strict.post(f"/jobs/{job.public_id}/cancel").status_code == 403
    assert strict.get(f"/jobs/{job.public_id}/cancel").status_code == 405
    job.refresh_from_db()
    assert job.state == Job.State.QUEUED


def test_a_viewer_sees_jobs_and_cannot_cancel_them(floor: Floor) -> None:
    make_member(floor.birch, "vera", Member.Role.VIEWER)
    job = scenes.submit(floor.birch, (L4, "2.0"))
    vera = reader("vera")
    answer = vera.get(f"/jobs/{job.public_id}")
    assert answer.status_code == 200
    assert "Cancel it for good" not in answer.content.decode()
    assert vera.post(f"/jobs/{job.public_id}/cancel").status_code == 403


def test_the_number_of_queries_does_not_grow_with_jobs(floor: Floor) -> None:
    ben = reader("ben")
    floor.run(floor.birch, (L4, "2.0"))
    scenes.submit(floor.birch, (A10, "0.7"))
    few = queries(ben, "/jobs")
    floor.run(floor.birch, (L4, "2.0"))
    floor.run(floor.birch, (L4, "2.0"))
    for number in range(3):
        scenes.submit(floor.birch, (A10, "0.61"), name=f"job {number}")
    assert queries(ben, "/jobs") == few


def test_long_lists_come_in_pages(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("markets.views.jobs.JOBS_SHOWN", 2)
    for number in range(3):
        scenes.submit(floor.birch, (L4, "2.0"), name=f"number-{number}")
    ben = reader("ben")
    first = ben.get("/jobs").content.decode()
    assert "number-2" in first
    assert "number-1" in first
    assert "number-0" not in first
    older = re.search(r'href="(\?cursor=[^"]+)"', first)
    assert older is not None
    second = ben.get(f"/jobs{older[1]}").content.decode()
    assert "number-0" in second
    assert "number-1" not in second
    assert ben.get("/jobs?cursor=rubbish")["Location"] == "/jobs"


def test_pages_are_kept_nowhere_and_pausing_stops_their_updates(floor: Floor) -> None:
    ben = reader("ben")
    live = ben.get("/jobs")
    assert live["Cache-Control"] == "private, no-store"
    assert "hx-trigger" in live.content.decode()
    assert 'http-equiv="refresh"' in live.content.decode()
    paused = ben.get("/jobs?paused").content.decode()
    assert "hx-trigger" not in paused
    assert 'http-equiv="refresh"' not in paused
