"""Loops are compiled once, kept where that is possible, and never outlive their source."""

import numpy as np

from markets.engine.kernels import compiled as compiling
from markets.engine.kernels.launch_table import deferred_acceptance
from markets.engine.kernels.tables import outranks
from markets.engine.kernels.vcg import highest_value


def doubled(numbers):
    return 2 * numbers


def test_kept_machine_code_is_told_stale_by_a_change_of_any_file_of_the_loops():
    for loop in (outranks, deferred_acceptance, highest_value):
        assert loop._cache._cache_file._source_stamp == compiling.fingerprint()


def test_a_loop_that_can_be_kept_nowhere_is_compiled_for_this_process(monkeypatch):
    monkeypatch.setattr(compiling, "PLACES", "numba.core.caching.IPythonCacheLocator")
    assert compiling.compiled(doubled)(np.arange(3)).tolist() == [0, 2, 4]
