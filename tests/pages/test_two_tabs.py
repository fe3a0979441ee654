"""Two tabs, each with a connection of its own, save the same launch table at the same moment."""

import pytest

from markets.models import Bid
from tests import scenes
from tests.pages.floor import A10, make_floor
from tests.pages.reading import reader
from tests.racing import race

pytestmark = pytest.mark.django_db(transaction=True)

PRICES = ("0.71", "0.72")


def test_one_table_is_saved_and_the_other_tab_is_shown_a_conflict() -> None:
    floor = make_floor()
    job = scenes.submit(floor.birch, (A10, "0.65"))
    tabs = [reader("ben"), reader("ben")]

    def save(tab: int) -> int:
        row = {"rows-0-accelerator_type": A10, "rows-0-max_price_per_hour": PRICES[tab]}
        sent = {**row, "expected_version": "1", "act": "save", "key": f"tab {tab}"}
        return int(tabs[tab].post(f"/jobs/{job.public_id}/bids", sent).status_code)

    codes = race(2, save)
    assert sorted(map(str, codes)) == ["302", "409"]
    saved = Bid.objects.get(job=job, closed_at=None)
    assert saved.max_price_per_hour == (710_000, 720_000)[codes.index(302)]
