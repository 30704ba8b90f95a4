"""Does a data set give back every answer as it was read, in memory and from its file?"""

from __future__ import annotations

import tempfile
from dataclasses import replace

import pyarrow as pa
import pytest

from calibrail import Example
from calibrail.data import dataset
from calibrail.data.dataset import Dataset
from calibrail.data.example import GivenSentence
from calibrail.errors import DataError

ANSWERS = [
    Example(),
    Example("q", ("c", "", "d\ud800"), "r\udfff é", 1, "g", "a", ("s",), content=""),
    Example(
        response="One. Two.",
        label=0,
        id="b",
        columns={"x": 0.1, "y": None, "z": "fit", "w": float("inf")},
        spans=((0, 4),),
        sentences=(GivenSentence(0, 4, 1, {"s": 0.5}), GivenSentence(5, 9)),
        before="Zero.",
    ),
    Example(spans=(), sentences=()),
]


@pytest.mark.parametrize(("spill", "few"), [(0, 8), (1 << 20, 2), (1 << 20, 8)])
def test_every_answer_comes_back_as_it_was(
    monkeypatch: pytest.MonkeyPatch, spill: int, few: int
) -> None:
    monkeypatch.setattr(dataset, "_FEW", few)
    answers = ANSWERS * 700
    data = Dataset(iter(answers), spill=spill)
    assert len(data) == len(answers) and list(data) == answers
    assert [data[row] for row in (0, 1023, 1024, 2799)] == [
        answers[row] for row in (0, 1023, 1024, 2799)
    ]
    assert data[1022:1026] == answers[1022:1026]
    # Few answers are not made again each time.
    assert (data[2000] is answers[2000]) == (few > 2 and spill > 0)
    with pytest.raises(IndexError, match="row 2800 of 2800"):
        data[2800]


@pytest.mark.parametrize("field", ["question", "response", "contexts", "samples"])
def test_long_texts_are_written_however_few_they_are(field: str) -> None:
    long = "x" * 20_000
    text = (long,) if field in ("contexts", "samples") else long
    answers = [Example(**{field: text}, id=str(row)) for row in range(20)]
    kept = (Dataset(answers, spill=spill)[0] is answers[0] for spill in (1 << 20, 1 << 22))
    assert list(kept) == [False, True]


def test_what_tells_an_answer_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Example("q", ("c",), "r")
    digest = answer.digest()
    for data in (Dataset([answer]), Dataset([answer], spill=0)):
        with monkeypatch.context() as patched:
            patched.setattr("calibrail.data.example.same_chunks", None)
            assert data[0].digest() == digest
    assert replace(answer, response="s").digest() != digest
    # Plain spelling and texts as they are spelt tell other things.
    assert len({digest, answer.digest("plain"), answer.digest("spelt")}) > 1


def test_nothing_is_no_answer() -> None:
    assert not Dataset([]) and list(Dataset([])) == []


def test_a_disk_without_room_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**how: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(DataError, match="temporary file: No space left on device; TMPDIR"):
        Dataset(ANSWERS, spill=0)


def test_names_beyond_what_a_string_array_holds_are_large_strings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocks = [pa.array(["a", None]), pa.array(["b"])]
    assert dataset.joined_names(blocks).type == pa.string()
    monkeypatch.setattr(dataset, "_STRING", 4)
    names = dataset.joined_names(blocks)
    assert (names.type, names.to_pylist()) == (pa.large_string(), ["a", None, "b"])
