"""Are answers that set a threshold recognised wherever they come back, and new ones never lost?"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calibrail
from calibrail import read
from calibrail.data import Example
from calibrail.data.duplicates import Sketches, copies_of
from calibrail.guardrail import Guardrail
from calibrail.pipelines import calibration_overlap, look_overlap
from calibrail.pipelines.calibration_overlap import Fresh, KnownBy
from calibrail.pipelines.certify_labels import Certification
from calibrail.pipelines.select import NewAnswers
from calibrail.scores.registry import build_column
from tests.answers import rows, write
from tests.command_line import calibrail as command
from tests.memory import peak_bytes

Rows = list[dict[str, Any]]


def scores(n: int = 1000, seed: int = 0, decimals: int = 12) -> Rows:
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % 2)
    values = np.round(rng.normal(2.0 * labels, 1.0), decimals)
    return [{"label": int(y), "s": float(x)} for y, x in zip(labels, values, strict=True)]


def csv(path: Path, items: Rows) -> Path:
    lines = [",".join(items[0]), *(",".join(map(str, item.values())) for item in items)]
    path.write_text("\n".join(lines) + "\n")
    return path


def parquet(path: Path, items: Rows) -> Path:
    pq.write_table(pa.Table.from_pylist(items), path)
    return path


def shuffled(items: Rows) -> Rows:
    return [items[i] for i in np.random.default_rng(5).permutation(len(items))]


def guardrail_of(path: Path) -> Guardrail:
    return calibrail.calibrate(path, build_column("s", higher="hallucinated"), alpha=0.1).freeze()


def certified(guardrail: Guardrail, path: Path, **more: Any) -> Certification:
    return calibrail.certify(guardrail, path, max_fpr=0.5, min_coverage=0.8, **more)


@pytest.fixture(scope="module")
def guardrail(tmp_path_factory: pytest.TempPathFactory) -> Guardrail:
    return guardrail_of(csv(tmp_path_factory.mktemp("scores") / "a.csv", scores()))


def test_fresh_rows_with_the_numbers_of_others_are_all_kept(
    guardrail: Guardrail, tmp_path: Path
) -> None:
    result = certified(guardrail, csv(tmp_path / "b.csv", scores(seed=1)))
    assert result.n_seen_before == 0 and result.certificate.coverage.n == 500
    assert (result.verdict, result.freshness) == ("certified", "new")
    assert result.to_dict()["reason_code"] == "limits_kept"


@pytest.mark.parametrize(
    ("name", "writer", "change"),
    [
        ("b.csv", csv, shuffled),
        ("b.jsonl", write, lambda items: items),
        ("b.parquet", parquet, shuffled),
        ("b.csv", csv, lambda items: [{"s": f"{r['s']:.14f}", "label": r["label"]} for r in items]),
        ("b.csv", csv, lambda items: [{"Unnamed: 0": i, **r} for i, r in enumerate(items)]),
        ("b.jsonl", write, lambda items: [{"s": r["s"], "label": bool(r["label"])} for r in items]),
        ("b.csv", csv, lambda items: [*scores(400, seed=8), *items]),
    ],
)
def test_the_calibration_data_comes_back_in_another_dress(
    guardrail: Guardrail,
    tmp_path: Path,
    name: str,
    writer: Callable[[Path, Rows], Path],
    change: Callable[[Rows], Rows],
) -> None:
    result = certified(guardrail, writer(tmp_path / name, change(scores())))
    assert result.n_seen_before == guardrail.calibration.n
    assert (result.verdict, result.freshness) == ("inconclusive", "calibration data")
    assert result.to_dict()["reason_code"] == "calibration_data"
    assert "the guardrail was calibrated on this data" in result.certificate.reason


def test_a_column_by_another_name_is_the_same_column(guardrail: Guardrail, tmp_path: Path) -> None:
    items = [{"other": 1, "s": row["s"], "label": row["label"]} for row in scores()]
    then = guardrail_of(write(tmp_path / "a.jsonl", items))
    items = [{"s": row["s"], "renamed": 1.0, "label": row["label"]} for row in items]
    assert certified(then, parquet(tmp_path / "b.parquet", items)).freshness == "calibration data"


@pytest.mark.parametrize("n", [1000, 6000])
@pytest.mark.parametrize("ids", [False, True])
def test_rounded_scores_and_further_columns_make_no_new_rows(
    tmp_path: Path, n: int, ids: bool
) -> None:
    items = [{"id": i, **row} if ids else row for i, row in enumerate(scores(n))]
    calibrail.calibrate(
        csv(tmp_path / "a.csv", items), build_column("s", higher="hallucinated"), alpha=0.1
    ).freeze().save(tmp_path / "g.json")
    then = Guardrail.load(tmp_path / "g.json")
    wider = csv(tmp_path / "wider.csv", [{**row, "note": f"x{n}"} for row in items])
    assert certified(then, wider, fresh=True).freshness == "calibration data"
    rounded = [{**row, "s": float(f"{row['s']:.4g}")} for row in items]
    result = certified(then, csv(tmp_path / "rounded.csv", rounded))
    # Of many scores chance meets too many once they are rounded.
    expected = "calibration data" if n == 1000 else "unknown"
    assert (result.verdict, result.freshness) == ("inconclusive", expected)
    # Others are new, with the same ids and with others.
    new = [{"id": i, **row} if ids else row for i, row in enumerate(scores(n, seed=1))]
    result = certified(then, csv(tmp_path / "new.csv", new))
    assert result.freshness == "new"
    assert result.verdict == "certified"
    # Of six digits a few are met by chance.
    assert result.n_seen_before <= 0.01 * n
    assert result.certificate.coverage.n >= n // 2 - result.n_seen_before


def test_further_columns_do_not_make_coarse_scores_tell(tmp_path: Path) -> None:
    coarse = scores(decimals=2)
    then = guardrail_of(csv(tmp_path / "a.csv", coarse))
    noted = csv(tmp_path / "b.csv", [{**row, "note": f"n{i}"} for i, row in enumerate(coarse)])
    assert certified(then, noted).freshness == "unknown"


def test_an_old_question_with_a_new_answer_is_a_new_row(tmp_path: Path) -> None:
    def asked(seed: int) -> Rows:
        return [{"question": f"q {i // 2}?", **row} for i, row in enumerate(scores(seed=seed))]

    old = csv(tmp_path / "a.csv", asked(0))
    then = guardrail_of(old)
    assert then.config.data.known_by is not None
    assert then.config.data.known_by["content"] == 1000
    examples = then.config.data.calibration_examples
    assert len(set(examples)) == len(examples)
    result = certified(then, csv(tmp_path / "b.csv", asked(1)))
    assert (result.verdict, result.freshness) == ("certified", "new")
    assert result.n_seen_before == 0
    again = csv(tmp_path / "c.csv", shuffled(asked(0)))
    assert certified(then, again, fresh=True).freshness == "calibration data"
    # A guardrail that knew its rows by their questions cannot tell.
    content = then.config.model_dump(by_alias=True)
    content["data"]["known_by"] = {"texts": 1000, "id": 0, "content": 0, "nothing": 0, "alike": 0}
    older = Guardrail(type(then.config).model_validate(content))
    assert certified(older, csv(tmp_path / "b.csv", asked(1))).freshness == "unknown"


def test_rows_that_are_alike_cannot_be_told_apart(tmp_path: Path) -> None:
    then = guardrail_of(csv(tmp_path / "a.csv", scores(decimals=2)))
    assert then.config.data.known_by is not None
    assert then.config.data.known_by["alike"] > 100
    fresh = csv(tmp_path / "b.csv", scores(seed=1, decimals=2))
    result = certified(then, fresh, by="label")
    assert result.n_seen_before == 0 and result.certificate.coverage.n == 500
    assert (result.verdict, result.freshness) == ("inconclusive", "unknown")
    assert result.to_dict()["reason_code"] == "unknown_data"
    assert "nothing shows whether these rows set the threshold" in result.certificate.reason
    assert result.groups is not None
    assert all(item.certificate.verdict != "certified" for item in result.groups.values())
    # Copies in them would make any verdict wrong more often than it says.
    for words, verdict in (({"max_fpr": 0.01}, "rejected"), ({"fresh": True}, "certified")):
        for apart in (False, True):
            options = {"max_fpr": 0.6, "min_coverage": 0.8, "assume_independent": apart} | words
            said = calibrail.certify(then, fresh, **options)
            assert said.verdict == (verdict if apart else "inconclusive")
            assert "rows are the same as another one" in said.certificate.reason
            assert ("(--assume-independent), although" in said.certificate.reason) == apart
            assert "fresh" not in words or said.freshness == "declared"
    assert "--fresh says so" in said.certificate.reason
    again = certified(
        then,
        csv(tmp_path / "a.csv", scores(decimals=2)),
        fresh=True,
        assume_independent=True,
    )
    assert again.verdict == "inconclusive"
    # With ids of their own they can.
    named = [{"id": f"a{i}", **row} for i, row in enumerate(scores(decimals=2))]
    then = guardrail_of(csv(tmp_path / "named.csv", named))
    new = [{"id": f"b{i}", **row} for i, row in enumerate(scores(seed=1, decimals=2))]
    assert certified(then, csv(tmp_path / "new.csv", new)).verdict == "certified"
    assert certified(then, csv(tmp_path / "c.csv", shuffled(named))).freshness == "calibration data"
    # And not without the ids that the calibration had, or with some of them alone.
    assert certified(then, fresh).freshness == "unknown"
    some = [{**row, "id": "" if i % 50 else row["id"]} for i, row in enumerate(new)]
    assert certified(then, csv(tmp_path / "some.csv", some)).freshness == "unknown"


def test_a_guardrail_that_knows_rows_by_number_certifies_no_rows_without_names(
    guardrail: Guardrail, tmp_path: Path
) -> None:
    content = json.loads(json.dumps(guardrail.config.model_dump(by_alias=True)))
    content["data"]["known_by"] = None
    older = Guardrail(type(guardrail.config).model_validate(content))
    fresh = csv(tmp_path / "b.csv", scores(seed=1))
    assert certified(older, fresh).freshness == "unknown"


def test_answers_with_texts_are_known_by_them(tmp_path: Path) -> None:
    column = build_column("detector", higher="hallucinated")
    answers = write(tmp_path / "a.jsonl", rows(300))
    then = calibrail.calibrate(answers, column, alpha=0.1).freeze()
    items = [{**row, "id": f"new {i}"} for i, row in enumerate(shuffled(rows(300)))]
    again = calibrail.certify(then, write(tmp_path / "b.jsonl", items), max_fpr=0.9)
    assert again.freshness == "calibration data" and again.verdict == "inconclusive"
    fresh = write(tmp_path / "c.jsonl", rows(300, seed=4, prefix="New "))
    assert calibrail.certify(then, fresh, max_fpr=0.9, min_coverage=0.8).verdict == "certified"


def test_the_command_says_so(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", scores(400, decimals=1))
    guardrail_of(path).save(tmp_path / "g.json")
    csv(tmp_path / "b.csv", scores(400, seed=3, decimals=1))
    limits = ("--max-fpr", "0.6", "--min-coverage", "0.7", "--assume-independent")
    asked = ("g.json", "b.csv", *limits)
    done = command("certify", *asked, cwd=tmp_path)
    assert done.returncode == 4
    assert "nothing shows whether these rows set the threshold" in " ".join(done.stdout.split())
    done = command("certify", *asked, "--fresh", cwd=tmp_path)
    assert done.returncode == 0 and "because --fresh says so" in " ".join(done.stdout.split())


def test_a_row_without_a_name_takes_few_bytes_and_those_alike_are_counted() -> None:
    known, n = KnownBy(), 10_000
    contents = [i // 2 if i < 30 else i for i in range(n)]

    def add() -> None:
        for i in contents:
            known.add(Example(id=f"row-{i}", label=0, content=str(i)))

    assert peak_bytes(add) < 20 * n
    assert known.counts() == {
        "texts": 0,
        "id": 0,
        "content": n,
        "nothing": 0,
        "alike": 30,
    }


def textual(n: int = 60) -> Rows:
    """Return answers with texts, of which every second one is hallucinated."""
    rng = np.random.default_rng(4)
    words = [f"{name}{i}" for i in range(40) for name in ("caf\u00e9", "river", "\u201cdoor\u201d")]

    def text() -> str:
        return f"{' '.join(rng.choice(words, 9))}."

    rows: Rows = []
    for i in range(n):
        contexts = [text(), f"{text()} {text()}", text()]
        response = text() if i % 2 else contexts[0]
        row = {"id": i, "group": i // 2, "question": text(), "contexts": contexts}
        rows.append({**row, "response": response, "label": i % 2})
    return rows


@pytest.fixture(scope="module")
def of_texts() -> Guardrail:
    return calibrail.calibrate(textual(), "rouge_l", alpha=0.2, baselines=False).freeze()


def each_text(spell: Callable[[str], str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return what spells all texts of a row."""

    def respelt(row: dict[str, Any]) -> dict[str, Any]:
        texts = {name: spell(row[name]) for name in ("question", "response")}
        return {**row, **texts, "contexts": [spell(chunk) for chunk in row["contexts"]]}

    return respelt


