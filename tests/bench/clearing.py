"""What the clearing rules take, against one sort of the same rows and against a flow solver, in the same run.

Loops are compiled before anything is measured. Times are medians of so many rounds.
"""

import ctypes
import gc
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import numpy as np

from markets.engine.book import Book
from markets.engine.clearing import RULES
from markets.engine.clearing_invariants import check_clearing
from markets.engine.depth import depth
from markets.engine.kernels.__main__ import main as compile_loops
from tests.bench.figures import Figure, Run
from tests.bench.flow import solved_flow
from tests.bench.shapes import chain, changed, market

ROUNDS = 7
CHANGED = 0.01
MILLISECONDS = 1e3


def figures(run: Run) -> Iterator[Figure]:
    """Measure the launch-table rule, its memory, the chain, and vcg."""
    compile_loops()
    yield from _launch_table(run)
    yield from _large(run)
    yield from _vcg(run, "small", jobs=run.of(10_000), types=10, goal=5)
    yield from _vcg(run, "large", jobs=run.of(100_000), types=20, goal=20)


def _launch_table(run: Run) -> Iterator[Figure]:
    """Measure the book of a hundred thousand jobs: cold, warm, unchanged, what is made of it, and memory."""
    clear = RULES["launch_table"]
    book = market(run.of(100_000), seed=run.seed)
    later = changed(book, CHANGED, seed=run.seed + 1)
    former = clear(book, None)
    keys = _rank_keys(book)
    sorting = _seconds(lambda: np.lexsort(keys))
    cold, warm = _seconds(lambda: clear(book, None)), _seconds(lambda: clear(later, former))
    said = f"{len(book.participants):,} jobs, {len(book.rows):,} rows, median of {ROUNDS}"
    yield Figure("clearing.lexsort", sorting * MILLISECONDS, "ms", "neither", None, f"five keys, {said}")
    yield Figure("clearing.cold", cold * MILLISECONDS, "ms", "lower", None, said)
    yield Figure("clearing.cold.ratio", cold / sorting, "x", "lower", 4, "of the sort")
    yield Figure("clearing.warm", warm * MILLISECONDS, "ms", "lower", None, f"{CHANGED:.0%} of the bids changed")
    yield Figure("clearing.warm.ratio", warm / cold, "x", "lower", 1 / 3, "of cold")
    unchanged = _seconds(lambda: clear(book, former))
    yield Figure("clearing.unchanged", unchanged * MILLISECONDS, "ms", "lower", None, said)
    counting = _seconds(lambda: depth(former))
    yield Figure("clearing.depth", counting * MILLISECONDS, "ms", "lower", None, said)
    checking = _seconds(lambda: check_clearing(book, former))
    yield Figure("clearing.check", checking * MILLISECONDS, "ms", "lower", None, said)
    first_come = _seconds(lambda: RULES["first_come"](book, None))
    yield Figure("clearing.first_come", first_come * MILLISECONDS, "ms", "lower", None, said)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        for name, is_warm in (("clearing.memory.cold", False), ("clearing.memory.warm", True)):
            growth = fresh.submit(resident_growth, len(book.participants), run.seed, warm=is_warm).result()
            detail = "highest resident set of a process less that before, by rows"
            yield Figure(name, growth / len(book.rows), "bytes/row", "lower", 300, detail)


def _large(run: Run) -> Iterator[Figure]:
    """Measure the chain of displacements, and a million bids."""
    clear = RULES["launch_table"]
    links = chain(run.of(100_000) + 1)
    taken = _seconds(lambda: clear(links, None), rounds=3)
    yield Figure("clearing.chain", taken, "s", "lower", 1, f"{len(links.participants):,} jobs, one unit a type")
    book = market(run.of(200_000), seed=run.seed)
    later, former = changed(book, CHANGED, seed=run.seed + 1), clear(book, None)
    keys = _rank_keys(book)
    sorting = _seconds(lambda: np.lexsort(keys), rounds=3)
    cold = _seconds(lambda: clear(book, None), rounds=3)
    warm = _seconds(lambda: clear(later, former), rounds=3)
    yield Figure("clearing.million.cold", cold * MILLISECONDS, "ms", "lower", None, f"{len(book.rows):,} bids")
    yield Figure("clearing.million.cold.ratio", cold / sorting, "x", "lower", None, "of one sort of the same rows")
    yield Figure("clearing.million.warm", warm * MILLISECONDS, "ms", "lower", None, f"{CHANGED:.0%} changed")


def _vcg(run: Run, name: str, *, jobs: int, types: int, goal: float) -> Iterator[Figure]:
    """Measure vcg against the flow solver, whose building by array calls counts with its solving."""
    clear = RULES["vcg"]
    book = market(jobs, seed=run.seed, types=types, rows=types)
    later, former = changed(book, CHANGED, seed=run.seed + 1), clear(book, None)
    cold, warm = _seconds(lambda: clear(book, None)), _seconds(lambda: clear(later, former))
    flow = _seconds(lambda: solved_flow(book), rounds=3)
    said = f"{jobs:,} jobs, each on all of {types} types"
    yield Figure(f"vcg.{name}.cold", cold * MILLISECONDS, "ms", "lower", None, said)
    yield Figure(f"vcg.{name}.flow", flow * MILLISECONDS, "ms", "neither", None, "SimpleMinCostFlow, built and solved")
    detail = "the rule with prices and counts, over the solver's assignment alone"
    yield Figure(f"vcg.{name}.speedup", flow / cold, "x", "higher", goal, detail)
    yield Figure(f"vcg.{name}.warm", warm * MILLISECONDS, "ms", "lower", None, f"{CHANGED:.0%} of the bids changed")


def resident_growth(jobs: int, seed: int, *, warm: bool) -> int:
    """Return by how many bytes the resident set of this process grows at most while a book is cleared."""
    compile_loops()
    book = market(jobs, seed=seed)
    former = RULES["launch_table"](book, None) if warm else None
    book = changed(book, CHANGED, seed=seed + 1) if warm else book
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what was freed before is not there to be used again unseen
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the highest so far
    before = _status("VmRSS")
    RULES["launch_table"](book, former)
    return _status("VmHWM") - before


def _status(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _rank_keys(book: Book) -> tuple[np.ndarray, ...]:
    """Return what rows are ranked by as contiguous columns, the last key first."""
    owners = np.repeat(np.arange(len(book.participants)), np.diff(book.starts))
    offer = np.ascontiguousarray(book.rows["offer"])
    counted = np.minimum(book.rows["bid"], book.offers["cap"][offer])
    holds = book.participants["holds"][owners] == offer
    since = np.ascontiguousarray(book.rows["accepted_at"])
    return book.participants["id"][owners], since, ~holds, -counted, offer


def _seconds(act: Callable[[], object], *, rounds: int = ROUNDS) -> float:
    """Return the median of some rounds."""
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        act()
        taken.append(time.perf_counter() - started)
    return median(taken)
