"""What may a reader try on the page, and which script lets them?"""

import base64
import hashlib
import json
import math
from typing import Any, Final

from calibrail.report.blocks import Json
from calibrail.scale import Scale

#: Thresholds that the slider offers at most, beside the one in use.
MOST: Final = 400

#: What is known at each threshold, in this order.
FIELDS: Final = tuple(
    (name, end) for name in ("coverage", "fpr") for end in ("estimate", "lower", "upper")
)


def operating_points(report: Json) -> dict[str, Any] | None:
    """Return the thresholds that the slider offers, each with what it catches and costs.

    Parameters
    ----------
    report : mapping
        ``Report.to_dict()``.

    Returns
    -------
    dict or None
        ``points``, lists of the threshold, ascending as shown, and of what ``FIELDS`` names;
        ``start`` and ``in_use``, places in it, the latter None where no single threshold decides.
        None without a curve.

    Notes
    -----
    Between two thresholds of the curve, the band is that of its neighbours: what is caught and
    what is flagged only fall as the threshold rises, so their bounds hold in between, too.
    """
    if not report["curve"]:
        return None
    points, start, in_use = _kept(report)
    scale, last = Scale.of(report["score"]), len(points) - 1
    if scale.negated:
        points = [[scale.shown(point[0]), *point[1:]] for point in points[::-1]]
        start, in_use = last - start, None if in_use is None else last - in_use
    return {"points": points, "start": start, "in_use": in_use}


def _kept(report: Json) -> tuple[list[list[float]], int, int | None]:
    """Return points, start and place in use by thresholds as they are kept."""
    curve = report["curve"]
    points = [
        [threshold, *(round(curve[name][end][place], 6) for name, end in FIELDS)]
        for place, threshold in enumerate(curve["thresholds"])
    ]
    if len(points) > MOST:
        last = len(points) - 1
        points = [points[round(place * last / (MOST - 1))] for place in range(MOST)]
    used = None if report["by_group"] else report["threshold"]
    test = report["test"]
    rates = [test[name]["estimate"] for name in ("coverage", "fpr")]
    if used is None or not math.isfinite(used) or None in rates:
        wanted = 1.0 - report["alpha"]
        start = max((place for place, point in enumerate(points) if point[1] >= wanted), default=0)
        return points, start, None
    place = sum(point[0] < used for point in points)
    # Beyond the ends of the curve all that is known of a share is that it lies in [0, 1].
    before = points[place - 1] if place else [1.0] * 7
    after = points[place] if place < len(points) else [math.inf] + [0.0] * 6
    if on_curve := after[0] == used:
        before = after
    row = [used]
    for column, rate in ((1, round(rates[0], 6)), (4, round(rates[1], 6))):
        row += [rate, min(after[column + 1], rate), max(before[column + 2], rate)]
    points[place : place + on_curve] = [row]
    return points, place, place


def embedded_json(value: Any) -> str:
    r"""Return JSON that may stand inside a ``script`` element: nothing in it can end that.

    Examples
    --------
    >>> embedded_json({"a": "</script>"})
    '{"a":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def source_hash(script: str) -> str:
    """Return how a content security policy names this very script.

    Examples
    --------
    >>> source_hash("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
