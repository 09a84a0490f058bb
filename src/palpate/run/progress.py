"""Progress of a run: the protocols that a reporter follows, and one that does nothing."""

from __future__ import annotations

from typing import Protocol


class ScoringProgress(Protocol):
    """Told how far the scoring is; the command line draws it."""

    def begin(self, model: str, total: int) -> None:
        """`total` inputs are to be scored."""

    def advance(self, n: int) -> None:
        """`n` more inputs are scored."""


class RunProgress(ScoringProgress, Protocol):
    """Told the stages of a run as well."""

    def stage(self, text: str) -> None:
        """What the run does now."""


class NullProgress:
    """Progress reporter that does nothing."""

    def stage(self, text: str) -> None:
        """See `RunProgress`."""

    def begin(self, model: str, total: int) -> None:
        """See `ScoringProgress`."""

    def advance(self, n: int) -> None:
        """See `ScoringProgress`."""
