"""The same assignment as a minimum-cost flow, solved by somebody else's general solver."""

import numpy as np
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

from markets.engine.book import Book


def solved_flow(book: Book) -> SimpleMinCostFlow:
    """Build the flow with the solver's own array calls, and solve it.

    One unit from each participant to an offer, by an arc that costs what the bid is below the cap price's maximum, or
    past all offers; each offer sends at most its supply to the sink.
    """
    solver = SimpleMinCostFlow()
    people, offers = len(book.participants), len(book.offers)
    sink = people + offers
    counted = np.minimum(book.rows["bid"], book.offers["cap"][book.rows["offer"]])
    gains = counted - book.offers["base"][book.rows["offer"]]
    takes_part = gains >= 0
    owners = np.repeat(np.arange(people), np.diff(book.starts))
    everybody, places = np.arange(people), np.arange(offers)
    solver.add_arcs_with_capacity_and_unit_cost(
        np.concatenate((owners[takes_part], everybody, people + places)),
        np.concatenate((people + book.rows["offer"][takes_part], np.full(people, sink), np.full(offers, sink))),
        np.concatenate((np.ones(np.count_nonzero(takes_part) + people, np.int64), book.offers["supply"])),
        np.concatenate((-gains[takes_part], np.zeros(people + offers, np.int64))),
    )
    solver.set_nodes_supplies(np.append(everybody, sink), np.append(np.ones(people, np.int64), -people))
    status = solver.solve()
    if status != solver.OPTIMAL:
        raise ValueError(f"the flow solver says {status}")
    return solver
