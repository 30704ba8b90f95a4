"""Do shares stand where they are, in characters?"""

from __future__ import annotations

import pytest

from calibrail.report.figures.plot import interval_lines


def value(estimate: float | None, lower: float | None, upper: float | None) -> dict[str, object]:
    return {"estimate": estimate, "lower": lower, "upper": upper}


@pytest.mark.parametrize("asked", [None, 0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    ("estimate", "lower", "upper"),
    [(0.0, 0.0, 0.1), (1.0, 0.9, 1.0), (0.5, 0.25, 0.75), (0.5, 0.5, 0.5), (0.3, None, None)],
)
def test_every_mark_stands_at_its_share(
    estimate: float, lower: float | None, upper: float | None, asked: float | None
) -> None:
    lines = interval_lines([("name", value(estimate, lower, upper), asked)], "of what")
    axis, row = lines[1], lines[2].partition("%")[0].ljust(60)
    zero, end = axis.index("┼"), axis.rindex("┼")
    assert lines[0].startswith("of what") and lines[0].index("0%") == zero and end - zero == 40
    assert row.index("●") == zero + round(40 * estimate)
    for share, mark in ((lower, "├"), (upper, "┤"), (asked, "┃")):
        if share is not None and f"{mark}" in row:
            assert row.index(mark) == zero + round(40 * share)
    if asked is not None and round(40 * asked) != round(40 * estimate):
        assert "┃" in row and "┃ required" in lines[-1]
    assert ("required" in lines[-1]) == (asked is not None)
    if lower is None:
        assert "(" not in lines[2] and "─" not in row


def test_nothing_is_drawn_of_nothing_and_names_stay_short() -> None:
    assert interval_lines([("name", value(None, None, None), 0.5)]) == []
    lines = interval_lines([("a" * 99 + "\x1b[31m\n", value(0.5, 0.4, 0.6), None)])
    assert max(map(len, lines)) < 90 and "\x1b" not in "".join(lines)
