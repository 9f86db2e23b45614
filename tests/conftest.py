"""For all tests: no example has a time limit, since machines differ and are shared."""

from hypothesis import settings

settings.register_profile("untimed", parent=settings(), deadline=None)
settings.load_profile("untimed")
