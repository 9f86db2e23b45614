"""Every method by its name on the command line."""

from pathlib import Path

from dpwgan.critic.sampler import MlpSampler
from dpwgan.errors import UsageError
from dpwgan.gaussians.projected_gaussian import PROJECTED_FILE, ClassSampler
from dpwgan.images.sampler import GaussianImages
from dpwgan.marginals.mixture_sampler import MIXTURE_FILE, MixtureSampler
from dpwgan.methods.base import FittedSynthesizer, Method
from dpwgan.methods.dp_wgan import DpWgan
from dpwgan.methods.independent import Independent
from dpwgan.methods.published.dp_critic import DpCritic
from dpwgan.methods.published.dp_gan import DpGan
from dpwgan.methods.published.image_samplers import ConvSampler, LabelledSampler, SmoothSampler
from dpwgan.methods.published.loss_noise_gan import LossNoiseGan
from dpwgan.methods.published.refined_table import REFINED_FILE, RefinedTable
from dpwgan.methods.published.ron_dp_gan import RonDpGan
from dpwgan.methods.query_gan import QueryGan
from dpwgan.methods.ron_gauss import RonGauss

METHODS: dict[str, type[Method]] = {
    DpWgan.name: DpWgan,
    QueryGan.name: QueryGan,
    DpGan.name: DpGan,
    RonDpGan.name: RonDpGan,
    RonGauss.name: RonGauss,
    DpCritic.name: DpCritic,
    LossNoiseGan.name: LossNoiseGan,
    Independent.name: Independent,
}

# Which model lies in a folder is told by a file of its own; one that has none is a perceptron's.
_SAMPLERS = (
    (MIXTURE_FILE, MixtureSampler),
    # A model with a prior holds the prior's files as well: the model's own come first.
    (REFINED_FILE, RefinedTable),
    ("smooth.npz", SmoothSampler),
    (PROJECTED_FILE, ClassSampler),
    ("image_gaussian.npz", GaussianImages),
    ("convolutions.npz", ConvSampler),
    ("labelled.npz", LabelledSampler),
)


def get_method(name: str) -> Method:
    """Finds a method by its name. Raises: UsageError for a name that is none."""
    if name not in METHODS:
        raise UsageError(f"there is no method of that name; there is {', '.join(METHODS)}")
    return METHODS[name]()


def load_synthesizer(directory: Path) -> FittedSynthesizer:
    """Reads a fitted model back from its folder. Raises: InputError if it is missing or damaged."""
    for file, sampler in _SAMPLERS:
        if (directory / file).exists():
            return sampler.load(directory)
    return MlpSampler.load(directory)
