"""Scores tables by SDNist, the evaluator of NIST's Collaborative Research Cycle, in an environment of its own.

    ENVIRONMENT/bin/python benchmarks/sdnist_scores.py REAL TABLE...

REAL is an excerpt of the American Community Survey as SDNist knows it. A TABLE is a synthetic one, or a number from 0
to 1: so large a part of the real rows, to compare with. Printed are K-marginal of all rows, and by PUMA as SDNist's
report has it. `make peers` sets SDNist up; its bins and its score are used as they are, without its report, which needs
data that its package does not bring. This file imports nothing of dpwgan, which is not there.
"""

import argparse
import sys
import warnings

import pandas as pd

NUMBERS = ["AGEP", "POVPIP", "PINCP", "PWGTP", "WGTP"]


def put_in_bins(real: pd.DataFrame, table: pd.DataFrame) -> list[pd.DataFrame]:
    """Puts both tables' numbers into SDNist's bins, which are made of the real ones."""
    from sdnist.report.dataset import binning

    known = {"DENSITY": {"values": {"max": float(real["DENSITY"].max())}}}
    real, table = (binning.bin_density(cells.copy(), known) for cells in (real, table))
    ranked = binning.add_bin_for_NA(binning.percentile_rank_target(real, NUMBERS), real, NUMBERS)
    made = binning.percentile_rank_synthetic(table, real, ranked, NUMBERS)
    made = binning.add_bin_for_NA(made, table, NUMBERS)
    codes = [column for column in real if column not in NUMBERS]
    return [cells.assign(**{column: cells[column].astype(str) for column in codes}) for cells in (ranked, made)]


def main() -> int:
    import sdnist.report.dataset  # noqa: F401 # first, since the two import each other
    from sdnist.metrics.kmarginal import KMarginal

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("real")
    parser.add_argument("tables", nargs="+")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    real = pd.read_csv(arguments.real, dtype={"PUMA": str})
    for name in arguments.tables:
        if name.endswith((".csv", ".csv.gz")):
            table = pd.read_csv(name, dtype={"PUMA": str})
        else:
            table = real.sample(frac=float(name), random_state=1).reset_index(drop=True)
        known, made = put_in_bins(real, table[list(real)])
        scores = [KMarginal(known, made, by).compute_score() for by in ([], ["PUMA"])]
        print(f"{name}: K-marginal {scores[0]:.1f}, by PUMA {scores[1]:.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
