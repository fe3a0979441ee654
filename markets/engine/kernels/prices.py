"""The prices that an assignment by deferred acceptance comes with: what was rejected is what stands above it."""

import numpy as np

from markets.engine.book import NONE, IntArray
from markets.engine.kernels.compiled import compiled, innermost
from markets.engine.kernels.tables import BASE, OFFER, TENANT, Tables, admitted, counted, outranks

PUBLIC, LEASE, SETTER, ACCEPTED, REJECTED = 0, 1, 2, 3, 4
SEVERAL = NONE - 1


@compiled
def base_prices(tables: Tables) -> IntArray:
    """Return a table of prices at which nobody has asked for anything."""
    prices = np.empty((len(tables.offers), 5), np.int64)
    for place in range(len(tables.offers)):
        prices[place, PUBLIC] = prices[place, LEASE] = tables.offers[place, BASE]
        prices[place, SETTER], prices[place, ACCEPTED], prices[place, REJECTED] = NONE, 0, 0
    return prices


@compiled
def rejection_prices(tables: Tables, assigned: IntArray) -> IntArray:
    """Return (T, 5) public price, lease price, the place of the setter, accepted and rejected, for each offer.

    A proposal was rejected where a row that counts stands above its owner's assigned one.
    """
    prices = base_prices(tables)
    winning_tenant = np.full(len(prices), NONE)
    _accept(tables, assigned, prices, winning_tenant)
    _reject(tables, assigned, prices, winning_tenant, np.full(len(prices), NONE))
    return prices


@innermost
def _accept(tables: Tables, assigned: IntArray, prices: IntArray, winning_tenant: IntArray) -> None:
    """Count who won, and fill in whose they are, of each offer: a tenant, or SEVERAL."""
    for one in range(len(assigned)):
        place = assigned[one]
        if place != NONE:
            tenant = tables.participants[one, TENANT]
            alone = prices[place, ACCEPTED] == 0 or winning_tenant[place] == tenant
            winning_tenant[place] = tenant if alone else SEVERAL
            prices[place, ACCEPTED] += 1


@innermost
def _reject(tables: Tables, assigned: IntArray, prices: IntArray, winning_tenant: IntArray, highest: IntArray) -> None:
    """Count what was rejected, and fill in what that makes of prices; highest (T,) holds the best rejected rows."""
    for one in range(len(assigned)):
        for row in range(tables.starts[one], tables.starts[one + 1]):
            place = tables.rows[row, OFFER]
            if place == assigned[one]:
                break
            if not admitted(tables, row):
                continue
            prices[place, REJECTED] += 1
            if highest[place] == NONE or outranks(tables, row, highest[place]):
                highest[place] = row
            is_higher = counted(tables, row) > prices[place, LEASE] and prices[place, ACCEPTED] > 0
            if is_higher and winning_tenant[place] != tables.participants[one, TENANT]:
                prices[place, LEASE] = counted(tables, row)
    for place in range(len(prices)):
        row = highest[place]
        if row != NONE and counted(tables, row) > prices[place, PUBLIC]:
            prices[place, PUBLIC] = counted(tables, row)
            prices[place, SETTER] = tables.owners[row]
