"""A promise to groups that overlap, from a file to the frozen guardrail's decisions."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrail
from calibrail.conformal import OverlappingCalibration
from calibrail.errors import DataError, GuardrailError, InputError
from calibrail.guardrail import Decision, Guardrail
from calibrail.guardrail.decision_log import Entry
from calibrail.options import Promise
from calibrail.pipelines.run import Run
from calibrail.scores.registry import build_column
from tests.answers import write
from tests.command_line import calibrail as command

BY = ("model", "topic", "length")


def overlapping(n: int = 900, seed: int = 0) -> list[dict[str, Any]]:
    """Answers of two models on two topics, both classes of every length; one model is hard."""
    rng = np.random.default_rng(seed)
    items = []
    for place in range(n):
        model, topic = rng.choice(["big", "tiny"], p=[0.8, 0.2]), rng.choice(["law", "news"])
        label = int(rng.integers(2))
        value = rng.normal(2.0 * label) - 1.5 * (model == "tiny") - 0.5 * (topic == "law")
        items.append(
            {
                "id": f"a{seed}-{place}",
                "question": f"What is said of case {place} {rng.integers(10**9)}?",
                "contexts": [f"Case {place} was decided {rng.integers(10**9)} times."],
                "response": f"It was {place}. " * int(rng.integers(1, 30)),
                "label": label,
                "model": str(model),
                "topic": str(topic),
                "detector": float(value),
            }
        )
    return items


@pytest.fixture(scope="module")
def column() -> Any:
    return build_column("detector", higher="hallucinated")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("overlapping")
    write(made / "answers.jsonl", overlapping())
    return made


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    """Through the command, as people get it."""
    flags = [word for name in BY for word in ("--by", name)]
    done = command(
        "calibrate",
        "answers.jsonl",
        "--score-column",
        "detector",
        "--higher",
        "hallucinated",
        *flags,
        "--alpha",
        "0.1",
        "--max-fpr",
        "0.9",
        "--min-coverage",
        "0.83",
        "-o",
        "run",
        cwd=folder,
    )
    assert done.returncode in (0, 3, 4), done.stderr
    assert "it says nothing of where two of them meet" in " ".join(done.stdout.split())
    assert "model: tiny" in done.stdout
    return Run.load(folder / "run")


@pytest.fixture(scope="module")
def guardrail(run: Run, folder: Path) -> Guardrail:
    run.freeze().save(folder / "guardrail.json")
    return Guardrail.load(folder / "guardrail.json")


def test_report_and_files_hold_every_group_of_every_column(run: Run, folder: Path) -> None:
    report = json.loads((folder / "run" / "report.json").read_text())
    section = report["by_group"]
    assert section["by"] == list(BY)
    groups = [(row["column"], row["group"]) for row in section["rows"]]
    assert groups == [
        ("model", "big"),
        ("model", "tiny"),
        ("topic", "law"),
        ("topic", "news"),
        ("length", "long"),
        ("length", "middle"),
        ("length", "short"),
    ]
    # Each column parts all test answers, and thus all that was caught.
    for name in BY:
        rows = [row for row in section["rows"] if row["column"] == name]
        assert sum(row["coverage"]["n"] for row in rows) == report["test"]["n_hallucinated"]
        caught = sum(row["coverage"]["count"] for row in rows)
        assert caught == report["test"]["coverage"]["count"]
        assert all(row["own"] and row["verdict"] for row in rows)
    # The first of seven that is certified eases the step of certifying the others.
    (first,) = (row for row in section["rows"] if row["verdict"] == "certified")
    assert (first["group"], first["coverage"]["confidence"]) == ("long", 1 - 0.05 / 7)
    others = [row for row in section["rows"] if row is not first]
    assert {row["verdict"] for row in others} == {"inconclusive"}
    for name in ("coverage", "fpr"):
        levels = [row[name]["confidence"] for row in others]
        assert levels == pytest.approx([1 - 0.05 / 6] * 6, abs=1e-12)
    tiny = section["rows"][1]
    assert tiny["shared_coverage"]["estimate"] < 0.8 < tiny["coverage"]["estimate"]
    content = json.loads((folder / "run" / "calibration.json").read_text())
    assert content["by"] == list(BY) and content["groups"]["columns"] == list(BY)


def test_a_guardrail_decides_alike_alone_in_batches_and_from_its_file(
    guardrail: Guardrail, run: Run
) -> None:
    assert guardrail.columns == ("detector", "model", "topic")
    assert guardrail.texts == ("response",)
    fresh = overlapping(60, seed=7)
    together = guardrail.decide(fresh)
    alone = [
        guardrail.check(
            id=row["id"],
            response=row["response"],
            columns={name: row[name] for name in guardrail.columns},
        )
        for row in fresh
    ]
    assert together == alone
    again = run.freeze().decide(fresh)
    assert [item.to_dict() for item in again] == [item.to_dict() for item in together]
    assert len({item.threshold for item in together}) > 6
    for item in together:
        assert item.p_value is not None
        assert (item.p_value <= 0.1) == (item.outcome == "pass")


def test_thirds_of_lengths_are_cut_by_answers_that_set_no_threshold(
    guardrail: Guardrail, column: Any
) -> None:
    grouped = guardrail.rule.groups
    assert isinstance(grouped, OverlappingCalibration) and grouped.cuts is not None
    # Hallucinated answers twice as long move no cut; longer faithful ones do.
    for doubled, same in ((1, True), (0, False)):
        items = overlapping()
        for row in items:
            row["response"] *= 2 if row["label"] == doubled else 1
        made = calibrail.calibrate(items, column, alpha=0.1, by=["model", "length"])
        cuts = getattr(made.rule.groups, "cuts", None)
        assert (cuts == grouped.cuts) is same
    short, middle = grouped.cuts
    for n, third in ((short, "short"), (short + 1, "middle"), (middle + 1, "long")):
        example = calibrail.Example(response="x" * int(n), columns={"model": "big", "topic": "law"})
        assert json.loads(guardrail.group_of(example)) == ["big", "law", third]


def test_what_a_log_names_was_seen_in_calibration(guardrail: Guardrail) -> None:
    example = calibrail.Example(
        response="x", columns={"model": "a secret", "topic": "law", "detector": 0.0}
    )
    (decision,) = guardrail.decide([example])
    assert isinstance(decision, Decision)
    entry = Entry.of(guardrail, example, decision)
    assert json.loads(str(entry.group)) == [None, "law", "short"]
    # Nobody knows the model, and the promise to law answers would not hold if it passed.
    assert (decision.outcome, decision.threshold) == ("flag", None)
    # What is replayed from a log is decided alike.
    assert guardrail.rule.thresholds(1, [str(entry.group)])[0] == -np.inf


def test_one_column_in_a_list_is_that_column(column: Any, tmp_path: Path) -> None:
    assert Promise(by=("topic",)) == Promise(by="topic")
    assert Promise.from_dict(Promise(by=BY).to_dict()) == Promise(by=BY)
    items = overlapping(300)
    for name, by in (("one", "topic"), ("listed", ["topic"])):
        calibrail.calibrate(items, column, alpha=0.1, by=by).freeze().save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "listed").read_bytes()


def test_answers_of_one_group_count_once(column: Any) -> None:
    items = [
        {**row, "id": f"{row['id']}-{copy}", "group": row["id"], "detector": row["detector"] + copy}
        for row in overlapping(400)
        for copy in range(3)
    ]
    for row in items:
        row["response"] += f" And {row['id']} as well, {zlib.crc32(row['id'].encode())}."
    made = calibrail.calibrate(items, column, alpha=0.1, by=("model", "topic"))
    assert made.report.promise.clustered
    assert made.calibration.n <= 400


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"by": ("model", "nothing")}, "no column 'nothing'"),
        ({"by": ("model", "model")}, "each once"),
        ({"by": ("model", "topic"), "guarantee": "pac"}, "guarantee marginal alone"),
        ({"by": ("model", "topic"), "risks": ["fpr<=0.5"]}, "leave out by"),
    ],
)
def test_what_cannot_be_promised_is_named(column: Any, more: dict[str, Any], what: str) -> None:
    with pytest.raises((DataError, InputError), match=what):
        calibrail.calibrate(overlapping(100), column, **more)


def test_lengths_need_texts_and_answers_to_cut_by(column: Any) -> None:
    items = overlapping(200)
    bare = [{key: row[key] for key in ("id", "label", "model", "detector")} for row in items]
    with pytest.raises(DataError, match="no answer has a text"):
        calibrail.calibrate(bare, column, alpha=0.2, by=("model", "length"))
    paired = [{**row, "group": str(place // 4)} for place, row in enumerate(items)]
    with pytest.raises(DataError, match="set some apart with fit_share"):
        calibrail.calibrate(paired, column, alpha=0.2, by=("model", "length"))
    splitting = calibrail.SplitOptions(fit_share=0.3)
    made = calibrail.calibrate(
        paired, column, alpha=0.2, by=("model", "length"), splitting=splitting
    )
    assert getattr(made.rule.groups, "cuts", None) is not None


def test_what_cannot_be_done_with_overlapping_groups_is_said(
    guardrail: Guardrail, folder: Path
) -> None:
    items = overlapping(40, seed=9)
    write(folder / "traces.jsonl", items)
    words = ["guardrail.json", "traces.jsonl", "--fdr", "0.2", "-o", "out.jsonl"]
    done = command("select", *words, cwd=folder)
    assert done.returncode == 2 and "one threshold" in done.stderr
    card = command("guardrail", "card", "guardrail.json", cwd=folder)
    assert card.returncode == 0 and "model: tiny" in card.stdout
    assert "in each group of model, topic and length" in " ".join(card.stdout.split())


def test_sentences_are_removed_by_the_groups_of_their_answer() -> None:
    made = calibrail.calibrate(
        "example:facts",
        "novelty",
        alpha=0.2,
        unit="sentence",
        by=("kind", "length"),
        splitting=calibrail.SplitOptions(fit_share=0.2),
    )
    section = made.report.to_dict()["by_group"]
    names = [(row["column"], row["group"]) for row in section["rows"]]
    assert ("kind", "negation") in names and ("length", "short") in names
    freed = made.report.to_dict()["test"]["freed"]
    for column in ("kind", "length"):
        rows = [row for row in section["rows"] if row["column"] == column]
        assert sum(row["coverage"]["count"] for row in rows) == freed["count"]
    guardrail = made.freeze()
    # Each sentence of a long answer is judged as one of a long answer.
    long = "It rained all day in Paris. " * 20
    decision = guardrail.check(response=long, contexts=["It rained."], columns={"kind": "negation"})
    expected = guardrail.rule.thresholds(1, ['["negation","long"]'])[0]
    assert decision.threshold == expected
    with pytest.raises(GuardrailError, match="how long an answer is"):
        guardrail.stream_check(contexts=["It rained."])


def test_a_watch_knows_answers_that_are_flagged_for_lack_of_examples(
    column: Any, folder: Path
) -> None:
    # Every law answer is of the big model: nothing says what is due to which.
    items = overlapping(400)
    for row in items:
        row["topic"] = "law" if row["model"] == "big" else "news"
    made = calibrail.calibrate(items, column, alpha=0.1, by=("model", "topic"))
    made.freeze().save(folder / "apart.json")
    traces = overlapping(60, seed=3)
    write(folder / "apart.jsonl", traces)
    done = command("check", "apart.json", "apart.jsonl", "-o", "decisions.jsonl", cwd=folder)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (folder / "decisions.jsonl").read_text().splitlines()]
    lacking = [line for line in lines if line["threshold"] is None]
    assert len(lacking) > 10 and {line["outcome"] for line in lacking} == {"flag"}
    assert "share the answer's groups" in lacking[0]["reason"]
    done = command("monitor", "apart.json", "decisions.jsonl", "-o", "watch", cwd=folder)
    assert done.returncode == 0, done.stderr
    status = json.loads((folder / "watch" / "status.json").read_text())
    assert status["n"] == len(lines) and "does not have its threshold" not in done.stdout
