"""Reading the market half: the floor for a tick, the exchange for everybody, one tenant's own rows for that tenant."""
