"""Small tables and small networks for methods that play a generator against a critic."""

from typing import Any

import numpy as np

from dpwgan.images.basis import SmoothFrame
from dpwgan.methods.published.networks import ImageNetworks, Perceptrons, PointNetworks
from tests.critic.tables import make_encoded
from tests.images.test_grid import make_grid
from tests.methods.images import make_images

SHARES = np.array([0.5, 0.2, 0.3])
GRID = make_grid((8, 8, 1))


def make_networks(kind: str, records: int = 40, **more: Any) -> ImageNetworks | PointNetworks | Perceptrons:
    """Makes both networks with biases that are not 0, which would hide mistakes."""
    rng = np.random.default_rng(3)
    networks: ImageNetworks | PointNetworks | Perceptrons
    if kind == "images":
        encoded, _ = make_images(records, side=8)
        networks = ImageNetworks(encoded, GRID, shares=SHARES, latent=5, filters=(3, 4), rng=rng, **more)
    elif kind == "points":
        encoded, _ = make_images(records, side=8)
        frame = SmoothFrame(grid=GRID, dimension=7)
        centre = frame.to_points(encoded.numbers[:, list(frame.grid.sources)]).mean(axis=0)
        networks = PointNetworks(encoded, frame, shares=SHARES, centre=centre, latent=5, hidden=6, rng=rng, **more)
    else:
        networks = Perceptrons(
            make_encoded(records), latent=5, hidden_generator=(6,), hidden_critic=(7, 5), rng=rng, **more
        )
    for weight in [*networks.critic_weights, *networks.generator_weights]:
        weight.assign(weight + 0.1 * rng.standard_normal(weight.shape))
    return networks
