"""Fine-tunes pre-trained word vectors and a small classifier on support tickets, with Adam, in NumPy.

Runs on a laptop (`python train.py`) and on a market of accelerators alike: the lines marked (1), (2) and (3) are all
that makes it resumable and migratable. The last line printed names the hash of the final parameters.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hashlib
import json
from pathlib import Path

import numpy as np
from corpus import LABELS, VOCABULARY, pretrained_embeddings, write_tickets

from laissez.sdk import checkpoint, progress, resume

STEPS = 400
CHECKPOINTS = 4
BATCH = 256
LEARNING_RATE = 1.5e-3
DIMENSIONS, HIDDEN = 24, 48


class Training:
    """Parameters, the optimiser's moments, the random generator and the step: everything a checkpoint has to hold."""

    def __init__(self, seed: int = 7) -> None:
        self.rng = np.random.default_rng(seed)
        self.step = 0
        self.parameters = {
            "embedding": pretrained_embeddings(DIMENSIONS, seed=seed + 1),
            "hidden": self.rng.normal(0, DIMENSIONS**-0.5, (DIMENSIONS, HIDDEN)),
            "hidden_bias": np.zeros(HIDDEN),
            "output": self.rng.normal(0, 0.05, (HIDDEN, len(LABELS))),
            "output_bias": np.zeros(len(LABELS)),
        }
        self.mean = {name: np.zeros_like(value) for name, value in self.parameters.items()}
        self.square = {name: np.zeros_like(value) for name, value in self.parameters.items()}
        self.tickets = write_tickets(6000, seed=seed + 2)

    def train_one_step(self) -> float:
        """One batch forward, backward and an Adam update; returns the batch's cross-entropy."""
        chosen = self.rng.integers(len(self.tickets.labels), size=BATCH)
        words, labels = self.tickets.words[chosen], self.tickets.labels[chosen]
        p = self.parameters
        pooled = p["embedding"][words].mean(axis=1)
        hidden = np.tanh(pooled @ p["hidden"] + p["hidden_bias"])
        logits = hidden @ p["output"] + p["output_bias"]
        logits -= logits.max(axis=1, keepdims=True)
        log_odds = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        loss = -float(log_odds[np.arange(BATCH), labels].mean())

        d_logits = (np.exp(log_odds) - np.eye(len(LABELS))[labels]) / BATCH
        d_hidden = (d_logits @ p["output"].T) * (1 - hidden**2)
        d_embedding = np.zeros_like(p["embedding"])
        np.add.at(d_embedding, words, (d_hidden @ p["hidden"].T / words.shape[1])[:, None, :])
        self.update(
            {
                "embedding": d_embedding,
                "hidden": pooled.T @ d_hidden,
                "hidden_bias": d_hidden.sum(axis=0),
                "output": hidden.T @ d_logits,
                "output_bias": d_logits.sum(axis=0),
            }
        )
        return loss

    def update(self, gradients: dict[str, np.ndarray]) -> None:
        """Adam (Kingma and Ba, 2015) with bias correction."""
        self.step += 1
        for name, gradient in gradients.items():
            self.mean[name] += 0.1 * (gradient - self.mean[name])
            self.square[name] += 0.001 * (gradient**2 - self.square[name])
            mean = self.mean[name] / (1 - 0.9**self.step)
            square = self.square[name] / (1 - 0.999**self.step)
            self.parameters[name] -= LEARNING_RATE * mean / (np.sqrt(square) + 1e-8)

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
    print(
        f"{len(VOCABULARY)} words, {len(LABELS)} departments, starting at step {training.step} of {STEPS}", flush=True
    )
    loss = float("nan")
    first = training.step + 1
    while training.step < STEPS:
        loss = training.train_one_step()
        if training.step in (first, STEPS) or training.step % (STEPS // 20) == 0:
            print(json.dumps({"step": training.step, "loss": round(loss, 6)}), flush=True)
        progress(training.step / STEPS, step=training.step, loss=loss)  # (2)
        at_a_quarter = training.step % (STEPS // CHECKPOINTS) == 0 and training.step < STEPS
        checkpoint(training.save, due=at_a_quarter)  # (3)
    print(json.dumps({"final_params_sha256": training.digest(), "loss": loss}), flush=True)


if __name__ == "__main__":
    main()
