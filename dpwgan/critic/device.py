"""Which device trains, on how many threads, decided before TensorFlow makes anything; and how steps are compiled."""

import logging
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from dpwgan.errors import ResourceError

# TensorFlow reads these when it is first imported. Its own notices are about its build, not about the run.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Nor does it need Keras, which takes a second: named another one, TensorFlow leaves it until somebody asks for it.
_KERAS = "TF_USE_LEGACY_KERAS"
_asked = os.environ.get(_KERAS)
os.environ[_KERAS] = "1"

import tensorflow as tf  # noqa: E402

os.environ.pop(_KERAS)
if _asked is not None:
    os.environ[_KERAS] = _asked

logging.getLogger("tensorflow").setLevel(logging.ERROR)

compile_step = partial(tf.function, autograph=False)
"""As `tf.function`, but Python's own loops and conditions are those of the trace: values decide nothing there."""


# What a GPU takes to start, and one that is newer than TensorFlow's kernels to compile them: steps that a processor
# takes in less gain nothing there.
_GPU_PAYS_FROM = 60.0


def prepare_device(device: str, *, threads: int | None, seconds: float = math.inf) -> str:
    """Sets the threads and gives the name of the device to train on.

    `device` is cpu, gpu or auto: a GPU if TensorFlow sees one and `seconds`, what the steps are expected to take on two
    cores, are worth it. Threads can only be set before TensorFlow starts; asking again for what is set is fine.
    Raises: ResourceError if a GPU is asked for and there is none, or the threads cannot be set any more.
    """
    if threads is not None:
        settings = tf.config.threading
        try:
            settings.set_intra_op_parallelism_threads(threads)
            settings.set_inter_op_parallelism_threads(min(threads, 2))
        except RuntimeError:
            if settings.get_intra_op_parallelism_threads() != threads:
                raise ResourceError(
                    "the number of threads cannot be changed any more: TensorFlow is running in this process already"
                ) from None
    # TensorFlow 2.15 would let a GPU round the factors of a product to 10 bits, and clipped gradients would come out up
    # to 0.1% too long.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    if device == "cpu" or (device == "auto" and seconds < _GPU_PAYS_FROM):
        return "/CPU:0"
    if tf.config.list_physical_devices("GPU"):
        return "/GPU:0"
    if device == "gpu":
        raise ResourceError("a GPU was asked for and TensorFlow sees none")
    return "/CPU:0"


@contextmanager
def on_device(device: str, *, threads: int | None, seconds: float) -> Iterator[None]:
    """Puts what TensorFlow makes in the block on the device that `prepare_device` finds.

    Raises: ResourceError if the device is not there, or runs out of memory in the block.
    """
    name = prepare_device(device, threads=threads, seconds=seconds)
    try:
        with tf.device(name):
            yield
    except tf.errors.ResourceExhaustedError:
        raise ResourceError(f"the device {name} ran out of memory: use smaller layers or batches") from None
