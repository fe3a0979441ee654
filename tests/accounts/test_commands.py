"""The administrative commands, as somebody types them."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from laissez.credentials import digest, is_well_formed
from laissez.models import AuditEntry, Event
from tenants import selectors
from tenants.models import ApiToken, Member, Tenant

pytestmark = pytest.mark.django_db


def run(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue().strip()


def test_create_tenant_makes_all_of_it() -> None:
    tenant_id = run("create_tenant", "Alpha", "--user", "ann", "--password", "correct-horse-9", "--funds", "25")
    tenant = Tenant.objects.get(public_id=tenant_id)
    assert tenant.name == "Alpha"
    assert Member.objects.get(tenant=tenant).user.check_password("correct-horse-9")
    assert selectors.balance(tenant) == 25_000_000
    audited = AuditEntry.objects.order_by("id").values_list("action", "actor")
    assert list(audited) == [(action, "manage.py") for action in ("tenant.create", "member.add", "tenant.top_up")]
    assert Event.objects.filter(stream__name=tenant.stream).count() == 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["Alpha", "--user", "ann"], "go together"),
        (["Alpha", "--user", "ann", "--password", "short"], "too short"),
        (["Alpha", "--funds", "-1"], "'-1' is not an amount"),
        (["Alpha", "--funds", "NaN"], "'NaN' is not an amount"),
        ([""], "is not a name"),
        (["a\nb"], "is not a name"),
        (["x" * 81], "is not a name"),
    ],
)
def test_create_tenant_makes_nothing_when_a_part_is_wrong(words: list[str], says: str) -> None:
    with pytest.raises(CommandError, match=says):
        run("create_tenant", *words)
    assert not Tenant.objects.exists()
    assert not AuditEntry.objects.exists()


def test_a_name_is_given_once() -> None:
    run("create_tenant", "Alpha")
    with pytest.raises(CommandError, match="already a tenant 'Alpha'"):
        run("create_tenant", "Alpha")


def test_create_token_prints_the_token_and_nothing_else() -> None:
    tenant_id = run("create_tenant", "Alpha")
    text = run("create_token", tenant_id, "--scopes", "jobs:read, jobs:write", "--name", "laptop", "--days", "7")
    assert is_well_formed(text, kind="live")
    token = ApiToken.objects.get(digest=digest(text))
    assert (token.name, token.scopes) == ("laptop", ["jobs:read", "jobs:write"])
    assert (token.expires_at - token.created_at).days == 7


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["Beta"], "no such tenant"),
        (["Alpha", "--scopes", "everything"], "'everything' is not a scope"),
        (["Alpha", "--scopes", ","], "at least one scope"),
        (["Alpha", "--days", "1000"], "from 1 to 366"),
    ],
)
def test_create_token_says_what_is_wrong(words: list[str], says: str) -> None:
    run("create_tenant", "Alpha")
    with pytest.raises(CommandError, match=says):
        run("create_token", *words)
    assert not ApiToken.objects.exists()


def test_top_up_adds_and_shows_the_balance() -> None:
    run("create_tenant", "Alpha")
    assert run("top_up", "Alpha", "1.5") == "$1.500000"
    assert run("top_up", "Alpha", "1.5") == "$3.000000"
    entry = AuditEntry.objects.filter(action="tenant.top_up").latest("id")
    assert (entry.before, entry.after) == ({"balance": "1.500000"}, {"balance": "3.000000"})


def test_top_up_with_a_repeated_key_adds_once() -> None:
    run("create_tenant", "Alpha")
    assert run("top_up", "Alpha", "1", "--key", "k") == run("top_up", "Alpha", "1", "--key", "k") == "$1.000000"
    assert AuditEntry.objects.filter(action="tenant.top_up").count() == 1


@pytest.mark.parametrize(
    ("tenant", "amount", "says"),
    [("Beta", "1", "no such tenant"), ("Alpha", "0", "not an amount"), ("Alpha", "0.0000001", "not an amount")],
)
def test_top_up_says_what_is_wrong(tenant: str, amount: str, says: str) -> None:
    run("create_tenant", "Alpha")
    with pytest.raises(CommandError, match=says):
        run("top_up", tenant, amount)
    assert selectors.balance(Tenant.objects.get()) == 0
