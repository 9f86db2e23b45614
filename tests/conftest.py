"""For all tests: as many processes as cores run them, and no example has a time limit, since machines are shared."""

import os

from hypothesis import settings

# Read as these libraries are loaded. With threads of their own beside one another's they wait in loops: of two
# processes on two busy cores scikit-learn's boosting takes twenty times as long.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

settings.register_profile("untimed", parent=settings(), deadline=None)
settings.load_profile("untimed")
