"""Runs a program as Python itself does, but ends the process right after a checkpoint was written.

    python -m tests.demo.interrupted PROGRAM.py

Exit code 17 says that it was cut off; run it again to go on. Nothing in the program knows about this.
"""

import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import laissez.sdk

CUT_OFF = 17
checkpoint = laissez.sdk.checkpoint


def cut_off_after(save: Callable[[Path], None], due: bool = True) -> bool:
    """The SDK's checkpoint, and after one was written an end as sudden as a kill."""
    if checkpoint(save, due):
        sys.stdout.flush()
        os._exit(CUT_OFF)
    return False


if __name__ == "__main__":
    laissez.sdk.checkpoint = cut_off_after
    sys.path.insert(0, str(Path(sys.argv[1]).parent))
    runpy.run_path(sys.argv[1], run_name="__main__")
