"""The loops of the clearing rules, compiled to machine code: plain integer arrays in, plain integer arrays out.

    compiled      how a function of this folder is compiled, and where the result is kept
    tables        whole books as matrices of integers, and what all rules ask of them
    heaps         rows of each type, with the best or the worst on top
    launch_table  deferred acceptance
    resumption    the same from where a former book was cleared
    prices        what an assignment by deferred acceptance costs
    first_come    one pass over the queue
    exchange      who would move from type to type, and at which loss
    vcg           the highest value and its lowest prices

`python -m markets.engine.kernels` compiles them all, so that no process has to wait for it later.
"""
