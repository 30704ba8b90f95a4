"""Do columns of scores that are read as columns mean what they mean row by row, to the byte?"""

import csv
import gzip
import json
import math
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import calibrail
from calibrail.errors import DataError
from calibrail.options import ReadOptions, SplitOptions
from calibrail.pipelines import scoring
from calibrail.pipelines.scoring import scored_columns
from calibrail.serialization import json_parts, plain

N = 160


def _scores(rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    return rng.normal(1.5 * labels, 1.0)


def _plain(seed: int = 0, n: int = N) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < 0.5).astype(np.int8)
    return {"s": pa.array(_scores(rng, labels)), "label": pa.array(labels)}


def _with(**columns: Any) -> dict[str, Any]:
    return _plain() | {
        name: value if isinstance(value, pa.Array | pa.DictionaryArray) else pa.array(value)
        for name, value in columns.items()
    }


def _changed(column: str, change: Callable[[list[Any]], Any], kind: Any = None) -> dict[str, Any]:
    table = _plain()
    values = list(table[column].to_pylist())
    changed = change(values)
    return table | {column: pa.array(values if changed is None else changed, kind)}


def _set(*cells: tuple[int, Any]) -> Callable[[list[Any]], None]:
    def change(values: list[Any]) -> None:
        for row, cell in cells:
            values[row] = cell

    return change


def _ids(**at: Any) -> list[Any]:
    ids: list[Any] = [f"a-{i}" for i in range(N)]
    for name, cell in at.items():
        ids[int(name[1:])] = cell
    return ids


def _spread(values: list[Any]) -> list[Any]:
    return [values[i % len(values)] for i in range(N)]


