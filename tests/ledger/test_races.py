"""Many connections, one account: money is spent once."""

import pytest
from django.db import transaction

from laissez.errors import Conflict, Refused
from laissez.events import Outbox, transact
from laissez.invariants import violations
from tenants import selectors
from tenants.invariants import detectors
from tenants.models import Account, Hold, Transfer
from tenants.services import ledger
from tests.ledger.acts import charge, place_hold, refund, release_hold, top_up
from tests.racing import race, start_and_wait_until_blocked
from tests.tenancy import a_tenant

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def all_is_well_afterwards() -> object:
    yield
    assert violations(detectors()) == []


def test_forty_charges_never_take_an_account_below_its_credit() -> None:
    tenant = a_tenant(microdollars=1000, credit_limit_microdollars=60)
    outcomes = race(40, lambda number: charge(tenant, 100, key=f"charge {number}"))
    paid = [outcome for outcome in outcomes if isinstance(outcome, Transfer)]
    refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    assert (len(paid), len(refused)) == (10, 30)
    assert {error.code for error in refused} == {"insufficient_funds"}
    assert selectors.balance(tenant) == 0


def test_holds_and_charges_share_what_is_available() -> None:
    tenant = a_tenant(microdollars=1000)

    def act(number: int) -> object:
        if number % 2:
            return place_hold(tenant, 100, reference=f"job_{number}")
        return charge(tenant, 100, key=f"charge {number}")

    outcomes = race(24, act)
    assert sum(not isinstance(outcome, Exception) for outcome in outcomes) == 10
    assert selectors.available(tenant) == 0


def test_a_charge_with_one_key_is_taken_once_however_many_send_it() -> None:
    tenant = a_tenant(microdollars=1000)
    outcomes = race(12, lambda _number: charge(tenant, 100, key="slice 1"))
    assert len(set(outcomes)) == 1
    assert selectors.balance(tenant) == 900


def test_one_reference_is_held_once() -> None:
    tenant = a_tenant(microdollars=1000)
    outcomes = race(8, lambda _number: place_hold(tenant, 100))
    assert sum(isinstance(outcome, Hold) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 7


def test_a_hold_is_released_once_and_charged_at_most_once() -> None:
    tenant = a_tenant(microdollars=100)
    hold = place_hold(tenant, 100)

    def act(number: int) -> object:
        return charge(tenant, 100, from_hold=hold) if number == 0 else release_hold(hold)

    outcomes = race(6, act)
    assert outcomes.count(True) == 1
    assert isinstance(outcomes[0], Transfer)
    assert selectors.funds(tenant) == selectors.Funds(balance=0, held=0, credit_limit=0)


def test_refunds_together_never_exceed_their_charge() -> None:
    tenant = a_tenant(microdollars=100)
    charged = charge(tenant, 100)
    outcomes = race(8, lambda number: refund(charged, 40, key=f"refund {number}"))
    assert sum(isinstance(outcome, Transfer) for outcome in outcomes) == 2
    assert selectors.balance(tenant) == 80


def test_tenants_charged_together_in_any_order_do_not_deadlock() -> None:
    tenants = [a_tenant(name, microdollars=10_000) for name in ("Alpha", "Beta", "Gamma")]
    attempts: list[int] = []

    def act(number: int) -> None:
        order = tenants if number % 2 else tenants[::-1]

        def work(outbox: Outbox) -> None:
            attempts.append(number)
            ledger.lock_accounts(order)
            for tenant in order:
                key = f"{number} {tenant.name}"
                ledger.charge(tenant, amount_microdollars=10, reference="lse_1", key=key, outbox=outbox)

        transact(work)

    assert race(16, act) == [None] * 16
    assert len(attempts) == 16
    assert [selectors.balance(tenant) for tenant in tenants] == [10_000 - 160] * 3


def test_accounts_are_locked_in_the_order_of_their_ids_whatever_order_is_asked_for() -> None:
    first, second, third = (a_tenant(name) for name in ("Gamma", "Beta", "Alpha"))

    def lock_all() -> list[int]:
        return transact(lambda _outbox: list(ledger.lock_accounts([third, first, second])))

    with transaction.atomic():
        ledger.lock_accounts([first])
        locking = start_and_wait_until_blocked(lock_all)
        later = Account.objects.select_for_update(nowait=True).filter(tenant__in=[second, third])
        assert len(later) == 2
    assert locking.result(timeout=30) == [first.pk, second.pk, third.pk]


def test_top_ups_of_different_tenants_share_no_lock() -> None:
    first, second = a_tenant("Alpha", microdollars=1), a_tenant("Beta", microdollars=1)

    def work(outbox: Outbox) -> list[object]:
        ledger.top_up(first, amount_microdollars=1, key="first", outbox=outbox)
        return race(1, lambda _number: top_up(second, 1, key="second"))

    assert isinstance(transact(work)[0], Transfer)
