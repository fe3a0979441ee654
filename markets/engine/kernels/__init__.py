"""The loops over whole books, compiled to machine code: plain integer arrays in, plain integer arrays out.

    compiled      how a function of this folder is compiled, and where the result is kept
    books         from a floor's tables to the book's
    tables        whole books as matrices of integers, and what all rules ask of them
    heaps         rows of each type, with the best or the worst on top
    launch_table  deferred acceptance
    resumption    the same from where a former book was cleared
    shedding      how it goes on where types keep more than their supply
    prices        what an assignment by deferred acceptance costs
    losses        how many bids lost, by their distance from the price
    first_come    one pass over the queue
    exchange      who would move from type to type, and at which loss
    vcg           the highest value and its lowest prices

`python -m markets.engine.kernels` compiles them all, so that no process has to wait for it later.
"""
