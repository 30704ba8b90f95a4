from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrail.data.arrow import string_array
from calibrail.errors import DataError
from calibrail.scores import ScoreTable

NAN = float("nan")


def table() -> ScoreTable:
    return ScoreTable(
        ids=string_array(["a", "b", "c", "d"]),
        groups=string_array(["g", None, "g", ""]),
        labels=np.array([1, 0, -1, 0], dtype=np.int8),
        columns={
            "sgi": np.array([0.1, NAN, -0.0, 1e-300]),
            "length": np.arange(4.0),
            "label": np.ones(4),
        },
        reasons={"sgi": {1: "there is no context"}, "length": {}, "label": {}},
        digests=np.arange(4, dtype=np.uint64),
    )


CODES = np.array([0, 1, 2, 2], dtype=np.int8)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    original = table()
    original.to_parquet(tmp_path / "scores.parquet", CODES)
    read, codes = ScoreTable.from_parquet(tmp_path / "scores.parquet")
    assert read.ids.equals(original.ids)
    assert read.groups.equals(original.groups)
    np.testing.assert_array_equal(read.labels, original.labels)
    np.testing.assert_array_equal(codes, CODES)
    assert list(read.columns) == ["sgi", "length", "label"]
    for name, values in original.columns.items():
        assert read.columns[name].tobytes() == values.tobytes()
    assert read.reasons == original.reasons
    assert len(read) == 4


def test_the_file_says_what_others_can_read(tmp_path: Path) -> None:
    table().to_parquet(tmp_path / "scores.parquet", CODES)
    content = pq.read_table(tmp_path / "scores.parquet").to_pydict()
    assert content["split"] == ["fit", "calibration", "test", "test"]
    assert content["label"] == [1, 0, None, 0]
    assert content["sgi"] == [0.1, None, -0.0, 1e-300]
    assert content["sgi__reason"] == [None, "there is no context", None, None]
    assert "length__reason" not in content


def test_without_a_split_there_is_no_column_of_it(tmp_path: Path) -> None:
    table().to_parquet(tmp_path / "scores.parquet")
    assert "split" not in pq.read_schema(tmp_path / "scores.parquet").names
    assert ScoreTable.from_parquet(tmp_path / "scores.parquet")[1] is None


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        table().to_parquet(tmp_path / name, CODES)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_files_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read"):
        ScoreTable.from_parquet(tmp_path / "absent")
    (tmp_path / "text").write_text("text")
    with pytest.raises(DataError, match="cannot read"):
        ScoreTable.from_parquet(tmp_path / "text")
    pq.write_table(pa.table({"id": string_array(["a"])}), tmp_path / "other")
    with pytest.raises(DataError, match="it lacks group, label"):
        ScoreTable.from_parquet(tmp_path / "other")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot write"):
        table().to_parquet(tmp_path / "absent" / "scores.parquet")
