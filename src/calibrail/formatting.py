"""Numbers, scores, counts and lists in plain words, and the representation of results."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def percent(share: float) -> str:
    """Return a share as a percentage with at most one decimal, e.g. ``0.934`` as ``93.4%``.

    A share that is not 0 or 1 never reads as 0% or 100%.

    Examples
    --------
    >>> percent(0.95), percent(0.934), percent(0.99999)
    ('95%', '93.4%', '> 99.9%')
    """
    if 0.0 < share < 0.0005:
        return "< 0.1%"
    if 0.9995 <= share < 1.0:
        return "> 99.9%"
    return f"{100.0 * share:.1f}".removesuffix(".0") + "%"


def outward(value: float, digits: int, *, upper: bool) -> str:
    """Return an end of an interval with so many decimals, rounded away from what it holds.

    Examples
    --------
    >>> [outward(value, 2, upper=up) for value in (0.916, 0.29) for up in (False, True)]
    ['0.91', '0.92', '0.29', '0.29']
    """
    # The digits that the number is written with: 100 * 0.29 lies below 29 in binary.
    step, side = Decimal(1).scaleb(-digits), ROUND_CEILING if upper else ROUND_FLOOR
    exact = Decimal(repr(float(value))).quantize(step, side)
    return f"{exact + 0:f}"


def lower_percent(share: float) -> str:
    """Return a lower bound in percent, never above it.

    >>> lower_percent(0.916656), lower_percent(0.29), lower_percent(0.99999)
    ('91.6%', '29%', '99.9%')
    """
    return _percent_end(share, upper=False)


def upper_percent(share: float) -> str:
    """Return an upper bound in percent, never below it.

    >>> upper_percent(0.916656), upper_percent(0.0), upper_percent(1e-9)
    ('91.7%', '0%', '0.1%')
    """
    return _percent_end(share, upper=True)


def floor_percent(share: float) -> str:
    """Return a confidence, or what is asked at least, in percent: never above it.

    It may have been computed from a share that was chosen: what float arithmetic adds is no part.

    >>> floor_percent(0.990625), floor_percent(1.0 - 0.9), floor_percent(1.0 - 1.0 / 3.0)
    ('99%', '10%', '66.6%')
    """
    return lower_percent(round(share, _NOISE))


def ceiling_percent(share: float) -> str:
    """Return the probability of an error, or what is allowed at most, in percent: never below it.

    >>> ceiling_percent(0.009375), ceiling_percent(1.0 - 0.95)
    ('1%', '5%')
    """
    return upper_percent(round(share, _NOISE))


#: Decimals up to which sums of shares are what they are in exact arithmetic.
_NOISE: Final = 12


def _percent_end(share: float, *, upper: bool) -> str:
    end = Decimal(outward(share, 3, upper=upper)) * 100
    return f"{end:.1f}".removesuffix(".0") + "%"


def upward(value: float, digits: int = 2) -> str:
    """Return a p-value with so many significant digits, never below it.

    >>> upward(0.0451), upward(0.0123, 4), upward(1.0), upward(0.0), upward(3.21e-9)
    ('0.046', '0.0123', '1', '1e-300', '3.3e-09')
    """
    # What is too small for a number is no 0.
    exact = Decimal(f"{max(value, 1e-300):.{_NOISE}g}")
    step = Decimal(1).scaleb(exact.adjusted() + 1 - digits)
    return f"{float(exact.quantize(step, ROUND_CEILING)):.{digits}g}"


def number(value: float, digits: int = 4) -> str:
    """Return a score or a measure with four significant digits, or all digits before the point.

    Examples
    --------
    >>> number(0.123456), number(12.0), number(-2e-9), number(11068.42)
    ('0.1235', '12', '-2e-09', '11,068')
    """
    large = 10.0**digits <= abs(value) < 1e15
    return f"{value:,.0f}" if large else f"{value:.{digits}g}"


def exact(value: float) -> str:
    """Return a threshold in the fewest digits that are this very number, to be typed in.

    >>> exact(3 / 7), exact(12.0), exact(11068.42), exact(-0.0)
    ('0.42857142857142855', '12', '11068.42', '0')
    """
    return repr(float(value) + 0.0).removesuffix(".0")


def count(value: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, e.g. ``1 example`` or ``1,200 examples``.

    Examples
    --------
    >>> count(1, "example"), count(1200, "example")
    ('1 example', '1,200 examples')
    """
    return f"{value:,} {noun if value == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Return a time with three digits at least, in a unit in which it is easy to read.

    Examples
    --------
    >>> duration(2230.4), duration(287.0), duration(1.5), duration(0.0123), duration(2e-6)
    ('2,230 s', '287 s', '1.5 s', '12.3 ms', '2 µs')
    """
    if seconds >= 99.95:
        return f"{seconds:,.0f} s"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} \N{MICRO SIGN}s"


def listed(names: list[str]) -> str:
    """Return names as an enumeration: ``a``, ``a and b``, ``a, b and c``.

    Examples
    --------
    >>> listed(["length", "novelty", "rouge_l"])
    'length, novelty and rouge_l'
    """
    return "".join(names) if len(names) < 2 else ", ".join(names[:-1]) + " and " + names[-1]


def spoken_time(seconds: float) -> str:
    """Return a time as people say it.

    >>> spoken_time(8.2), spoken_time(100), spoken_time(720), spoken_time(9000)
    ('9 s', '100 s', '12 min', '2.5 h')
    """
    if seconds < 120.0:
        return f"{int(seconds) + (seconds % 1 > 0)} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7200.0 else f"{seconds / 3600.0:.1f} h"


_Values = TypeVar("_Values", float, "NDArray[np.float64]")


#: Names of thresholds and other values of a score in JSON.
_EDGES: Final = (
    *("threshold", "shared_threshold", "pass_below", "flag_above", "weighted_threshold"),
    *("thresholds", "mean", "edges"),
)


#: Characters of a threshold that nobody minds to type.
_SHORT: Final = 8


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
    >>> f"flag when {scale.named('dae')} is {scale.reaching} {scale.edge(-0.89)}"
    'flag when dae is at most 0.89'
    >>> scale = Scale.of({"name": "novelty", "params": {}})
    >>> f"flag when its {scale.named('novelty')} is {scale.reaching} {scale.edge(0.3333)}"
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

    def beside(self, content: Any) -> Any:
        """Return JSON with ``column_NAME``, the user's number, beside each value of the score."""
        if self.column is None:
            return content
        if isinstance(content, list | tuple):
            return [self.beside(item) for item in content]
        if not isinstance(content, Mapping):
            return content
        own = self.in_column
        edges = {f"column_{name}": content[name] for name in _EDGES if name in content}
        edges = {
            name: list(map(own, value)) if isinstance(value, list) else own(value)
            for name, value in edges.items()
        }
        return {name: self.beside(value) for name, value in content.items()} | edges

    def text(self, value: float | None, none: str = "none") -> str:
        """Return a value with four significant digits as the user knows it, or a word for None."""
        return none if value is None else number(self.shown(value))

    def edge(self, value: float | None, none: str = "none") -> str:
        """Return a threshold with all its digits as the user knows it, or a word for None."""
        return none if value is None else exact(self.shown(value))

    def to_try(self, value: float, below: float | None) -> str:
        """Return a threshold to type in that flags what this one flags, in few digits.

        Every number beyond the next score ``below`` it, up to the threshold itself, does.

        >>> Scale().to_try(3 / 7, 0.4), Scale().to_try(0.32299999999999995, 0.3219)
        ('0.42', '0.322')
        >>> Scale("dae", negated=True).to_try(-0.32299999999999995, -0.33)
        '0.323'
        """
        text = self.edge(value)
        if below is None or len(text) <= _SHORT:
            return text
        end, apart = self.shown(value), self.shown(below)
        places = range(17 - Decimal(end).adjusted())
        tried = (float(outward(end, digits, upper=self.negated)) for digits in places)
        return next((exact(x) for x in tried if (x < apart if self.negated else x > apart)), text)

    def cell(self, value: float | None, none: str = "none") -> str:
        """Return a threshold for a table: up to six digits, which flag what all of them flag.

        Rounded is to the side on which at least as much is flagged.

        >>> Scale().cell(3 / 7), Scale("dae", negated=True).cell(-3 / 7)
        ('0.428571', '0.428572')
        """
        if value is None:
            return none
        number = float(self.shown(value))
        size = Decimal(number).adjusted()
        # All digits before the point, of what is no huge number.
        places = max(5 - size, min(0, 15 - size))
        return exact(float(outward(number, places, upper=self.negated)))

    def named(self, name: str) -> str:
        """Return what a value is called: a column by its name, else the detector's score."""
        return f"{name} score" if self.column is None else name

    @property
    def reaching(self) -> str:
        """Where flagged values lie: ``at least`` or ``at most`` the threshold."""
        return "at most" if self.negated else "at least"

    @property
    def least(self) -> str:
        """Which of scores looks most harmless."""
        return "highest" if self.negated else "lowest"

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


