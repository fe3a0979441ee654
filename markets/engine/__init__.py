"""The market rule as pure functions: values in, values out, at the very bottom of the project.

No Django, no clock, no randomness, no floats. Prices are integer micro-dollars per accelerator-hour, instants are
integer microseconds since 1970 on the market's clock, ids are integers.

    money       exact prices and amounts
    book        what a clearing reads: offers, and participants with their ordered rows
    clearing    the rules that turn a book into prices and an assignment
    depth       how many bids lose at each type, by their distance below its price
    floor       what dynamics reads: types, units, and jobs with their tenures, awards and notices
    places      where things stand in the tables of a floor
    roles       what jobs are in the book besides their bids, and the book that comes of both
    actions     what dynamics asks its applier to do
    dynamics    from floor to book, from clearing to actions
    kernels     the compiled loops of the rules
    invariants  what must hold of a floor, as sentences when it does not
    clearing_invariants  the same of a clearing
"""
