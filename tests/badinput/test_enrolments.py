"""What a host may get wrong when it enrols: the problem is named, and its code stays unused."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_django.plugin import DjangoDbBlocker

from laissez import clock
from tests import scenes, soundness
from tests.asking import Asker, faults
from tests.flushing import standing
from workers.models import Cluster
from workers.services import hosts

pytestmark = pytest.mark.django_db

A10 = "nvidia-a10"


def enrol(code: str, **fields: Any) -> Any:
    body = {
        "code": code,
        "name": "new",
        "isolation": "none",
        "version": "1",
        "accelerators": [{"index": 0, "type": A10, "emulated": True}],
    }
    return Asker().post("/api/v1/host/enrol", body | fields)


@pytest.fixture(scope="module")
def cluster(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Cluster]:
    """One for all tests."""
    with standing(django_db_blocker):
        yield scenes.make_cluster()


@pytest.fixture
def code(cluster: Cluster) -> str:
    return hosts.issue_code(cluster, approves=True, now=clock.now())


def device(index: Any = 0, kind: Any = A10) -> dict[str, Any]:
    return {"index": index, "type": kind, "emulated": True}


ENROLMENTS: dict[str, tuple[Callable[[], dict[str, Any]], str, str]] = {
    "unknown type": (lambda: {"accelerators": [device(), device(1, "nope")]}, "unknown_type", "/accelerators/1/type"),
    "type that is a list": (lambda: {"accelerators": [device(0, [A10])]}, "unknown_type", "/accelerators/0/type"),
    "repeated index": (lambda: {"accelerators": [device(), device()]}, "repeated_index", "/accelerators/1/index"),
    "negative index": (lambda: {"accelerators": [device(-1)]}, "bad_value", "/accelerators/0/index"),
    "index beyond all bounds": (lambda: {"accelerators": [device(40_000)]}, "bad_index", "/accelerators/0/index"),
    "no accelerators": (lambda: {"accelerators": []}, "bad_count", "/accelerators"),
    "too many": (lambda: {"accelerators": [device(index) for index in range(65)]}, "bad_count", "/accelerators"),
    "no name": (lambda: {"name": ""}, "bad_value", "/name"),
    "too long name": (lambda: {"name": "n" * 121}, "bad_value", "/name"),
    "name with NUL": (lambda: {"name": "a\x00"}, "bad_value", "/name"),
    "accelerators that are a text": (lambda: {"accelerators": A10}, "bad_value", "/accelerators"),
}


@pytest.mark.parametrize("case", ENROLMENTS)
def test_a_bad_enrolment_is_named_and_leaves_the_code_unused(code: str, case: str) -> None:
    fields, problem, pointer = ENROLMENTS[case]
    before = soundness.contents()
    response = enrol(code, **fields())
    assert (response.status_code, faults(response)) == (400, [(problem, pointer)])
    assert soundness.changed(before) == set()
    assert enrol(code).status_code == 201


def test_a_code_serves_once(code: str) -> None:
    assert enrol(code).status_code == 201
    before = soundness.contents()
    for used in (code, "lz_enrol_unknown"):
        response = enrol(used, name="another")
        assert (response.status_code, faults(response)) == (403, [("bad_code", "/code")])
    assert soundness.changed(before) == set()


def test_a_name_that_is_taken_is_refused_and_leaves_the_code_unused(cluster: Cluster, code: str) -> None:
    scenes.make_host(cluster, "new", nvidia_l4=1)
    response = enrol(code)
    assert (response.status_code, faults(response)) == (409, [("name_taken", "/name")])
    assert enrol(code, name="newer").status_code == 201
