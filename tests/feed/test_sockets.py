"""What a socket is told: everything after its cursor, in order, once, however it comes about."""

import asyncio
from collections.abc import Iterator

import pytest
from asgiref.sync import sync_to_async

from laissez import events
from tenants.models import ApiToken, Tenant
from tests.feed.talking import connected
from tests.feed.told import tell
from tests.tenancy import a_tenant, a_token

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def tenant() -> Tenant:
    return a_tenant()


@pytest.fixture
def token(tenant: Tenant) -> dict[str, str]:
    return {"authorization": f"Bearer {a_token(tenant)[1]}"}


@pytest.fixture
def stream(tenant: Tenant, token: dict[str, str]) -> str:
    return tenant.stream


tell_later = sync_to_async(tell)


async def test_what_follows_the_cursor_comes_first_and_then_what_happens(token: dict[str, str], stream: str) -> None:
    async with connected(**token) as client:
        assert await client.subscribe(stream, 0) == {"type": "subscribed", "stream": stream, "after": 0, "last": 2}
        assert await client.numbers(2) == [1, 2]
        await tell_later(stream, 7)
        (event,) = await client.events(1)
        assert (event["sequence"], event["data"]) == ("3", {"n": 7})
