"""Can another package add a format?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import calibrail.data.sources as formats
from calibrail.data import Example, Filtered, RowProblem, SourceRow, read
from calibrail.errors import InputError
from tests.rows import good


def reader(path: Path, options: Mapping[str, object]) -> Iterator[object]:
    """Yield one of each kind of item that the protocol allows."""
    yield good(id=options["first"])
    yield SourceRow(7, good(id="row", label="no"))
    yield Example("q", ("c",), "r", 0, "g", "made", ("s",), {"x": 2.0})
    yield RowProblem(9, "row", "odd")
    yield Filtered(10, "not wanted")
    yield Example("q", ("c",), "r", 0, "g", "made", ("s",), {"x": 2.0})


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("mine", f"{__name__}:reader", "calibrail.readers")

    def entry_points(group: str) -> list[EntryPoint]:
        assert group == "calibrail.readers"
        return [point]

    monkeypatch.setattr(formats, "entry_points", entry_points)


def test_items_of_a_plug_in_pass_the_same_checks(tmp_path: Path) -> None:
    path = tmp_path / "data.mine"
    path.write_text("")
    reading = read(path, format="mine", options={"first": "one"}, keep=("x",))
    examples = tuple(reading)
    assert [e.id for e in examples] == ["one", "made"]
    assert examples[1] == Example("q", ("c",), "r", 0, "g", "made", ("s",), {"x": 2.0})
    assert reading.reasons == Counter(
        {("label", "not 0 or 1"): 1, ("row", "odd"): 1, ("id", "duplicate"): 1}
    )
    assert reading.n_filtered == 1


def test_an_unknown_format_lists_the_plug_ins(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"wikibio, .*, mine; got 'theirs'"):
        read(tmp_path, format="theirs")