class Shown:
    """Gives a result a short ``repr``, a short page and Markdown, from its command's document.

    A result knows the name of its document, never the document: the rooms below ``report`` stay
    below it.
    """

    __slots__ = ()

    #: The module of ``report/documents`` that says what this is.
    shown_as: ClassVar[str]

    def shown(self) -> tuple[Any, ...]:
        """Return what the document is made from."""
        return (self.to_dict(),)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        """Return a few lines, the verdict first."""
        return str(_notebook().lines(type(self).__name__, self.shown_as, self.shown()))

    def _repr_html_(self) -> str:
        """Return the result as a notebook shows it: a short page, in a frame of its own."""
        return str(_notebook().frame(type(self).__name__, self.shown_as, self.shown()))

    def markdown(self) -> str:
        """Return the result as Markdown that a comment on a pull request holds: ``--markdown``."""
        return str(_notebook().comment(self.shown_as, self.shown()))


class ShownContent(Shown):
    """A result whose JSON is its ``content``."""

    __slots__ = ()

    content: Mapping[str, Any]

    @property
    def n_quarantined(self) -> int:
        """Rows that could not be used."""
        return int(self.content["data"]["n_quarantined"])

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the result's JSON file."""
        return dict(self.content)


def _notebook() -> Any:
    return import_module("calibrail.report.html")
