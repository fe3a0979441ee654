"""Any sequence of acts does to the ledger what it does to a dozen lines of plain arithmetic."""

from dataclasses import dataclass, field

from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from laissez.errors import Refused
from laissez.invariants import violations
from tenants import selectors
from tenants.invariants import detectors
from tenants.models import Account, Hold, Transfer
from tests.ledger.acts import charge, place_hold, refund, release_hold, resize_hold, top_up
from tests.tenancy import a_tenant

amounts = st.integers(min_value=1, max_value=100)
places = st.integers(min_value=0, max_value=3)
acts = st.one_of(
    st.tuples(st.just("top_up"), amounts, places),
    st.tuples(st.just("hold"), amounts, places),
    st.tuples(st.just("resize"), amounts, places),
    st.tuples(st.just("release"), amounts, places),
    st.tuples(st.just("charge"), amounts, places),
    st.tuples(st.just("charge from hold"), amounts, places),
    st.tuples(st.just("refund"), amounts, places),
)


@dataclass
class Reference:
    """The same money without a database."""

    credit: int
    balance: int = 0
    topped_up: int = 0
    holds: dict[int, int] = field(default_factory=dict)
    charges: list[int] = field(default_factory=list)

    def apply(self, act: str, amount: int, place: int) -> bool:
        """Do it and say whether it was allowed."""
        before = (self.balance, dict(self.holds), list(self.charges))
        allowed = self._attempt(act, amount, place)
        if not allowed or self.balance - sum(self.holds.values()) < -self.credit:
            self.balance, self.holds, self.charges = before
            return False
        return True

    def _attempt(self, act: str, amount: int, place: int) -> bool:
        match act:
            case "top_up":
                self.balance += amount
                self.topped_up += amount
            case "hold":
                if place in self.holds:
                    return False
                self.holds[place] = amount
            case "resize":
                if place not in self.holds:
                    return False
                self.holds[place] = amount
            case "release":
                return self.holds.pop(place, None) is not None
            case "charge" | "charge from hold":
                if act == "charge from hold" and place in self.holds:
                    self.holds[place] = max(0, self.holds[place] - amount)
                self.balance -= amount
                self.charges.append(amount)
            case "refund":
                if place >= len(self.charges) or self.charges[place] < amount:
                    return False
                self.charges[place] -= amount
                self.balance += amount
        return True


class Ledger:
    """The real thing behind the same acts."""

    def __init__(self, credit: int) -> None:
        self.tenant = a_tenant(credit_limit_microdollars=credit)
        self.holds: dict[int, Hold] = {}
        self.charges: list[Transfer] = []
        self.key = 0

    def apply(self, act: str, amount: int, place: int) -> bool:
        """Do it and say whether it was allowed."""
        self.key += 1
        try:
            return self._attempt(act, amount, place, key=str(self.key))
        except Refused:
            return False

    def _attempt(self, act: str, amount: int, place: int, *, key: str) -> bool:
        hold = self.holds.get(place)
        match act:
            case "top_up":
                top_up(self.tenant, amount, key=key)
            case "hold":
                self.holds[place] = place_hold(self.tenant, amount, reference=f"job_{place}")
            case "resize":
                return hold is not None and resize_hold(hold, amount) == hold
            case "release":
                return hold is not None and release_hold(hold)
            case "charge":
                self.charges.append(charge(self.tenant, amount, key=key))
            case "charge from hold":
                self.charges.append(charge(self.tenant, amount, key=key, from_hold=hold))
            case "refund":
                if place >= len(self.charges):
                    return False
                refund(self.charges[place], amount, key=key)
        return True


class TestLedgerAgainstPlainArithmetic(TestCase):
    """Each example is undone by its surrounding transaction."""

    @settings(max_examples=40, deadline=None)
    @given(credit=st.sampled_from([0, 50]), sequence=st.lists(acts, max_size=25))
    def test_any_sequence_of_acts_keeps_the_books(self, credit: int, sequence: list[tuple[str, int, int]]) -> None:
        reference, ledger = Reference(credit), Ledger(credit)
        for act, amount, place in sequence:
            assert ledger.apply(act, amount, place) == reference.apply(act, amount, place), (act, amount, place)
            assert selectors.funds(ledger.tenant) == selectors.Funds(
                balance=reference.balance, held=sum(reference.holds.values()), credit_limit=credit
            )
        connection.check_constraints()
        assert violations(detectors()) == []
        assert selectors.house_balance(Account.Kind.DEPOSITS) == -reference.topped_up
        assert selectors.house_balance(Account.Kind.REVENUE) == sum(reference.charges)
