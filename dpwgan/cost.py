"""What a plan is expected to take, from public facts alone."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a run is expected to take on two cores. Units: bytes at the peak, and seconds.

    `row_bytes`: what the rows take, which is on disk instead where they are. `working_bytes`: all else.
    """

    row_bytes: int = 0
    working_bytes: int = 0
    seconds: float = 0.0

    @property
    def memory_bytes(self) -> int:
        """All memory, where the rows are in memory."""
        return self.row_bytes + self.working_bytes

    def __add__(self, other: "Cost") -> "Cost":
        """Both, one after the other, where the first keeps its memory."""
        return Cost(
            row_bytes=self.row_bytes + other.row_bytes,
            working_bytes=self.working_bytes + other.working_bytes,
            seconds=self.seconds + other.seconds,
        )
