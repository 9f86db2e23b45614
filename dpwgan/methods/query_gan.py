"""QueryGAN. Fine 2020: Certifiably Accurate Private Data Release with Generative Adversarial Networks, Algorithm 3."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dpwgan.array_types import Arrays, Floats
from dpwgan.marginals.anchor import FittedAnchor, fit_anchor, on_one_thread
from dpwgan.marginals.anchor_plan import AnchorDesign, calibrate_anchor, lay_out_anchor
from dpwgan.marginals.answers.measurements import PAIRS, GroupedRows
from dpwgan.marginals.fit.mixture import Mixture, fit
from dpwgan.marginals.loss import Probabilities, ReleasedLoss
from dpwgan.marginals.rows.mixture_sampler import MixtureSampler
from dpwgan.methods.base import SharedMethod
from dpwgan.methods.published.one_hot_rows import ONE_HOT, OneHotRows
from dpwgan.methods.published.one_layer import (
    WEIGHTS_LABEL,
    OneLayerTerm,
    bound_gain,
    measure_distance,
    measure_one_layer,
    plan_one_layer,
    train_one_layer,
)
from dpwgan.methods.settings import QueryGanSettings
from dpwgan.plan import Cost, Plan, Run
from dpwgan.privacy.certificate import Certificate, bound_worst_error, gaussian_slack
from dpwgan.privacy.events import Gaussian
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import Terms
from dpwgan.table.encoded import TableShape
from dpwgan.table.rows import Rows

CERTIFICATE_LABEL = "certificate"

# A hundredth of the budget bounds the worst of all cells to a few thousandths of the rows, and costs the answers half a
# percent more noise.
_CERTIFICATE_SHARE = 0.01
# Replaced, a record leaves one cell of a pair and enters another: no cell moves by more than 1/n, and neither does the
# largest of all errors. One number does not add up over cells as a vector of counts does.
_CERTIFICATE_REPLACE_ONE_FACTOR = 1.0
_FAILURE_PROBABILITY = 0.05
_RADIUS = 1.0

# The one-layer oracle: its networks get most of the budget, since one-ways are all that they see.
_ONE_LAYER_SHARE = 0.7
_ONE_LAYER_ROUNDS = 8
_REGULARIZATION = 0.3
_ONE_LAYER_STEPS = 200
# Each network is a loss of its own to be differentiated at each step, and one-ways need few codes.
_ONE_LAYER_CODES = 1_000
# What training against the codes, or fitting them to networks, holds at its peak for each code and group: 69 bytes were
# measured.
_BYTES_OF_A_CODES_GROUP = 72
# What a network takes beside rows, and for each of their cells: measured on RAND HIE and adult.
_SECONDS_A_NETWORK, _SECONDS_A_NETWORKS_CELL = 1.7, 2.2e-6


@dataclass(frozen=True, kw_only=True)
class QueryGanDesign:
    """The releases of a run: the anchor's, the one-layer networks' where they play, and the certificate's."""

    settings: QueryGanSettings
    anchor: AnchorDesign
    extra: tuple[Release, ...]

    @property
    def releases(self) -> Sequence[Release]:
        """What to reserve in the ledger."""
        return [*self.anchor.releases, *self.extra]

    @property
    def cost(self) -> Cost:
        """The anchor's, and that of the networks where they play."""
        if self.settings.oracle == "marginals":
            return self.anchor.cost
        width, records = self.anchor.most_width, self.anchor.shape.records
        a_network = _SECONDS_A_NETWORK + records * self.anchor.attributes * _SECONDS_A_NETWORKS_CELL
        return self.anchor.cost + Cost(
            # A network's training keeps the curvature of each row's loss, a float64.
            row_bytes=8 * records,
            working_bytes=_BYTES_OF_A_CODES_GROUP * self.choose_codes(width) * width,
            seconds=self.networks * a_network,
        )

    @property
    def networks(self) -> int:
        """Number of networks that are trained."""
        return sum(release.times for release in self.extra if release.label == WEIGHTS_LABEL)

    def choose_codes(self, width: int) -> int:
        """Chooses how many codes play against networks. Privacy: of the number of groups, which is released."""
        return self.settings.fit.codes or min(_ONE_LAYER_CODES, self.anchor.fit.choose_codes(width))

    def summary(self) -> dict[str, Any]:
        """The settings as JSON-able pairs."""
        return {"oracle": self.settings.oracle, **self.anchor.summary()}