#: What happens to rows between two programs: first what leaves the content as it is.
EXACT: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "as they were": dict,
    "a merge": lambda row: {**row, "id": float(row["id"]), "group": float(row["group"])},
    "other ids": lambda row: {**row, "id": f"x{row['id']}"},
    "lines of Windows": each_text(lambda text: f"{text}\r\n"),
    "decomposed": each_text(lambda text: unicodedata.normalize("NFD", text)),
    "joined": lambda row: {**row, "contexts": "\n".join(row["contexts"])},
    "ordered": lambda row: {**row, "contexts": sorted(row["contexts"])},
    "as text": lambda row: {**row, "contexts": json.dumps(row["contexts"])},
    "entities": each_text(lambda text: text.replace("\u00e9", "&eacute;")),
    "straight": each_text(lambda text: text.replace("\u201c", '"').replace("\u201d", '"')),
}
NEARLY: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "numbered": lambda row: {
        **row,
        "contexts": [f"[{i}] {chunk}" for i, chunk in enumerate(row["contexts"])],
    },
    "wrapped": each_text(lambda text: text.replace(" ", "\n", 3)),
    "a word more": lambda row: {**row, "response": f"{row['response'][:-1]} indeed."},
}


@pytest.mark.parametrize("how", [*EXACT, *NEARLY])
def test_answers_that_set_the_threshold_are_known_in_another_spelling(
    of_texts: Guardrail, how: str
) -> None:
    rows = list(map((EXACT | NEARLY)[how], textual()))
    n, seen = len(of_texts.config.data.calibration_examples), Fresh(of_texts)
    fresh = list(seen.admitted(read(rows[::-1])))
    assert n > 10 and seen.n_seen_before == n == len(rows) - len(fresh)
    assert seen.n_near_copies == n * (how in NEARLY)
    assert seen.freshness(None) == "calibration data"
    # One by one, as a service asks.
    alone = Fresh(of_texts)
    assert sum(alone.admits([*read(rows)])) == len(fresh)


