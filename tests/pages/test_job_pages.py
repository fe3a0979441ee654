"""The list of jobs and the page of one, as their tenant sees them and as others do not."""

import re

import pytest
from django.test import Client

from markets.selectors import positions
from tenants.models import Member
from tests import scenes
from tests.pages.floor import A10, L4, Floor, make_member, moved_job
from tests.pages.reading import queries, reader, text_of
from workers.models import Job

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert('1')</script>\N{RIGHT-TO-LEFT OVERRIDE}{{ 7 }}"


def test_an_empty_list_says_how_to_submit(floor: Floor) -> None:
    text = text_of(reader("ben").get("/jobs"))
    assert "No jobs yet" in text
    assert "laissez job submit job.yaml" in text


def test_the_list_says_state_reason_hardware_price_cost_and_progress(floor: Floor) -> None:
    job = floor.run(floor.birch, (L4, "0.5"), name="sweep")
    floor.l4.report(job, "progress", progress=0.5, step=5, loss=0.1)
    text = text_of(reader("ben").get("/jobs"))
    assert "sweep running the only row of its launch table nvidia-l4" in text
    assert "$0.4755/h $0.5000/h" in text
    assert "50 %" in text


def test_a_queued_job_says_why_it_waits(floor: Floor) -> None:
    floor.run(floor.aspen, (A10, "0.9"))
    job = scenes.submit(floor.birch, (A10, "0.62"), name="patient")
    scenes.tick(floor.cluster)
    text = text_of(reader("ben").get("/jobs"))
    assert "patient queued equals the price of nvidia-a10, and no unit is free" in text
    scenes.submit(floor.aspen, (A10, "0.65"), name="rival")
    scenes.tick(floor.cluster)
    ben = reader("ben")
    assert "patient queued outbid by $0.0300/h on nvidia-a10" in text_of(ben.get("/jobs"))
    page = text_of(ben.get(f"/jobs/{job.public_id}"))
    assert "Why here Waiting: its $0.6200/h for nvidia-a10 does not beat the price $0.6500/h" in page
    assert "Next It starts as soon as a row wins; the market clears every second. Gives up" in page
    assert "above $0.6500/h \N{MINUS SIGN}$0.0300/h 0 free of 1 place 2 of 2" in page


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
    assert "Runs on nvidia-l4 active since" in text
    assert "Pays $0.4755/h own bid $2.0000/h, headroom +$1.5245/h" in text
    assert re.search(r"Cost so far \$0\.00\d\d no budget set", text)
    outbid = "outbid there (it took more than $0.6500/h, the own bid was $0.6500/h)"
    assert f"Why here Moved here from nvidia-a10: {outbid}. Since" in text
    assert "Next It trains on here. If it wins nvidia-a10 it moves there at a checkpoint." in text
    assert "0.7731" in text
    assert "migrate now at 28 %" in text
    assert "An L4 at $0.4755/h costs less" in text
    assert "nvidia-a10 → nvidia-l4 stop and copy, done" in text
    assert "first step" in text
    assert "source stopped" in text
    assert "Notice: outbid on nvidia-a10 answered: migrated" in text
    assert "step 250 loss 1.0312" in text
    assert "2. nvidia-l4 runs here" in text
    page = answer.content.decode()
    assert page.count('class="arrow down done"') == 1
    assert page.count('class="tick"') == 3
    assert page.count('class="bar active"') == 1
    assert page.count('class="bar closed"') == 1
    assert re.findall(r'class="node (\w+)"', page) == ["handed_over", "handed_over", "moved", "now"]
    assert "2 leases on nvidia-a10, then nvidia-l4; 1 move; 3 checkpoints; $0.00" in text


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


def test_pages_are_kept_nowhere_and_follow_their_streams_unless_one_picks_from_them(floor: Floor) -> None:
    ben = reader("ben")
    job = scenes.submit(floor.birch, (L4, "2.0"))
    for path, streams in (
        ("/jobs", rf"{floor.birch.stream}@\d+"),
        (f"/jobs/{job.public_id}", rf"job:{job.public_id}@[1-9]\d* market:gemm@\d+"),
    ):
        answer = ben.get(path)
        page = answer.content.decode()
        assert answer["Cache-Control"] == "private, no-store"
        assert re.search(rf'data-streams="{streams}"', page)
        assert 'http-equiv="refresh"' in page
        assert "data-pause" in page
    picking = ben.get("/jobs?pick=1").content.decode()
    assert "data-live" not in picking
    assert 'http-equiv="refresh"' not in picking


