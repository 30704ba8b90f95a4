from __future__ import annotations

import errno
import importlib
import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from calibrail import calibrate, use_engine
from calibrail.data import Example
from calibrail.engine import distributed, score_examples
from calibrail.engine.distributed import local_only_reason
from calibrail.engine.shards import read_result, write_result
from calibrail.errors import DataError, InputError
from calibrail.options import EngineOptions
from calibrail.scores import Score, ScoreTable, build, build_column, parse_specs
from calibrail.scores.custom import CustomScore
from calibrail.scores.lexical import Novelty
from calibrail.scores.registry import key_of

TEXT = "The Rhine rises in the Alps and flows past castles to the North Sea near Rotterdam"
WORDS = TEXT.split()


def answers(n: int, start: int = 0) -> list[Example]:
    """Return answers that differ, some of them empty, some without a group."""
    return [
        Example(
            question=f"Where does river {index // 2} rise?",
            contexts=(" ".join(WORDS), f"River {index // 2} is {7 * index} km long."),
            response="" if index % 11 == 3 else " ".join(WORDS[index % 9 :]) + f" {index} \ud83d",
            label=index % 2,
            group=None if index % 7 == 1 else f"g{index // 2}",
            id=f"a{index}",
            columns={"b": index / 7, "a": index / 3, "text": "" if index % 5 else "x"},
        )
        for index in range(start, start + n)
    ]


def scores(names: str) -> list[Score]:
    return [build(spec) for spec in parse_specs(names)]


def scored(
    examples: Iterable[Example], items: Sequence[Score], folder: Path, **options: Any
) -> ScoreTable:
    with use_engine(EngineOptions(shards=folder, **{"shard_rows": 5, **options})):
        return score_examples(examples, items)


def assert_equal(one: ScoreTable, other: ScoreTable) -> None:
    assert one.ids.equals(other.ids) and one.groups.equals(other.groups)
    assert list(one.columns) == list(other.columns)
    for key, values in one.columns.items():
        assert values.tobytes() == other.columns[key].tobytes(), key
    assert one.reasons == other.reasons
    assert [item.tobytes() for item in (one.labels, one.digests)] == [
        item.tobytes() for item in (other.labels, other.digests)
    ]
    assert (one.kept, one.n_truncated, one.n_cut) == (other.kept, other.n_truncated, other.n_cut)
    assert one.scales == other.scales


def results(folder: Path) -> list[Path]:
    return sorted((folder / "results").rglob("*.parquet"))


HELPER = "FACTOR = 1.0\n\ndef weigh(value):\n    return FACTOR * value\n"
MODULE = """
import os
from pathlib import Path

from shard_helper import weigh

SEEN = Path(__file__).parent / "seen"

def seen(example):
    with SEEN.open("a") as file:
        file.write(example.id + "\\n")

def total(example):
    seen(example)
    return weigh(sum(value for value in example.columns.values() if isinstance(value, float)))

def by_id(example):
    seen(example)
    return float(example.id[1:])

def by_label(example):
    return -1.0 if example.label is None else example.label

def by_digest(example):
    return int(example.digest(), 16) % 1000

def poisoned(example):
    seen(example)
    if (SEEN.parent / "poison").exists() and example.id in (SEEN.parent / "poison").read_text():
        raise ValueError(f"no river {example.id}\\nand more")
    return float(len(example.response))

class PlugIn:
    failing = Path(__file__).parent / "failing"
    name = "plugged"
    params = {}
    requires = ("response",)
    tolerance = 0.0

    def fingerprint(self):
        return {}

    def score(self, examples):
        import numpy as np
        from calibrail.scores import Scores
        from calibrail.scores.base import DetectorFailure
        if self.failing.exists():
            values = np.array([np.nan if "7" in example.id else 1.0 for example in examples])
            why = DetectorFailure("it did not answer")
            return Scores(values, {int(row): why for row in np.flatnonzero(np.isnan(values))})
        return Scores(np.array([weigh(float(example.id[1:])) for example in examples]))
"""


