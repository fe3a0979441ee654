"""The story against tenants' clients of paper: who is submitted when, what is told, and how it gives up."""

from typing import Any, cast

import pytest

from laissez.demo.story import CONTESTED_TYPE, A, B, Story, StoryFailed
from laissez.sdk.client import Client, Unavailable


class Play:
    """A server, a clock and an audience in one; every look advances B by a tenth and, once there, A by a fifth."""

    def __init__(self, *, stuck: bool = False) -> None:
        self.progress: dict[str, float] = {}
        self.told: list[str] = []
        self.seconds = 0.0
        self.away = 0
        self.stuck = stuck
        self.progress_of_b_when_a_came: float | None = None

    def clients(self) -> dict[str, Client]:
        return {app: cast(Client, PaperClient(self, app)) for app in (A, B)}

    def story(self) -> Story:
        return Story(self.clients(), self.told.append, speedup=15, clock=lambda: self.seconds, pause=self.pass_time)

    def pass_time(self, seconds: float) -> None:
        self.seconds += seconds
        for app, pace in ((B, 0.1), (A, 0.2)):
            if app in self.progress and not self.stuck:
                self.progress[app] = min(1.0, self.progress[app] + pace)


class PaperClient:
    """What the story asks of a tenant's client."""

    def __init__(self, play: Play, app: str) -> None:
        self.play, self.app = play, app

    def upload(self, archive: bytes) -> dict[str, Any]:
        return {"artifact": "art_1"}

    def submit(self, body: dict[str, Any]) -> dict[str, Any]:
        if self.app == A:
            self.play.progress_of_b_when_a_came = self.play.progress[B]
        self.play.progress[self.app] = 0.0
        return {"job": f"job_{self.app}"}

    def job(self, job: str) -> dict[str, Any]:
        if self.play.away:
            self.play.away -= 1
            raise Unavailable("the web process was killed")
        progress = self.play.progress[self.app]
        state = "succeeded" if progress == 1.0 else "running"
        return {"state": state, "progress": progress, "explanation": f"It is {state}."}

    def market(self, cluster: str) -> dict[str, Any]:
        price = "0.687200" if A in self.play.progress else "0.606000"
        return {"types": [{"accelerator_type": CONTESTED_TYPE, "price_per_hour": price}]}


@pytest.fixture
def play() -> Play:
    return Play()


def test_a_is_submitted_once_b_has_passed_the_papers_moment(play: Play):
    assert play.story().tell() == {B: f"job_{B}", A: f"job_{A}"}
    assert play.progress_of_b_when_a_came == pytest.approx(0.4)
    assert play.progress == {A: 1.0, B: 1.0}


def test_each_change_is_told_once_with_its_minute(play: Play):
    play.story().tell()
    assert sum("B (text classifier), " in line for line in play.told) == 2
    assert sum("price of the A10 is $0.687200" in line for line in play.told) == 1
    assert play.told[-1].startswith("[minute ")


def test_a_server_that_is_away_is_waited_for(play: Play):
    play.away = 3
    play.story().tell()
    assert sum("does not answer" in line for line in play.told) == 3


def test_a_story_that_does_not_end_says_where_it_stands():
    play = Play(stuck=True)
    with pytest.raises(StoryFailed, match=r"did not end within 600 seconds: B \(text classifier\)"):
        play.story().tell()


def test_a_stack_that_has_failed_ends_the_story(play: Play):
    def check() -> None:
        raise RuntimeError("web ended five times")

    story = play.story()
    story.check = check
    with pytest.raises(RuntimeError, match="web ended"):
        story.tell()
