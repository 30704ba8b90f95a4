from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

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
        ("nan", "is empty"),
        (float("inf"), "inf, which is not finite"),
        (Decimal("-Infinity"), "-inf, which is not finite"),
        (10**400, "inf, which is not finite"),
        ("1,234", "may be 1.234 or 1234; options={'decimal': ','} decides"),
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
    assert len(result.reasons[0]) < 110


ALIKE: Final = [
    *(np.float32(0.3), np.float16(0.3), np.float64(0.3), np.longdouble("0.3"), Decimal("0.3")),
    *(
        np.array(0.3, "float32"),
        np.array(0.3),
        0.3,
        "0.30",
        " +.3 ",
        "0,3",
        "30%",
        "30,0 %",
        "3e-1",
    ),
]


@pytest.mark.parametrize("cell", ALIKE, ids=repr)
def test_the_same_number_is_the_same_score_however_it_is_given(cell: Any) -> None:
    score = build_column("s", "hallucinated")
    made = (Example(columns={"s": cell}), Example.asked(columns={"s": cell}))
    assert score.score(made).values.tolist() == [0.3, 0.3]


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        (True, 1.0),
        (np.False_, 0.0),
        ("TRUE", 1.0),
        ("false", 0.0),
        ("1.234,5", 1234.5),
        ("1,234.5", 1234.5),
        ("1'234,5", 1234.5),
        ("1\u202f234,5", 1234.5),
        ("1,234,567", 1234567.0),
        ("0,875", 0.875),
        ("\u22120,5", -0.5),
        ("12,5 %", 0.125),
        ("\u0661\u066b\u0665", 1.5),
    ],
)
def test_numbers_of_other_spellings(cell: Any, value: float) -> None:
    result = build_column("s", "faithful").score([Example(columns={"s": cell})])
    assert result.values.tolist() == [-value]


@pytest.mark.parametrize("column", ["", 3, None])
def test_a_column_needs_a_name(column: object) -> None:
    with pytest.raises(InputError, match="column must name a column"):
        ColumnScore(column=column, higher="faithful")