class QueryGan(SharedMethod):
    """A query player that picks the query on which the generator is worst, and a generator that follows the leader.

    The query player is private: the exponential mechanism finds a marginal among all of up to so many attributes, the
    Gaussian mechanism answers it. The generator is refitted to everything measured so far. A last release bounds the
    worst error of the final generator.
    Privacy: one-way counts, selections, answers and certificate, each charged before rows are read; see
      docs/privacy.md. Where the paper's proof does not hold as written, docs/query-gan.md says what stands instead.
    Source: Fine 2020, Algorithm 3; Hardt, Ligett, McSherry 2012, arXiv:1012.4763.
    """

    name = "query-gan"
    title = "Private query release against a generator (QueryGAN)"
    paper = "M. Fine: Certifiably Accurate Private Data Release with Generative Adversarial Networks, 2020"

    def plan(self, shape: TableShape, terms: Terms, *, settings: QueryGanSettings) -> Plan[QueryGanDesign]:
        """Fixes all releases and their noise. Privacy: sees the public shape only. Raises: PrivacyError."""
        networks = settings.oracle == "one-layer"
        anchor = lay_out_anchor(shape, terms, kind="one-ways" if networks else "queries", settings=settings.fit)
        rounds = settings.fit.rounds or _ONE_LAYER_ROUNDS

        def lay_out(scale: float) -> QueryGanDesign:
            extra: Sequence[Release]
            if networks:
                share = _ONE_LAYER_SHARE
                extra = plan_one_layer(
                    rounds,
                    records=shape.records,
                    synthetic_rows=settings.fit.codes or _ONE_LAYER_CODES,
                    attributes=anchor.attributes,
                    regularization=_REGULARIZATION,
                    scale=scale * math.sqrt(1.5 * rounds / share),
                )
            else:
                share = _CERTIFICATE_SHARE
                extra = [plan_certificate(noise_multiplier=scale / math.sqrt(share), records=shape.records)]
            rest = replace(anchor, scale=scale / math.sqrt(1.0 - share))
            return QueryGanDesign(settings=settings, anchor=rest, extra=tuple(extra))

        if not (networks or anchor.fit.ticks):  # one column has no pair, and nothing to certify
            anchor, choice = calibrate_anchor(anchor, terms)
            return Plan(design=QueryGanDesign(settings=settings, anchor=anchor, extra=()), shape=shape, choice=choice)
        choice = terms.calibrate(lambda scale: lay_out(scale).releases)
        return Plan(design=lay_out(choice.noise), shape=shape, choice=choice)

    def fit(self, plan: Plan[QueryGanDesign], run: Run) -> MixtureSampler:
        """Plays the game and certifies its end. Privacy: every release is charged before. Raises: PrivacyError."""
        design = plan.design
        ledger = run.ledger
        # One-ways alone are no progress to show where networks follow.
        networks = design.settings.oracle == "one-layer"
        seen = replace(run, progress=lambda done, of, epsilon: None) if networks else run
        with on_one_thread():
            fitted = fit_anchor(seen, design.anchor)
        if networks:
            real = fitted.table.rows.derive(ONE_HOT)
            probabilities = _play_one_layer(fitted, design, run, real=real)
            certify = partial(_certify_one_layer, real, probabilities, ledger=ledger)
        else:
            probabilities = fitted.make_pure(fitted.generator.probabilities())
            certify = partial(certify_pairs, fitted.table.rows, probabilities, ledger=ledger)
        certificate = None
        if design.extra:
            probabilities, certificate = _keep_certified(probabilities, certify, ledger=ledger)
        return fitted.make_sampler(probabilities, certificate=certificate)


def _keep_certified(
    probabilities: Probabilities, certify: Callable[[], Certificate], *, ledger: Ledger
) -> tuple[Probabilities, Certificate | None]:
    """Has a generator certified, and keeps both together: a certificate holds for the generator that it was made for.

    A certificate that was lost when the run was killed is none: what it would bound is spent.
    """
    if ledger.journal.has_lost(CERTIFICATE_LABEL):
        return probabilities, None

    def act() -> Arrays:
        text = json.dumps(asdict(certify()))
        return {"probabilities": probabilities, "certificate": np.array(text)}

    kept = ledger.keep(CERTIFICATE_LABEL, act, dispensable=True)
    return kept["probabilities"].astype(np.float32), Certificate(**json.loads(str(kept["certificate"])))


