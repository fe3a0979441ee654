"""Small generated pictures of shapes, endless and free of downloads."""

import numpy as np
from numpy.typing import NDArray

SIDE = 16
PATCH = 4
PATCHES = (SIDE // PATCH) ** 2
PIXELS = PATCH * PATCH

Floats = NDArray[np.float64]


def draw(count: int, rng: np.random.Generator) -> Floats:
    """`count` pictures of a disc, square, ring, cross or stripes, with noise, cut up: count x PATCHES x PIXELS."""
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    centre = rng.uniform(6, SIDE - 6, (2, count, 1, 1))
    size = rng.uniform(3.5, 5.5, (count, 1, 1))
    down, across = rows - centre[0], columns - centre[1]
    distance = np.hypot(down, across)
    shapes = np.stack(
        [
            distance < size,
            np.maximum(abs(down), abs(across)) < size,
            abs(distance - size) < 1.2,
            np.minimum(abs(down), abs(across)) < size / 3,
            (rows + across / size * 2) % (size * 1.6) < size * 0.8,
        ]
    )
    picture = shapes[rng.integers(len(shapes), size=count), np.arange(count)].astype(np.float64)
    picture = picture * rng.uniform(0.6, 1.0, (count, 1, 1)) + rng.normal(0, 0.05, picture.shape)
    cells = picture.reshape(count, SIDE // PATCH, PATCH, SIDE // PATCH, PATCH)
    return cells.transpose(0, 1, 3, 2, 4).reshape(count, PATCHES, PIXELS)
