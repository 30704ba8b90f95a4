"""Do labels that were made elsewhere with known probabilities count as those made here?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrail
from calibrail import Guardrail
from calibrail.conformal import SequentialTest
from calibrail.errors import DataError, InputError
from calibrail.labelling.exchange.transfer import balance, read_lots
from calibrail.labelling.ledger import Lots
from calibrail.labelling.session import Session
from calibrail.options import Drawing
from tests.labelling.rows import frozen, lines, traces, truth, write

LIMITS = {"max_fpr": 0.9, "min_coverage": 0.4}
#: What the judge says, and people write.
WORDS = {"yes": 1, "no": 0, "1": 1, "0": 0}
ACTIVE = Drawing("active", floor=0.2)


@pytest.fixture(scope="module")
def guardrail() -> Guardrail:
    return frozen()


def made(path: Path, probability: Any, n: int = 300, **more: Any) -> Path:
    """Write labels of traces, each labelled with a probability of its own."""
    rng, rows = np.random.default_rng(5), []
    for row in traces(n):
        share = probability(row)
        if rng.random() < share:
            rows.append({"id": row["id"], "label": truth(row["id"]), "probability": share} | more)
    return write(path, rows)


def begun(folder: Path, guardrail: Guardrail, file: Path, **more: Any) -> Session:
    return calibrail.label(
        traces(300), folder, guardrail=guardrail, elsewhere=str(file), **LIMITS, **more
    )


def test_a_uniform_sample_counts_like_answers_drawn_here(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    file = made(tmp_path / "known.jsonl", lambda _: 0.5)
    with begun(tmp_path / "labels", guardrail, file) as session:
        counts = session.counts("ada")
    known = {row["id"]: row["label"] for row in lines(file)}
    assert counts.labelled == len(known) and counts.drawn == 300
    result = calibrail.certify(guardrail, labels=tmp_path / "labels")
    drawn = [row for row in lines(tmp_path / "labels" / "draws.jsonl") if row["handed_out"]]
    assert {row["id"] for row in drawn} == set(known)
    expected = SequentialTest(session.plan.requirement).update(
        [row["flagged"] for row in drawn], [known[row["id"]] for row in drawn]
    )
    assert result.certificate.coverage == expected.certificate().coverage
    assert result.verdict == expected.verdict == "certified"
    # Nothing more is drawn: the lots fell elsewhere.
    with calibrail.label(None, tmp_path / "labels") as session:
        assert session.next("ada") is None


def test_different_probabilities_are_weighed(tmp_path: Path, guardrail: Guardrail) -> None:
    file = made(tmp_path / "known.jsonl", lambda row: 0.9 if row["suspicion"] > 0.4 else 0.5)
    with pytest.raises(InputError, match=r"differ, from 0\.5 to 0\.9.*active"):
        begun(tmp_path / "labels", guardrail, file)
    with begun(tmp_path / "labels", guardrail, file, drawing=ACTIVE) as session:
        plan = session.plan
    folder = tmp_path / "labels"
    drawn, known = lines(folder / "draws.jsonl"), {row["id"]: row for row in lines(file)}
    assert len(drawn) == 300 and sum(row["handed_out"] for row in drawn) == len(known)
    assert all(
        row["probability"] == known[row["id"]]["probability"] for row in drawn if row["handed_out"]
    )
    labels = [known[row["id"]]["label"] if row["handed_out"] else None for row in drawn]
    expected = SequentialTest(plan.requirement, ACTIVE).update(
        [row["flagged"] for row in drawn],
        np.array(labels, float),
        [row["probability"] for row in drawn],
        [row["guess"] for row in drawn],
    )
    result = calibrail.certify(guardrail, labels=folder)
    assert result.sequential["log_wealth"] == expected.certificate().to_dict()["log_wealth"]
    true = np.mean([truth(row["id"]) for row in drawn])
    assert expected.mass[0] / 300 == pytest.approx(true, abs=0.1)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"id": "t1", "label": 1}], r"line 1: probability must lie in \(0, 1\]"),
        ([{"id": "t1", "label": 1, "probability": 1.5}], "got 1.5"),
        ([{"id": "t1", "label": 1, "probability": 0.1}], "at least 0.2.*'t1'.*lower floor"),
        ([{"id": "x", "label": 1, "probability": 0.5}], "line 1: no trace has the id 'x'"),
        ([{"id": "t1", "label": 1, "probability": 0.5}] * 2, "line 2: 't1' stands there twice"),
        (
            [{"id": f"t{i}", "label": "so", "probability": 1.0} for i in range(300)],
            r"line \d+: label 'so' says neither",
        ),
        ([{"label": 1, "probability": 0.5}], "line 1 has no id"),
        ([{"id": "t1", "label": "", "probability": 0.5}], "holds no label"),
    ],
)
def test_what_cannot_count_is_named(
    tmp_path: Path, guardrail: Guardrail, rows: list[dict[str, Any]], said: str
) -> None:
    file = write(tmp_path / "known.jsonl", rows)
    with pytest.raises(InputError, match=said):
        begun(tmp_path / "labels", guardrail, file, drawing=ACTIVE)


def test_a_passed_answer_needs_twice_the_floor(tmp_path: Path, guardrail: Guardrail) -> None:
    flags = {row["id"]: guardrail.decide([row])[0].flagged for row in traces(300)}
    passed = next(id for id, flagged in flags.items() if not flagged)
    rows = [{"id": id, "label": 0, "probability": 0.3 if id == passed else 1.0} for id in flags]
    file = write(tmp_path / "a.jsonl", rows)
    with pytest.raises(InputError, match=f"{passed!r} is 0.3, below the least one"):
        begun(tmp_path / "labels", guardrail, file, drawing=ACTIVE)
    file = tmp_path / "known.csv"
    others = "".join(f"{id},faithful,1\n" for id in flags if id != passed)
    file.write_text(f"id,label,probability\n{passed},faithful,0.4\n{others}", encoding="utf-8")
    with begun(tmp_path / "other", guardrail, file, drawing=ACTIVE) as session:
        assert session.counts("ada").faithful == 300


def test_labels_picked_with_invented_probabilities_are_refused(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    """All on the guardrail's side, and so many fewer than such a lot chooses."""
    right = [row for row in traces(300) if guardrail.decide([row])[0].flagged == truth(row["id"])]
    rows = [{"id": r["id"], "label": truth(r["id"]), "probability": 0.9} for r in right[:80]]
    file = write(tmp_path / "picked.jsonl", rows)
    for more in ({}, {"drawing": ACTIVE}):
        with pytest.raises(
            InputError, match=r"\(80\) stand for about 89 traces.*there are 300.*left out"
        ):
            begun(tmp_path / "labels", guardrail, file, **more)
    assert not (tmp_path / "labels" / "session.json").exists()


