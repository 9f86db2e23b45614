"""Independent noisy one-way marginals: the baseline that every other method has to beat."""

from dpwgan.marginals.anchor import fit_anchor
from dpwgan.marginals.anchor_plan import AnchorDesign, plan_anchor
from dpwgan.marginals.rows.mixture_sampler import MixtureSampler
from dpwgan.marginals.settings import AnchorSettings
from dpwgan.methods.base import SharedMethod
from dpwgan.methods.settings import IndependentSettings
from dpwgan.plan import Plan, Run
from dpwgan.privacy.terms import Terms
from dpwgan.table.encoded import TableShape


class Independent(SharedMethod):
    """Draws every column by itself, from its noisy counts.

    Privacy: the one-way counts, with Gaussian noise or, where there are few, Laplace noise; see docs/privacy.md.
    """

    name = "independent"
    title = "Independent noisy one-way marginals"
    paper = "none: a baseline of noise on one-way counts (Dwork and Roth 2014, sections 3.3 and Appendix A)"

    def plan(self, shape: TableShape, terms: Terms, *, settings: IndependentSettings) -> Plan[AnchorDesign]:
        """Fixes the noise. Privacy: sees the public shape only. Raises: PrivacyError."""
        return plan_anchor(shape, terms, kind="one-ways", settings=AnchorSettings(), noise=settings.noise)

    def fit(self, plan: Plan[AnchorDesign], run: Run) -> MixtureSampler:
        """Releases the one-way counts. Privacy: charged before rows are read. Raises: PrivacyError."""
        fitted = fit_anchor(run, plan.design)
        return fitted.make_sampler(fitted.generator.probabilities())
