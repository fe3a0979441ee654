"""Jobs for the floor of a running demo, submitted through the API: somebody holds the A10, others want it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from laissez.sdk.client import Client, LaissezError
from tests.live.stage import wait_for

A10, L4 = "nvidia-a10", "nvidia-l4"
BASE = "0.606000"
WAITS = ["python", "-c", "import time; time.sleep(900)"]


def submit(client: Client, *rows: tuple[str, str], name: str = "sleeper") -> str:
    """A job that does nothing for a quarter of an hour; its id."""
    table = [{"accelerator_type": slug, "max_price_per_hour": price} for slug, price in rows]
    body = {"name": name, "cluster": "gemm", "command": WAITS, "rows": table}
    return str(client.submit(body)["job"])


def price(client: Client, slug: str = A10) -> str:
    """The public price of a type now."""
    rows = client.market("gemm")["types"]
    return next(str(row["price_per_hour"]) for row in rows if row["accelerator_type"] == slug)


@contextmanager
def held(client: Client, slug: str = A10, at: str = "1.9") -> Iterator[str]:
    """The only unit of a type held by a job of this tenant for the length of a block."""
    job = submit(client, (slug, at), name="holder")
    try:
        wait_for(lambda: client.job(job)["state"] == "running", seconds=30, what="the holder to run")
        yield job
    finally:
        cancel(client, job)
        wait_for(lambda: not _open_leases(client, job), seconds=60, what="the holder's unit to come free")


@contextmanager
def wanted(client: Client, at: str, slug: str = A10) -> Iterator[str]:
    """A losing bid for the length of a block: it sets the price."""
    job = submit(client, (slug, at), name="bidder")
    try:
        yield job
    finally:
        cancel(client, job)


def cancel(client: Client, job: str) -> None:
    """End a job, whatever has become of it."""
    with suppress(LaissezError):
        client.cancel(job)


def _open_leases(client: Client, job: str) -> list[object]:
    return [lease for lease in client.job(job)["leases"] if lease["state"] != "closed"]
