"""Each act of the ledger: what it moves, what it refuses, and what it says."""

import pytest

from laissez.errors import Conflict, Refused
from laissez.events import transact
from laissez.models import Event
from tenants import selectors
from tenants.models import Account, Entry, Hold, Tenant, Transfer
from tenants.services import ledger
from tests.ledger.acts import charge, place_hold, refund, release_hold, resize_hold, top_up
from tests.tenancy import a_tenant

pytestmark = pytest.mark.django_db

DOLLAR = 1_000_000


def test_a_new_tenant_has_nothing() -> None:
    funds = selectors.funds(a_tenant())
    assert (funds.balance, funds.held, funds.available) == (0, 0, 0)


def test_a_top_up_comes_from_the_house_and_can_be_spent() -> None:
    tenant = a_tenant()
    top_up(tenant, 5 * DOLLAR)
    assert selectors.balance(tenant) == selectors.available(tenant) == 5 * DOLLAR
    assert selectors.house_balance(Account.Kind.DEPOSITS) == -5 * DOLLAR


def test_a_hold_leaves_the_balance_and_takes_from_what_is_available() -> None:
    tenant = a_tenant(microdollars=5 * DOLLAR)
    place_hold(tenant, 2 * DOLLAR)
    funds = selectors.funds(tenant)
    assert (funds.balance, funds.held, funds.available) == (5 * DOLLAR, 2 * DOLLAR, 3 * DOLLAR)


def test_a_charge_goes_to_the_house() -> None:
    tenant = a_tenant(microdollars=5 * DOLLAR)
    charge(tenant, 2 * DOLLAR)
    assert selectors.balance(tenant) == 3 * DOLLAR
    assert selectors.house_balance(Account.Kind.REVENUE) == 2 * DOLLAR


def test_a_charge_takes_from_its_hold_first() -> None:
    tenant = a_tenant(microdollars=5 * DOLLAR)
    hold = place_hold(tenant, 5 * DOLLAR)
    charge(tenant, 2 * DOLLAR, from_hold=hold)
    funds = selectors.funds(tenant)
    assert (funds.balance, funds.held, funds.available) == (3 * DOLLAR, 3 * DOLLAR, 0)


def test_a_charge_larger_than_its_hold_takes_the_rest_from_what_is_available() -> None:
    tenant = a_tenant(microdollars=5 * DOLLAR)
    hold = place_hold(tenant, 2 * DOLLAR)
    charge(tenant, 3 * DOLLAR, from_hold=hold)
    funds = selectors.funds(tenant)
    assert (funds.balance, funds.held, funds.available) == (2 * DOLLAR, 0, 2 * DOLLAR)


def test_a_charge_never_takes_what_is_held_for_something_else() -> None:
    tenant = a_tenant(microdollars=5 * DOLLAR)
    place_hold(tenant, 4 * DOLLAR, reference="job_other")
    with pytest.raises(Refused) as refused:
        charge(tenant, 2 * DOLLAR)
    assert refused.value.code == "insufficient_funds"
    assert refused.value.status == 402
    assert refused.value.detail == (
        "$2.000000 are needed for a charge for lse_1, but $1.000000 are available (balance $5.000000, held $4.000000)."
    )
    assert selectors.balance(tenant) == 5 * DOLLAR


def test_a_released_hold_pays_nothing() -> None:
    tenant = a_tenant(microdollars=2 * DOLLAR)
    hold = place_hold(tenant, 2 * DOLLAR)
    release_hold(hold)
    place_hold(tenant, 2 * DOLLAR, reference="job_2")
    with pytest.raises(Refused, match="available"):
        charge(tenant, DOLLAR, from_hold=hold)


def test_a_hold_of_another_tenant_pays_nothing() -> None:
    hold = place_hold(a_tenant("Beta", microdollars=DOLLAR), DOLLAR)
    with pytest.raises(ValueError, match="another tenant"):
        charge(a_tenant(microdollars=DOLLAR), DOLLAR, from_hold=hold)


