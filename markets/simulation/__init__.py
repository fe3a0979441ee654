"""The market in virtual time: the live system's engine, dynamics and policies on a clock that jumps.

scenarios  what to simulate, as frozen values, and the named ones
world      units, leases and jobs while a simulation runs
simulator  the loop: what happens, what agents decide, what the market does about it
report     what a simulation leaves behind, as values and as JSON
"""
