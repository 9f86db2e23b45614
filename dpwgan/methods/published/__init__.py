"""Published methods to compare with, whole. query-gan takes its one-layer oracle from here; nothing else does."""