def test_credit_can_be_held_and_spent_to_its_limit() -> None:
    tenant = a_tenant(credit_limit_microdollars=2 * DOLLAR)
    hold = place_hold(tenant, 2 * DOLLAR)
    charge(tenant, 2 * DOLLAR, from_hold=hold)
    assert selectors.balance(tenant) == -2 * DOLLAR
    with pytest.raises(Refused, match=r"\$0\.000000 are available"):
        charge(tenant, 1, key="one more")


def test_a_hold_larger_than_what_is_available_is_refused() -> None:
    tenant = a_tenant(microdollars=DOLLAR)
    with pytest.raises(Refused, match=r"\$1\.000001 are needed for a hold for job_1"):
        place_hold(tenant, DOLLAR + 1)
    assert not Hold.objects.exists()


def test_a_reference_has_one_open_hold() -> None:
    tenant = a_tenant(microdollars=2 * DOLLAR)
    hold = place_hold(tenant, DOLLAR)
    with pytest.raises(Conflict, match="already held for job_1"):
        place_hold(tenant, DOLLAR)
    release_hold(hold)
    place_hold(tenant, DOLLAR)
    assert selectors.open_holds(tenant).count() == 1


def test_a_hold_grows_by_what_is_available_and_no_more() -> None:
    tenant = a_tenant(microdollars=3 * DOLLAR)
    hold = place_hold(tenant, DOLLAR)
    with pytest.raises(Refused, match=r"\$3\.000000 are needed for a larger hold"):
        resize_hold(hold, 4 * DOLLAR)
    assert resize_hold(hold, 3 * DOLLAR).amount_microdollars == 3 * DOLLAR
    assert selectors.available(tenant) == 0
    resize_hold(hold, 0)
    assert selectors.available(tenant) == 3 * DOLLAR


def test_renewing_a_hold_at_its_amount_moves_only_its_date() -> None:
    hold = place_hold(a_tenant(microdollars=DOLLAR), DOLLAR)
    events = Event.objects.count()
    renewed = resize_hold(hold, DOLLAR)
    assert renewed.renewed_at > hold.renewed_at
    assert Event.objects.count() == events


def test_a_released_hold_stays_released() -> None:
    tenant = a_tenant(microdollars=DOLLAR)
    hold = place_hold(tenant, DOLLAR)
    assert release_hold(hold) is True
    assert release_hold(hold) is False
    with pytest.raises(Conflict, match="already released"):
        resize_hold(hold, 1)
    assert selectors.available(tenant) == DOLLAR


def test_a_refund_gives_back_at_most_what_was_charged() -> None:
    tenant = a_tenant(microdollars=5 * DOLLAR)
    charged = charge(tenant, 3 * DOLLAR)
    refund(charged, 2 * DOLLAR, key="first")
    with pytest.raises(Conflict, match=r"exceeds the \$1\.000000 that are left"):
        refund(charged, DOLLAR + 1, key="second")
    refund(charged, DOLLAR, key="third")
    assert selectors.balance(tenant) == 5 * DOLLAR
    assert selectors.house_balance(Account.Kind.REVENUE) == 0


def test_only_a_charge_can_be_refunded() -> None:
    given = top_up(a_tenant(), DOLLAR)
    with pytest.raises(Conflict, match="Only a charge"):
        refund(given, DOLLAR, key="refund")


def test_a_repeated_key_moves_money_once() -> None:
    tenant = a_tenant(microdollars=5 * DOLLAR)
    first = charge(tenant, DOLLAR, key="slice 1")
    assert charge(tenant, DOLLAR, key="slice 1") == first
    refunded = refund(first, DOLLAR, key="back")
    assert refund(first, DOLLAR, key="back") == refunded
    assert top_up(tenant, DOLLAR, key="more") == top_up(tenant, DOLLAR, key="more")
    assert selectors.balance(tenant) == 6 * DOLLAR


