"""One figure, and then a fault."""

from collections.abc import Iterator

from tests.bench.figures import Figure, Run


def figures(run: Run) -> Iterator[Figure]:
    yield Figure("trial.first", 1.0, "s")
    raise RuntimeError("no second one")
