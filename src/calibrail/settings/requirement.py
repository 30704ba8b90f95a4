"""What must the data show of a threshold before anybody relies on it?"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from calibrail.errors import InputError
from calibrail.record import Record
from calibrail.settings.checks import rate, share
from calibrail.settings.option import option_of, setting
from calibrail.settings.promise import Promise

#: What is asked of a detector that is looked at alone.
OF_ONE_DETECTOR: Final = ("risks", "min_kept")


@dataclass(frozen=True, slots=True)
class Requirement(Record):
    """What a verdict is about, and how sure it has to be.

    Attributes
    ----------
    max_fpr : float or None
        The share of faithful answers that may be flagged; needed for a ``certified`` verdict.
    min_coverage : float or None
        The coverage that the verdict requires; 1 - alpha when left out.
    confidence : float
        Level of every interval and of the verdict.
    assume_independent : bool
        Take every answer as independent, although groups hold several answers of a class. The
        verdict then rests on an assumption, and says so.
    risks : tuple of str
        Find thresholds that keep all of these at once, e.g. ``("precision>=0.9", "recall>=0.8")``.
    min_kept : float or None
        The share of an answer's supported sentences that must be released, on average, above 0;
        needed for a ``certified`` verdict where sentences are removed.

    Raises
    ------
    InputError
        If a value is outside its domain, or limits are given both as risks and by themselves.
    """

    max_fpr: float | None = setting(
        "Share of faithful answers that may be flagged; asks for a verdict.", None
    )
    min_coverage: float | None = setting(
        "Coverage that the verdict requires (default: 1 - alpha).", None
    )
    confidence: float = setting("Level of every interval and of the verdict.", 0.95)
    assume_independent: bool = setting(
        "Count every answer, although answers of one group are alike; the verdict says so.", False
    )
    risks: tuple[str, ...] = setting(
        "Thresholds that keep all of these at once, e.g. 'precision>=0.9'. Repeatable.",
        (),
        flag="risk",
        metavar="RISK",
    )
    min_kept: float | None = setting(
        "With --unit sentence: share of supported sentences that must be kept; asks for a verdict.",
        None,
    )

    later = ("min_kept",)

    def __post_init__(self) -> None:
        share(self.confidence, "confidence")
        for name in ("min_coverage", "max_fpr", "min_kept"):
            if getattr(self, name) is not None:
                rate(getattr(self, name), name)
        if self.min_kept == 0.0:
            raise InputError(
                "min_kept must lie in (0, 1]; got 0, and removing every sentence keeps that much"
            )
        given: object = self.risks
        if isinstance(given, str):
            raise InputError(f"risks must be a list, e.g. [{given!r}]; got one text")
        if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
            raise InputError(f"risks must be a list, e.g. ['fpr<=0.2']; got {given!r}")
        object.__setattr__(self, "risks", tuple(self.risks))
        if self.risks and (self.max_fpr is not None or self.min_coverage is not None):
            raise InputError(
                "with risks, ask for all limits as risks: fpr<=... for max_fpr, recall>=... for "
                "min_coverage"
            )

    def coverage(self, promise: Promise) -> float:
        """Return the coverage that is required: ``min_coverage``, or what the promise aims at."""
        return promise.coverage if self.min_coverage is None else self.min_coverage

    def check(self, promise: Promise) -> None:
        """Refuse a promise that this leaves no room for."""
        if self.risks and (promise.by is not None or promise.beta is not None):
            raise InputError("risks choose one threshold; leave out by and beta")
        if self.risks and promise.unit == "sentence":
            raise InputError("risks are about whole answers; leave out risks or unit='sentence'")
        self.check_unit(promise)
        if self.assume_independent and promise.clustered:
            raise InputError(
                "clustered counts each group once, assume_independent every answer; leave out one"
            )

    def check_unit(self, promise: Promise) -> None:
        """Refuse a share to keep where no sentence is removed."""
        if self.min_kept is not None and promise.unit != "sentence":
            unit = option_of(Promise, "unit", "sentence")
            raise InputError(
                f"min_kept is about the sentences that are kept; give {unit}, or leave it out"
            )
