"""The demo's training programs: they learn, are deterministic, and interruptions change no bit of the result."""

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from laissez.sdk import archive, jobfile
from tests.demo.interrupted import CUT_OFF

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "laissez" / "demo"
CHECKPOINTS = {"text_classifier": 3, "vision_transformer": 4}
KEPT = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"), "100000000")
"""Memory that a program frees stays its own; else a quarter of its time goes to asking for it again at every step."""


def run(folder: Path, *command: str) -> tuple[int, list[str]]:
    """Runs a command in `folder`, outside any lease; its exit code and what it printed."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **KEPT}
    done = subprocess.run(
        [sys.executable, *command], check=False, cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def result(lines: list[str]) -> dict[str, object]:
    """The last line that a program prints."""
    found: dict[str, object] = json.loads(lines[-1])
    return found


SLOW = pytest.param("vision_transformer", marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [SLOW if name in SLOW.values else name for name in CHECKPOINTS])
def test_cut_off_after_every_checkpoint_it_ends_with_the_same_parameters_bit_for_bit(name: str, tmp_path: Path):
    program = str(PROGRAMS / name / "train.py")
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    whole.mkdir()
    pieces.mkdir()

    exit_code, lines = run(whole, program)
    assert exit_code == 0
    losses = [json.loads(line)["loss"] for line in lines[1:-1]]
    assert losses[-1] < 0.5 * losses[0]

    ends = [run(pieces, "-m", "tests.demo.interrupted", program) for _ in range(CHECKPOINTS[name] + 1)]
    assert [code for code, _ in ends] == [CUT_OFF] * CHECKPOINTS[name] + [0]
    assert result(ends[-1][1]) == result(lines)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_the_market_costs_a_program_one_import_and_three_calls(name: str):
    tree = ast.parse((PROGRAMS / name / "train.py").read_text())
    imported = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "laissez.sdk"
        for alias in node.names
    ]
    calls = [node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    assert sorted(imported) == ["checkpoint", "progress", "resume"]
    assert sorted(call for call in calls if call in imported) == sorted(imported)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_its_job_file_is_valid_and_its_directory_small(name: str):
    described = jobfile.load(PROGRAMS / name / "job.yaml")
    assert described.spec["agent"] == {"policy": "break_even"}
    assert len(archive.pack(described.directories[None])) < 20_000


def test_the_transformers_gradient_is_the_slope_of_its_loss(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(PROGRAMS / "vision_transformer"))
    images = importlib.import_module("images")
    transformer = importlib.import_module("transformer")
    rng = np.random.default_rng(0)
    parameters = transformer.initial_parameters(rng)
    patches = images.draw(3, rng)
    hidden = rng.random(patches.shape[:2]) < 0.4
    gradients = transformer.loss_and_gradients(parameters, patches, hidden)[1]
    step = 1e-6
    for name, values in parameters.items():
        place = tuple(rng.integers(size) for size in values.shape)
        before, losses = values[place], []
        for moved in (before + step, before - step):
            values[place] = moved
            losses.append(transformer.loss_and_gradients(parameters, patches, hidden)[0])
        values[place] = before
        assert gradients[name][place] == pytest.approx((losses[0] - losses[1]) / (2 * step), abs=1e-7), name
