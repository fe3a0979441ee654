"""Which process serves which task."""

from laissez.celery import app
from laissez.stack.product import QUEUES

TICKS, METERS = ("tick_all", "tick_cluster"), ("meter_all", "meter_cluster")


def _queues(tasks: tuple[str, ...]) -> set[str]:
    return {app.amqp.router.route({}, f"markets.tasks.{task}")["queue"].name for task in tasks}


def test_meters_are_not_served_by_the_process_of_the_ticks() -> None:
    assert _queues(TICKS) == {"ticks"}
    assert _queues(METERS) == {"celery"}
    assert {"ticks", "celery"} == set(QUEUES.values())


def test_every_second_rings_both() -> None:
    rung = {entry["task"]: entry["schedule"] for entry in app.conf.beat_schedule.values()}
    assert rung["markets.tasks.tick_all"] == rung["markets.tasks.meter_all"] == 1.0
