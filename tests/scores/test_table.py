from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from calibrail.data.tables import string_array
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


def test_the_file_says_what_others_can_read(tmp_path: Path) -> None:
    table().to_parquet(tmp_path / "scores.parquet", CODES)
    content = pq.read_table(tmp_path / "scores.parquet").to_pydict()
    assert list(content) == [
        *("id", "group", "label", "split"),
        *("sgi", "sgi__reason", "length", "score:label"),
    ]
    assert content["id"] == ["a", "b", "c", "d"]
    assert content["group"] == ["g", None, "g", ""]
    assert content["split"] == ["fit", "calibration", "test", "test"]
    assert content["label"] == [1, 0, None, 0]
    assert content["sgi"] == [0.1, None, -0.0, 1e-300]
    assert content["sgi__reason"] == [None, "there is no context", None, None]
    assert content["length"] == [0.0, 1.0, 2.0, 3.0]
    assert content["score:label"] == [1.0] * 4


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        table().to_parquet(tmp_path / name, CODES)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
