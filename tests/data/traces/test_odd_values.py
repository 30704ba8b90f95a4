"""Do exports with values of any type in any place end in rows set aside, or in our own error?"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest

from calibrail.data import read
from calibrail.errors import CalibrailError
from tests.data.traces.shapes import ROWS

ODD: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 1.5, "", "x", [], {}, [None], [[]], [{}], {"a": {"b": [1]}}, 10**30),
    *('{"a": 1}', "[1]", '[{"role": 3}]', [1, "a", None], {"role": "user"}, {"value": {}}),
    *({"choices": "x"}, {"yes": 1, "no": -1}),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    listed = enumerate(value) if isinstance(value, list) else ()
    for key, item in value.items() if isinstance(value, dict) else listed:
        yield from _places(item, (*path, key))


@pytest.mark.parametrize("name", ROWS)
def test_odd_values_anywhere(name: str) -> None:
    ended = {"read": 0, "refused": 0}
    for seed in range(40):
        rng = random.Random(f"{name}{seed}")
        rows = copy.deepcopy(ROWS[name])
        for _ in range(rng.randrange(1, 5)):
            *path, last = rng.choice([place for place in _places(rows) if place])
            # What was changed before may have taken the place away.
            with suppress(LookupError, TypeError):
                inner: Any = rows
                for key in path:
                    inner = inner[key]
                inner[last] = copy.deepcopy(rng.choice(ODD))
        given = [row for row in rows if isinstance(row, dict)]
        named = {"spans_sdk": "spans", "spans_otlp": "spans", "spans_phoenix": "spans"}
        format = named.get(name, name.removesuffix("_flat"))
        try:
            reading = read(given, format=format, labelled=seed % 2 > 0, require=(), allow_none=True)
            n = len(list(reading))
        except CalibrailError:
            ended["refused"] += 1
        else:
            assert n == reading.n_examples
            ended["read"] += 1
    assert ended["read"]