def plan_certificate(*, noise_multiplier: float, records: int) -> Release:
    """Says what `certify_pairs` releases, for the ledger to reserve before."""
    return Release(
        label=CERTIFICATE_LABEL,
        event=Gaussian(noise_multiplier=noise_multiplier, replace_one_factor=_CERTIFICATE_REPLACE_ONE_FACTOR),
        times=1,
        mechanism="Gaussian noise on the largest error of a cell of a two-way marginal",
        # The rounding of float64 quotients is far below a millionth of 1/n.
        sensitivity=(1.0 + 1e-6) / records,
    )


def certify_pairs(rows: Rows[GroupedRows], probabilities: Probabilities, *, ledger: Ledger) -> Certificate:
    """Releases a bound on the worst error of the generator over all cells of all two-way marginals of groups.

    Privacy: one number, the largest |share of records - share of generated rows| over all cells. One record moves each
      share by 1/n at most, so it moves the largest difference by 1/n at most, under zero-out and under replace-one. The
      generator is final, made of earlier releases.
    Raises: PrivacyError from the ledger.
    Source: Fine 2020, Definition of alpha-accuracy; `dpwgan.privacy.certificate`, Theorems 1 and 2.
    """
    layout = rows.own.layout

    def find_worst() -> Floats:
        exact = probabilities.astype(np.float64)
        differences = np.abs(rows.sum(PAIRS) / rows.records - (exact.T @ exact) / len(exact))
        for attribute in range(layout.attributes):
            piece = layout.get_slice(attribute)
            differences[piece, piece] = 0.0
        return np.array([differences.max()])

    noisy = ledger.release(CERTIFICATE_LABEL, find_worst)
    slack = gaussian_slack(stddev=noisy.stddev, failure_probability=_FAILURE_PROBABILITY)
    alpha = bound_worst_error(noisy.value, slack=slack, largest_possible=1.0)
    return Certificate(
        kind="two-way marginals",
        statement=(
            "no cell of a two-way marginal, of groups of cells as merged for training, has a share of the generator's "
            "codes, before rows are drawn, that is further than alpha from its share of the table's rows"
        ),
        alpha=alpha,
        failure_probability=_FAILURE_PROBABILITY,
        details={"cells": int(sum(a * b for i, a in enumerate(layout.sizes) for b in layout.sizes[i + 1 :]))},
    )


def _play_one_layer(fitted: FittedAnchor, plan: QueryGanDesign, run: Run, *, real: Rows[OneHotRows]) -> Probabilities:
    """Trains one network after another against the generator, asks each for its mean over the rows, and refits."""
    layout, ledger = fitted.table.layout, run.ledger
    rounds = plan.networks
    first = fitted.generator.probabilities()
    logits = np.log(np.maximum(np.repeat(first, plan.choose_codes(layout.width), axis=0), 1e-9))
    logits += np.float32(0.1) * run.model.standard_normal(logits.shape, dtype=np.float32)
    generator = Mixture(layout.sizes, logits.astype(np.float32))
    losses: list[ReleasedLoss] = [fitted.table.measured]
    rate = plan.settings.fit.fit_learning_rate

    def ask() -> Arrays:
        weights = train_one_layer(real, generator.probabilities(), regularization=_REGULARIZATION, ledger=ledger)
        term = measure_one_layer(real, weights, ledger=ledger)
        return {"weights": term.weights, "target": np.array(term.target), "stddev": np.array(term.stddev)}

    for step in range(rounds):
        name = f"network {step + 1}"
        if ledger.journal.has_lost(name):
            continue
        kept = ledger.keep(name, ask, dispensable=True)
        losses.append(
            OneLayerTerm(
                weights=kept["weights"].astype(np.float64),
                sizes=layout.sizes,
                target=float(kept["target"]),
                stddev=float(kept["stddev"]),
            )
        )
        generator.forget()
        fit(generator, losses, steps=_ONE_LAYER_STEPS, learning_rate=rate, last_rate=rate / 10)
        run.progress(step + 1, rounds, ledger.epsilon_spent())
    return generator.probabilities()


def _certify_one_layer(real: Rows[OneHotRows], probabilities: Probabilities, *, ledger: Ledger) -> Certificate:
    distance, attributes = measure_distance(real, probabilities, ledger=ledger), len(real.own.sizes)
    return Certificate(
        kind="one-layer networks",
        statement=(
            f"no one-layer network on one-hot groups of cells with weights of norm {_RADIUS:g} or less tells the "
            "table's rows from the generator's with a logistic loss below ln 2 - alpha"
        ),
        alpha=bound_gain(distance, attributes=attributes, radius=_RADIUS, failure_probability=_FAILURE_PROBABILITY),
        failure_probability=_FAILURE_PROBABILITY,
        details={"radius": _RADIUS},
    )
