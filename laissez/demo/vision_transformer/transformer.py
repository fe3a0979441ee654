"""A vision transformer and its gradient, in NumPy: patches in, reconstructed patches out (masked pre-training).

Blocks: Dosovitskiy et al., "An image is worth 16x16 words" (2021). Goal: He et al., "Masked autoencoders" (2022).
Shapes: B pictures, N patches, D width, H heads, P pixels a patch.
"""

from collections.abc import Callable

import numpy as np
from images import PATCHES, PIXELS
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Parameters = dict[str, Floats]
Backward = Callable[[Floats], Floats]

WIDTH, HEADS, BLOCKS, EXPANSION = 32, 2, 2, 2


def initial_parameters(rng: np.random.Generator) -> Parameters:
    """Weights scaled by their fan-in, zero biases, unit gains."""
    p: Parameters = {
        "embed": rng.normal(0, PIXELS**-0.5, (PIXELS, WIDTH)),
        "mask": rng.normal(0, 0.1, WIDTH),
        "position": rng.normal(0, 0.1, (PATCHES, WIDTH)),
        "norm.gain": np.ones(WIDTH),
        "norm.shift": np.zeros(WIDTH),
        "predict": rng.normal(0, 0.3 * WIDTH**-0.5, (WIDTH, PIXELS)),
        "predict.bias": np.zeros(PIXELS),
    }
    for block in range(BLOCKS):
        for part in ("attend", "think"):
            p[f"{block}.{part}.gain"] = np.ones(WIDTH)
            p[f"{block}.{part}.shift"] = np.zeros(WIDTH)
        for name in ("query", "key", "value", "join"):
            p[f"{block}.{name}"] = rng.normal(0, WIDTH**-0.5, (WIDTH, WIDTH))
        p[f"{block}.widen"] = rng.normal(0, WIDTH**-0.5, (WIDTH, EXPANSION * WIDTH))
        p[f"{block}.widen.bias"] = np.zeros(EXPANSION * WIDTH)
        p[f"{block}.narrow"] = rng.normal(0, (EXPANSION * WIDTH) ** -0.5, (EXPANSION * WIDTH, WIDTH))
        p[f"{block}.narrow.bias"] = np.zeros(WIDTH)
    return p


class Tape:
    """Layers that remember how to go back; `gradients` fills up on the way back."""

    def __init__(self, parameters: Parameters) -> None:
        self.p = parameters
        self.gradients = {name: np.zeros_like(value) for name, value in parameters.items()}

    def linear(self, x: Floats, weight: str, bias: str | None = None) -> tuple[Floats, Backward]:
        """x @ weight (+ bias)."""

        def backward(d_out: Floats) -> Floats:
            self.gradients[weight] += x.reshape(-1, x.shape[-1]).T @ d_out.reshape(-1, d_out.shape[-1])
            if bias:
                self.gradients[bias] += d_out.reshape(-1, d_out.shape[-1]).sum(axis=0)
            return d_out @ self.p[weight].T

        return (x @ self.p[weight] + (self.p[bias] if bias else 0.0)), backward

    def norm(self, x: Floats, name: str) -> tuple[Floats, Backward]:
        """Layer normalisation over the width."""
        centred = x - x.mean(axis=-1, keepdims=True)
        scale = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
        normal = centred * scale

        def backward(d_out: Floats) -> Floats:
            self.gradients[f"{name}.gain"] += (d_out * normal).sum(axis=(0, 1))
            self.gradients[f"{name}.shift"] += d_out.sum(axis=(0, 1))
            d_normal = d_out * self.p[f"{name}.gain"]
            along = normal * (d_normal * normal).mean(axis=-1, keepdims=True)
            return scale * (d_normal - d_normal.mean(axis=-1, keepdims=True) - along)

        return normal * self.p[f"{name}.gain"] + self.p[f"{name}.shift"], backward

    def attention(self, x: Floats, block: int) -> tuple[Floats, Backward]:
        """Multi-head self-attention: B x N x D in and out."""
        query, query_back = self.linear(x, f"{block}.query")
        key, key_back = self.linear(x, f"{block}.key")
        value, value_back = self.linear(x, f"{block}.value")
        q, k, v = split_heads(query), split_heads(key), split_heads(value)
        scale = q.shape[-1] ** -0.5
        weights = softmax(q @ k.swapaxes(-1, -2) * scale)
        joined, join_back = self.linear(join_heads(weights @ v), f"{block}.join")

        def backward(d_out: Floats) -> Floats:
            d_mixed = split_heads(join_back(d_out))
            d_weights = d_mixed @ v.swapaxes(-1, -2)
            d_scores = weights * (d_weights - (d_weights * weights).sum(axis=-1, keepdims=True)) * scale
            d_value = value_back(join_heads(weights.swapaxes(-1, -2) @ d_mixed))
            return d_value + query_back(join_heads(d_scores @ k)) + key_back(join_heads(d_scores.swapaxes(-1, -2) @ q))

        return joined, backward

    def feed_forward(self, x: Floats, block: int) -> tuple[Floats, Backward]:
        """Widen, rectify, narrow."""
        wide, widen_back = self.linear(x, f"{block}.widen", f"{block}.widen.bias")
        narrow, narrow_back = self.linear(np.maximum(wide, 0.0), f"{block}.narrow", f"{block}.narrow.bias")
        return narrow, lambda d_out: widen_back(narrow_back(d_out) * (wide > 0))


def loss_and_gradients(p: Parameters, patches: Floats, hidden: NDArray[np.bool_]) -> tuple[float, Parameters]:
    """Mean squared error of the hidden patches' pixels, and its gradient. `patches`: B x N x P; `hidden`: B x N."""
    tape = Tape(p)
    embedded, embed_back = tape.linear(patches, "embed")
    x = np.where(hidden[:, :, None], p["mask"], embedded) + p["position"]
    backs: list[Backward] = []
    for block in range(BLOCKS):
        for name, layer in (("attend", tape.attention), ("think", tape.feed_forward)):
            normal, norm_back = tape.norm(x, f"{block}.{name}")
            change, layer_back = layer(normal, block)
            x = x + change
            backs += [layer_back, norm_back]
    normal, norm_back = tape.norm(x, "norm")
    predicted, predict_back = tape.linear(normal, "predict", "predict.bias")
    error = (predicted - patches) * hidden[:, :, None]
    counted = max(1, int(hidden.sum())) * patches.shape[-1]

    d_x = norm_back(predict_back(2 * error / counted))
    for layer_back, block_norm_back in reversed(list(zip(backs[::2], backs[1::2], strict=True))):
        d_x = d_x + block_norm_back(layer_back(d_x))
    tape.gradients["position"] += d_x.sum(axis=0)
    tape.gradients["mask"] += d_x[hidden].sum(axis=0)
    embed_back(np.where(hidden[:, :, None], 0.0, d_x))
    return float((error**2).sum() / counted), tape.gradients


def softmax(x: Floats) -> Floats:
    """Over the last axis, without overflow."""
    raised = np.exp(x - x.max(axis=-1, keepdims=True))
    shares: Floats = raised / raised.sum(axis=-1, keepdims=True)
    return shares


def split_heads(x: Floats) -> Floats:
    """B x N x D to B x H x N x D/H."""
    return x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2)


def join_heads(x: Floats) -> Floats:
    """The reverse of `split_heads`."""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)
