"""Detectors of the ledger (I6), of idempotency (I10) and of the audit trail (I18): a row is a violation."""

from laissez.invariants import Detector

UNBALANCED = Detector(
    id="I6",
    sentence="transfer {key} has {sides} entries that sum to {total} micro-dollars",
    sql="""
        SELECT transfer.key, count(entry.id) AS sides, coalesce(sum(entry.amount_microdollars), 0) AS total
        FROM tenants_transfer AS transfer LEFT JOIN tenants_entry AS entry ON entry.transfer_id = transfer.id
        GROUP BY transfer.id
        HAVING count(entry.id) < 2 OR sum(entry.amount_microdollars) <> 0
        ORDER BY transfer.id
    """,
)

LATE_ENTRY = Detector(
    id="I6",
    sentence="entry {entry} was added to transfer {key} after it was settled",
    sql="""
        SELECT entry.id AS entry, transfer.key
        FROM tenants_entry AS entry JOIN tenants_transfer AS transfer ON transfer.id = entry.transfer_id
        WHERE entry.written_by <> transfer.written_by
        ORDER BY entry.id
    """,
)

WRONG_BALANCE = Detector(
    id="I6",
    sentence="the account of {tenant} shows a balance of {shown} micro-dollars, its entries sum to {total}",
    sql="""
        SELECT tenant.name AS tenant, account.balance_microdollars AS shown, entries.total
        FROM tenants_account AS account
        JOIN tenants_tenant AS tenant ON tenant.id = account.tenant_id
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(amount_microdollars), 0) AS total FROM tenants_entry WHERE account_id = account.id
        ) AS entries
        WHERE account.balance_microdollars <> entries.total
        ORDER BY account.id
    """,
)

WRONG_HELD = Detector(
    id="I6",
    sentence="the account of {tenant} shows {shown} micro-dollars held, its open holds sum to {total}",
    sql="""
        SELECT tenant.name AS tenant, account.held_microdollars AS shown, holds.total
        FROM tenants_account AS account
        JOIN tenants_tenant AS tenant ON tenant.id = account.tenant_id
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(amount_microdollars), 0) AS total
            FROM tenants_hold WHERE account_id = account.id AND released_at IS NULL
        ) AS holds
        WHERE account.held_microdollars <> holds.total
        ORDER BY account.id
    """,
)

BEYOND_CREDIT = Detector(
    id="I6",
    sentence="the account of {tenant} is {beyond} micro-dollars beyond its credit",
    sql="""
        SELECT tenant.name AS tenant,
               account.held_microdollars - account.balance_microdollars - account.credit_limit_microdollars AS beyond
        FROM tenants_account AS account JOIN tenants_tenant AS tenant ON tenant.id = account.tenant_id
        WHERE account.balance_microdollars - account.held_microdollars < -account.credit_limit_microdollars
        ORDER BY account.id
    """,
)

REFUNDED_TWICE = Detector(
    id="I6",
    sentence="charge {key} took {taken} micro-dollars and {given} were refunded",
    sql="""
        SELECT charge.key, -taken.amount_microdollars AS taken, sum(given.amount_microdollars) AS given
        FROM tenants_transfer AS charge
        JOIN tenants_entry AS taken ON taken.transfer_id = charge.id
        JOIN tenants_account AS account ON account.id = taken.account_id AND account.tenant_id IS NOT NULL
        JOIN tenants_transfer AS refund ON refund.refund_of_id = charge.id
        JOIN tenants_entry AS given ON given.transfer_id = refund.id AND given.account_id = account.id
        GROUP BY charge.id, taken.id
        HAVING sum(given.amount_microdollars) > -taken.amount_microdollars
        ORDER BY charge.id
    """,
)


UNANSWERED_KEY = Detector(
    id="I10",
    sentence="the idempotency key {key} of {tenant} is stored without its answer",
    sql="""
        SELECT idempotency.key, tenant.name AS tenant
        FROM tenants_idempotencykey AS idempotency JOIN tenants_tenant AS tenant ON tenant.id = idempotency.tenant_id
        WHERE idempotency.status IS NULL OR idempotency.answered_at IS NULL
        ORDER BY idempotency.id
    """,
)

UNAUDITED = Detector(
    id="I18",
    sentence="{subject} has no audit entry {action}",
    sql="""
        SELECT subject, action FROM (
            SELECT public_id AS subject, 'tenant.create' AS action FROM tenants_tenant
            UNION ALL SELECT public_id, 'token.create' FROM tenants_apitoken
            UNION ALL SELECT public_id, 'token.revoke' FROM tenants_apitoken WHERE revoked_at IS NOT NULL
            UNION ALL SELECT public_id, 'token.roll' FROM tenants_apitoken WHERE rolled_into_id IS NOT NULL
            UNION ALL SELECT public_id, 'invitation.create' FROM tenants_invitation
            UNION ALL SELECT public_id, 'invitation.withdraw' FROM tenants_invitation WHERE withdrawn_at IS NOT NULL
        ) AS changed
        WHERE NOT EXISTS (
            SELECT FROM laissez_auditentry AS entry
            WHERE entry.subject = changed.subject AND entry.action = changed.action
        )
        ORDER BY action, subject
    """,
)


def detectors() -> list[Detector]:
    """What must hold of money, of answers given once, and of privileged changes, whoever wrote them."""
    return [
        UNBALANCED,
        LATE_ENTRY,
        WRONG_BALANCE,
        WRONG_HELD,
        BEYOND_CREDIT,
        REFUNDED_TWICE,
        UNANSWERED_KEY,
        UNAUDITED,
    ]
