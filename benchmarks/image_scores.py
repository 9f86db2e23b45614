"""Splits public images for benchmarks/images.py, and scores synthetic ones. NOT private.

    python benchmarks/image_scores.py split IMAGES_IDX LABELS_IDX FOLDER
    python benchmarks/image_scores.py score FOLDER SYNTHETIC.npz
    python benchmarks/image_scores.py score FOLDER --reference real|one-ways

`split` writes train.npz, four fifths of the images in a fixed random order, test.npz, the rest, and specs.json.
`score` prints one JSON object:

pc1           distance between the first principal components of the pixels of the training images and of the synthetic
              ones, signs aligned (dpwgan.evaluate.principal): 0 the same, 1.414 at right angles; lower is better
accuracy_lr   share of the real test images that a multinomial logistic regression, trained on the synthetic images and
              their labels, names rightly
accuracy_mlp  the same for a perceptron with a hidden layer of 128
mean_pixel    mean of all synthetic pixels, 0 to 255
"""

import argparse
import json
import math
import sys
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402
from scipy.linalg import eigh  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.neural_network import MLPClassifier  # noqa: E402

from dpwgan.evaluate.principal import score_first_component  # noqa: E402
from dpwgan.images.idx import read_idx  # noqa: E402

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]

TRAINED_ON = 0.8
SEED = 20260101  # of the split and of both classifiers: part of what is measured, and public


class ImagesError(Exception):
    """Images that cannot be split or scored, with the reason in one sentence."""


def split(images: Images, labels: npt.NDArray[Any], folder: Path) -> None:
    """Writes both parts of the images and their specs. Raises: ImagesError if they do not belong together."""
    if images.ndim not in (3, 4) or labels.shape != images.shape[:1]:
        raise ImagesError("the images must be (n, height, width[, channels]), with one label for each")
    if len(images) < 5:
        raise ImagesError("there must be 5 images at least, to have some of both parts")
    order = np.random.default_rng(SEED).permutation(len(images))
    cut = int(TRAINED_ON * len(images))
    for name, rows in (("train", order[:cut]), ("test", order[cut:])):
        np.savez_compressed(folder / f"{name}.npz", images=images[rows], labels=labels[rows].astype(np.int64))
    shape = [*images.shape[1:], 1][:3]
    layout = {"kind": "image", "shape": shape, "pixels": {"prefix": "p", "from": 0}, "label": "label"}
    specs = {"layout": layout, "label": {"type": "enum", "count": int(labels.max()) + 1}}
    (folder / "specs.json").write_text(json.dumps(specs) + "\n")


def read_images(path: Path) -> tuple[Images, Labels]:
    """Reads images and labels as the product writes them.

    Shapes: (n, height, width[, channels]) and (n,).
    """
    with np.load(path, allow_pickle=False) as archive:
        return archive["images"], archive["labels"]


def make_reference(name: str, images: Images, labels: Labels) -> tuple[Images, Labels]:
    """Gives images made of the real ones: `real`, as they are; `one-ways`, each pixel shuffled by itself."""
    if name == "real":
        return images, labels
    rng = np.random.default_rng()
    return rng.permuted(images.reshape(len(images), -1), axis=0).reshape(images.shape), labels


def count_bad(images: Images, labels: Labels, like: Images, classes: int) -> int:
    """Counts rows that the specs do not allow. Raises: ImagesError if the arrays have other shapes or types."""
    if images.dtype != np.uint8 or images.shape[1:] != like.shape[1:] or labels.shape != images.shape[:1]:
        raise ImagesError("the synthetic images have another shape or type than the real ones")
    if labels.dtype.kind != "i":
        raise ImagesError("the synthetic labels are no whole numbers")
    return int(np.count_nonzero((labels < 0) | (labels >= classes)))


def find_component(points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Gives the first principal component of points. Shapes: (n, d) to (d,), of norm 1."""
    width = points.shape[1]
    covariance = np.atleast_2d(np.cov(points.T, bias=True))
    if not covariance.any():
        return np.full(width, 1 / math.sqrt(width))
    return np.asarray(eigh(covariance, subset_by_index=[width - 1, width - 1])[1][:, 0], dtype=np.float64)


def score(images: Images, labels: Labels, folder: Path) -> dict[str, Any]:
    train, _ = read_images(folder / "train.npz")
    test, truth = read_images(folder / "test.npz")
    classes = int(json.loads((folder / "specs.json").read_text())["label"]["count"])
    scored: dict[str, Any] = {"rows": len(images), "bad_rows": count_bad(images, labels, train, classes)}
    if scored["bad_rows"] or not scored["rows"]:
        return scored
    real, ours, asked = (array.reshape(len(array), -1) / 255.0 for array in (train, images, test))
    scored["pc1"] = score_first_component(find_component(real), find_component(ours))
    for name, classifier in (
        ("accuracy_lr", LogisticRegression(C=0.1, max_iter=200)),
        ("accuracy_mlp", MLPClassifier((128,), max_iter=20, random_state=SEED)),
    ):
        if len(np.unique(labels)) < 2:  # a classifier of one class needs no training
            scored[name] = float(np.mean(truth == labels[0]))
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of steps is fixed, for all alike
            scored[name] = float(np.mean(classifier.fit(ours, labels).predict(asked) == truth))
    scored["mean_pixel"] = float(images.mean())
    return scored


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    splitting = commands.add_parser("split")
    for name in ("images", "labels", "folder"):
        splitting.add_argument(name, type=Path)
    scoring = commands.add_parser("score")
    scoring.add_argument("folder", type=Path)
    scoring.add_argument("synthetic", type=Path, nargs="?")
    scoring.add_argument("--reference", choices=("real", "one-ways"))
    asked = parser.parse_args(arguments)
    try:
        if asked.command == "split":
            split(read_idx(asked.images), read_idx(asked.labels), asked.folder)
        elif (asked.synthetic is None) == (asked.reference is None):
            parser.error("give SYNTHETIC.npz, or --reference")
        elif asked.reference is not None:
            made = make_reference(asked.reference, *read_images(asked.folder / "train.npz"))
            print(json.dumps(score(*made, asked.folder)))
        else:
            print(json.dumps(score(*read_images(asked.synthetic), asked.folder)))
    except Exception as error:
        print(f"image_scores: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