def test_other_answers_to_the_same_questions_are_new(of_texts: Guardrail) -> None:
    rows = [{**row, "response": f"Nothing is known of {row['id']}."} for row in textual()]
    seen = Fresh(of_texts)
    assert len(list(seen.admitted(read(rows)))) == 60 and seen.freshness(None) == "new"


def test_guardrails_and_looks_of_earlier_versions_know_their_answers(of_texts: Guardrail) -> None:
    # They held digests of texts as these were spelt, and no sketches.
    content = of_texts.config.model_dump(by_alias=True)
    known = set(content["data"]["calibration_examples"])
    spelt = {item.digest(): item.digest("spelt") for item in read(textual())}
    content["data"]["calibration_examples"] = sorted(spelt[digest] for digest in known)
    content["data"].pop("sketches")
    content["data"]["looked_at"].pop("sketches")
    older = Guardrail(type(of_texts.config).model_validate(content), of_texts.score)
    assert b"sketches" not in older.config.to_bytes()
    for how in ("as they were", "a merge", "lines of Windows", "decomposed"):
        seen = Fresh(older)
        assert seen.as_spelt and not Fresh(of_texts).as_spelt
        rows = list(map(EXACT[how], textual()))
        assert len(list(seen.admitted(read(rows)))) == 60 - len(known)

    def look(rows: Rows) -> look_overlap.DataUse:
        looked = look_overlap.TestSetFingerprint()
        for item in read(rows):
            looked.add(item, 0.5)
        return looked.look(None, assumed=False)

    now = look(textual())
    names = ("answers",)
    then = look_overlap.DataUse.from_dict(
        {k: v for k, v in now.to_dict().items() if k not in names}
    )
    assert (
        now.same(then)
        and then.same(now)
        and look_overlap.overlapping_uses(now, [then])[0][1] == 1.0
    )
    again = look(list(map(EXACT["ordered"], map(EXACT["lines of Windows"], textual()))))
    assert again.content != now.content and again.same(now)
    half = look(list(map(EXACT["joined"], textual()[:30])))
    assert look_overlap.overlapping_uses(half, [now])[0][1] == 1.0


def test_select_looks_for_near_copies_many_at_a_time(
    of_texts: Guardrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def counted(known: Sketches, fresh: Sketches) -> Any:
        asked.append(len(fresh))
        return copies_of(known, fresh)

    monkeypatch.setattr(calibration_overlap, "copies_of", counted)
    rows = [EXACT["other ids"](row) for row in textual()]
    n = len(of_texts.config.data.calibration_examples)
    made = calibrail.select(of_texts, rows, fdr=0.5)
    assert made.n_seen_before == n > 10 and len(made.ids) == len(rows) - n
    assert asked == [len(rows)]
    # So does a service, which has them all at once.
    batch = NewAnswers(of_texts)
    assert sum(batch.admits([*read(rows)])) == len(rows) - n
    assert asked == [len(rows)] * 2
