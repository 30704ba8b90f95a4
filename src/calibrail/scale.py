"""In which numbers, and in which direction, does a user know a score?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from calibrail.phrases import number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_Values = TypeVar("_Values", float, "NDArray[np.float64]")


@dataclass(frozen=True, slots=True)
class Scale:
    """How values and thresholds of a score are shown.

    Scores are kept so that higher means more likely hallucinated. A column of the data in which
    higher means faithful is kept negated; shown are its own numbers under its own name. This is
    the one place where the two are told apart.

    Parameters
    ----------
    column : str or None
        The column of the data that holds the score, or the user's own function where its values
        are kept negated; None where a score is shown as it is kept.
    negated : bool
        Whether a higher value there means more likely faithful.

    Examples
    --------
    >>> scale = Scale.of({"name": "column", "params": {"column": "dae", "higher": "faithful"}})
    >>> f"flag when {scale.named('dae')} is {scale.reaching} {scale.text(-0.89)}"
    'flag when dae is at most 0.89'
    >>> scale = Scale.of({"name": "novelty", "params": {}})
    >>> f"flag when its {scale.named('novelty')} is {scale.reaching} {scale.text(0.3333)}"
    'flag when its novelty score is at least 0.3333'
    """

    column: str | None = None
    negated: bool = False

    @classmethod
    def of(cls, score: Mapping[str, Any] | None) -> Self:
        """Return the scale of a score by its specification: ``name`` and ``params``."""
        params = (score or {}).get("params") or {}
        match (score or {}).get("name"):
            case "column":
                return cls(str(params["column"]), params["higher"] == "faithful")
            case "custom" if params["higher"] == "faithful":
                return cls(str(params["detector"]).rpartition(":")[2], negated=True)
        return cls()

    def shown(self, value: _Values) -> _Values:
        """Return a value, or an array of values, as the user knows it."""
        return 0.0 - value if self.negated else value

    def in_column(self, value: float | None) -> float | None:
        """Return a value as the column holds it; None without a column or a value."""
        return None if self.column is None or value is None else self.shown(value)

    def text(self, value: float | None, none: str = "none") -> str:
        """Return a value with four significant digits as the user knows it, or a word for None."""
        return none if value is None else number(self.shown(value))

    def named(self, name: str) -> str:
        """Return what a value is called: a column by its name, else the detector's score."""
        return f"{name} score" if self.column is None else name

    @property
    def reaching(self) -> str:
        """Where flagged values lie: ``at least`` or ``at most`` the threshold."""
        return "at most" if self.negated else "at least"

    @property
    def harmless(self) -> str:
        """On which side of the threshold answers pass: ``below`` or ``above``."""
        return "above" if self.negated else "below"

    @property
    def suspicious(self) -> str:
        """On which side of a value more suspicious answers lie: ``above`` or ``below``."""
        return "below" if self.negated else "above"

    @property
    def reversed(self) -> str:
        """What is seen where a score runs the wrong way."""
        if self.negated:
            return f"hallucinated answers have higher values of {self.column} than faithful ones"
        return "faithful answers score higher than hallucinated ones"

    @property
    def meaning(self) -> str:
        """What a higher value means."""
        return f"higher = more likely {'faithful' if self.negated else 'hallucinated'}"
