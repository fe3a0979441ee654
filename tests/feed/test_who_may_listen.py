"""Who is let in, to what, and for how long: on sockets as by REST."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client, override_settings

from laissez import clock
from laissez.events import transact
from laissez.feed import consumer, hub
from laissez.feed.replay import Range
from laissez.feed.streams import Reader
from tenants.consumers import is_own_origin
from tenants.models import ApiToken, Member, Tenant
from tenants.services import accounts
from tests import scenes
from tests.feed.talking import HOST, connected
from tests.tenancy import ACTOR, a_tenant, a_token, bearer

pytestmark = pytest.mark.django_db(transaction=True)

OURS = f"http://{HOST}"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Who may still listen is asked often here, and passwords are hashed quickly."""
    monkeypatch.setattr(hub, "CHECK_SECONDS", 0.02)
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


def a_person(tenant: Tenant, role: Member.Role = Member.Role.OWNER) -> Member:
    return transact(
        lambda outbox: accounts.add_member(
            tenant, username="ann", password="long and unusual", role=role, actor=ACTOR, outbox=outbox
        )
    )


def signed_in(user: User) -> dict[str, str]:
    """The headers of a page of ours in which this person is signed in."""
    client = Client()
    client.force_login(user)
    return {"origin": OURS, "cookie": f"{settings.SESSION_COOKIE_NAME}={client.session.session_key}"}


def expire(token: ApiToken) -> None:
    now = clock.now()
    ApiToken.objects.filter(pk=token.pk).update(
        created_at=now - timedelta(days=2), expires_at=now - timedelta(seconds=1)
    )


def revoke(token: ApiToken) -> None:
    transact(
        lambda outbox: accounts.revoke_token(
            token.tenant, public_id=token.public_id, reason="a test", actor=ACTOR, outbox=outbox
        )
    )


async def test_a_token_that_is_no_good_gets_4401_and_401_for_the_same_reason() -> None:
    tenant = await sync_to_async(a_tenant)()
    revoked, revoked_text = await sync_to_async(a_token)(tenant)
    expired, expired_text = await sync_to_async(a_token)(tenant)
    await sync_to_async(revoke)(revoked)
    await sync_to_async(expire)(expired)
    unknown = await sync_to_async(a_token)(tenant)
    await sync_to_async(lambda: ApiToken.objects.filter(pk=unknown[0].pk).delete())()
    for text, code in [
        (revoked_text, "token_revoked"),
        (expired_text, "token_expired"),
        (unknown[1], "token_unknown"),
        (unknown[1][:-1], "token_malformed"),
    ]:
        async with connected(authorization=f"Bearer {text}") as client:
            assert await client.read() == {"type": "closed", "code": 4401}, code
        answer = await sync_to_async(Client().get)("/api/v1/events", {"stream": tenant.stream}, headers=bearer(text))
        assert (answer.status_code, answer.json()["code"]) == (401, code)
    async with connected() as client:
        assert await client.read() == {"type": "closed", "code": 4401}


@pytest.mark.parametrize("end", [revoke, expire])
async def test_an_open_socket_closes_when_its_token_ends(end: object) -> None:
    tenant = await sync_to_async(a_tenant)()
    token, text = await sync_to_async(a_token)(tenant)
    async with connected(authorization=f"Bearer {text}") as client:
        await client.subscribe(tenant.stream)
        await sync_to_async(end)(token)  # type: ignore[arg-type]
        while (frame := await client.read())["type"] == "event":
            pass
    assert frame == {"type": "closed", "code": 4401}


async def test_a_token_reads_what_its_scopes_say_and_its_own_tenants_things_only() -> None:
    def lay_out() -> tuple[str, str, str, str, str]:
        scenes.make_cluster()
        own = scenes.submit(tenant := scenes.make_tenant("alice"), (scenes_type, "0.7"))
        foreign = scenes.submit(scenes.make_tenant("bob"), (scenes_type, "0.7"))
        tokens = a_token(tenant, "jobs:read")[1], a_token(tenant, "prices:read")[1]
        return own.public_id, foreign.public_id, tenant.stream, *tokens

    scenes_type = "nvidia-a10"
    own, foreign, money, jobs_token, prices_token = await sync_to_async(lay_out)()
    rest = Client()
    for text, answers in [
        (jobs_token, {f"job:{own}": None, f"job:{foreign}": "not_found", "market:gemm": "scope_missing"}),
        (prices_token, {"market:gemm": None, f"job:{own}": "scope_missing", "market:none": "not_found"}),
        (
            jobs_token,
            {
                money: "scope_missing",
                "ops": "not_found",
                "tenant:ten_1": "not_found",
                "nothing": "not_found",
                "job:": "not_found",
            },
        ),
    ]:
        async with connected(authorization=f"Bearer {text}") as client:
            for stream, code in answers.items():
                frame = await client.subscribe(stream)
                assert frame.get("code") == code, stream
                answer = await sync_to_async(rest.get)("/api/v1/events", {"stream": stream}, headers=bearer(text))
                assert (answer.json().get("code"), answer.status_code) == (code, STATUS[code]), stream


STATUS = {None: 200, "not_found": 404, "scope_missing": 403, "not_authenticated": 401}


