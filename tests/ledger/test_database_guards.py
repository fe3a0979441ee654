"""What the database refuses of money, whoever asks (I6), and that every violation planted past it is found."""

from datetime import UTC, datetime

import pytest
from django.db import IntegrityError, connection, transaction

from laissez.invariants import violations
from tenants.invariants import detectors
from tenants.models import Account, Entry, Hold, Tenant, Transfer
from tests.ledger.acts import charge, place_hold, refund, release_hold
from tests.planting import plant
from tests.tenancy import a_tenant, a_token

pytestmark = pytest.mark.django_db
committing = pytest.mark.django_db(transaction=True)

AT = datetime(2026, 1, 1, tzinfo=UTC)
DOLLAR = 1_000_000

EMPTY_TRANSFER = """
    INSERT INTO tenants_transfer (kind, at, reference, key) VALUES ('charge', '2026-01-01+00', 'nothing', 'empty')
"""
LATE_ENTRY = """
    INSERT INTO tenants_entry (transfer_id, account_id, amount_microdollars)
    SELECT transfer.id, account.id, 1 FROM tenants_transfer AS transfer, tenants_account AS account
    WHERE transfer.kind = 'top_up' AND account.kind = 'revenue'
"""
LARGE_REFUND = """
    UPDATE tenants_entry SET amount_microdollars = sign(amount_microdollars) * 1000001
    WHERE abs(amount_microdollars) = 500000
"""


@pytest.fixture
def tenant() -> Tenant:
    """Five dollars in, one out and half of it back, one held and one no longer held."""
    tenant = a_tenant(microdollars=5 * DOLLAR)
    refund(charge(tenant, DOLLAR), DOLLAR // 2, key="back")
    place_hold(tenant, DOLLAR)
    release_hold(place_hold(tenant, DOLLAR, reference="job_over"))
    a_token(tenant)
    connection.check_constraints()
    return tenant


def run(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def a_transfer(*sides: tuple[Account, int], key: str = "by hand") -> Transfer:
    with transaction.atomic():
        transfer = Transfer.objects.create(kind="charge", at=AT, reference="by hand", key=key)
        for account, amount in sides:
            Entry.objects.create(transfer=transfer, account=account, amount_microdollars=amount)
    return transfer


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tenants_entry SET amount_microdollars = amount_microdollars * 2",
        "DELETE FROM tenants_entry",
        "TRUNCATE tenants_entry",
        "UPDATE tenants_transfer SET reference = 'other'",
        "DELETE FROM tenants_transfer",
        "TRUNCATE tenants_transfer CASCADE",
        "DELETE FROM tenants_hold",
        "TRUNCATE tenants_hold CASCADE",
        "DELETE FROM tenants_account",
        "TRUNCATE tenants_account CASCADE",
        "UPDATE tenants_account SET balance_microdollars = 1 WHERE tenant_id IS NOT NULL",
        "UPDATE tenants_account SET held_microdollars = 0 WHERE tenant_id IS NOT NULL",
        "UPDATE tenants_account SET credit_limit_microdollars = -1 WHERE tenant_id IS NOT NULL",
        "UPDATE tenants_account SET kind = 'revenue' WHERE kind = 'deposits'",
        "UPDATE tenants_hold SET released_at = NULL WHERE reference = 'job_over'",
        "UPDATE tenants_hold SET amount_microdollars = 0 WHERE reference = 'job_over'",
        "UPDATE tenants_hold SET reference = 'other' WHERE reference = 'job_1'",
        "UPDATE tenants_hold SET amount_microdollars = 5000000 WHERE reference = 'job_1'",
        "UPDATE tenants_hold SET amount_microdollars = -1 WHERE reference = 'job_1'",
    ],
)
def test_money_is_never_edited(tenant: Tenant, statement: str) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        run(statement)
    assert violations(detectors()) == []


@committing
def test_a_transfer_that_does_not_sum_to_zero_is_refused_at_commit(tenant: Tenant) -> None:
    revenue = Account.objects.get(kind="revenue")
    with pytest.raises(IntegrityError, match="2 entries that sum to -1, not to zero"):
        a_transfer((tenant.account, -DOLLAR), (revenue, DOLLAR - 1))


@committing
def test_a_transfer_without_two_sides_is_refused_at_commit() -> None:
    with pytest.raises(IntegrityError, match="0 entries"):
        a_transfer()


