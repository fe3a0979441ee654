"""Runs the demo's programs alone, without a market and without interruption, to compare what they end with."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

PROGRAMS = Path(__file__).parent
PROJECT = PROGRAMS.parents[1]
RUN_SECONDS = 300


@dataclass(frozen=True, slots=True)
class SoloRun:
    """An uninterrupted run of one program, going on in the background at the lowest priority."""

    process: "subprocess.Popen[bytes]"
    output: IO[bytes]

    def digest(self) -> str | None:
        """sha256 of the final parameters, once the run has ended; None when it failed."""
        if self.process.wait(timeout=RUN_SECONDS) != 0:
            return None
        self.output.seek(0)
        return final_digest(self.output.read().decode())


def final_digest(printed: str) -> str | None:
    """The hash in the last line of a program's output that carries one."""
    for line in reversed(printed.splitlines()):
        if '"final_params_sha256"' in line:
            digest = json.loads(line).get("final_params_sha256")
            return None if digest is None else str(digest)
    return None


@contextmanager
def running(programs: Mapping[str, str]) -> Iterator[dict[str, SoloRun]]:
    """Starts programs (name to folder in `laissez/demo`), each in an empty folder; ends what still runs on leaving."""
    with ExitStack() as stack:
        runs = {}
        for name, program in programs.items():
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="laissez-solo-"))
            output = stack.enter_context(tempfile.TemporaryFile())
            process = _start(PROGRAMS / program / "train.py", Path(folder), output)
            stack.callback(_end, process)
            runs[name] = SoloRun(process, output)
        yield runs


def _start(script: Path, folder: Path, output: IO[bytes]) -> "subprocess.Popen[bytes]":
    environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(PROJECT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = ["nice", "-n", "19", sys.executable, str(script)]
    return subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
