"""How steps are compiled: as they stand, without TensorFlow's rewriting of their source, which no step has need of."""

from functools import partial

import tensorflow as tf

compile_step = partial(tf.function, autograph=False)
"""As `tf.function`, but Python's own loops and conditions are those of the trace: values decide nothing there."""
