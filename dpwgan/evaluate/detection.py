"""Can a classifier tell synthetic rows from real ones?

Privacy: NOT private.
"""

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from dpwgan.evaluate.tables import ComparedTable

ROWS = 20_000
"""Most rows taken from each table."""


def score_detection(real: ComparedTable, synthetic: ComparedTable, rng: np.random.Generator) -> float | None:
    """Gives the AUC of gradient boosting that tells the tables apart: 0.5 it cannot, 1 it always can.

    As many rows of one table as of the other; trained on half of them and tested on the rest. It sees numbers as they
    are, so that rounding and gaps give a table away. None for tables of fewer than 10 rows.
    Source: the classifier two-sample test, Lopez-Paz and Oquab 2017, arXiv:1610.06545.
    """
    rows = min(real.rows, synthetic.rows, ROWS) // 2 * 2
    if rows < 10:
        return None
    halves = [
        table.numbers[rng.choice(table.rows, rows, replace=False)].reshape(2, rows // 2, -1)
        for table in (real, synthetic)
    ]
    labels = np.repeat([0, 1], rows // 2)
    train, test = (np.concatenate([half[part] for half in halves]) for part in (0, 1))
    model = HistGradientBoostingClassifier(max_iter=50, early_stopping=False, random_state=0).fit(train, labels)
    return float(roc_auc_score(labels, model.predict_proba(test)[:, 1]))
