"""The prices that an assignment by deferred acceptance comes with: what was rejected is what stands above it."""

import numpy as np

from markets.engine.book import NONE, IntArray
from markets.engine.kernels.compiled import compiled, innermost
from markets.engine.kernels.tables import BASE, OFFER, TENANT, Tables, counted, outranks

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
def rejection_prices(tables: Tables, won: IntArray) -> tuple[IntArray, IntArray]:
    """Return (T, 5) public price, lease price, the place of the setter, accepted and rejected, for each offer.

    A proposal was rejected where a row that counts stands above its owner's won one. Beside the prices, the best
    rejected row of each offer (T,), NONE where nothing was.
    """
    prices = base_prices(tables)
    winning_tenant = np.full(len(prices), NONE)
    _accept(tables, won, prices, winning_tenant)
    best = np.full(len(prices), NONE)
    _reject(tables, won, prices, winning_tenant, best, np.full(len(prices), NONE))
    return prices, best


@innermost
def _accept(tables: Tables, won: IntArray, prices: IntArray, winning_tenant: IntArray) -> None:
    """Count who won, and fill in whose they are, of each offer: a tenant, or SEVERAL."""
    for one in range(len(won)):
        if won[one] != NONE:
            place = tables.rows[won[one], OFFER]
            tenant = tables.participants[one, TENANT]
            alone = prices[place, ACCEPTED] == 0 or winning_tenant[place] == tenant
            winning_tenant[place] = tenant if alone else SEVERAL
            prices[place, ACCEPTED] += 1


@innermost
def _reject(
    tables: Tables, won: IntArray, prices: IntArray, winning_tenant: IntArray, best: IntArray, highest: IntArray
) -> None:
    """Count what was rejected, and fill in what that makes of prices, and the best; highest (T,): their standings."""
    for one in range(len(won)):
        end = won[one] if won[one] != NONE else tables.starts[one + 1]
        for row in range(tables.starts[one], end):
            standing = tables.standings[row]
            if standing == NONE:
                continue
            place = tables.rows[row, OFFER]
            prices[place, REJECTED] += 1
            if standing > highest[place] or (standing == highest[place] and outranks(tables, row, best[place])):
                best[place], highest[place] = row, standing
            is_higher = counted(tables, row) > prices[place, LEASE] and prices[place, ACCEPTED] > 0
            if is_higher and winning_tenant[place] != tables.participants[one, TENANT]:
                prices[place, LEASE] = counted(tables, row)
    for place in range(len(prices)):
        row = best[place]
        if row != NONE and counted(tables, row) > prices[place, PUBLIC]:
            prices[place, PUBLIC] = counted(tables, row)
            prices[place, SETTER] = tables.owners[row]
