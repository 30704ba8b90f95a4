"""Are the files of a run written as Python's own encoder would?"""

import json
from typing import Any

import pytest

from calibrail.pipelines.run import json_parts

VALUES: dict[str, Any] = {
    "empty": {},
    "nothing in it": {"a": [], "b": {}, "c": "", "d": None},
    "numbers": {"a": [1.5, -0.0, 1e300, 2, True, None], "b": tuple(range(40_000))},
    "texts": {"ü\n": ["\ud800", '"', "\u2028"], "b": ["x"] * 20_000},
    "names": {2: 2, None: 3, True: 4, 1.5: "x"},
    "nested": {"a": [[1, 2], {"b": [{"c": []}, 3]}, "t"], "z": {"y": {"x": [0.1]}}},
    "mixed": {"a": [*range(20_000), [1], "t"]},
}


@pytest.mark.parametrize("name", VALUES)
def test_bytes_are_those_of_the_encoder(name: str) -> None:
    expected = json.dumps(VALUES[name], indent=2, ensure_ascii=False) + "\n"
    written = b"".join(json_parts(VALUES[name]))
    assert written == expected.encode("utf-8", "surrogatepass")


def test_no_number_that_json_lacks() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        list(json_parts({"a": [0.0, float("nan")]}))