class Detectors:
    """A module of detectors that write down what they were asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, source: str) -> None:
        (self.folder / f"{name}.py").write_text(source, encoding="utf-8")
        for module in ("shard_detectors", "shard_helper"):
            sys.modules.pop(module, None)
        distributed.opened_scores.cache_clear()
        importlib.invalidate_caches()

    def score(self, name: str) -> CustomScore:
        return CustomScore(f"shard_detectors:{name}")

    def seen(self) -> list[str]:
        """Return the ids that were asked about since the last time."""
        path = self.folder / "seen"
        ids = path.read_text().split() if path.exists() else []
        path.unlink(missing_ok=True)
        return ids


@pytest.fixture
def detectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Detectors]:
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = Detectors(folder)
    made.write("shard_helper", HELPER)
    made.write("shard_detectors", MODULE)
    yield made
    made.write("shard_helper", HELPER)


def test_shards_give_what_one_pass_gives(tmp_path: Path, detectors: Detectors) -> None:
    items = [
        *scores("rouge_l,novelty,numbers,length,hybrid:expensive=novelty,low=1,high=2"),
        build_column("b", "faithful"),
        detectors.score("total"),
        detectors.score("by_digest"),
    ]
    examples = [*answers(23), replace(answers(1)[0], response="", content="cells", id="a99")]
    whole = score_examples(examples, items)
    for rows in (1, 5, 100):
        for _again in range(2):
            assert_equal(whole, scored(examples, items, tmp_path / "S", shard_rows=rows))
    assert whole.reasons["rouge_l"] and np.isnan(whole.columns["rouge_l"]).any()


def test_scores_of_a_network_differ_by_rounding_only(tmp_path: Path) -> None:
    examples, items = answers(12), scores("rad,sgi")
    whole = score_examples(examples, items)
    parts = [scored(examples, items, tmp_path / folder) for folder in ("S", "S", "T")]
    for part in parts:
        assert_equal(parts[0], part)
        for key, values in whole.columns.items():
            np.testing.assert_allclose(part.columns[key], values, rtol=0.0, atol=1e-6)
        assert part.n_truncated == whole.n_truncated


def test_opening_a_model_is_told_apart_in_shards_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples, items = answers(12), scores("rad")
    (model,) = items[0].models  # type: ignore[attr-defined]
    now, embed = [0.0], type(model).embed

    def slow(self: Any, texts: Any) -> None:
        if not self.seconds_opening:
            with self.opening():
                now[0] += 64.0
        now[0] += 0.5
        embed(self, texts)

    # Opened before, as a matter of other tests; and here for the first time.
    _ = model.opened
    monkeypatch.setattr(type(model), "embed", slow)
    monkeypatch.setattr(model, "seconds_opening", 0.0)
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    for _ in range(2):
        (cost,) = scored(examples, items, tmp_path / "S").costs
        # Three shards; the second time all are known, with what they took.
        assert (cost.n, cost.seconds, cost.seconds_opening) == (12, 1.5, 64.0)


def test_of_equal_shards_each_row_has_its_own_id_group_and_label(tmp_path: Path) -> None:
    once = answers(5)
    again = [
        replace(item, id=f"b{row}", group=f"h{row}", label=1, columns={})
        for row, item in enumerate(once)
    ]
    items = scores("rouge_l,length")
    examples = [*once, *again, *once]
    assert_equal(score_examples(examples, items), scored(examples, items, tmp_path))
    assert len(results(tmp_path)) == 1


def test_a_score_that_may_read_ids_is_computed_for_other_ids(
    tmp_path: Path, detectors: Detectors
) -> None:
    item = detectors.score("by_id")
    for start in (0, 5):
        renamed = [replace(e, id=f"a{start + row}") for row, e in enumerate(answers(5))]
        table = scored(renamed, [item], tmp_path / "S")
        assert table.columns[item.key].tolist() == [start + row for row in range(5)]


def test_scores_of_texts_are_known_beside_a_score_that_may_read_more(
    tmp_path: Path, detectors: Detectors
) -> None:
    examples, items = answers(12), [*scores("rouge_l"), detectors.score("total")]
    scored(examples, items[:1], tmp_path / "S")
    before = results(tmp_path / "S")
    assert_equal(score_examples(examples, items), scored(examples, items, tmp_path / "S"))
    new = [path for path in results(tmp_path / "S") if path not in before]
    # One column a shard: of the new score.
    tables = [read_result(path) for path in new]
    assert [table and table.num_columns for table in tables] == [1, 1, 1]
    # And the other way round, of other ids: only the score that reads them is asked anew.
    renamed = [replace(item, id=f"b{item.id}") for item in examples]
    detectors.seen()
    assert_equal(score_examples(renamed, items), scored(renamed, items, tmp_path / "S"))
    assert len(results(tmp_path / "S")) == 9 and len(detectors.seen()) == 24


def test_no_detector_is_shown_a_label(tmp_path: Path, detectors: Detectors) -> None:
    item = detectors.score("by_label")
    for table in (score_examples(answers(3), [item]), scored(answers(3), [item], tmp_path / "S")):
        assert table.columns[item.key].tolist() == [-1.0] * 3


def test_cells_keep_their_order(tmp_path: Path, detectors: Detectors) -> None:
    item = detectors.score("total")
    cells = {"z": 1e16, "b": 1.0, "a": -1e16}
    examples = [replace(item, columns=cells) for item in answers(2)]
    assert_equal(score_examples(examples, [item]), scored(examples, [item], tmp_path / "S"))


def test_what_was_computed_once_is_not_computed_again(tmp_path: Path, detectors: Detectors) -> None:
    item, folder = detectors.score("total"), tmp_path / "S"
    examples = answers(20)
    scored(examples, [item], folder)
    assert detectors.seen() == [example.id for example in examples]
    # Beside others, of fewer rows, and of more.
    scored(examples, [*scores("length"), item, *scores("novelty")], folder)
    scored(examples[:10], [item], folder)
    assert detectors.seen() == []
    scored(answers(23), [item], folder)
    assert detectors.seen() == ["a20", "a21", "a22"]
    # Of the last rows some stood in a smaller shard.
    scored(examples[:13], [item], folder)
    assert detectors.seen() == ["a10", "a11", "a12"]
    (folder / "manifest.json").write_text("garbage")
    scored(examples, [item], folder)
    (folder / "manifest.json").unlink()
    scored(examples, [item], folder)
    assert detectors.seen() == []


@pytest.mark.parametrize("module", ["shard_detectors", "shard_helper"])
def test_a_changed_source_is_another_detector(
    tmp_path: Path, detectors: Detectors, module: str
) -> None:
    folder, examples = tmp_path / "S", answers(7)
    before = scored(examples, [detectors.score("total")], folder)
    assert len(detectors.seen()) == 7
    changed = HELPER.replace("1.0", "2.0") if module == "shard_helper" else MODULE + "\n"
    detectors.write(module, changed)
    after = scored(examples, [detectors.score("total")], folder)
    assert len(detectors.seen()) == 7
    factor = 2.0 if module == "shard_helper" else 1.0
    key = "shard_detectors:total"
    assert (after.columns[key] == factor * before.columns[key]).all()


def test_a_plug_in_is_known_by_its_source_and_asked_for_other_ids(
    tmp_path: Path, detectors: Detectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = EntryPoint("plugged", "shard_detectors:PlugIn", "calibrail.scores")
    monkeypatch.setattr("calibrail.scores.registry._plug_ins", lambda: EntryPoints([entry]))
    for factor in (1.0, 3.0):
        detectors.write("shard_helper", HELPER.replace("1.0", str(factor)))
        (item,) = scores("plugged")
        assert local_only_reason(item) is None
        for start in (0, 5):
            renamed = [replace(e, id=f"a{start + row}") for row, e in enumerate(answers(5))]
            table = scored(renamed, [item], tmp_path / "S")
            assert table.columns["plugged"].tolist() == [factor * (start + row) for row in range(5)]


def test_what_a_detector_failed_on_is_tried_again(
    tmp_path: Path, detectors: Detectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = EntryPoint("plugged", "shard_detectors:PlugIn", "calibrail.scores")
    monkeypatch.setattr("calibrail.scores.registry._plug_ins", lambda: EntryPoints([entry]))
    items, examples, folder = scores("plugged,length"), [*answers(10), *answers(10)], tmp_path / "S"
    (detectors.folder / "failing").touch()
    failed = scored(examples, items, folder)
    assert failed.reasons["plugged"] == dict.fromkeys((7, 17), "it did not answer")
    kept = {path: path.stat().st_mtime_ns for path in results(folder)}
    (detectors.folder / "failing").unlink()
    table = scored(examples, items, folder)
    assert not table.reasons["plugged"]
    # Values of the shard in which nothing failed, and of the other score, were known.
    assert table.columns["plugged"].tolist() == [*[1.0] * 5, *range(5, 10)] * 2
    changed = [path for path in results(folder) if kept.get(path) != path.stat().st_mtime_ns]
    assert len(changed) == 1


def test_what_a_network_computes_here_does_not_depend_on_what_is_known(tmp_path: Path) -> None:
    examples = [example for example in answers(24) if example.response]
    (item,) = scores("hybrid:expensive=novelty,cheap=rad")
    both = [item.fit(examples[:14]), *scores("rad:weighting=question")]  # type: ignore[attr-defined]
    whole = scored(examples, both, tmp_path / "S")
    scored(examples[10:15], both[1:], tmp_path / "T")
    scored(examples[:5], both[1:], tmp_path / "T")
    assert_equal(whole, scored(examples, both, tmp_path / "T"))


def test_what_a_name_does_not_lead_to_is_computed_here(tmp_path: Path) -> None:
    class Twice(Novelty):
        """A score of a script that bears the name of another one."""

        def value(self, example: Example) -> Any:
            return 2.0

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        items: list[Score] = [Twice(), CustomScore(lambda example: 3.0)]
    with use_engine(EngineOptions(shards=tmp_path)), pytest.warns(UserWarning) as warned:
        score_examples(answers(8), items)
        table = score_examples(answers(8), items)
    for item, why in zip(
        items, ("the name novelty builds a Novelty", "no name imports"), strict=True
    ):
        (said,) = [str(w.message) for w in warned if str(w.message).startswith(key_of(item))]
        assert f"and not kept, despite shards={str(tmp_path)!r}: {why}" in said
    assert [set(values[~np.isnan(values)]) for values in table.columns.values()] == [{2.0}, {3.0}]
    assert all(map(local_only_reason, items)) and not results(tmp_path)


def test_what_a_hybrid_learnt_from_stays_without_a_value(tmp_path: Path) -> None:
    examples = answers(60)
    item = build(parse_specs("hybrid:expensive=novelty,cheap=rouge_l")[0])
    fitted = item.fit([example for example in examples[:30] if example.response])  # type: ignore[attr-defined]
    again = item.fit([example for example in examples[:30] if example.response])  # type: ignore[attr-defined]
    whole, parts = score_examples(examples, [fitted]), scored(examples, [again], tmp_path)
    assert_equal(whole, parts)
    assert "learnt from" in str(parts.reasons) and fitted.lessons == again.lessons


def test_what_was_learnt_tells_detectors_apart(tmp_path: Path) -> None:
    examples = [example for example in answers(40) if example.response]
    (item,) = scores("fused:scores='novelty,rouge_l'".replace("'", '"'))
    one = item.fit(examples[:25])  # type: ignore[attr-defined]
    other = item.fit(examples[10:])  # type: ignore[attr-defined]
    for fitted in (one, other, one):
        assert_equal(score_examples(examples, [fitted]), scored(examples, [fitted], tmp_path))


@pytest.mark.parametrize("damage", [b"", b"PAR1 garbage", None])
def test_a_damaged_result_is_computed_again(
    tmp_path: Path, detectors: Detectors, damage: bytes | None
) -> None:
    item, folder, examples = detectors.score("total"), tmp_path / "S", answers(10)
    whole = scored(examples, [item], folder)
    detectors.seen()
    result = results(folder)[0]
    raw = result.read_bytes()
    result.write_bytes(raw[: len(raw) // 2] if damage is None else damage)
    assert_equal(whole, scored(examples, [item], folder))
    assert len(detectors.seen()) == 5
    # A bit that turned in the values.
    turned = bytearray(raw)
    turned[20] ^= 1
    result.write_bytes(bytes(turned))
    assert_equal(whole, scored(examples, [item], folder))
    assert len(detectors.seen()) == 5


def test_a_poisoned_row_stops_none_of_the_other_shards(
    tmp_path: Path, detectors: Detectors
) -> None:
    item, folder, examples = detectors.score("poisoned"), tmp_path / "S", answers(20)
    (detectors.folder / "poison").write_text("a7")
    with pytest.raises(DataError) as raised:
        scored(examples, [item], folder)
    message = str(raised.value)
    for words in (
        "1 shard failed",
        "rows 6 to 10: the detector",
        "answer 'a7'",
        "ValueError: no river a7",
    ):
        assert words in message
    assert "3 shards done and kept" in message and "\n" not in message
    manifest = json.loads((folder / "manifest.json").read_text())
    states = [shard["state"] for shard in manifest["shards"]]
    assert states == ["done", "failed", "done", "done"]
    assert (manifest["complete"], manifest["n_done"], manifest["n_failed"]) == (False, 15, 5)
    assert manifest["shards"][1]["rows"] == [6, 10] and "a7" in manifest["shards"][1]["error"]
    assert not list(folder.glob("inputs/*"))
    detectors.seen()
    (detectors.folder / "poison").unlink()
    table = scored(examples, [item], folder)
    assert detectors.seen() == [f"a{row}" for row in range(5, 10)]
    assert_equal(score_examples(examples, [item]), table)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["complete"] and manifest["n_done"] == 20


def test_where_every_shard_fails_the_run_ends_early(tmp_path: Path, detectors: Detectors) -> None:
    item, examples = detectors.score("poisoned"), answers(100)
    (detectors.folder / "poison").write_text(" ".join(example.id for example in examples))
    with pytest.raises(DataError, match="3 shards failed and none was computed"):
        scored(examples, [item], tmp_path / "S")
    assert len(detectors.seen()) == 3


def test_nothing_is_read_as_something_else_in_a_folder_of_any_name(tmp_path: Path) -> None:
    examples, items = answers(8), scores("length")
    for name in ("a=b", "with space", "100%", "#1"):
        folder = tmp_path / name
        for _again in range(2):
            assert_equal(score_examples(examples, items), scored(examples, items, folder))


def test_data_in_memory_is_kept_as_a_file_is(tmp_path: Path, detectors: Detectors) -> None:
    cells = [
        {"id": f"a{row}", "question": "q", "contexts": TEXT, "response": f"{TEXT[row:]} {row}"}
        | {"label": row % 2, "weight": row / 3}
        for row in range(60)
    ]
    item = detectors.score("total")
    plain = calibrate(cells, item, alpha=0.3).report.to_dict()
    # The worst errors, which pages show, are scored once more.
    n_shown = len(detectors.seen()) - 60
    frame = pd.DataFrame(cells)
    for source, n_asked in ((cells, 60), (frame, 0), (pa.Table.from_pylist(cells), 0)):
        with use_engine(EngineOptions(shards=tmp_path / "S", shard_rows=16)):
            report = calibrate(source, item, alpha=0.3).report.to_dict()
        assert report["test"] == plain["test"] and report["threshold"] == plain["threshold"]
        assert len(detectors.seen()) == n_asked + n_shown


def test_a_cell_that_no_shard_can_hold_is_named(tmp_path: Path, detectors: Detectors) -> None:
    examples = [replace(answers(1)[0], columns={"day": object()})]  # type: ignore[dict-item]
    with pytest.raises(InputError, match=r"cell of the data .*texts or numbers"):
        scored(examples, [detectors.score("total")], tmp_path / "S")


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(DataError, match=r"cannot keep shards in .*file.*name another folder"):
        scored(answers(3), scores("length"), file)


def test_what_a_killed_run_left_is_gone_after_the_next(tmp_path: Path) -> None:
    scored(answers(3), scores("length"), tmp_path)
    left = tmp_path / "inputs" / "run-killed00.calibrail-unfinished"
    left.mkdir()
    for name in (".calibrail-lock", "0-abc.parquet", ".abc.parquet.x7"):
        (left / name).write_text("a question")
    scored(answers(3), scores("length"), tmp_path)
    assert not list(tmp_path.glob("inputs/*"))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(files) == sorted([*results(tmp_path), tmp_path / "manifest.json"])


def test_a_full_disk_is_said_and_nothing_half_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("calibrail.atomic_files.os.fsync", full)
    with pytest.raises(DataError, match=r"3 shards failed.*No space left on device"):
        scored(answers(30), scores("length"), tmp_path)
    assert not results(tmp_path) and not list(tmp_path.glob("inputs/*"))
    monkeypatch.undo()
    assert_equal(
        score_examples(answers(30), scores("length")),
        scored(answers(30), scores("length"), tmp_path),
    )


def test_runs_at_the_same_time_share_a_folder(tmp_path: Path, detectors: Detectors) -> None:
    item, other, examples = detectors.score("total"), scores("novelty"), answers(20)
    seen: list[ScoreTable] = []

    def reading() -> Iterator[Example]:
        """Run another one, of the same shards, in the middle."""
        for row, example in enumerate(examples):
            if row == 12:
                seen.append(scored(examples, [item, *other], tmp_path / "S"))
            yield example

    table = scored(reading(), [item, *other], tmp_path / "S")
    assert not list(tmp_path.glob("S/inputs/*"))
    assert_equal(table, seen[0])
    assert sorted(detectors.seen()) == sorted(example.id for example in examples)


def test_no_flipped_bit_of_a_result_is_read_as_if_nothing_were(tmp_path: Path) -> None:
    path = tmp_path / "result.parquet"
    beside = {b"calibrail": b'{"ab": {"seconds": 1.25, "n_cut": {}}}'}
    columns = {"ab": [0.1 * row for row in range(30)], "ab__reason": [None] * 29 + ["empty"]}
    write_result(path, pa.table(columns).replace_schema_metadata(beside))
    raw, whole = path.read_bytes(), read_result(path)
    assert whole is not None
    for bit in np.random.default_rng(0).integers(0, 8 * len(raw), 300).tolist():
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(flipped))
        assert (found := read_result(path)) is None or found.equals(whole)


def test_a_result_in_the_place_of_another_is_computed_anew(tmp_path: Path) -> None:
    folder, examples = tmp_path / "S", answers(20)
    right = scored(examples, scores("length"), folder)
    first, second, *_ = paths = sorted((folder / "results").rglob("*.parquet"))
    assert len(paths) == 4
    mixed = first.read_bytes(), second.read_bytes()
    second.write_bytes(mixed[0])
    first.write_bytes(mixed[1])
    assert read_result(first) is read_result(second) is None
    assert_equal(scored(examples, scores("length"), folder), right)
    assert read_result(first) is not None
