"""One module of measurements in a process of its own: `python -m tests.bench.child NAME GROUND SEED SHARE`.

Writes each figure as a line of JSON on the standard output; whatever else is printed goes to the error output.
"""

import importlib
import json
import os
import signal
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any

from laissez.stack.launch import die_with_parent
from tests.bench.figures import Run
from tests.bench.modules import Ground
from tests.bench.stage import settled, standing


def main(name: str, ground: str, seed: str, share: str) -> None:
    """Measure, and end with an error when that fails."""
    figures = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with figures, _standing_on(Ground[ground]):
        for figure in importlib.import_module(f"tests.bench.{name}").figures(Run(int(seed), float(share))):
            figures.write(json.dumps(asdict(figure)) + "\n")
            figures.flush()


def _standing_on(ground: Ground) -> AbstractContextManager[Any]:
    return {Ground.NOTHING: nullcontext, Ground.FOLDER: settled, Ground.SERVERS: standing}[ground]()


if __name__ == "__main__":
    die_with_parent(signal.SIGINT, os.getppid())
    main(*sys.argv[1:])
