"""All that is wrong with a specs file, gathered so that it can be told at once."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dpwgan.errors import SpecsError, say_count


@dataclass
class Problems:
    """What was found so far, in the order of the checks.

    `skipped` are columns of which nothing can be said, because what they are derived from is wrong.
    """

    found: list[SpecsError] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Keeps the SpecsError that is raised within, and goes on behind it."""
        try:
            yield
        except SpecsError as error:
            self.found.append(error)

    @property
    def columns(self) -> set[str]:
        """The entries that something is wrong with."""
        return {error.column for error in self.found if error.column is not None}

    def concern(self, text: object) -> bool:
        """Whether a text mentions a column with a problem, so that it cannot be judged."""
        names = {*self.columns, *self.skipped}
        return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", str(text)) for name in names)

    def raise_if_any(self) -> None:
        """Raises: SpecsError, the first, which says that there are more and how to see them."""
        if len(self.found) < 2:
            for error in self.found:
                raise error
            return
        first, left = self.found[0], len(self.found) - 1
        raise SpecsError(
            f"{str(first).rstrip('.')}; and {say_count(left, 'more problem')}: "
            "`python -m dpwgan specs check` lists all.",
            column=first.column,
        )
