from __future__ import annotations

import numpy as np
import pytest

from calibrail.data import Example
from calibrail.errors import InputError
from calibrail.scores import build_column
from calibrail.scores.registry import ColumnScore


@pytest.mark.parametrize(("higher", "sign"), [("hallucinated", 1.0), ("faithful", -1.0)])
def test_the_direction_turns_the_sign(higher: str, sign: float) -> None:
    examples = [Example(columns={"dae": cell}) for cell in (0.25, "1e-3", " 2 ", 3)]
    values = build_column("dae", higher).score(examples).values
    np.testing.assert_array_equal(values, sign * np.array([0.25, 1e-3, 2.0, 3.0]))


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (None, "is empty"),
        ("high", "'high', which is no number"),
        ("1_000", "'1_000', which is no number"),
        (True, "'True', which is no number"),
        ("nan", "nan, which is not finite"),
        (float("inf"), "inf, which is not finite"),
        (10**400, "which is no number"),
        ("x" * 500, "x" * 39),
        ("[0.1, 0.9]", "holds lists, which --unit sentence reads"),
        ("[0.1, 0.9", "'[0.1, 0.9', which is no number"),
    ],
)
def test_what_is_no_finite_number_is_undefined(cell: object, said: str) -> None:
    result = build_column("dae", "faithful").score([Example(columns={"dae": cell})])
    assert np.isnan(result.values[0])
    assert result.reasons[0].startswith("column dae ")
    assert said in result.reasons[0]
    assert len(result.reasons[0]) < 100


@pytest.mark.parametrize("column", ["", 3, None])
def test_a_column_needs_a_name(column: object) -> None:
    with pytest.raises(InputError, match="column must name a column"):
        ColumnScore(column=column, higher="faithful")
