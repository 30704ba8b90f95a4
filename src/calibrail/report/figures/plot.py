"""Matplotlib to themed SVG; intervals in characters."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any, Final

from calibrail.errors import extra
from calibrail.report.document import Json
from calibrail.report.text import interval, plain, share, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import BboxBase


#: Held while one is drawn: the style is the process's, and a service draws in threads.
_ONE: Final = threading.RLock()

#: Stand-ins that matplotlib draws with, since the page's style sheet decides on the colours: the
#: name there, and the colour in a file that stands alone on white.
COLOURS: Final = {
    "#010101": ("var(--ink)", "#1c2330"),
    "#020202": ("var(--quiet)", "#5b6474"),
    "#030303": ("var(--hallucinated)", "#c2410c"),
    "#040404": ("var(--faithful)", "#1d6fb8"),
    "#050505": ("var(--certified)", "#157347"),
    "#060606": ("var(--rejected)", "#b42318"),
    "#070707": ("var(--inconclusive)", "#8a5a08"),
    "#0a0a01": ("var(--s1)", "#0b62a4"),
    "#0a0a02": ("var(--s2)", "#c2410c"),
    "#0a0a03": ("var(--s3)", "#157347"),
    "#0a0a04": ("var(--s4)", "#7c3aed"),
    "#0a0a05": ("var(--s5)", "#8a5a00"),
    "#0a0a06": ("var(--s6)", "#be185d"),
}
INK, QUIET, HALLUCINATED, FAITHFUL, CERTIFIED, REJECTED, INCONCLUSIVE, *SERIES = COLOURS
VERDICT_COLOURS: Final = (CERTIFIED, REJECTED, INCONCLUSIVE)

#: How lines are broken that show a target, and that show what guessing would give.
DASHED: Final = (0, (4, 3))
DOTTED: Final = (0, (1, 3))


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure that is being drawn, and the axes that are drawn in."""

    figure: Figure
    axes: Axes

    def interval(
        self,
        place: float,
        value: Json | None,
        colour: str,
        mark: str = "o",
        label: str | None = None,
        *,
        scale: float = 1.0,
        size: float = 6.0,
    ) -> None:
        """Draw an estimate on its interval, level with ``place``; nothing where there is none.

        Of marks that bear one label the first alone stands in the legend; a small mark has a thin
        line.
        """
        if not value or value["estimate"] is None:
            return
        if value["lower"] is not None and value["upper"] is not None:
            ends = [scale * value["lower"], scale * value["upper"]]
            self.axes.plot(ends, [place] * 2, color=colour, linewidth=2.0 if size > 5.0 else 1.0)
        if label in self.axes.get_legend_handles_labels()[1]:
            label = None
        estimate = [scale * value["estimate"]]
        self.axes.plot(estimate, [place], mark, color=colour, markersize=size, label=label)

    def upright_intervals(
        self, x: Sequence[float], values: Sequence[Json], colour: str, width: float, scale: float
    ) -> None:
        """Draw intervals side by side, without their estimates."""
        # One line with gaps: a page holds it as one element.
        ends = [scale * value.get(end, nan) for value in values for end in ("lower", "upper", "")]
        self.axes.plot([at for at in x for _ in range(3)], ends, color=colour, linewidth=width)

    def rows(self, labels: Sequence[str], below: float = 0.5, above: float = 0.5) -> None:
        """Name the rows, the first on top, with some room around them."""
        self.axes.set_yticks(range(len(labels)), labels)
        self.axes.set_ylim(max(1, len(labels)) - below, -above)

    def target(self, x: float, width: float = 1.2, colour: str = INK) -> None:
        """Draw a dashed line from bottom to top."""
        self.axes.axvline(x, color=colour, linewidth=width, linestyle=DASHED)

    def limit(self, y: float, colour: str) -> None:
        """Draw a dashed line from left to right."""
        self.axes.axhline(y, color=colour, linewidth=1.1, linestyle=DASHED)

    def note(
        self, text: str, point: tuple[float, float], offset: tuple[float, float], **style: Any
    ) -> None:
        """Write right of a point, or left of it where the offset (in points) says so."""
        side = "right" if offset[0] < 0 else "left"
        style |= {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        self.axes.annotate(text, point, offset, ha=side, **style)

    def legend(self, ncols: int = 1, loc: str = "outside upper center", **style: Any) -> None:
        """Say what is what, if anything bears a label."""
        if self.axes.get_legend_handles_labels()[1]:
            self.figure.legend(ncols=ncols, loc=loc, **style)

    def svg(self, label: str) -> str:
        """Return the figure as one inline element without date, metadata or addresses."""
        buffer = io.StringIO()
        options: Any = {"format": "svg", "transparent": True, "metadata": {"Date": None}}
        self.figure.savefig(buffer, bbox_inches=laid_out(self.figure), **options)
        text = buffer.getvalue()
        text = text[text.index("<svg") :]
        text = re.sub(r"<metadata>.*?</metadata>\s*|\s*<!--.*?-->", "", text, flags=re.DOTALL)
        opening = re.match(r'<svg[^>]*viewBox="([^"]*)"[^>]*>', text)
        if opening is None:
            raise ValueError("matplotlib wrote a figure without a view box")
        head = f'<svg viewBox="{opening[1]}" role="img" aria-label="{label}">'
        text = head + text[opening.end() :].replace("xlink:href", "href")
        for stand_in, (variable, _) in COLOURS.items():
            text = text.replace(stand_in, variable)
        return text.rstrip() + "\n"


def laid_out(figure: Figure) -> BboxBase:
    """Place what a figure holds; return the part of it that is drawn on, in inches.

    ``savefig`` does both, too, by drawing all of the figure once more.
    """
    from matplotlib import rcParams
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    # Texts are measured as the file shows them.
    FigureCanvasSVG(figure)
    if engine := figure.get_layout_engine():
        engine.execute(figure)
        figure.set_layout_engine(None)
    part: BboxBase = figure.get_tightbbox().padded(rcParams["savefig.pad_inches"])
    return part


@contextmanager
def drawing(width: float, height: float, ink: str = INK, quiet: str = QUIET) -> Iterator[Plot]:
    """Give an empty figure, in inches, with its text in one colour and its frame in another."""
    with extra("report", "this figure"):
        from matplotlib import rc_context
        from matplotlib.figure import Figure

    style: dict[str, Any] = {
        **{"svg.fonttype": "none", "svg.hashsalt": "calibrail", "savefig.bbox": "tight"},
        **{"font.family": "sans-serif", "font.size": 11.0, "axes.unicode_minus": True},
        **dict.fromkeys((f"axes.spines.{side}" for side in ("top", "right")), False),
        **dict.fromkeys(("legend.frameon", "text.parse_math"), False),
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), quiet),
        **dict.fromkeys(("axes.labelcolor", "text.color"), ink),
        **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), ink),
    }
    with _ONE, rc_context(style):
        figure = Figure(figsize=(width, height), dpi=72.0, layout="constrained")
        yield Plot(figure, figure.add_subplot())


