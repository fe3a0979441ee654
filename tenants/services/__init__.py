"""Every write of this app: accounts, ledger, idempotency."""
