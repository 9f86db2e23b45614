"""Small tables and small networks for methods that play a generator against a critic."""

from typing import Any

import numpy as np

from dpwgan.images.basis import SmoothFrame
from dpwgan.images.grid import ImageGrid, find_image_grid
from dpwgan.methods.published.networks import ImageNetworks, Perceptrons, PointNetworks
from dpwgan.table.encoded import TableShape
from tests.critic.tables import make_encoded
from tests.methods.images import make_images

SHARES = np.array([0.5, 0.2, 0.3])


def make_grid(shape: TableShape) -> ImageGrid:
    """Finds the grid of a table of images."""
    grid = find_image_grid(shape, method="m")
    if grid is None:
        raise ValueError("no images")
    return grid


def make_networks(kind: str, records: int = 40, **more: Any) -> ImageNetworks | PointNetworks | Perceptrons:
    """Makes both networks with biases that are not 0, which would hide mistakes."""
    rng = np.random.default_rng(3)
    networks: ImageNetworks | PointNetworks | Perceptrons
    if kind == "images":
        encoded, shape = make_images(records, side=8)
        networks = ImageNetworks(encoded, make_grid(shape), shares=SHARES, latent=5, filters=(3, 4), rng=rng, **more)
    elif kind == "points":
        encoded, shape = make_images(records, side=8)
        frame = SmoothFrame(grid=make_grid(shape), dimension=7)
        centre = frame.to_points(encoded.numbers[:, list(frame.grid.sources)]).mean(axis=0)
        networks = PointNetworks(encoded, frame, shares=SHARES, centre=centre, latent=5, hidden=6, rng=rng, **more)
    else:
        networks = Perceptrons(
            make_encoded(records), latent=5, hidden_generator=(6,), hidden_critic=(7, 5), rng=rng, **more
        )
    for weight in [*networks.critic_weights, *networks.generator_weights]:
        weight.assign(weight + 0.1 * rng.standard_normal(weight.shape))
    return networks
