"""How does what is freed of all unsupported sentences look against what is kept of the others?"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from calibrail.report.plot import DASHED, FAITHFUL, HALLUCINATED, INK, QUIET, drawing

#: Limits of the axes, in percent: left, right, bottom, top.
_RANGE: Final = (-2.0, 102.0, -2.0, 104.0)


def freed_and_kept_svg(
    section: Mapping[str, Any],
    at: Mapping[str, Any],
    asked: tuple[float, float | None],
    others: Sequence[Mapping[str, Any]],
    narrow: bool = False,
) -> str:
    """Draw the share of answers freed against that of supported sentences kept, over thresholds.

    Parameters
    ----------
    section : mapping
        ``sentences`` of a report: its ``curve``, and ``flagged_whole``.
    at : mapping
        ``freed`` and ``kept_supported`` at the threshold in use.
    asked : pair of float or None
        The shares to be freed and to be kept.
    others : sequence of mapping
        The same of other scores, at the thresholds of the same target.
    narrow : bool
        Draw for a phone.
    """
    curve, whole = section["curve"], section["flagged_whole"]
    with drawing(*((4.1, 4.0) if narrow else (7.2, 4.2))) as plot:
        axes = plot.axes
        for limit, line in zip(asked, (axes.axhline, axes.axvline), strict=True):
            if limit is not None:
                line(100 * limit, color=INK, linewidth=1.0, linestyle=DASHED)
        # Removing nothing, and removing everything, need no threshold.
        kept, freed = [0.0, *curve["kept"], 1.0], [1.0, *curve["freed"], 0.0]
        points = sorted(zip(kept, freed, strict=True), key=lambda point: (point[0], -point[1]))
        x, y = ([100 * value for value in values] for values in zip(*points, strict=True))
        axes.plot(x, y, color=HALLUCINATED, linewidth=1.6, label="this score, any threshold")
        if others:
            x, y = _places(others)
            axes.plot(x, y, "x", color=QUIET, markersize=6, label="others, same target")
        x, y = _places([whole])
        axes.plot(x, y, "s", color=FAITHFUL, markersize=6, label="whole answers withheld")
        for end, along in (("kept_supported", True), ("freed", False)):
            ends = [100 * at[end][side] for side in ("lower", "upper")]
            across = [100 * at["freed" if along else "kept_supported"]["estimate"]] * 2
            axes.plot(*((ends, across) if along else (across, ends)), color=INK, linewidth=1.2)
        x, y = _places([at])
        axes.plot(x, y, "o", color=INK, markersize=6, label="in use")
        axes.set(xlim=_RANGE[:2], ylim=_RANGE[2:])
        axes.set_xlabel("supported sentences kept, %")
        axes.set_ylabel("hallucinated answers freed, %")
        plot.legend(1 if narrow else 2)
        return plot.svg("Answers freed against supported sentences kept, over all thresholds.")


def _places(rows: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    """Return where measures stand, in percent."""
    kept, freed = (
        [100 * row[name]["estimate"] for row in rows] for name in ("kept_supported", "freed")
    )
    return kept, freed