#: Table, and whether its rows are read as columns.
SHAPES: Mapping[str, tuple[dict[str, Any], bool]] = {
    "plain": (_plain(), True),
    "ids": (_with(id=_ids()), True),
    "whole ids": (_with(id=list(range(N))), True),
    "ids of a dictionary": (_with(id=pa.array(_ids()).dictionary_encode()), True),
    "large ids": (_with(id=pa.array(_ids(), pa.large_string())), True),
    "ids missing": (_with(id=_ids(r3=None, r4="", r5="  ", r6="\u2003", r7=" x")), True),
    "no id in its column": (_with(id=pa.array([None] * N, pa.string())), True),
    "ids twice": (_with(id=_ids(r3="a-1", r9="a-1", r50="a-49", r60=None, r61="row-61")), False),
    "ids that are none": (_with(id=[float(i) for i in range(N)]), False),
    "groups": (_with(group=_spread(["g", "h", None, "i", "", "k"])), True),
    "whole groups": (_with(group=[i // 2 for i in range(N)]), True),
    "groups and ids": (_with(group=[f"g{i // 3}" for i in range(N)], id=_ids()), True),
    "missing labels": (_changed("label", _set((2, None), (70, None)), pa.int8()), True),
    "other labels": (_changed("label", _set((2, 7), (70, None)), pa.int64()), True),
    "words": (_changed("label", lambda v: ["FAIL" if x else "pass" for x in v]), True),
    "words and slips": (
        _changed("label", lambda v: ["FAIL" if x else "pass" for x in v[:-1]] + ["eh"]),
        True,
    ),
    "labels of a dictionary": (
        _plain()
        | {"label": pa.array(["PASS" if i % 2 else "1" for i in range(N)]).dictionary_encode()},
        True,
    ),
    "flags": (_changed("label", lambda v: [bool(x) for x in v]), True),
    "float labels": (_changed("label", lambda v: [float(x) for x in v]), True),
    "float labels with gaps": (
        _changed("label", lambda v: [math.nan if i == 4 else float(x) for i, x in enumerate(v)]),
        True,
    ),
    "votes": (_changed("label", lambda v: ['{"yes": 2, "no": 1}', *map(str, v[1:])]), False),
    "lists of labels": (_changed("label", lambda v: [[x, x] for x in v]), False),
    "gaps": (_changed("s", _set((0, None), (1, math.nan), (5, math.inf), (6, -math.inf))), True),
    "zeros": (_changed("s", _set((0, 0.0), (1, -0.0), (2, 1.0), (3, -1.0), (4, 2.0**60))), True),
    "single precision": (
        _plain() | {"s": pa.array(np.random.default_rng(1).normal(size=N).astype(np.float32))},
        True,
    ),
    "half precision": (
        _plain() | {"s": pa.array(np.random.default_rng(1).normal(size=N).astype(np.float16))},
        True,
    ),
    "whole scores": (_with(s=pa.array([(i * 37) % 11 - 5 for i in range(N)], pa.int64())), True),
    "huge scores": (
        _with(s=pa.array([2**53 + 1 + (i * 37) % 91 for i in range(N)], pa.int64())),
        True,
    ),
    "flags as scores": (_with(s=_spread([True, False, True])), True),
    "texts as scores": (_with(s=_spread(["0.5", "0.25", "x", "1_0", ""])), False),
    "ties": (_with(s=_spread([0.123456789, 0.5, 0.987654321, 0.3, 0.77777777])), True),
    "copies": (
        _plain() | {"s": pa.array(np.repeat(np.random.default_rng(3).normal(size=N // 2), 2))},
        True,
    ),
    "further columns": (
        _with(t=np.random.default_rng(2).normal(size=N), k=_spread(["a", "1.0", None, " b "])),
        True,
    ),
    "many further columns": (
        _with(
            t=np.random.default_rng(2).normal(size=N),
            k=_spread(["a", "0.5", None, "ü", "f"]),
            when=pa.array([i * 10**9 for i in range(N)], pa.timestamp("ns")),
            i=pa.array([None, *range(N - 1)]),
        ),
        True,
    ),
    "a text beside": (_with(k=_spread(["0", "f", "zz", None])), True),
    "a nul beside": (_with(k=_spread(["a\0", "b"])), True),
    "lists beside": (_with(k=[[i] for i in range(N)]), False),
    "lists beside, ids": (_with(k=[[i] for i in range(N)], id=_ids()), True),
    "decimals beside": (_with(k=pa.array([i for i in range(N)], pa.decimal128(9, 2))), False),
    "an index": (_with(__index_level_0__=list(range(N))), True),
    "answers": (_with(response=_ids()), False),
}


def _ran(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    source: Any,
    by_columns: bool,
    score: Any = "column:column=s,higher=hallucinated",
    **how: Any,
) -> tuple[tuple[Any, ...], list[bool]]:
    """Return what a run leaves, or what it says, and whether columns were read as columns."""
    used: list[bool] = []

    def spied(*args: Any, **keywords: Any) -> Any:
        found = scored_columns(*args, **keywords) if by_columns else None
        used.append(found is not None)
        return found

    monkeypatch.setattr(scoring, "scored_columns", spied)
    quarantine, table = tmp_path / "quarantine.jsonl", tmp_path / "scores.parquet"
    quarantine.unlink(missing_ok=True)
    reading = ReadOptions(quarantine=quarantine, **how.pop("reading", {}))
    splitting = SplitOptions(**how.pop("splitting", {}))
    compared = how.pop("compare", False)
    asked = {"alpha": 0.2, "max_fpr": 0.5} | how
    result: list[Any] = []
    try:
        if compared:
            comparison = calibrail.compare(
                source, score, reading=reading, splitting=splitting, **asked
            )
            result = [b"".join(json_parts(comparison.to_dict()))]
            comparison.scored.table.to_parquet(table, comparison.codes)
        else:
            run = calibrail.calibrate(source, score, reading=reading, splitting=splitting, **asked)
            assert run.table is not None
            parts = run.report.to_dict(), run._calibration_dict(), plain(run.examples)
            result = [b"".join(json_parts(part)) for part in parts]
            run.table.to_parquet(table, run.codes)
        result.append(table.read_bytes())
    except calibrail.CalibrailError as error:
        result = [type(error), str(error)]
    result.append(quarantine.read_bytes() if quarantine.exists() else None)
    return tuple(result), used


def _same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Any, plain: bool | None, **how: Any
) -> tuple[Any, ...]:
    by_rows, _ = _ran(monkeypatch, tmp_path, source, False, **dict(how))
    by_columns, used = _ran(monkeypatch, tmp_path, source, True, **dict(how))
    assert by_columns == by_rows
    assert plain is None or any(used) == plain
    return by_columns


def _file(tmp_path: Path, columns: Mapping[str, Any], name: str = "data.parquet") -> Path:
    path = tmp_path / name
    pq.write_table(pa.table(dict(columns)), path, row_group_size=64)
    return path


# Each shape in one direction, and both directions in turn.
@pytest.mark.parametrize(
    ("shape", "higher"), list(zip(SHAPES, cycle(("hallucinated", "faithful")), strict=False))
)
def test_every_shape(
    shape: str, higher: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    columns, plain = SHAPES[shape]
    score = f"column:column=s,higher={higher}"
    _same(monkeypatch, tmp_path, _file(tmp_path, columns), plain, score=score, alpha=0.4)


_CSV = ("plain", "ids", "ids missing", "ids twice", "groups and ids", "words and slips", "gaps")
_CSV += ("texts as scores", "many further columns", "a nul beside", "flags", "votes")


def _csv(tmp_path: Path, columns: Mapping[str, Any]) -> Path:
    path = tmp_path / "data.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(column.to_pylist() for column in columns.values()), strict=True))
    return path


@pytest.mark.parametrize("shape", _CSV)
def test_rows_of_csv(shape: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain = shape not in ("ids twice", "texts as scores", "flags", "a nul beside", "votes")
    read_as_columns = None if shape in ("flags", "a nul beside") else plain
    _same(monkeypatch, tmp_path, _csv(tmp_path, SHAPES[shape][0]), read_as_columns, alpha=0.4)


@pytest.mark.parametrize(
    ("change", "plain"),
    [
        (lambda text: "sep=;\n" + text.replace(",", ";"), True),
        (lambda text: "\ufeff" + text, True),
        (lambda text: text + "\r\n", False),
        (lambda text: text.replace("a-7,", '"a\n7",'), False),
        (lambda text: text.replace("a-7,", '"a,7",'), True),
        (lambda text: text.replace("a-7,", "a-7,x,"), False),
        (lambda text: text.replace("a-7,", "a\udcff7,"), False),
        (lambda text: text.replace("a-7,", "\u00e97,"), True),
        (lambda text: text.replace("a-7,", "a-1,"), False),
    ],
)
def test_odd_lines_of_csv(
    change: Callable[[str], str],
    plain: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    path = _csv(tmp_path, {"id": pa.array(_ids()), **_plain()})
    text = change(path.read_bytes().decode())
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    _same(monkeypatch, tmp_path, path, plain)
    _same(monkeypatch, tmp_path, [path, path], None)


#: Table, options, and whether its rows are read as columns.
OPTIONS: Mapping[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "limit": (_with(id=_ids(r3=None)), {"reading": {"limit": 100}}, True),
    "limit beyond": (_plain(), {"reading": {"limit": 1000}}, True),
    "sample": (_plain(), {"reading": {"sample": 90}}, False),
    "strict": (_plain(), {"reading": {"strict": True}}, True),
    "strict and wrong": (
        _changed("label", _set((5, None)), pa.int8()),
        {"reading": {"strict": True}},
        False,
    ),
    "strict ids": (_with(id=_ids(r9="a-1")), {"reading": {"strict": True}}, False),
    "labels left out": (
        _changed("label", lambda v: ["q" if i % 9 == 4 else x for i, x in enumerate(map(str, v))]),
        {"reading": {"label_map": {"1": 1, "0": 0, "q": "skip"}}},
        True,
    ),
    "positive": (
        _changed("label", lambda v: ["no" if x else "yes" for x in v]),
        {"reading": {"positive": "no"}},
        True,
    ),
    "label column": (
        {("is_faithful" if name == "label" else name): v for name, v in _plain().items()},
        {"reading": {"label_column": "is_faithful"}},
        True,
    ),
    "several people": (
        _with(b=_spread([1, 0])),
        {"reading": {"label_column": ("label", "b"), "annotators": "any"}},
        False,
    ),
    "id column": (_with(name=_ids()), {"reading": {"id_column": "name"}}, True),
    "group column": (
        _with(origin=_spread(["x", "y", "z", "w", None, "v"])),
        {"reading": {"group_column": "origin"}},
        True,
    ),
    "split": (
        _with(part=_spread(["calibration", "Test ", "fit", "test"])),
        {"splitting": {"column": "part"}},
        True,
    ),
    "split and groups": (
        _with(part=_spread(["calibration", "test"]), group=[f"g{i % 40}" for i in range(N)]),
        {"splitting": {"column": "part"}},
        True,
    ),
    "split across groups": (
        _with(part=_spread(["calibration", "test"]), group=[f"g{i // 5}" for i in range(N)]),
        {"splitting": {"column": "part"}},
        True,
    ),
    "split that says nothing": (
        _with(part=_spread(["calibration", "test", "test", None])),
        {"splitting": {"column": "part"}},
        True,
    ),
    "split of dictionary": (
        _with(part=pa.array(_spread(["calibration", "test"])).dictionary_encode()),
        {"splitting": {"column": "part"}},
        True,
    ),
    "by": (_with(kind=_spread(["a", "b", "b", None])), {"by": "kind", "min_n": 5}, True),
    "by numbers": (_with(kind=_spread([1.5, 2, None, math.nan])), {"by": "kind"}, True),
    "by flags": (_with(kind=_spread([True, False])), {"by": "kind"}, True),
    "by and split": (
        _with(kind=_spread(["a", "b", "b"]), part=_spread(["calibration", "test"])),
        {"by": "kind", "splitting": {"column": "part"}},
        True,
    ),
    "by the score": (_plain(), {"by": "s"}, False),
    "pac": (_plain(), {"guarantee": "pac"}, True),
    "review": (_with(id=_ids()), {"beta": 0.3}, True),
    "risks": (_plain(), {"risks": ["fpr<=0.7"], "max_fpr": None}, True),
    "clusters": (_with(group=[f"g{i // 2}" for i in range(N)]), {"clustered": True}, True),
    "independent": (
        _plain() | {"s": pa.array(np.repeat(np.random.default_rng(3).normal(size=N // 2), 2))},
        {"assume_independent": True},
        True,
    ),
    "undefined pass": (
        _changed("s", _set((0, None), (1, math.nan))),
        {"undefined": "pass"},
        True,
    ),
    "two scores": (
        _with(t=np.random.default_rng(2).normal(size=N)),
        {"score": ["column:column=s,higher=hallucinated", "column:column=t,higher=faithful"]},
        True,
    ),
    "compare": (
        _with(t=_spread([0.25, None, 0.123456789, 3.0]), id=_ids(r7="a-1")),
        {
            "compare": True,
            "score": ["column:column=s,higher=hallucinated", "column:column=t,higher=faithful"],
        },
        False,
    ),
    "the same score twice": (
        _plain(),
        {"score": ["column:column=s,higher=hallucinated", "column:column=s,higher=faithful"]},
        False,
    ),
    "a score beside": (
        _with(response=[f"answer {i}" for i in range(N)]),
        {"baselines": False},
        False,
    ),
    "no baselines": (_plain(), {"baselines": False}, True),
    "no such column": (_plain(), {"score": "column:column=x,higher=faithful"}, False),
    "no label is right": (
        _changed("label", lambda v: [3 for _ in v]),
        {},
        False,
    ),
    "one class": (_changed("label", lambda v: [1 for _ in v]), {}, True),
    "nothing defined": (_with(s=pa.array([None] * N, pa.float64())), {}, True),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_every_option(case: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    columns, how, plain = OPTIONS[case]
    _same(monkeypatch, tmp_path, _file(tmp_path, columns), plain, **how)


def test_looks_are_the_same_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, columns in {"ids": _with(id=_ids()), "no ids": _plain()}.items():
        path, kept = _file(tmp_path, columns), []
        for by_columns in (False, True):
            looks = tmp_path / f"{name}-{by_columns}.json"
            _ran(monkeypatch, tmp_path, path, by_columns, looks=looks)
            _ran(monkeypatch, tmp_path, path, by_columns, looks=looks, splitting={"seed": 1})
            kept.append(looks.read_bytes())
        assert kept[0] == kept[1]


def test_files_and_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for seed in range(3):
        _file(
            folder,
            _plain(seed, 60) | ({"k": pa.array(["x"] * 60)} if seed else {}),
            f"{seed}.parquet",
        )
    _same(monkeypatch, tmp_path, folder, True)
    _same(monkeypatch, tmp_path, folder, True, reading={"limit": 100})
    # The same ids again in every file, and one twice in its own.
    for seed in range(3):
        ids = pa.array([f"a-{i % 59}" for i in range(60)])
        _file(folder, _plain(seed, 60) | {"id": ids}, f"{seed}.parquet")
    _same(monkeypatch, tmp_path, sorted(folder.iterdir()), False)
    twice = [folder / "0.parquet", folder / "0.parquet"]
    _same(monkeypatch, tmp_path, twice, False)


def test_compressed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "data.parquet.gz"
    path.write_bytes(gzip.compress(_file(tmp_path, _plain()).read_bytes()))
    _same(monkeypatch, tmp_path, path, True)


def test_damage_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = _file(tmp_path, _plain())
    raw = bytearray(path.read_bytes())
    raw[4 : len(raw) // 2] = b"\xff" * (len(raw) // 2 - 4)
    path.write_bytes(raw)
    kind, message, *_ = _ran(monkeypatch, tmp_path, path, True)[0]
    assert issubclass(kind, DataError)
    assert "cannot be read as Parquet" in message


def test_texts_that_are_not_utf8(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = pa.array([b"\xff" if i == 3 else f"a-{i}".encode() for i in range(N)], pa.binary())
    columns = _plain() | {"id": names.view(pa.string())}
    _same(monkeypatch, tmp_path, _file(tmp_path, columns), False)


def test_more_than_one_block(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    in_a_block = 4096
    monkeypatch.setattr("calibrail.data.reading.ROWS", in_a_block)
    n = in_a_block + 1000
    columns = _plain(4, n)
    ids = [f"a-{i}" for i in range(n)]
    ids[7] = None  # type: ignore[call-overload]
    labels: list[Any] = columns["label"].to_pylist()
    labels[in_a_block + 9] = None
    kinds = pa.array([("b", "a", None)[i % 3] if i > in_a_block else "b" for i in range(n)])
    columns |= {"id": pa.array(ids), "label": pa.array(labels, pa.int8()), "kind": kinds}
    _same(monkeypatch, tmp_path, _file(tmp_path, columns), True, by="kind")


_CELLS = {
    "s": st.sampled_from([None, math.nan, math.inf, 0.0, -0.0, 1.0, 0.5, 0.123456789, -3e-7]),
    "label": st.sampled_from([None, 0, 1, 1, 0, 2]),
    "id": st.sampled_from([None, "", " ", "a", "b", "row-2", "ü"]),
    "group": st.sampled_from([None, " ", "g", "h"]),
    "k": st.sampled_from([None, "", "1.0", "f", "zz", "deadbeef"]),
    "t": st.sampled_from([None, 0.1, 0.7654321, 4.0]),
}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_rows(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    tmp_path = tmp_path_factory.mktemp("rows")
    names = ["s", "label", *data.draw(st.sets(st.sampled_from(["id", "group", "k", "t"])))]
    unusual = data.draw(st.lists(st.tuples(*(_CELLS[name] for name in names)), max_size=12))
    base = _plain(data.draw(st.integers(0, 9)), 60)
    rows = [{name: cell for name, cell in zip(names, cells, strict=True)} for cells in unusual]
    for i, (score, label) in enumerate(
        zip(*(base[c].to_pylist() for c in ("s", "label")), strict=True)
    ):
        usual = {"id": f"n-{i}", "group": f"g{i // 2}", "k": "f", "t": score / 3.0}
        rows.insert(
            data.draw(st.integers(0, len(rows))) if i < 9 else len(rows),
            {"s": score, "label": label, **{name: usual[name] for name in names[2:]}},
        )
    kinds = {"s": pa.float64(), "t": pa.float64(), "label": pa.int8()}
    columns = {
        name: pa.array([row[name] for row in rows], kinds.get(name, pa.string())) for name in names
    }
    path = _file(tmp_path, columns)
    with pytest.MonkeyPatch.context() as monkeypatch:
        outcome = _same(monkeypatch, tmp_path, path, None, alpha=0.4)
    if outcome[0] is DataError:
        # More values that are no labels than are slips: either way refuses the file by its column.
        odd = sum(row["label"] not in (0, 1, None) for row in rows)
        assert odd > 3 and "label" in outcome[1]
    else:
        assert json.loads(outcome[0])["data"]["n_examples"] >= 60


@pytest.mark.painted
def test_page_and_figures_do_not_grow_with_the_rows(tmp_path: Path) -> None:
    sizes = []
    for n in (4_000, 80_000):
        path = _file(tmp_path, _plain(0, n), f"{n}.parquet")
        folder = tmp_path / f"{n}"
        calibrail.calibrate(path, "column:column=s,higher=hallucinated", max_fpr=0.5).save(folder)
        shown = [folder / "report.html", *(folder / "figures").iterdir()]
        sizes.append(sum(file.stat().st_size for file in shown))
    assert sizes[1] < 1.15 * sizes[0]
    assert sizes[1] < 5_000_000