def test_a_number_of_labels_that_chance_explains_badly_is_a_warning(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    rows = [{"id": f"t{i}", "label": truth(f"t{i}"), "probability": 0.5} for i in range(300)]
    for n, doubted in ((150, False), (128, True)):
        folder = tmp_path / str(n)
        with begun(folder, guardrail, write(tmp_path / "a.jsonl", rows[:n])) as session:
            found = session.plan.balance
            assert found.estimate == 2 * n and (found.p < 0.05) == doubted
        said = " ".join(calibrail.certify(guardrail, labels=folder).warnings)
        assert ("stand for about 256 traces" in said) == doubted


@pytest.mark.parametrize("kind", ["equal", "two", "groups"])
def test_labels_of_a_lot_are_hardly_ever_refused_or_doubted(kind: str) -> None:
    rng, p = np.random.default_rng(7), []
    for n in (60, 300):
        for _ in range(200):
            shares = np.where(rng.random(n) < 0.7, 0.1, 0.9) if kind == "two" else np.full(n, 0.2)
            lots = np.repeat(rng.random(n), 4)[:n] if kind == "groups" else rng.random(n)
            rows = {str(i): {"probability": shares[i]} for i in np.flatnonzero(lots < shares)}
            groups = {id: f"g{int(id) // 4}" if kind == "groups" else None for id in rows}
            if rows:
                p.append(balance(Lots(Path(), "", rows, kind == "two"), n, groups, 0.1).p)
    assert np.mean(np.array(p) < 0.05) < 0.05


def test_another_file_later_and_labels_for_a_threshold_are_refused(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    file = made(tmp_path / "known.jsonl", lambda _: 0.1)
    begun(tmp_path / "labels", guardrail, file).close()
    assert json.loads((tmp_path / "labels" / "session.json").read_text())["elsewhere"]
    begun(tmp_path / "labels", guardrail, file).close()
    other = made(tmp_path / "other.jsonl", lambda _: 0.2)
    with pytest.raises(InputError, match="elsewhere was"):
        begun(tmp_path / "labels", guardrail, other)
    with pytest.raises(InputError, match="for the verdict on a guardrail"):
        calibrail.label(traces(300), tmp_path / "more", elsewhere=str(file))


ROW = '{"id": "x", "label": 1, "probability": 0.5'


@pytest.mark.parametrize(
    ("name", "raw", "id"),
    [
        ("a.jsonl", ROW + ', "data": {"a": 1}}', "x"),
        ("a.jsonl", ROW + ', "fields": {"a": 1}}', "x"),
        ("a.jsonl", ROW + ', "spans": [{"start": 0, "end": 4}]}', "x"),
        ("a.jsonl", ROW.replace('"x"', "1.5") + "}", "1.5"),
        ("a.jsonl", (ROW + ', "note": "\xe4"}').encode("latin-1"), "x"),
        ("a.csv", "id,label,probability,a;b;c;d;e\nx,1,0.5,\n", "x"),
        ("a.csv", "id,label,probability\n'007,1,0.5\n", "'007"),
    ],
)
def test_other_fields_of_a_row_and_odd_ids_are_no_hindrance(
    tmp_path: Path, name: str, raw: str | bytes, id: str
) -> None:
    file = tmp_path / name
    file.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    (row,) = read_lots(file, ACTIVE).rows.items()
    assert row[0] == id and row[1]["probability"] == 0.5


@pytest.mark.parametrize(
    ("name", "text", "kind", "said"),
    [
        ("a.csv", "id,label,probability\nx,1\n", DataError, "row 2: wrong number of cells"),
        ("a.jsonl", '{"id": "x"}\n{"id": \n', DataError, "line 2 must hold an object"),
        ("a.jsonl", '{"id": "x"}\n[1]\n', DataError, "line 2 must hold an object"),
        ("a.csv", "id,probability\nx,1\n", InputError, "holds no label"),
        ("none.csv", None, DataError, "cannot read"),
    ],
)
def test_rows_that_cannot_be_read_are_named(
    tmp_path: Path, name: str, text: str | None, kind: type[Exception], said: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(kind, match=said):
        read_lots(tmp_path / name, ACTIVE)


def judged(n: int) -> list[dict[str, Any]]:
    """Return traces beside what a judge says of them in words, right in four of five."""
    return [
        row | {"judge": ("no", "yes")[truth(row["id"]) ^ (i % 5 == 0)], "other": i % 2}
        for i, row in enumerate(traces(n))
    ]


def test_a_judge_counts_that_the_folder_of_labels_was_begun_with(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    file = made(tmp_path / "known.jsonl", lambda row: 0.9 if row["suspicion"] > 0.4 else 0.5)
    folder: dict[str, Any] = {"labels": tmp_path / "labels", "looks": False}
    begun = {"guardrail": guardrail, "elsewhere": str(file), "looks": False, **LIMITS}
    begun |= {"drawing": Drawing("active", floor=0.25), "judge_column": "judge"}
    with pytest.raises(DataError, match="'t0' has 'no' in the column 'judge'"):
        calibrail.label(judged(300), tmp_path / "none", **begun)
    calibrail.label(judged(300), folder["labels"], label_map=WORDS, **begun).close()
    found = calibrail.certify(guardrail, judge_column="judge", **folder)
    assert found.sequential and found.verdict == "certified"
    assert found.sequential["judge"]["said"] > found.sequential["judge"]["unsaid"]
    assert any("was there before people labelled" in item for item in found.warnings)
    with pytest.raises(InputError, match="begun with the judge judge, and other was named after"):
        calibrail.certify(guardrail, judge_column="other", **folder)


def test_a_judge_without_labels_is_refused(guardrail: Guardrail) -> None:
    with pytest.raises(InputError, match="name the folder that was begun with it"):
        calibrail.certify(guardrail, judged(30), judge_column="judge", **LIMITS)