def axis_text(text: str, narrow: bool = False) -> str:
    """Return a name that fits the figure."""
    return short(plain(text), 24 if narrow else 32)


#: What a row shows: its name, a share with its ends, if any, and the share that was asked, if any.
Row = tuple[str, Any, float | None]

#: Characters from 0 to 100 %.
_WIDTH: Final = 40


def interval_lines(rows: Iterable[Row], what: str = "") -> list[str]:
    """Return shares on their intervals, a line each below an axis from 0 to 100 %.

    Parameters
    ----------
    rows : iterable of (str, mapping, float or None)
        The name, ``estimate``, ``lower`` and ``upper`` of a share, and the share that was asked.
        Rows without an estimate are left out.
    what : str
        What the shares are of, where the names do not say it.

    Returns
    -------
    list of str
        Empty where no row is left.

    Examples
    --------
    >>> caught = {"estimate": 0.8, "lower": 0.7, "upper": 0.875}
    >>> for line in interval_lines([("caught", caught, 0.9)]):
    ...     print(line)
            0%        25%       50%       75%       100%
            ┼─────────┼─────────┼─────────┼─────────┼
    caught                              ├───●──┤┃      80% (70 to 87.5%)
    <BLANKLINE>
            ● measured   ├─┤ its interval   ┃ required
    """
    shown = [row for row in rows if row[1] and row[1]["estimate"] is not None]
    if not shown:
        return []
    names = [axis_text(name, narrow=True) for name, _, _ in shown]
    margin = max(map(len, [what, *names])) + 2
    ticks = "".join(text.ljust(_WIDTH // 4) for text in ("0%", "25%", "50%", "75%", "100%"))
    lines = [f"{what:{margin}}{ticks}", f"{'':{margin}}{'┼'.join(['', *['─' * 9] * 4, ''])}"]
    for name, (_, value, asked) in zip(names, shown, strict=True):
        ends = f" ({interval(value)})" if value["lower"] is not None else ""
        lines.append(f"{name:{margin}}{_bar(value, asked)}  {share(value)}{ends}")
    limit = "   ┃ required" if any(asked is not None for _, _, asked in shown) else ""
    lines += ["", f"{'':{margin}}● measured   ├─┤ its interval{limit}"]
    return [line.rstrip() for line in lines]


def _bar(value: Json, asked: float | None) -> str:
    """Return one row; what was measured stands before what was asked, and both before ends."""
    marks = [" "] * (_WIDTH + 1)
    if value["lower"] is not None and value["upper"] is not None:
        lower, upper = (round(value[end] * _WIDTH) for end in ("lower", "upper"))
        # Of an interval within one place only the upper end is seen.
        line = f"├{'─' * (upper - lower - 1)}┤"
        marks[lower : upper + 1] = line[lower - upper - 1 :]
    if asked is not None:
        marks[round(asked * _WIDTH)] = "┃"
    marks[round(value["estimate"] * _WIDTH)] = "●"
    return "".join(marks)
