"""The noise of a step: normal, independent, fresh, of the stddev asked for, on both paths."""

import functools
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
import randomgen
import tensorflow as tf
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from dpwgan.critic.noise import count_pairs, make_normal_numbers
from dpwgan.privacy.mechanisms import normal_numbers
from dpwgan.privacy.mechanisms.normal_numbers import END, StepNoise, draw_normal_numbers, draw_words
from tests.normal_law import FALSE_ALARM, has_variance

PATHS: tuple[StepNoise, ...] = ("fast", "plain")
WAYS = (*PATHS, "cluster")
MANY = 400_000


def draw(size: int, *, path: str, key: int = 1, stddev: float = 1.0) -> npt.NDArray[np.float32]:
    rng = np.random.Generator(randomgen.AESCounter(key=key))
    if path == "cluster":
        return make_in_cluster(draw_words(count_pairs([size]), rng=rng)[0], shape=[size], stddev=stddev)
    return draw_normal_numbers(size, stddev=stddev, rng=rng, step_noise=path)  # type: ignore[arg-type]


@pytest.mark.statistical
@pytest.mark.parametrize("path", WAYS)
def test_numbers_are_normal_when_they_are_many(path):
    numbers = draw(MANY, path=path, stddev=3.0).astype(np.float64) / 3.0
    assert stats.kstest(numbers, "norm").pvalue > FALSE_ALARM
    assert has_variance(numbers)
    assert abs(numbers.mean()) < 5 / np.sqrt(MANY)
    # Far out, where a coarse uniform would show.
    for bound in (3.0, 4.0):
        expected = 2 * stats.norm.sf(bound) * MANY
        assert abs(np.sum(np.abs(numbers) > bound) - expected) < 6 * np.sqrt(expected)
    # The twin: noise a tenth too low must be found out, on as few as 5,000 numbers.
    assert not has_variance(0.9 * numbers[:5_000])


