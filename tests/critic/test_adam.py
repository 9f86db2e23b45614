"""Adam against a library's."""

import numpy as np
import pytest
import tensorflow as tf

from dpwgan.critic.adam import Adam


@pytest.mark.parametrize("betas", [(0.0, 0.9), (0.5, 0.999)])
def test_adam_moves_weights_as_another_library_does_when_the_gradients_are_the_same(betas):
    rng = np.random.default_rng(1)
    first = [rng.standard_normal((3, 4)).astype(np.float32), rng.standard_normal(4).astype(np.float32)]
    mine, known = ([tf.Variable(weight) for weight in first] for _ in range(2))
    adam = Adam(mine, learning_rate=0.01, mean_memory=betas[0], square_memory=betas[1])
    library = tf.keras.optimizers.Adam(0.01, beta_1=betas[0], beta_2=betas[1], epsilon=1e-8)
    for _ in range(20):
        gradients = [tf.constant(rng.standard_normal(weight.shape), tf.float32) for weight in first]
        adam.descend(gradients)
        library.apply_gradients(zip(gradients, known, strict=True))
    for one, other in zip(mine, known, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-3, atol=1e-5)
        assert np.abs(one.numpy()).max() > 0