async def test_a_page_of_another_origin_gets_4403() -> None:
    for origin in ("http://evil.example", "null", "", "http://[", f"http://{HOST}.evil.example"):
        async with connected("/ws/feed", origin=origin) as client:
            assert await client.read() == {"type": "closed", "code": 4403}, origin


def test_our_own_origin_is_the_hosts_or_one_that_is_trusted_by_name() -> None:
    assert is_own_origin("http://testserver", host="testserver")
    assert is_own_origin("https://TestServer:8443", host="testserver:8443")
    assert not is_own_origin("https://testserver", host="testserver:8443")
    assert not is_own_origin("ftp://testserver", host="testserver")
    with override_settings(ALLOWED_HOSTS=["shop.example"], CSRF_TRUSTED_ORIGINS=["https://front.example"]):
        assert not is_own_origin("http://rebound.example", host="rebound.example")
        assert is_own_origin("https://shop.example", host="shop.example")
        assert is_own_origin("https://front.example", host="shop.example")


async def test_whoever_is_not_signed_in_hears_the_market_only_and_only_while_it_is_public() -> None:
    await sync_to_async(scenes.make_cluster)()
    async with connected("/ws/feed", origin=OURS) as client:
        assert (await client.subscribe("market:gemm"))["type"] == "subscribed"
        for stream in ("job:job_1", "tenant:ten_1"):
            assert (await client.subscribe(stream))["code"] == "not_authenticated"
        assert (await client.subscribe("ops"))["code"] == "not_found"
    with override_settings(PUBLIC_MARKET=False):
        async with connected("/ws/feed", origin=OURS) as client:
            assert await client.read() == {"type": "closed", "code": 4401}
        answer = await sync_to_async(Client().get)("/api/v1/events", {"stream": "market:gemm"})
        assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")


async def test_a_member_hears_its_tenant_and_an_operator_hears_of_hosts() -> None:
    def lay_out() -> tuple[dict[str, str], str, dict[str, str], dict[str, str]]:
        scenes.make_cluster()
        tenant = a_tenant()
        staff = User.objects.create_user("root", is_staff=True)
        stray = User.objects.create_user("of no tenant")
        return signed_in(a_person(tenant).user), tenant.stream, signed_in(staff), signed_in(stray)

    member, stream, operator, stray = await sync_to_async(lay_out)()
    async with connected("/ws/feed", **member) as client:
        assert (await client.subscribe(stream))["type"] == "subscribed"
        assert (await client.subscribe("ops"))["code"] == "not_found"
    async with connected("/ws/feed", **operator) as client:
        for name in ("ops", "market:gemm"):
            assert (await client.subscribe(name))["type"] == "subscribed"
        assert (await client.subscribe(stream))["code"] == "scope_missing"
    async with connected("/ws/feed", **stray) as client:
        assert (await client.subscribe("market:gemm"))["type"] == "subscribed"
        assert (await client.subscribe(stream))["code"] == "scope_missing"


def sign_out(member: Member) -> None:
    Session.objects.all().delete()


def remove(member: Member) -> None:
    member.delete()


def deactivate(member: Member) -> None:
    User.objects.filter(pk=member.user_id).update(is_active=False)


def change_password(member: Member) -> None:
    member.user.set_password("another unusual one")
    member.user.save()


@pytest.mark.parametrize("end", [sign_out, remove, deactivate, change_password])
async def test_an_open_socket_closes_when_its_person_may_not_act_any_more(end: object) -> None:
    tenant = await sync_to_async(a_tenant)()
    member = await sync_to_async(a_person)(tenant)
    async with connected("/ws/feed", **await sync_to_async(signed_in)(member.user)) as client:
        await client.subscribe(tenant.stream)
        await sync_to_async(end)(member)  # type: ignore[arg-type]
        assert await client.read() == {"type": "closed", "code": 4401}


async def test_a_member_whose_role_changes_keeps_the_streams_that_the_new_role_reads() -> None:
    def lay_out() -> tuple[Member, str]:
        scenes.make_cluster()
        tenant = a_tenant()
        return a_person(tenant), tenant.stream

    member, stream = await sync_to_async(lay_out)()
    async with connected("/ws/feed", **await sync_to_async(signed_in)(member.user)) as client:
        await client.subscribe(stream)
        await client.subscribe("market:gemm")
        await sync_to_async(lambda: Member.objects.filter(pk=member.pk).update(role=Member.Role.FINANCE))()
        refused = await client.read()
        assert (refused["type"], refused["stream"], refused["code"]) == ("refused", stream, "scope_missing")
        assert (await client.subscribe("market:gemm"))["type"] == "subscribed"


async def test_a_role_that_changes_while_a_stream_is_asked_for_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = await sync_to_async(a_tenant)()
    _, text = await sync_to_async(a_token)(tenant)
    held = consumer._held

    async def held_slowly(reader: Reader, stream: str, after: int | None) -> Range:
        found = await held(reader, stream, after)
        (socket,) = hub.hub()._listeners
        socket._reader = Reader(tenant=reader.tenant)  # type: ignore[attr-defined]  # what the check has found meanwhile
        return found

    monkeypatch.setattr(hub, "CHECK_SECONDS", 60)
    monkeypatch.setattr(consumer, "_held", held_slowly)
    async with connected(authorization=f"Bearer {text}") as client:
        assert (await client.subscribe(tenant.stream))["code"] == "scope_missing"
