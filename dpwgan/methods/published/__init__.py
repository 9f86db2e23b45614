"""Published methods to compare with, whole: the registry names them, and query-gan takes its one-layer oracle from here."""
