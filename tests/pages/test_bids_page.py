"""Changing a launch table on its page: the API's own check at the fields, and nobody overwritten unseen."""

import re

import pytest

from laissez.events import transact
from markets.models import Bid
from markets.services import submission
from tenants.services import accounts
from tests import scenes
from tests.pages.floor import A10, L4, TRAINIUM, Floor, make_member
from tests.pages.reading import reader, text_of
from workers.models import Job

pytestmark = pytest.mark.django_db


def fields(*rows: tuple[str, str], version: int = 1, act: str = "save", key: str = "") -> dict[str, str]:
    """The form as a browser sends it; a row is a type and a maximum."""
    typed = {f"rows-{place}-accelerator_type": kind for place, (kind, _) in enumerate(rows)}
    typed |= {f"rows-{place}-max_price_per_hour": price for place, (_, price) in enumerate(rows)}
    return typed | {"expected_version": str(version), "act": act, "key": key}


def table(job: Job) -> list[tuple[str, int | None]]:
    rows = Bid.objects.filter(job=job, closed_at=None).order_by("position")
    return [(bid.type.slug, bid.max_price_per_hour) for bid in rows.select_related("type")]


def types_in(page: str) -> list[str]:
    """The accelerators chosen in the form's rows."""
    return re.findall(r'<option value="([^"]*)" selected', page)


def test_a_table_is_saved_in_the_order_that_is_shown(floor: Floor) -> None:
    job = scenes.submit(floor.birch, (A10, "0.65"))
    ben = reader("ben")
    answer = ben.post(f"/jobs/{job.public_id}/bids", fields((L4, "cap"), (A10, "$0.7")), follow=True)
    assert "The launch table is changed; it counts from the next tick on." in text_of(answer)
    assert table(job) == [(L4, None), (A10, 700_000)]
    shown = ben.get(f"/jobs/{job.public_id}/bids").content.decode()
    assert types_in(shown) == [L4, A10]
    assert 'value="cap"' in shown
    assert 'value="0.7000"' in shown
    assert 'name="expected_version" value="2"' in shown


def test_buttons_add_remove_and_reorder_and_write_nothing(floor: Floor) -> None:
    job = scenes.submit(floor.birch, (A10, "0.65"), (L4, "2.0"))
    ben, address = reader("ben"), f"/jobs/{job.public_id}/bids"
    rows = ((A10, "0.65"), (L4, "2.0"))
    for act, expected in (
        ("up-1", [L4, A10]),
        ("down-0", [L4, A10]),
        ("up-0", [A10, L4]),
        ("remove-0", [L4]),
        ("add", [A10, L4, TRAINIUM]),
        ("nonsense-9", [A10, L4]),
    ):
        assert types_in(ben.post(address, fields(*rows, act=act)).content.decode()) == expected, act
    assert table(job) == [(A10, 650_000), (L4, 2_000_000)]


def test_what_it_would_cost_is_said_before_anything_is_saved(floor: Floor) -> None:
    job = scenes.submit(floor.birch, (A10, "0.65"))
    text = text_of(reader("ben").post(f"/jobs/{job.public_id}/bids", fields((A10, "0.61"), (L4, "cap"), act="check")))
    assert "At present prices row 1 wins: nvidia-a10 at $0.6060/h." in text
    assert "It never pays more than $2.0000/h;" in text
    assert "set aside while it bids" in text
    assert table(job) == [(A10, 650_000)]


def test_faults_stand_at_their_fields_and_what_was_typed_stays(floor: Floor) -> None:
    job = scenes.submit(floor.birch, (A10, "0.65"))
    typed = fields((A10, "cheap"), (L4, "0.5"), (L4, "0.6"))
    typed["rows-1-keep_price_per_hour"] = "0.4"
    answer = reader("ben").post(f"/jobs/{job.public_id}/bids", typed)
    page = answer.content.decode()
    assert answer.status_code == 400
    assert "Nothing was saved: 3 faults." in page
    for name in ("rows-0-max_price_per_hour", "rows-1-keep_price_per_hour", "rows-2-accelerator_type"):
        assert re.search(rf'name="{name}"[^>]* aria-invalid="true"', page), name
    assert 'value="cheap"' in page
    assert 'value="0.4"' in page
    assert table(job) == [(A10, 650_000)]


def test_the_row_that_it_runs_on_cannot_be_dropped(floor: Floor) -> None:
    job = floor.run(floor.birch, (L4, "2.0"))
    answer = reader("ben").post(f"/jobs/{job.public_id}/bids", fields((A10, "0.7")))
    assert "The job runs on nvidia-l4; keep that row, or stop or move the job first." in text_of(answer)
    empty = reader("ben").post(f"/jobs/{job.public_id}/bids", fields())
    assert "The launch table has no row" in text_of(empty)
    assert table(job) == [(L4, 2_000_000)]


def test_bids_that_the_funds_do_not_cover_are_refused_on_the_page(floor: Floor) -> None:
    poor = scenes.make_tenant("Poor", dollars=0)
    transact(
        lambda outbox: accounts.grant(
            poor, amount_microdollars=20_000, key="little", reason="test money", actor="test", outbox=outbox
        )
    )
    make_member(poor, "paul")
    job = scenes.submit(poor, (A10, "0.65"))
    answer = reader("paul").post(f"/jobs/{job.public_id}/bids", fields((A10, "2.0")))
    assert answer.status_code == 402
    assert re.search(r"Nothing was saved: 1 fault\. \$.* are needed for .* are available", text_of(answer))
    assert table(job) == [(A10, 650_000)]


def test_a_second_click_saves_nothing_twice(floor: Floor) -> None:
    job = scenes.submit(floor.birch, (A10, "0.65"))
    ben, sent = reader("ben"), fields((A10, "0.7"), key="one-form")
    ben.post(f"/jobs/{job.public_id}/bids", sent)
    again = text_of(ben.post(f"/jobs/{job.public_id}/bids", sent, follow=True))
    assert "(Sent twice, done once.)" in again
    job.refresh_from_db()
    assert job.version == 2
    other = ben.post(f"/jobs/{job.public_id}/bids", fields((A10, "0.8"), key="one-form"))
    assert other.status_code == 409  # the same form with other rows is no repetition


def test_somebody_elses_change_is_shown_beside_ones_own_and_either_can_be_chosen(floor: Floor) -> None:
    job = scenes.submit(floor.birch, (A10, "0.65"))
    changed = [{"accelerator_type": L4, "max_price_per_hour": "0.9"}]
    transact(lambda outbox: submission.change_table(job, changed, expected_version=1, outbox=outbox))
    ben, address = reader("ben"), f"/jobs/{job.public_id}/bids"
    answer = ben.post(address, fields((A10, "0.75")))
    text = text_of(answer)
    assert answer.status_code == 409
    assert "Yours was not saved. A member of Birch Language set version 2 at" in text
    assert "1. nvidia-a10 0.75 same" in text
    assert "1. nvidia-l4 $0.9000/h same by hand" in text
    assert table(job) == [(L4, 900_000)]
    page = answer.content.decode()
    sent = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page.split("<main", 1)[1]))
    ben.post(address, sent | {"act": "save"})
    assert table(job) == [(A10, 750_000)]


def test_a_job_that_is_over_has_no_bids_to_change(floor: Floor) -> None:
    job = scenes.submit(floor.birch, (A10, "0.65"))
    transact(lambda outbox: submission.cancel(job, outbox=outbox))
    assert "The job is cancelled and has no bids to change." in text_of(
        reader("ben").get(f"/jobs/{job.public_id}/bids", follow=True)
    )
