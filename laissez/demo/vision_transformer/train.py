"""Pre-trains a small vision transformer on generated pictures by filling in hidden patches, with Adam, in NumPy.

Runs on a laptop (`python train.py`) and on a market of accelerators alike: the lines marked (1), (2) and (3) are all
that makes it resumable and migratable. The last line printed names the hash of the final parameters.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hashlib
import json
from pathlib import Path

import numpy as np
from images import PATCHES, draw
from transformer import Parameters, initial_parameters, loss_and_gradients

from laissez.sdk import checkpoint, progress, resume

STEPS = 500
CHECKPOINTS = 5
BATCH = 32
HIDDEN_SHARE = 0.25
LEARNING_RATE = 4e-3


class Training:
    """Parameters, the optimiser's moments, the random generator and the step: everything a checkpoint has to hold."""

    def __init__(self, seed: int = 11) -> None:
        self.rng = np.random.default_rng(seed)
        self.step = 0
        self.parameters = initial_parameters(self.rng)
        self.mean = {name: np.zeros_like(value) for name, value in self.parameters.items()}
        self.square = {name: np.zeros_like(value) for name, value in self.parameters.items()}

    def train_one_step(self) -> float:
        """One batch forward, backward and an Adam update; returns the batch's mean squared error."""
        patches = draw(BATCH, self.rng)
        hidden = self.rng.random((BATCH, PATCHES)) < HIDDEN_SHARE
        loss, gradients = loss_and_gradients(self.parameters, patches, hidden)
        self.update(gradients)
        return loss

    def update(self, gradients: Parameters) -> None:
        """Adam (Kingma and Ba, 2015) with bias correction and a short warm-up."""
        self.step += 1
        rate = LEARNING_RATE * min(1.0, self.step / 40)
        for name, gradient in gradients.items():
            self.mean[name] += 0.1 * (gradient - self.mean[name])
            self.square[name] += 0.001 * (gradient**2 - self.square[name])
            mean = self.mean[name] / (1 - 0.9**self.step)
            square = self.square[name] / (1 - 0.999**self.step)
            self.parameters[name] -= rate * mean / (np.sqrt(square) + 1e-8)

    def save(self, folder: Path) -> None:
        """Writes the whole state; bit-exact, and readable without pickle."""
        arrays = {f"parameter.{name}": value for name, value in self.parameters.items()}
        arrays |= {f"mean.{name}": value for name, value in self.mean.items()}
        arrays |= {f"square.{name}": value for name, value in self.square.items()}
        np.savez(folder / "state.npz", step=self.step, rng=json.dumps(self.rng.bit_generator.state), **arrays)

    def load(self, folder: Path) -> None:
        """The reverse of `save`."""
        with np.load(folder / "state.npz", allow_pickle=False) as state:
            for name in self.parameters:
                self.parameters[name] = state[f"parameter.{name}"]
                self.mean[name] = state[f"mean.{name}"]
                self.square[name] = state[f"square.{name}"]
            self.step = int(state["step"])
            self.rng.bit_generator.state = json.loads(str(state["rng"]))

    def digest(self) -> str:
        """sha256 over all parameters in order of their names."""
        return hashlib.sha256(b"".join(self.parameters[name].tobytes() for name in sorted(self.parameters))).hexdigest()


def main() -> None:
    """Trains to the end from wherever the last checkpoint left off."""
    training = Training()
    if saved := resume():  # (1)
        training.load(saved)
    weights = sum(value.size for value in training.parameters.values())
    print(f"{weights} weights, starting at step {training.step} of {STEPS}", flush=True)
    loss = float("nan")
    first = training.step + 1
    while training.step < STEPS:
        loss = training.train_one_step()
        if training.step in (first, STEPS) or training.step % (STEPS // 20) == 0:
            print(json.dumps({"step": training.step, "loss": round(loss, 6)}), flush=True)
        progress(training.step / STEPS, step=training.step, loss=loss)  # (2)
        at_a_fifth = training.step % (STEPS // CHECKPOINTS) == 0 and training.step < STEPS
        checkpoint(training.save, due=at_a_fifth)  # (3)
    print(json.dumps({"final_params_sha256": training.digest(), "loss": loss}), flush=True)


if __name__ == "__main__":
    main()
