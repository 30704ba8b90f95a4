"""How do the test scores of both classes lie about the threshold?"""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from calibrail.report.blocks import Figure, Json
from calibrail.report.figures import distributions_svg, drawn_range
from calibrail.scale import Scale

#: The scores of the two classes, as they are shown.
BothScores = tuple[NDArray[np.float64], NDArray[np.float64]]


def scores_figure(
    report: Json,
    scores: BothScores | None,
    *,
    caption: str,
    dashed: str,
    draw: Callable[..., str] = distributions_svg,
) -> Figure | None:
    """Return the figure of both classes' scores; None without scores.

    Parameters
    ----------
    report : mapping
        ``Report.to_dict()``.
    scores : pair of ndarrays of float64, or None
        Test scores of both classes, as they are shown.
    caption : str
        What it shows, with ``{dashed}`` where ``dashed`` comes if one threshold decides.
    dashed : str
        What becomes of what lies at the dashed line or at its ``{side}``.
    draw : callable
        As ``distributions_svg``.
    """
    if scores is None:
        return None
    scale, used, said = Scale.of(report["score"]), None, ""
    if report["threshold"] is not None and not report["by_group"]:
        used = scale.shown(report["threshold"])
        said = dashed.format(side="left" if scale.negated else "right")
    name = scale.named(scale.column or str(report["score"]["name"]))
    return Figure(
        "distributions",
        partial(draw, *scores, used, name, scale),
        caption.format(dashed=said),
        limits=(*drawn_range(*scores, used), 0.0, 1.0),
    )