def test_the_list_is_narrowed_by_state_and_by_name_in_its_address(floor: Floor) -> None:
    floor.run(floor.birch, (L4, "2.0"), name="Alpha one")
    scenes.submit(floor.birch, (A10, "0.7"), name="beta")
    ben = reader("ben")
    running = text_of(ben.get("/jobs?state=running"))
    assert "Alpha one" in running
    assert "beta" not in running
    assert "all 2 queued 1 running 1" in running
    assert "beta" in text_of(ben.get("/jobs?q=BET&state=nonsense"))
    nothing = text_of(ben.get("/jobs?state=failed&q=<b>"))
    assert "No job is failed with “ &lt;b&gt; ” in its name." in nothing
    assert ben.get("/jobs?q=%00").status_code == 200


def test_the_log_goes_on_from_a_cursor_and_says_only_what_is_new(floor: Floor) -> None:
    job = floor.run(floor.birch, (L4, "2.0"))
    ben = reader("ben")
    page = ben.get(f"/jobs/{job.public_id}").content.decode()
    assert "Nothing written yet" in page
    address = f"/jobs/{job.public_id}/log"
    assert ben.get(address).json() == {"text": "", "cursor": 0, "is_cut": False}
    floor.l4.report(job, "log", stream="stdout", offset=0, text="one\n")
    first = ben.get(f"{address}?after=0").json()
    assert first["text"] == "one\n"
    assert ben.get(f"{address}?after={first['cursor']}").json() == {
        "text": "",
        "cursor": first["cursor"],
        "is_cut": False,
    }
    floor.l4.report(job, "log", stream="stderr", offset=0, text="two")
    floor.l4.report(job, "log", stream="stdout", offset=4, text=" three\n")
    assert ben.get(f"{address}?after={first['cursor']}").json()["text"] == "two three\n"
    assert ben.get(f"{address}?after=rubbish").json()["text"] == "one\ntwo three\n"
    assert reader("anna").get(address).status_code == 404


def test_the_chart_its_file_and_its_words_come_from_the_same_reports(floor: Floor) -> None:
    job = moved_job(floor)
    ben = reader("ben")
    series = ben.get(f"/jobs/{job.public_id}/series.json").json()
    progress, loss = series["series"]
    assert (progress["unit"], progress["y"]) == ("%", [20.0, 28.0, None, 40.0])
    assert loss["y"] == [1.25, 1.1, None, 0.7731]
    assert len(series["x"]) == 4
    assert len(series["gaps"]) == 1
    lines = ben.get(f"/jobs/{job.public_id}/series.csv").content.decode().splitlines()
    assert lines[0] == "time,progress,step,loss"
    assert [line.split(",", 1)[1] for line in lines[1:]] == ["0.2,200,1.25", "0.28,280,1.1", "0.4,400,0.7731"]
    text = text_of(ben.get(f"/jobs/{job.public_id}"))
    assert "the loss went from 1.25 to 0.7731, lowest 0.7731; 1 gap while it changed its hardware." in text
    assert reader("anna").get(f"/jobs/{job.public_id}/series.json").status_code == 404


def test_a_budget_says_how_long_it_lasts(floor: Floor) -> None:
    job = floor.run(floor.birch, (L4, "2.0"), budget="0.9510")
    text = text_of(reader("ben").get(f"/jobs/{job.public_id}"))
    assert re.search(r"Cost so far \$0\.00\d\d of \$0\.9510, the rest lasts 1 h 59 min", text)


def test_the_place_among_losing_bids_counts_no_winner_and_nothing_that_no_tick_has_seen(floor: Floor) -> None:
    floor.run(floor.aspen, (A10, "0.9"), name="winner")
    lower, higher = (scenes.submit(floor.birch, (A10, price)) for price in ("0.61", "0.62"))
    assert positions.of(list(higher.bids.all())) == {}
    scenes.tick(floor.cluster)
    scenes.submit(floor.aspen, (A10, "1.5"), name="not seen yet")
    places = [positions.of(list(job.bids.select_related("type"))) for job in (higher, lower)]
    assert [position for place in places for position in place.values()] == [
        positions.Position(1, 2),
        positions.Position(2, 2),
    ]
