"""Does a measured figure agree with the published one?

The rule. A published figure is *reproduced* when its distance from the measured estimate is at most

    sqrt(h² + h² · n / m) + r

where h is the distance from the estimate to the end of its 95 % interval on the published side, n
the number of answers measured, m the number behind the published figure (h² · n / m is what its own
sampling adds; nothing where m is unknown), and r half a unit of its last printed digit. An upper
limit (``<0.01``) is reproduced when the estimate is below it. A figure measured with another model
than the paper's is never a verdict: the cell stays *not runnable here*, and says whether the
stand-in would agree.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

Verdict = Literal["reproduced", "not reproduced", "not runnable here"]
VERDICTS: Final[tuple[Verdict, ...]] = ("reproduced", "not reproduced", "not runnable here")


@dataclass(frozen=True, slots=True)
class Published:
    """A figure as it is printed, with its place.

    Parameters
    ----------
    table, row, column : str
        Its place, and where it comes from: ``table`` may be a section of the text.
    text : str
        As printed, ASCII: ``95.80%``, ``+1.28``, ``<0.01``.
    n : int or None
        Answers behind it; None where the paper does not say.
    """

    table: str
    row: str
    column: str
    text: str
    n: int | None = None

    @property
    def scale(self) -> float:
        """What one unit of the text is worth: 0.01 for per cent."""
        return 0.01 if self.text.endswith("%") else 1.0

    @property
    def value(self) -> float:
        """The figure as a number; per cent as a share."""
        return float(self.text.lstrip("<").rstrip("%")) * self.scale

    @property
    def decimals(self) -> int:
        """Digits behind the point, as printed."""
        return len(self.text.rstrip("%").partition(".")[2])

    @property
    def rounding(self) -> float:
        """Half a unit of the last printed digit."""
        return 0.5 * 10.0**-self.decimals * self.scale

    def like(self, value: float) -> str:
        """Return another value, printed as the figure is, or with a digit or two more."""
        unit = "%" if self.scale < 1.0 else ""
        decimals = max(self.decimals, 1 if unit else 2)
        sign = "+" if self.text[0] in "+-" else ""
        return f"{value / self.scale:{sign}.{decimals}f}{unit}"


@dataclass(frozen=True, slots=True)
class Measured:
    """An estimate with its 95 % interval.

    Parameters
    ----------
    estimate, lower, upper : float
        Shares as shares, whatever the published figure's unit.
    n : int
        Answers measured.
    stand_in : str
        The model that took the place of the paper's; empty where there is none.
    """

    estimate: float
    lower: float
    upper: float
    n: int
    stand_in: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no number, or no interval around the estimate."""
        if not self.lower <= self.estimate <= self.upper:
            raise ValueError(f"{self.lower} <= {self.estimate} <= {self.upper} does not hold")


@dataclass(frozen=True, slots=True)
class Cell:
    """One published figure with what was measured, or why nothing was.

    Parameters
    ----------
    published : Published
        The figure.
    measured : Measured or None
        Its measurement.
    reason : str
        Why there is none; empty where there is one.
    """

    published: Published
    measured: Measured | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        """Refuse a cell that says neither or both."""
        if (self.measured is None) != bool(self.reason):
            raise ValueError("a cell has a measurement or a reason, never both and never neither")

    @property
    def agrees(self) -> bool:
        """Whether the measurement agrees with the figure by the rule above."""
        figure, found = self.published, self.measured
        if found is None:
            return False
        if figure.text.startswith("<"):
            return found.estimate < figure.value
        distance = figure.value - found.estimate
        half = found.upper - found.estimate if distance > 0 else found.estimate - found.lower
        own = half * math.sqrt(found.n / figure.n) if figure.n else 0.0
        return abs(distance) <= math.hypot(half, own) + figure.rounding + 1e-12

    @property
    def verdict(self) -> Verdict:
        """What came of it."""
        if self.measured is None or self.measured.stand_in:
            return "not runnable here"
        return "reproduced" if self.agrees else "not reproduced"

    @property
    def why(self) -> str:
        """What the verdict is to be read with."""
        if self.measured is None:
            return self.reason
        if not self.measured.stand_in:
            return ""
        would = "would agree" if self.agrees else "would not"
        return f"stand-in {self.measured.stand_in}: {would}"


@dataclass(frozen=True, slots=True)
class Section:
    """Cells measured in one way, under a heading."""

    title: str
    text: str
    cells: Sequence[Cell] = field(default_factory=tuple)


def counts(cells: Iterable[Cell]) -> str:
    """Return how many cells have which verdict, as a sentence."""
    found = list(cells)
    by = Counter(cell.verdict for cell in found)
    known = [c for c in found if c.measured is not None and c.measured.stand_in]
    text = f"{len(found)} cells: " + ", ".join(f"{by[verdict]} {verdict}" for verdict in VERDICTS)
    if known:
        agree = sum(cell.agrees for cell in known)
        text += f" ({len(known)} of these measured with a stand-in, {agree} of which would agree)"
    return text + "."


HEAD: Final = ("table", "row", "column", "published", "measured (95 %)", "n", "verdict", "")


def line(cell: Cell) -> tuple[str, ...]:
    """Return a cell as the texts of one line of a table."""
    figure, found = cell.published, cell.measured
    shown, n = "", ""
    if found is not None:
        ends = f"{figure.like(found.lower)} to {figure.like(found.upper)}"
        shown, n = f"{figure.like(found.estimate)} ({ends})", f"{found.n:,}"
    place = (figure.table, figure.row, figure.column, figure.text)
    return (*place, shown, n, cell.verdict, cell.why)


def markdown(sections: Sequence[Section]) -> list[str]:
    """Return the sections as the lines of a Markdown page."""
    lines: list[str] = []
    for section in sections:
        lines += ["", f"## {section.title}", "", section.text, "", f"**{counts(section.cells)}**"]
        lines += ["", f"| {' | '.join(HEAD).rstrip()} |", "|" + "---|" * len(HEAD)]
        for cell in section.cells:
            lines.append("| " + " | ".join(part.replace("|", "/") for part in line(cell)) + " |")
    return lines


def terminal(sections: Sequence[Section]) -> str:
    """Return the sections as aligned plain text, what cannot run in one line a table and reason."""
    blocks = []
    for section in sections:
        ran = [line(cell) for cell in section.cells if cell.measured is not None]
        lines = [section.title]
        if ran:
            widths = [max(len(row[i]) for row in (HEAD, *ran)) for i in range(len(HEAD))]
            for row in (HEAD, *ran):
                padded = (text.ljust(width) for text, width in zip(row, widths, strict=True))
                lines.append("  ".join(padded).rstrip())
        absent = Counter(
            (cell.published.table, cell.reason) for cell in section.cells if cell.reason
        )
        for (table, reason), number in absent.items():
            lines.append(f"table {table}: {number} cells not runnable here: {reason}")
        blocks.append("\n".join([*lines, counts(section.cells)]))
    return "\n\n".join(blocks)
