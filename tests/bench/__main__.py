"""All measurements: `make bench`, or with arguments `make bench ARGS="--only clearing --share 0.1"`.

    python -m tests.bench [--only NAME,...] [--share 0.1] [--rounds 3] [--seed 7] [--json FILE]

Each module runs in a process of its own, with servers of its own where it needs any. Machines differ and are busy:
compare ratios, and read the load beside them. The exit status is 1 when a module failed; a goal that is missed is
shown and changes nothing.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from laissez.stack import machine
from laissez.stack.places import PROJECT
from tests.bench.figures import Figure, Run
from tests.bench.measuring import Outcome, measure
from tests.bench.modules import MODULES, Module, chosen
from tests.bench.report import document, failures_of, lines_of, number, table

FOLDER = PROJECT / "build" / "bench"


def main(arguments: Sequence[str]) -> int:
    """The command line above."""
    options = _parser().parse_args(arguments)
    try:
        modules = chosen(options.only)
    except ValueError as error:
        sys.exit(f"tests.bench: {error}")
    run = Run(seed=options.seed, share=options.share)
    began, before = datetime.now(UTC), machine.load()
    outcomes = [_measured(module, run) for _ in range(options.rounds) for module in modules]
    content = document(outcomes, run, at=began.isoformat(), machine=machine.facts(), load=(before, machine.load()))
    path = options.json or FOLDER / f"{began:%Y-%m-%dT%H%M%S}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"{table(lines_of(outcomes))}\n{_footing(content)}\nwritten to {path}")
    failures = failures_of(outcomes)
    print("\n".join(f"FAILED {failure}" for failure in failures), file=sys.stderr)
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", metavar="NAME,...", help=f"some of {', '.join(MODULES)}")
    parser.add_argument("--share", type=_share, default=1.0, help="of the full sizes, to try the bench out")
    parser.add_argument("--rounds", type=_count, default=1, help="how often to run each module; medians are shown")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE", help="default: a dated file in build/bench")
    return parser


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most 1")
    return share


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return count


def _measured(module: Module, run: Run) -> Outcome:
    print(f"{module.name} ...", file=sys.stderr)
    return measure(module, run, tell=_tell)


def _tell(figure: Figure) -> None:
    print(f"  {figure.name}: {number(figure.value)} {figure.unit}", file=sys.stderr)


def _footing(content: dict[str, object]) -> str:
    facts = content["machine"]
    assert isinstance(facts, dict)
    versions = ", ".join(f"{name} {found}" for name, found in facts["versions"].items())
    return (
        f"{facts['cores']} cores ({facts['cpu']}), {facts['memory_gb']} GB; load {content['load_before']} before, "
        f"{content['load_after']} after; seed {content['seed']}, share {content['share']}, commit {facts['commit']}\n"
        f"{versions}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
