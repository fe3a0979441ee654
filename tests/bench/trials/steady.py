"""Two figures, and something said on the way."""

from collections.abc import Iterator

from tests.bench.figures import Figure, Run


def figures(run: Run) -> Iterator[Figure]:
    print("measuring")
    yield Figure("trial.seed", run.seed, "s")
    yield Figure("trial.size", run.of(1_000), "rows", "higher", goal=50.0)
