"""Methods of networks without a guarantee, and images with one, on the road from a table to a claim."""

from typing import Any
from unittest import mock

import numpy as np
import pytest

from dpwgan.app.claim import read_claim
from dpwgan.methods.published.gradient_penalty import PrivatePenaltyStep
from tests.end_to_end.bad_inputs import run_inside, write_good
from tests.end_to_end.test_images import check_images, write_images
from tests.end_to_end.test_runs import check_rows

pytestmark = pytest.mark.slow

SHORT = ("--steps", "2", "--batch-size", "8", "--latent", "4", "--critic-steps", "1")
GENERATOR = ("--private-part", "generator", "--steps", "2", "--hidden-generator", "8")


@pytest.mark.parametrize(
    ("method", "flags", "words"),
    [
        ("loss-noise-gan", SHORT, "the gradient of a loss plus noise"),
        ("dp-critic", SHORT, "python -m dpwgan.audit ex-post"),
        ("dp-gan", GENERATOR, ""),
        ("ron-dp-gan", GENERATOR, ""),
    ],
)
def test_claim_is_null_with_the_reason_when_a_method_without_a_guarantee_is_asked_for(
    method, flags, words, tmp_path, capfd
):
    write_good(tmp_path)
    asked = ("data.csv", "out.csv", "specs.json", "2.0", "--method", method)
    assert run_inside(tmp_path, *asked, *flags) == 2
    assert "runs only with --no-guarantee" in capfd.readouterr().err
    assert not (tmp_path / "out.csv").exists()
    assert run_inside(tmp_path, *asked, *flags, "--no-guarantee") == 0
    assert words in capfd.readouterr().err
    check_rows((tmp_path / "out.csv").read_text(), count=60)
    document = read_claim(tmp_path / "out.csv.privacy.json").document
    assert document["guarantee"] is None
    assert words in document["why_no_guarantee"]
    assert document["ledger"][-1]["charged"] == document["ledger"][-1]["reserved"] == 2
    published = document["published"]
    assert (published or {"epsilon": 2.0})["epsilon"] == 2.0
    if flags is GENERATOR:
        # Two steps on sixty rows: what can be proved is hundreds of times what was published.
        assert published["provable_epsilon"] > 100 * published["epsilon"]
        assert run_inside(tmp_path, *asked, "--no-guarantee") == 2  # with its other part it has a guarantee
    elif method == "loss-noise-gan":
        assert published["provable_epsilon"] is None


def test_formal_and_no_guarantee_are_refused_when_given_together(tmp_path, capfd):
    write_good(tmp_path)
    asked = ("data.csv", "out.csv", "specs.json", "2.0", "--method", "dp-critic", "--formal", "--no-guarantee")
    assert run_inside(tmp_path, *asked) == 2
    assert "leave it out" in capfd.readouterr().err


def test_formal_run_on_images_goes_on_with_what_was_kept_when_it_was_stopped(tmp_path):
    class Stopped(Exception):
        """Stands for the end of the process."""

    seen: list[Any] = []
    begun: list[Any] = []
    take = PrivatePenaltyStep.__call__

    def stop_in_the_third(self: PrivatePenaltyStep, rows: Any, **more: Any) -> None:
        if len(seen) == 2:
            raise Stopped
        take(self, rows, **more)
        seen.append([variable.numpy() for variable in self.variables])

    def note_the_first(self: PrivatePenaltyStep, rows: Any, **more: Any) -> None:
        begun.append([variable.numpy() for variable in self.variables])
        take(self, rows, **more)

    write_images(tmp_path, 40, 8, 9)
    asked = ("data.npz", "out.npz", "specs.json", "2.0", "--method", "dp-critic", "--formal", "--checkpoint", "kept")
    asked = (*asked, "--steps", "5", "--batch-size", "8", "--latent", "4")
    with mock.patch.object(PrivatePenaltyStep, "__call__", stop_in_the_third):
        assert run_inside(tmp_path, *asked) != 0
    assert not (tmp_path / "out.npz").exists()
    with mock.patch.object(PrivatePenaltyStep, "__call__", note_the_first):
        assert run_inside(tmp_path, *asked, "--resume") == 0
    # The third step was charged, and is lost; the other two are what the fourth begins with.
    assert len(begun) == 2
    for kept, found in zip(seen[-1], begun[0], strict=True):
        np.testing.assert_array_equal(kept, found)
    document = read_claim(tmp_path / "out.npz.privacy.json").document
    assert [line["charged"] for line in document["ledger"]] == [1, 5]
    check_images(tmp_path / "out.npz", 40, 8, 9)
