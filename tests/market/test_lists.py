"""Lists of the API: a number of statements that no row adds to, and pages that neither repeat nor skip."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from laissez.events import transact
from tenants.models import Tenant
from tenants.services import accounts, ledger
from tests import scenes
from tests.asking import as_tenant
from tests.scenes import FakeHost
from tests.tenancy import a_token
from workers.models import Cluster

pytestmark = pytest.mark.django_db

A10, L4 = "nvidia-a10", "nvidia-l4"
FEW, MANY = 3, 30


@pytest.fixture
def cluster() -> Cluster:
    return scenes.make_cluster()


@pytest.fixture
def alice(cluster: Cluster) -> Tenant:
    return scenes.make_tenant("alice")


@pytest.fixture
def host(cluster: Cluster) -> FakeHost:
    return scenes.make_host(cluster, nvidia_a10=MANY)


def run_jobs(alice: Tenant, cluster: Cluster, host: FakeHost, count: int) -> None:
    """Jobs that run, with a checkpoint each."""
    jobs = [scenes.submit(alice, (A10, "0.9"), (L4, "0.6"), agent={"policy": "hold"}) for _ in range(count)]
    scenes.tick(cluster)
    host.settle()
    for job in jobs:
        host.checkpoint(job, 0.5)
    scenes.tick(cluster)


def make_tokens(alice: Tenant, _cluster: Cluster, _host: FakeHost, count: int) -> None:
    for _ in range(count):
        a_token(alice)


def move_money(alice: Tenant, _cluster: Cluster, _host: FakeHost, count: int) -> None:
    start = alice.account.entries.count()
    for number in range(start, start + count):
        transact(lambda outbox, n=number: ledger.top_up(alice, amount_microdollars=1, key=f"k{n}", outbox=outbox))


def make_clusters(_alice: Tenant, _cluster: Cluster, _host: FakeHost, count: int) -> None:
    start = Cluster.objects.count()
    for number in range(start, start + count):
        Cluster.objects.create(slug=f"more-{number:03d}", name="more")


def statements(get: Callable[[], Any]) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert get().status_code == 200
    return len(captured)


LISTS = [
    ("/api/v1/jobs", run_jobs),
    ("/api/v1/tokens", make_tokens),
    ("/api/v1/statement", move_money),
    ("/api/v1/markets", make_clusters),
]


@pytest.mark.parametrize(("path", "make"), LISTS)
def test_no_row_of_a_list_adds_a_statement(
    alice: Tenant, cluster: Cluster, host: FakeHost, path: str, make: Callable[..., None]
) -> None:
    asker = as_tenant(alice)
    asker.get(path)
    make(alice, cluster, host, FEW)
    few = statements(lambda: asker.get(path))
    make(alice, cluster, host, MANY - FEW)
    assert len(asker.get(path).json()["items"]) >= MANY
    assert statements(lambda: asker.get(path)) == few


@pytest.mark.parametrize(("path", "make"), LISTS)
def test_pages_of_a_list_add_up_to_all_of_it(
    alice: Tenant, cluster: Cluster, host: FakeHost, path: str, make: Callable[..., None]
) -> None:
    asker = as_tenant(alice)
    make(alice, cluster, host, 7)
    whole = asker.get(f"{path}?limit=200").json()["items"]
    found: list[Any] = []
    page: dict[str, Any] = {"next_cursor": None, "has_more": True}
    while page["has_more"]:
        cursor = f"&cursor={page['next_cursor']}" if page["next_cursor"] else ""
        page = asker.get(f"{path}?limit=3{cursor}").json()
        assert len(page["items"]) <= 3
        found += page["items"]
    assert list(map(identity, found)) == list(map(identity, whole))


def identity(item: Any) -> Any:
    """What tells one item from another, without what runs on meanwhile."""
    return item if isinstance(item, str) else item.get("job") or item.get("token") or item


def test_a_job_in_a_list_is_all_that_the_job_by_itself_is(alice: Tenant, cluster: Cluster, host: FakeHost) -> None:
    run_jobs(alice, cluster, host, 2)
    asker = as_tenant(alice)
    moving = ("cost",)
    for item in asker.get("/api/v1/jobs").json()["items"]:
        alone = asker.get(f"/api/v1/jobs/{item['job']}").json()
        assert item["checkpoints"]
        assert without(item, moving) == without(alone, moving)


def without(item: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    kept = {name: value for name, value in item.items() if name not in names}
    return kept | {"leases": [without(lease, names) for lease in item.get("leases", [])]} if "leases" in kept else kept


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/jobs", "/market/gemm"])
def test_no_job_adds_a_statement_to_a_page(alice: Tenant, cluster: Cluster, host: FakeHost, path: str) -> None:
    person = transact(
        lambda outbox: accounts.add_member(alice, username="ann", password="correct horse", actor="it", outbox=outbox)
    )
    reader = Client()
    reader.force_login(person.user)
    run_jobs(alice, cluster, host, FEW)
    reader.get(path)
    few = statements(lambda: reader.get(path))
    run_jobs(alice, cluster, host, MANY - 2 * FEW)
    assert statements(lambda: reader.get(path)) == few
