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
    _set(tables, prices, winning_tenant, best)
    return prices, best


@innermost
def _accept(tables: Tables, won: IntArray, prices: IntArray, winning_tenant: IntArray) -> None:
    """Count who won, and fill in whose they are, of each offer: a tenant, SEVERAL, or NONE."""
    for one in range(len(won)):
        if won[one] != NONE:
            place = tables.rows[won[one], OFFER]
            tenant = tables.participants[one, TENANT]
            alone = prices[place, ACCEPTED] == 0 or winning_tenant[place] == tenant
            winning_tenant[place] = tenant if alone else SEVERAL
            prices[place, ACCEPTED] += 1


@innermost
def _reject(
    tables: Tables, won: IntArray, prices: IntArray, winning_tenant: IntArray, best: IntArray, least: IntArray
) -> None:
    """Count what was rejected, and fill in the best, and the lease prices of what one tenant alone has won.

    least (T,): the standings below which a row changes nothing but the count.
    """
    for one in range(len(won)):
        end = won[one] if won[one] != NONE else tables.starts[one + 1]
        for row in range(tables.starts[one], end):
            standing = tables.standings[row]
            if standing == NONE:
                continue
            place = tables.rows[row, OFFER]
            prices[place, REJECTED] += 1
            if standing >= least[place]:
                if best[place] == NONE or outranks(tables, row, best[place]):
                    best[place] = row
                if winning_tenant[place] < 0:
                    least[place] = standing
                elif winning_tenant[place] != tables.participants[one, TENANT]:
                    prices[place, LEASE] = max(prices[place, LEASE], counted(tables, row))


@innermost
def _set(tables: Tables, prices: IntArray, winning_tenant: IntArray, best: IntArray) -> None:
    """Fill in what the best rejected rows make of prices."""
    for place in range(len(prices)):
        row = best[place]
        if row != NONE and counted(tables, row) > prices[place, PUBLIC]:
            prices[place, PUBLIC] = counted(tables, row)
            prices[place, SETTER] = tables.owners[row]
        if winning_tenant[place] == SEVERAL:
            prices[place, LEASE] = prices[place, PUBLIC]
