"""Does one call lead from answers to an audit, with and without texts?"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from calibrail.data.example import Example
from calibrail.data.sources import example_path
from calibrail.errors import DataError
from calibrail.options import ReadOptions, SplitOptions
from calibrail.pipelines.audit import audit
from calibrail.scores.registry import build_column
from tests.answers import rows, write

HOSTILE = '</script><b onload="x">\u202e\u200f{{7*7}}'


def examples(n: int = 200, **changes: object) -> list[Example]:
    """Answers whose detector only measures their length."""
    rng = np.random.default_rng(0)
    made = []
    for index in range(n):
        label = index % 2
        size = int(np.clip(rng.normal(12 + 5 * label, 4), 2, 40))
        words = rng.integers(0, 500, size)
        made.append(
            Example(
                question=f"What is thing {index // 2} about?",
                contexts=("word5 word6 word7 word8",),
                response=" ".join(f"word{k}" for k in words),
                label=label,
                group=f"g{index // 2}",
                id=f"a{index}",
                columns={"score": size + float(rng.normal(0, 1.5)), "model": f"m{index % 3}"},
            )
        )
    return made


def names(content: dict) -> set[str]:
    return {item["part"] for item in content["left_out"]}


def test_length_explains_a_score_that_is_length(tmp_path: Path) -> None:
    score = build_column("score", "hallucinated")
    run = audit(examples(1600), score, by=("model",), geometry=False)
    content = run.to_dict()
    json.dumps(content, allow_nan=False)
    assert content["schema"] == "calibrail.audit/1"
    by_feature = {row["feature"]: row for row in content["detectors"][0]["confounds"]}
    assert by_feature["length"]["verdict"] in ("explains", "explains most")
    assert by_feature["length"]["share"]["lower"] > 0.7
    said = [item for item in content["conclusions"] if item["code"] in ("confounds", "length")]
    assert any(item["message"].startswith("Response length explains") for item in said)
    divided = [item["name"] for item in content["detectors"][0]["strata"]]
    assert divided == ["question_length", "length", "model"]
    assert {"strata by theta_qc", "components of the index"} <= names(content)
    assert content["leakage"]["giveaways"][0]["auroc"]["estimate"] == 0.0


@pytest.mark.painted
def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    source = write(tmp_path / "data.jsonl", rows(60))
    scores = ["novelty", build_column("detector", "hallucinated")]
    saved = []
    for name in ("one", "two"):
        run = audit(source, scores, geometry=False, splitting=SplitOptions(seed=3))
        folder = run.save(tmp_path / name)
        saved.append({path.name: path.read_bytes() for path in sorted(folder.rglob("*.*"))})
    assert saved[0].keys() == saved[1].keys()
    for name in saved[0]:
        assert name == "cost.json" or saved[0][name] == saved[1][name], name
    assert {"audit.json", "report.html", "scores.parquet", "1-matched.svg"} <= saved[0].keys()


def test_scores_without_texts_need_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("an encoder was loaded")

    monkeypatch.setattr("calibrail.models.embeddings.LocalEncoder.transformer", property(never))
    rng = np.random.default_rng(1)
    with (tmp_path / "s.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "label", "metric", "other", HOSTILE])
        for k in range(300):
            score = "" if k % 50 == 7 else rng.normal() + k % 2
            table.writerow([f"{HOSTILE}{k}", k % 2, score, rng.normal(), f"{HOSTILE}{k % 4}"])
    columns = [build_column(name, "hallucinated") for name in ("metric", "other")]
    run = audit(tmp_path / "s.csv", columns, by=(HOSTILE,))
    content = run.to_dict()
    first = content["detectors"][0]
    assert first["n_undefined"] == {"hallucinated": 6, "faithful": 0}
    assert [item["name"] for item in first["strata"]] == [HOSTILE]
    assert [item["feature"] for item in first["confounds"]] == [HOSTILE]
    assert all("theta" not in key for key in run.table.columns)
    assert content["components"] == [] and content["leakage"]["copies"] == []
    reasons = {item["part"]: item["reason"] for item in content["left_out"]}
    assert "no such texts" in reasons["strata by theta_qc"]
    assert "no such texts" in reasons["confounding by length"]
    assert len(content["agreement"]) == 1
    page = (run.save(tmp_path / "run") / "report.html").read_text(encoding="utf-8")
    assert "<b onload" not in page and "\u202e" not in page and "\u200f" not in page


def test_a_column_called_like_a_feature_stands_beside_the_feature() -> None:
    made = [
        Example(**{**vars_of(item), "columns": {"length": float(item.label or 0)}})
        for item in examples(120)
    ]
    content = audit(made, [build_column("length", "hallucinated")], geometry=False).to_dict()
    assert content["detectors"][0]["name"] == "column:length"
    assert "length" in {row["feature"] for row in content["detectors"][0]["confounds"]}
    assert "confounding by length" not in names(content)


def vars_of(example: Example) -> dict[str, object]:
    return {name: getattr(example, name) for name in Example.__dataclass_fields__ if name[0] != "_"}


def test_a_fitted_detector_is_not_audited_on_what_it_learnt_from() -> None:
    content = audit("example:facts", "fused", geometry=False).to_dict()
    data = content["data"]
    assert data["n_learnt_from"] > 0
    audited = content["n_hallucinated"] + content["n_faithful"]
    assert audited == data["n_examples"] - data["n_learnt_from"]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([], "holds no row"),
        ([Example(response="x", label=1, id="a")] * 1, "faithful"),
        ([Example(response="x", id="a")] * 3, "label: missing"),
    ],
)
def test_what_cannot_be_audited_says_why(made: list[Example], message: str) -> None:
    with pytest.raises(DataError, match=message):
        audit(made, "length", geometry=False)


def test_an_undefined_score_says_why() -> None:
    with pytest.raises(DataError, match="no column 'nothing'"):
        audit(examples(20), [build_column("nothing", "faithful")], geometry=False)
    with pytest.raises(DataError, match="undefined for all"):
        audit(examples(20), [build_column("model", "faithful")], geometry=False)


def test_angles_come_from_the_embedded_encoder(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    lines = example_path("facts").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "facts.jsonl").write_text("".join(lines[:60]), encoding="utf-8")
    content = audit(tmp_path / "facts.jsonl", "sgi").to_dict()
    (parts,) = content["components"]
    by_name = {row["name"]: row["auroc"]["estimate"] for row in parts["rows"]}
    assert by_name["ratio"] == pytest.approx(content["detectors"][0]["auroc"]["estimate"], abs=0.01)
    assert content["detectors"][0]["strata"][0]["name"] == "theta_qc"


@pytest.mark.painted
def test_halueval_says_what_length_and_repetition_do(real_data: Path, tmp_path: Path) -> None:
    """Length alone beats SGI on HaluEval; what SGI sees is the repeated question."""
    pytest.importorskip("sentence_transformers")
    lines = (real_data / "halueval" / "qa_data.json").read_text(encoding="utf-8").split("\n")
    path = tmp_path / "qa_data.json"
    path.write_text("\n".join(lines[:120]) + "\n", encoding="utf-8")
    run = audit(path, "sgi", reading=ReadOptions(format="halueval"))
    content = run.to_dict()
    first = content["conclusions"][0]["message"]
    assert "Response length alone tells hallucinated from faithful answers better than sgi" in first
    by_feature = {row["feature"]: row for row in content["detectors"][0]["confounds"]}
    assert by_feature["length"]["feature_auroc"]["lower"] > 0.94
    assert by_feature["question_words"]["share"]["estimate"] > 0.5
    assert content["components"][0]["driver"] == "theta_rq"
    folder = run.save(tmp_path / "run")
    assert "alike in response length" in (folder / "figures" / "1-matched.svg").read_text()


def test_frank_metrics_need_no_texts(real_data: Path) -> None:
    path = real_data / "frank" / "metric_scores.csv"
    columns = [build_column(name, "faithful") for name in ("bertscore_p_article", "feqa")]
    content = audit(path, columns, by=("dataset",)).to_dict()
    rows_of = {item["name"]: item["confounds"][0] for item in content["detectors"]}
    # FEQA tells CNN/DM from BBC summaries, and on neither a false summary from a true one.
    assert rows_of["feqa"]["verdict"] == "explains"
    assert rows_of["bertscore_p_article"]["matched"]["lower"] > 0.65
    assert content["detectors"][1]["n_undefined"] == {"hallucinated": 3, "faithful": 1}


def test_a_detector_that_adds_to_a_feature_is_needed(real_data: Path) -> None:
    """Which model wrote a summary tells more than BERTScore, which still tells within each."""
    path = real_data / "frank" / "metric_scores.csv"
    content = audit(path, build_column("bertscore_p_article", "faithful"), by=("model",)).to_dict()
    (row,) = content["detectors"][0]["confounds"]
    assert row["lead"]["lower"] > 0.0 and row["added"]["lower"] > 0.0
    said = " ".join(item["message"] for item in content["conclusions"])
    assert "adds something to the column model: " in said and "more than either alone." in said
    assert "no detector is needed" not in said
