"""Do rows hold what is known, and is what contradicts itself refused with its row?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrail.errors import InputError
from calibrail.monitoring.history import Rows


def test_what_is_left_out_is_not_known() -> None:
    rows = Rows.of([0.5, None, np.nan], [True, False, True], failed=[False, False, True])
    assert rows.undefined.tolist() == [False, True, False]
    assert np.isnan([rows.time, rows.question_length, rows.response_length, rows.chunks]).all()
    assert rows.language.tolist() == [None] * 3 and rows.ref is None


def test_a_part_holds_its_own_rows() -> None:
    refs = [("a", 0, "x"), ("a", 1, "y"), ("b", 0, "z")]
    part = Rows.of([1, 2, 3], [1, 0, 0], language=["en", None, "de"], ref=refs).part(1, 3)
    assert len(part) == 2 and part.score.tolist() == [2.0, 3.0]
    assert part.language.tolist() == [None, "de"] and part.ref == tuple(refs[1:])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"chunks": [1, -2]}, "chunks .* row 1 has -2"),
        ({"time": [1.0, np.inf]}, "time .* row 1 has inf"),
        ({"chunks": [1, 2, 3]}, "chunks must have 2 entries"),
        ({"language": ["en", 3]}, "language .* got 3"),
        ({"undefined": [True, False]}, "row 0: its score is 0.5"),
        ({"failed": [False, 2]}, "failed must hold true or false"),
        ({"ref": [("a", 0, "x")]}, "ref must have 2 entries"),
        ({"lenght": [1, 2]}, "unknown column 'lenght'"),
    ],
)
def test_a_column_that_cannot_be_is_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Rows.of([0.5, 0.7], [False, True], **columns)


def test_an_infinite_score_is_refused() -> None:
    with pytest.raises(InputError, match="finite"):
        Rows.of([np.inf], [True])