@committing
def test_a_balanced_pair_cannot_be_added_to_a_settled_transfer(tenant: Tenant) -> None:
    settled = Transfer.objects.get(kind="top_up")
    other = a_tenant("Beta")
    revenue = Account.objects.get(kind="revenue")
    pair = [
        Entry(transfer=settled, account=other.account, amount_microdollars=DOLLAR),
        Entry(transfer=settled, account=revenue, amount_microdollars=-DOLLAR),
    ]
    with pytest.raises(IntegrityError, match="is settled"):
        Entry.objects.bulk_create(pair)
    assert Entry.objects.filter(transfer=settled).count() == 2


@committing
def test_nor_by_naming_the_transaction_that_settled_it(tenant: Tenant) -> None:
    settled = Transfer.objects.get(kind="top_up")
    entry = Entry(
        transfer=settled,
        account=Account.objects.get(kind="revenue"),
        amount_microdollars=1,
        written_by=settled.written_by,
    )
    with pytest.raises(IntegrityError, match="is settled"):
        entry.save()


def test_a_transfer_cannot_be_kept_open_for_a_later_transaction() -> None:
    with pytest.raises(IntegrityError, match="another transaction"):
        Transfer.objects.create(kind="charge", at=AT, reference="later", key="later", written_by=10**12)


@committing
def test_constraints_checked_early_still_bind_what_comes_after(tenant: Tenant) -> None:
    revenue = Account.objects.get(kind="revenue")
    deposits = Account.objects.get(kind="deposits")

    def add_after_the_check() -> None:
        with transaction.atomic():
            transfer = a_transfer((tenant.account, -1), (revenue, 1))
            connection.check_constraints()
            Entry.objects.create(transfer=transfer, account=deposits, amount_microdollars=1)

    with pytest.raises(IntegrityError, match="3 entries that sum to 1"):
        add_after_the_check()


@committing
def test_nothing_takes_an_account_beyond_its_credit(tenant: Tenant) -> None:
    revenue = Account.objects.get(kind="revenue")
    with pytest.raises(IntegrityError, match="account_within_credit"):
        a_transfer((tenant.account, -5 * DOLLAR), (revenue, 5 * DOLLAR))
    assert violations(detectors()) == []


def test_an_account_begins_empty(tenant: Tenant) -> None:
    other = Tenant.objects.create(name="Beta", created_at=AT)
    with pytest.raises(IntegrityError, match="begins empty"):
        Account.objects.create(
            kind="tenant",
            tenant=other,
            balance_microdollars=DOLLAR,
            held_microdollars=0,
            credit_limit_microdollars=0,
        )


def test_a_house_account_holds_nothing(tenant: Tenant) -> None:
    with pytest.raises(IntegrityError, match="only a tenant's account holds funds"):
        Hold.objects.create(
            account=Account.objects.get(kind="revenue"),
            reference="job_2",
            amount_microdollars=1,
            opened_at=AT,
            renewed_at=AT,
        )


def test_nor_does_it_among_holds_of_tenants(tenant: Tenant) -> None:
    house = a_hold(tenant, "job_3", 1)
    house.account = Account.objects.get(kind="revenue")
    with pytest.raises(IntegrityError, match="only a tenant's account holds funds"):
        Hold.objects.bulk_create([a_hold(tenant, "job_2", 1), house])


def held_by(*tenants: Tenant) -> list[int]:
    return [Account.objects.get(tenant=tenant).held_microdollars or 0 for tenant in tenants]


def a_hold(tenant: Tenant, reference: str, amount: int, *, released: bool = False) -> Hold:
    """A hold that is not written yet."""
    return Hold(
        account=tenant.account,
        reference=reference,
        amount_microdollars=amount,
        opened_at=AT,
        renewed_at=AT,
        released_at=AT if released else None,
    )


def test_holds_written_in_one_statement_move_their_account_exactly(tenant: Tenant) -> None:
    held, amounts = held_by(tenant)[0], range(1, 1001)
    Hold.objects.bulk_create(a_hold(tenant, f"many_{amount}", amount) for amount in amounts)
    assert held_by(tenant) == [held + sum(amounts)]
    run("UPDATE tenants_hold SET amount_microdollars = 2 * amount_microdollars WHERE reference LIKE 'many%'")
    assert held_by(tenant) == [held + 2 * sum(amounts)]
    run("UPDATE tenants_hold SET released_at = renewed_at WHERE reference LIKE 'many%'")
    assert held_by(tenant) == [held]
    assert violations(detectors()) == []


