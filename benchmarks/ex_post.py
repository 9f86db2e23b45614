"""Does the estimated bound mu fall when the critic has a noise layer? Table 2 of Triastcyn and Faltings 2019, in small.

    python benchmarks/ex_post.py MNIST_FOLDER [--steps N] [--seeds N]

MNIST_FOLDER holds t10k-images-idx3-ubyte.gz. For each seed two Wasserstein GANs with gradient penalty are trained on
the 10,000 images, one with the paper's layer in the critic (its 64 features clipped to norm 1, then Gaussian noise of
standard deviation 1.5) and one without; each makes 10,000 images, and dpwgan.audit.ex_post measures them. Prints one
JSON object a line.

What differs from the paper: multilayer perceptrons for convolutions, no labels, far fewer steps, the test images for
the training images, and principal components of pixels for the features of an Inception network. So only the direction
of the table can be looked for. Two releases that are no GAN stand beside: half of the images as a release about
themselves, moved by a hair, and as one about the other half. They show what mu does not see.

Trains with TensorFlow; not private, and no part of the package: the layer gives no guarantee (docs/audit.md).
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from dpwgan.audit.ex_post import EstimateSettings, estimate_divergence, estimate_privacy
from dpwgan.images.idx import read_idx

Images = npt.NDArray[np.float64]

LATENT, HIDDEN, FEATURES = 64, 256, 64
CLIP, NOISE = 1.0, 1.5  # section 5.2
PENALTY, CRITIC_STEPS, BATCH, RATE = 10.0, 5, 64, 1e-4  # section 5.2
DIMENSIONS = 64  # as many as the critic's features
REMOVED = (None, 1, 10, 100)  # the heuristic's choice, and fixed ones


def read_images(folder: Path) -> Images:
    """Gives the images as rows of pixels in [0, 1]. Shapes: (10000, 784)."""
    return read_idx(folder / "t10k-images-idx3-ubyte.gz").reshape(-1, 784).astype(np.float64) / 255.0


def train(images: Images, *, noisy: bool, steps: int, seed: int) -> Images:
    import tensorflow as tf

    tf.random.set_seed(seed)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    data = tf.constant(images, dtype=tf.float32)

    def layer(rows: int, columns: int) -> list[tf.Variable]:
        return [tf.Variable(tf.random.normal([rows, columns]) / np.sqrt(rows)), tf.Variable(tf.zeros([columns]))]

    generator = layer(LATENT, HIDDEN) + layer(HIDDEN, HIDDEN) + layer(HIDDEN, 784)
    critic = layer(784, HIDDEN) + layer(HIDDEN, FEATURES) + layer(FEATURES, 1)

    def generate(latents: tf.Tensor) -> tf.Tensor:
        w1, b1, w2, b2, w3, b3 = generator
        return tf.sigmoid(tf.nn.selu(tf.nn.selu(latents @ w1 + b1) @ w2 + b2) @ w3 + b3)

    def score(rows: tf.Tensor) -> tf.Tensor:
        w1, b1, w2, b2, w3, b3 = critic
        features = tf.nn.selu(tf.nn.selu(rows @ w1 + b1) @ w2 + b2)
        if noisy:
            features = tf.clip_by_norm(features, CLIP, axes=[1]) + NOISE * tf.random.normal(tf.shape(features))
        return features @ w3 + b3

    optimizers = [tf.keras.optimizers.legacy.Adam(RATE, beta_1=0.0, beta_2=0.9) for _ in range(2)]

    @tf.function
    def step() -> None:
        for _ in tf.range(CRITIC_STEPS):
            real = tf.gather(data, tf.random.uniform([BATCH], maxval=len(images), dtype=tf.int32))
            fake = generate(tf.random.normal([BATCH, LATENT]))
            share = tf.random.uniform([BATCH, 1])
            between = share * real + (1.0 - share) * fake
            with tf.GradientTape() as tape:
                with tf.GradientTape() as inner:
                    inner.watch(between)
                    middle = score(between)
                slope = tf.norm(inner.gradient(middle, between) + 1e-12, axis=1)
                loss = tf.reduce_mean(score(fake)) - tf.reduce_mean(score(real))
                loss += PENALTY * tf.reduce_mean(tf.square(slope - 1.0))
            optimizers[0].apply_gradients(zip(tape.gradient(loss, critic), critic, strict=True))
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(score(generate(tf.random.normal([BATCH, LATENT]))))
        optimizers[1].apply_gradients(zip(tape.gradient(loss, generator), generator, strict=True))

    for _ in range(steps):
        step()
    return np.asarray(generate(tf.random.normal([len(images), LATENT])).numpy().astype(np.float64))


def find_components(images: Images) -> tuple[Images, Images]:
    """Gives the mean and the first principal directions of the real images: one measure for all releases."""
    mean = images.mean(axis=0)
    _, directions = np.linalg.eigh(np.cov(images.T))
    return mean, directions[:, ::-1][:, :DIMENSIONS]


def measure(real: Images, artificial: Images, *, seed: int) -> dict[str, object]:
    """Measures one release: mu by how many neighbours are removed, and the divergences both ways.

    The divergence of artificial from real images falls where they are good and grows where some kinds are missing.
    """
    estimates = []
    for removed in REMOVED:
        settings = EstimateSettings(removed=removed, samples=1000)
        estimate = estimate_privacy(real, artificial, settings=settings, rng=np.random.default_rng(seed))
        estimates.append(
            {
                "rows_removed": estimate.measured["rows_removed_for_each"],
                "chosen_by": estimate.measured["rows_removed_chosen_by"],
                "mu": round(estimate.mu, 4),
                "mean_loss": round(float(estimate.measured["mean_loss"]), 8),
            }
        )
    return {
        "divergence_of_real": round(estimate_divergence(real, artificial), 3),
        "divergence_of_artificial": round(estimate_divergence(artificial, real), 3),
        "spread": round(float(artificial.var(axis=0).sum() / real.var(axis=0).sum()), 3),
        "estimates": estimates,
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="MNIST_FOLDER")
    parser.add_argument("--steps", type=int, default=3000, help="generator steps (default 3000)")
    parser.add_argument("--seeds", type=int, default=3, help="GANs of each kind (default 3)")
    asked = parser.parse_args(arguments)
    images = read_images(asked.folder)
    mean, directions = find_components(images)
    real = (images - mean) @ directions

    def show(release: str, seed: int, own: Images, made: Images, **more: object) -> None:
        print(json.dumps({"release": release, "seed": seed, **more, **measure(own, made, seed=seed)}), flush=True)

    rng = np.random.default_rng(0)
    ours, others = np.split(real[rng.permutation(len(real))], 2)
    show("copies of 5000", 0, ours, ours + rng.normal(scale=1e-3, size=ours.shape))
    show("5000 others", 0, ours, others)
    for seed in range(asked.seeds):
        for noisy in (False, True):
            started = time.monotonic()
            made = train(images, noisy=noisy, steps=asked.steps, seed=seed)
            name = "WGAN-GP (DP critic)" if noisy else "WGAN-GP"
            show(name, seed, real, (made - mean) @ directions, seconds=round(time.monotonic() - started))
    return 0


if __name__ == "__main__":
    sys.exit(main())