@pytest.mark.statistical
@pytest.mark.parametrize("path", WAYS)
def test_numbers_do_not_depend_on_each_other_when_they_come_of_one_block(path):
    numbers = draw(1 << 17, path=path).astype(np.float64)
    # Both numbers of a pair share a radius: 2^16 places apart. Squares would tell.
    for lag in (1, 2, 1 << 14, 1 << 15, 1 << 16):
        for seen in (numbers, np.square(numbers) - 1.0):
            correlation = np.corrcoef(seen[:-lag], seen[lag:])[0, 1]
            assert abs(correlation) < 6 / np.sqrt(len(numbers) - lag)
    halves = numbers[: 1 << 16], numbers[1 << 16 :]
    corners = np.histogram2d(stats.norm.cdf(halves[0]), stats.norm.cdf(halves[1]), bins=16, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(corners.ravel()).pvalue > FALSE_ALARM
    # The twin: one radius for two pairs is found out by its squares.
    twin = np.concatenate([halves[0], -halves[0]])
    assert abs(np.corrcoef(np.square(twin[: 1 << 16]), np.square(twin[1 << 16 :]))[0, 1]) > 0.9


@pytest.mark.parametrize("path", WAYS)
@pytest.mark.parametrize("size", [0, 1, 2, 65_535, 65_537])
def test_as_many_numbers_come_as_were_asked_for_when_blocks_do_not_fit(path, size):
    numbers = draw(size, path=path)
    assert numbers.shape == (size,)
    assert numbers.dtype == np.float32
    assert np.all(np.isfinite(numbers))
    assert len(np.unique(numbers)) > 0.99 * size - 1


@pytest.mark.parametrize("path", PATHS)
def test_numbers_are_fresh_when_they_are_drawn_again_and_the_same_when_the_key_is(path):
    rng = np.random.Generator(randomgen.AESCounter(key=1))
    first, second = (draw_normal_numbers(1_000, stddev=1.0, rng=rng, step_noise=path) for _ in range(2))
    assert not np.intersect1d(first, second).size > 10
    np.testing.assert_array_equal(first, draw(1_000, path=path))
    assert not np.array_equal(first, draw(1_000, path=path, key=2))


def turn_words(
    monkeypatch: pytest.MonkeyPatch, *, size: int, where: str, radius: int, angle: int, refining: int
) -> npt.NDArray[np.float32]:
    """Makes numbers, with numpy or in a compiled cluster, of one word for all radii, that many 2^32ths beyond END, one
    for all angles, and 64 bits that refine each end."""
    words = np.repeat(np.array([(radius + END) % 2**32, angle], np.uint32), size // 2)
    taken = [np.full(size // 2, refining, np.uint64).view(np.uint32), words]
    monkeypatch.setattr(normal_numbers, "_take_words", lambda stream, count: taken.pop()[:count])
    drawn = draw_words(size // 2, rng=np.random.default_rng(0))[0]
    if where == "numpy":
        return normal_numbers.make_normal_numbers(drawn, stddev=1.0)
    return make_in_cluster(drawn, shape=[size], stddev=1.0)


@functools.cache
def compile_cluster(*shape: int, stddev: float) -> Callable[[tf.Tensor], tf.Tensor]:
    made: Callable[[tf.Tensor], tf.Tensor] = tf.function(
        lambda drawn: make_normal_numbers(drawn, shape=shape, stddev=stddev), jit_compile=True
    )
    return made


@pytest.fixture(autouse=True, scope="module")
def let_go_of_clusters() -> Iterator[None]:
    """Before TensorFlow is gone."""
    yield
    compile_cluster.cache_clear()


def make_in_cluster(words: npt.NDArray[np.uint32], *, shape: Sequence[int], stddev: float) -> npt.NDArray[np.float32]:
    made: npt.NDArray[np.float32] = compile_cluster(*shape, stddev=stddev)(tf.constant(words)).numpy()
    return made


@pytest.mark.parametrize("where", ["numpy", "cluster"])
@pytest.mark.parametrize("word", [0, 2**32 - 1])
def test_fast_numbers_stay_finite_when_words_are_at_their_ends(monkeypatch, where, word):
    numbers = turn_words(monkeypatch, size=10, where=where, radius=word, angle=word, refining=word << 32 | word)
    assert np.all(np.isfinite(numbers))
    assert np.max(np.abs(numbers)) < 11.6


@pytest.mark.parametrize("where", ["numpy", "cluster"])
@pytest.mark.parametrize("refining", [0, 1 << 40, (1 << 63) + 12_345, 2**64 - 1])
@pytest.mark.parametrize("word", [0, 1, 77, (1 << 23) - 1, 2**32 - 1, 2**32 - 2, 2**32 - (1 << 23), 1 << 31, 1 << 23])
def test_fast_radius_is_that_of_all_its_bits_when_words_are_near_an_end(monkeypatch, where, word, refining):
    pair = turn_words(monkeypatch, size=2, where=where, radius=word, angle=12_345, refining=refining)
    near = word < 1 << 23 or word >= 2**32 - (1 << 23)
    uniform = Fraction(2 * word + 1, 2**33) if not near else Fraction(word * 2**65 + 2 * refining + 1, 2**97)
    with localcontext(prec=60):
        logarithm = (Decimal(uniform.numerator) / Decimal(uniform.denominator)).ln()
        expected = float((-2 * logarithm).sqrt())
    assert np.hypot(*pair) == pytest.approx(expected, rel=1e-5)
    # The twin: 32 bits alone miss what lies at the ends.
    if word in (0, 2**32 - 1) and refining == 0:
        coarse = np.sqrt(-2 * np.log(np.float32((word + 0.5) * 2.0**-32)))
        assert abs(coarse - expected) > 0.1 * expected


@pytest.mark.parametrize("shape", [(200_000,), (199_999,), (501, 399), (2, 3, 5, 40), (1, 7)])
def test_cluster_makes_the_numbers_that_numpy_makes_when_words_are_the_same(shape):
    words = draw_words(count_pairs(shape), rng=np.random.Generator(randomgen.AESCounter(key=3)))[0]
    # Angles at and beside each quarter of a turn, where a sign would tell.
    quarters = np.arange(4, dtype=np.uint32) << np.uint32(30)
    beside = np.concatenate([quarters, quarters + np.uint32(1), quarters - np.uint32(1)])
    words[1, :12] = beside[: words.shape[1]]
    made = make_in_cluster(words, shape=shape, stddev=3.0)
    assert made.shape == shape
    # numpy's come pair by pair: all cosines, then all sines. Rows beyond the last are left out.
    exact = normal_numbers.make_normal_numbers(words, stddev=3.0)
    radius = np.tile(np.hypot(*exact.reshape(2, -1).astype(np.float64)), 2)
    assert np.max(np.abs(made.ravel() - exact[: made.size]) / radius[: made.size]) < 2e-5
    assert np.count_nonzero(made) == made.size


def test_words_are_those_of_the_standard_counter_mode_when_the_key_is_known():
    class Key:
        """A stream whose next 128 bits are the key of the standard's example."""

        def bytes(self, size: int) -> bytes:
            assert size == 16
            return bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")

    # AES-128 of the counters 2 and 3 under that key, one block at a time.
    cipher = Cipher(algorithms.AES128(Key().bytes(16)), modes.ECB()).encryptor()
    expected = np.frombuffer(cipher.update(bytes(15) + b"\x02" + bytes(15) + b"\x03"), np.uint32).copy()
    words = draw_words(4, rng=Key())[0]  # type: ignore[arg-type]
    inside = expected[:4] >= 2 * END
    np.testing.assert_array_equal(words[0][inside], expected[:4][inside])
    np.testing.assert_array_equal(words[1], expected[4:])


@pytest.mark.parametrize(("half", "sets"), [(1, 1), (1, 3), (65_535, 1), (65_536, 2), (65_537, 1), (70_000, 3)])
def test_no_word_comes_twice_when_blocks_do_not_fit(half, sets):
    words = draw_words(half, rng=np.random.Generator(randomgen.AESCounter(key=5)), sets=sets)
    assert words.shape == (sets, 2, half)
    assert words.ctypes.data % 64 == 0
    # Neighbouring words as 64 bits: of so few none comes twice, unless a block of the counter does.
    pairs = words.ravel()[: 2 * (len(words.ravel()) // 2)].view(np.uint64)
    assert len(np.unique(pairs)) == len(pairs)