@pytest.mark.parametrize("change", [{"amount": 2 * DOLLAR}, {"reference": "lse_2"}, {"tenant": "Beta"}], ids=str)
def test_a_key_that_was_used_for_something_else_is_refused(change: dict[str, object]) -> None:
    tenant = a_tenant(microdollars=5 * DOLLAR)
    charge(tenant, DOLLAR, key="slice 1")
    payer: Tenant = a_tenant("Beta", microdollars=5 * DOLLAR) if "tenant" in change else tenant
    with pytest.raises(Conflict, match="used for another transfer"):
        charge(
            payer,
            int(str(change.get("amount", DOLLAR))),
            key="slice 1",
            reference=str(change.get("reference", "lse_1")),
        )


@pytest.mark.parametrize("amount", [0, -1, 10**15 + 1])
def test_an_amount_that_is_no_amount_is_refused(amount: int) -> None:
    tenant = a_tenant(microdollars=DOLLAR)
    for act in (top_up, charge):
        with pytest.raises(Refused) as refused:
            act(tenant, amount, key="odd")
        assert (refused.value.code, refused.value.pointer) == ("bad_amount", "/amount")
    assert Transfer.objects.count() == 1


@pytest.mark.parametrize(
    ("text", "microdollars"), [("25", 25 * DOLLAR), ("0.000001", 1), ("1.500000", 1_500_000), ("1e2", 100 * DOLLAR)]
)
def test_an_amount_in_dollars_is_read_exactly(text: str, microdollars: int) -> None:
    assert ledger.parse_amount(text) == microdollars


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "0",
        "-1",
        "NaN",
        "Infinity",
        "0.0000001",
        "1e99",
        "1e-99",
        "1e999999999",
        "1.0000000000000000000000000000000001",
        "1000001",
        "$5",
    ],
)
def test_an_amount_in_dollars_that_is_not_exact_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refused:
        ledger.parse_amount(text)
    assert refused.value.code == "bad_amount"


def test_every_movement_is_told_to_its_tenant() -> None:
    tenant = a_tenant(microdollars=5 * DOLLAR)
    hold = place_hold(tenant, DOLLAR)
    charged = charge(tenant, DOLLAR, from_hold=hold)
    resize_hold(hold, DOLLAR)
    release_hold(hold)
    refund(charged, DOLLAR, key="back")
    told = Event.objects.filter(stream__name=tenant.stream).order_by("seq").values_list("type", flat=True)
    assert [type_.removeprefix("org.laissez.") for type_ in told] == [
        "tenant.created.v1",
        "ledger.top_up_settled.v1",
        "ledger.hold_placed.v1",
        "ledger.charge_settled.v1",
        "ledger.hold_resized.v1",
        "ledger.hold_released.v1",
        "ledger.refund_settled.v1",
    ]
    last = Event.objects.filter(stream__name=tenant.stream).latest("seq")
    assert last.data == {"reference": "lse_1", "amount": "1.000000", "currency": "USD"}


def test_a_statement_runs_back_from_the_balance() -> None:
    tenant = a_tenant(microdollars=5 * DOLLAR)
    other = a_tenant("Beta", microdollars=7 * DOLLAR)
    refund(charge(tenant, 2 * DOLLAR), DOLLAR, key="back")
    entries = list(selectors.statement_entries(tenant))
    lines = selectors.statement_lines(tenant, entries)
    assert [(line.kind, line.amount, line.balance_after) for line in lines] == [
        ("refund", DOLLAR, 4 * DOLLAR),
        ("charge", -2 * DOLLAR, 3 * DOLLAR),
        ("top_up", 5 * DOLLAR, 5 * DOLLAR),
    ]
    assert selectors.statement_lines(tenant, entries[1:]) == lines[1:]
    assert len(selectors.statement_entries(other)) == 1
    assert selectors.statement_lines(tenant, []) == []


def test_accounts_are_locked_in_the_order_of_their_ids() -> None:
    tenants = [a_tenant(name) for name in ("Alpha", "Beta", "Gamma")]
    locked = transact(lambda _outbox: ledger.lock_accounts(reversed(tenants)))
    assert list(locked) == [tenant.pk for tenant in tenants]
    assert Entry.objects.count() == 0
