"""The tenants: who may act, and who pays."""
