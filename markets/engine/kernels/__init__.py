"""The loops of the clearing rules, compiled to machine code: plain integer arrays in, plain integer arrays out.

    compiled      how a function of this folder is compiled, and where the result is kept
    tables        whole books as matrices of integers, and what all rules ask of them
    launch_table  deferred acceptance, cold and from a former assignment
    first_come    one pass over the queue

`python -m markets.engine.kernels` compiles them all, so that no process has to wait for it later.
"""