def test_one_statement_moves_what_it_moves_of_every_account(tenant: Tenant) -> None:
    other, third = a_tenant("Beta", microdollars=DOLLAR), a_tenant("Gamma", microdollars=DOLLAR)
    Hold.objects.bulk_create(
        [
            a_hold(third, "g1", 5),
            a_hold(other, "b1", 100),
            a_hold(other, "b2", 20, released=True),
            a_hold(tenant, "a1", 7),
            a_hold(other, "b3", 3),
            a_hold(third, "g2", 1),
        ]
    )
    assert held_by(tenant, other, third) == [DOLLAR + 7, 103, 6]
    run(
        """
        WITH added AS (
            INSERT INTO tenants_hold (account_id, reference, amount_microdollars, opened_at, renewed_at)
            SELECT account_id, 'g3', 50, opened_at, renewed_at FROM tenants_hold WHERE reference = 'g1'
        )
        UPDATE tenants_hold SET
            amount_microdollars = CASE reference WHEN 'b1' THEN 90 WHEN 'a1' THEN 8 ELSE amount_microdollars END,
            released_at = CASE WHEN reference IN ('b3', 'g1') THEN renewed_at END
        WHERE reference IN ('a1', 'b1', 'b3', 'g1')
        """
    )
    assert held_by(tenant, other, third) == [DOLLAR + 8, 90, 51]
    assert violations(detectors()) == []


def test_one_statement_is_covered_or_refused_as_a_whole(tenant: Tenant) -> None:
    other = a_tenant("Beta", microdollars=10)
    Hold.objects.bulk_create([a_hold(other, "b1", 9), a_hold(other, "b2", 0)])
    run("UPDATE tenants_hold SET amount_microdollars = 9 - amount_microdollars WHERE reference IN ('b1', 'b2')")
    with pytest.raises(IntegrityError, match="account_within_credit"), transaction.atomic():
        Hold.objects.bulk_create([a_hold(tenant, "a1", 1), a_hold(other, "b3", 2)])
    assert held_by(tenant, other) == [DOLLAR, 9]
    assert not Hold.objects.filter(reference="a1").exists()


def test_all_is_well_before_anything_is_planted(tenant: Tenant) -> None:
    assert violations(detectors()) == []


@committing
@pytest.mark.parametrize(
    ("statements", "sentence"),
    [
        (
            ["UPDATE tenants_entry SET amount_microdollars = -5000001 WHERE amount_microdollars = -5000000"],
            "I6: transfer first funds of Alpha has 2 entries that sum to -1 micro-dollars",
        ),
        (
            [EMPTY_TRANSFER],
            "I6: transfer empty has 0 entries that sum to 0 micro-dollars",
        ),
        (
            [LATE_ENTRY],
            "was added to transfer first funds of Alpha after it was settled",
        ),
        (
            ["UPDATE tenants_account SET balance_microdollars = 9000000 WHERE tenant_id IS NOT NULL"],
            "I6: the account of Alpha shows a balance of 9000000 micro-dollars, its entries sum to 4500000",
        ),
        (
            ["UPDATE tenants_hold SET amount_microdollars = 7 WHERE released_at IS NULL"],
            "I6: the account of Alpha shows 1000000 micro-dollars held, its open holds sum to 7",
        ),
        (
            [
                "ALTER TABLE tenants_account DROP CONSTRAINT account_within_credit",
                "UPDATE tenants_account SET held_microdollars = 4500001 WHERE tenant_id IS NOT NULL",
            ],
            "I6: the account of Alpha is 1 micro-dollars beyond its credit",
        ),
        (
            [LARGE_REFUND],
            "I6: charge charge took 1000000 micro-dollars and 1000001 were refunded",
        ),
        (
            ["INSERT INTO tenants_idempotencykey (tenant_id, key, fingerprint) SELECT id, 'k', '' FROM tenants_tenant"],
            "I10: the idempotency key k of Alpha is stored without its answer",
        ),
        (["DELETE FROM laissez_auditentry WHERE action = 'tenant.create'"], "has no audit entry tenant.create"),
        (["DELETE FROM laissez_auditentry WHERE action = 'token.create'"], "has no audit entry token.create"),
        (["UPDATE tenants_apitoken SET revoked_at = created_at"], "has no audit entry token.revoke"),
    ],
)
def test_a_planted_violation_is_found(tenant: Tenant, statements: list[str], sentence: str) -> None:
    found: list[str] = []

    def plant_and_look() -> None:
        with transaction.atomic():
            plant(*statements)
            found.extend(violations(detectors()))
            transaction.set_rollback(True)

    plant_and_look()
    assert any(sentence in line for line in found), found
    assert violations(detectors()) == []
