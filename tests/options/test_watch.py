"""Are the options of a watch checked where they are made?"""

from __future__ import annotations

from typing import Any

import pytest

from calibrail.errors import InputError
from calibrail.options import WatchOptions


def test_options_come_back_from_what_is_written_of_them() -> None:
    options = WatchOptions(reference=200, arl=5_000, delta=0.01, seed=3, by="language")
    assert WatchOptions.from_dict(options.to_dict()) == options


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"reference": 1}, "reference must be at least 2"),
        ({"reference": 20_001}, "a log of its own"),
        ({"arl": 0}, "arl must be at least 1"),
        ({"delta": 1.0}, "delta must lie in"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"by": "product"}, "by must be one of group, language"),
    ],
)
def test_a_value_outside_its_domain_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        WatchOptions(**wrong)
