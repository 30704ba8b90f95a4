"""Does a record come back from its JSON as it was, and refuse what is none?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from calibrail.errors import InputError
from calibrail.serialization import Record, plain


@dataclass(frozen=True)
class Inner(Record):
    value: float | None
    name: str = "a"


@dataclass(frozen=True)
class Outer(Record):
    schema = "test.outer/1"

    inner: Inner
    maybe: Inner | None
    many: tuple[Inner, ...]
    by_name: Mapping[str, Inner]
    ends: tuple[float, float] = (0.0, 1.0)


def test_a_record_comes_back_equal_through_json() -> None:
    one = Inner(0.5)
    value = Outer(one, None, (one, Inner(None, "b")), {"x": one})
    text = json.dumps(value.to_dict(), allow_nan=False)
    assert json.loads(text)["schema"] == "test.outer/1"
    assert Outer.from_dict(json.loads(text)) == value


def test_other_schemas_and_fields_are_refused() -> None:
    content = Outer(Inner(1.0), None, (), {}).to_dict()
    with pytest.raises(InputError, match=r'schema must be "test.outer/1"; got .other.'):
        Outer.from_dict({**content, "schema": "other"})
    with pytest.raises(InputError, match="the outer has a missing or an unknown field"):
        Outer.from_dict({**content, "more": 1})
    del content["inner"]
    with pytest.raises(InputError, match="missing or an unknown field"):
        Outer.from_dict(content)


def test_plain_holds_nothing_that_strict_json_refuses() -> None:
    @dataclass(frozen=True, eq=False)
    class Arrays(Record):
        values: NDArray[np.float64]
        count: np.int64
        share: np.float64

    record = Arrays(np.array([1.0, np.nan]), np.int64(3), np.float64("inf"))
    assert plain({"r": record, "t": (1, [2.0])}) == {
        "r": {"values": [1.0, None], "count": 3, "share": None},
        "t": [1, [2.0]],
    }
