"""The figure of the start page comes from the simulator, whatever it says."""

from dataclasses import replace

from markets.simulation.scenarios import A10, PAPER
from markets.simulation.simulator import simulate
from markets.templatetags import figures
from markets.views import replay


def test_the_papers_figure_shows_where_each_application_ran() -> None:
    figure = replay.paper()
    assert {app.name: [lane.type for lane in app.lanes] for app in figure.apps} == {
        "App A": ["nvidia-a10", "aws-trainium"],
        "App B": ["nvidia-a10", "nvidia-l4"],
    }
    assert [figures.per_hour(step.price) for step in figure.steps] == [
        "$0.6060/h",
        "$0.6872/h",
        "$0.6521/h",
        "$0.6060/h",
    ]
    assert figure.minutes == "25:24"


def test_a_move_is_told_when_it_happens_with_what_it_does_to_the_price() -> None:
    (told,) = [caption for caption in replay.paper().captions if caption.minute == "6:54"]
    assert told.sentences == (
        "App B saves its state and moves from nvidia-a10 to nvidia-l4.",
        "The price of nvidia-a10 is now what App B bids for it.",
    )


def test_checkpoints_stand_where_the_job_saved() -> None:
    lanes = {(app.name, lane.type): lane for app in replay.paper().apps for lane in app.lanes}
    assert [tick.progress for tick in lanes["App A", A10].ticks] == [0.4, 0.6, 0.8]


def test_another_scenario_gives_another_figure() -> None:
    scenario = replace(PAPER, jobs=PAPER.jobs[:1])
    figure = replay.draw(scenario, simulate(scenario), A10)
    assert len(figure.apps) == 1
    assert len(figure.steps) == 1
    assert figure.apps[0].arrows == ()
