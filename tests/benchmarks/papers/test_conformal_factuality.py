"""Are conformal factuality's thresholds calibrail's, and does the page say what was measured?"""

from __future__ import annotations

import importlib
import json
import os
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def script(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for folder in ("benchmarks", "benchmarks/papers"):
        monkeypatch.syspath_prepend(str(repository / folder))
    return importlib.import_module("conformal_factuality")


def claims(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return answers of four claims; a right one has the higher score, as a rule."""
    rng, found = np.random.default_rng(seed), []
    for i in range(n):
        right = rng.random(4) < 0.8
        scores = rng.normal(1.5 * right)
        found.append(
            {
                "prompt": f"question {i}",
                "claims": [
                    {
                        "subclaim": f"claim {k}",
                        "annotation": "NY"[int(right[k])],
                        "own-score": scores[k],
                    }
                    for k in range(4)
                ],
            }
        )
    return found


def test_the_threshold_is_the_papers_and_keeps_its_promise(
    script: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"data": claims(400)}), encoding="utf-8")
    every = script.scored(script.read(path), "own")
    known, fresh = every.worst[:200], every.worst[200:]
    for alpha in (0.1, 0.2):
        place = int(np.ceil(round(201 * (1 - alpha), 9)))
        at = script.threshold(known, alpha)
        assert at == np.sort(known)[place - 1]
        # An answer is factual where no wrong claim stays.
        assert np.mean(fresh < at) > 1 - alpha - 0.08
        assert script.threshold(known, alpha, "pac") >= at
    assert np.mean(every.removed(np.inf)) == 1.0 and np.mean(every.removed(-np.inf)) == 0.0


def test_an_annotation_with_blanks_is_wrong_unless_they_are_stripped(
    script: ModuleType, tmp_path: Path
) -> None:
    answer = claims(1)[0]
    answer["claims"] = [{**item, "annotation": "Y  "} for item in answer["claims"]]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"data": [answer]}), encoding="utf-8")
    assert script.read(path)[0].wrong.all()
    assert not script.read(path, strip=True)[0].wrong.any()


def test_without_the_files_it_says_where_they_are(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        script.main(["--data", str(tmp_path)])
    said = f"{ended.value} {capsys.readouterr()}"
    assert "github.com/tatsu-lab/conformal-factual-lm" in said


def test_with_one_answer_left_out_what_is_factual_is_k_of_n(script: ModuleType) -> None:
    rng = np.random.default_rng(0)
    for _ in range(3):
        worst = rng.normal(size=50)
        shares = [np.mean(worst < script.left_out(worst, alpha)) for alpha in script.ALPHAS]
        assert shares == [0.96, 0.9, 0.86, 0.8]


def write_rag(folder: Path, n: int) -> None:
    """Write files of the second paper, all of whose scores are ``own``."""
    rag = importlib.import_module("conformal_rag")
    path = folder / "FactScore" / "factscore_annotations.jsonl"
    rename(path, claims(n, seed=99), "similarity")
    folder = folder / rag.SCHEMA
    files = {f"{name}/{arm.file}": arm for name, arms in rag.ARMS.items() for arm in arms.values()}
    for i, (place, arm) in enumerate(files.items()):
        blocks = (claims(n, seed=10 * i + block) for block in range(1 + arm.block))
        rename(folder / f"{place}_{rag.SUFFIX}.jsonl", [*chain(*blocks)], "gpt", "similarity")
    for i, name in enumerate(rag.GROUPS[1:]):
        path = folder / "Medlfqav2" / f"{name}_{rag.SUFFIX}.jsonl"
        rename(path, claims(n, seed=100 + i), "similarity")


def rename(path: Path, answers: list[dict[str, Any]], *scores: str) -> None:
    """Write answers whose score has other names."""
    for answer in answers:
        for item in answer["claims"]:
            own = item.pop("own-score")
            item |= {f"{score}-score": own for score in scores}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"data": answers}), encoding="utf-8")


def test_all_of_both_papers_is_measured(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MATH", "factscore", "nq"):
        path = tmp_path / "conformal_factuality" / "out" / f"{name}_subclaims_with_scores.jsonl"
        rename(path, claims(24), *script.SCORES)
    write_rag(tmp_path / script.conformal_rag.PLACE, 24)
    for module in (script, importlib.import_module("results")):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    monkeypatch.setattr(script, "ALPHAS", (0.1, 0.2))
    monkeypatch.setattr(script, "SPLITS", 3)
    monkeypatch.setattr(script.conformal_rag, "SPLITS", 3)
    monkeypatch.setattr(script.conformal_rag, "TARGETS", (0.1, 0.15))
    monkeypatch.setattr(script.conformal_rag, "DRAWS", 2)
    monkeypatch.setattr(importlib.import_module("scored_claims"), "RESAMPLES", 3)
    script.main(["--data", str(tmp_path)])
    content = json.loads((tmp_path / "papers_conformal_factuality.json").read_text("utf-8"))
    rag = content["rag"]
    assert rag["absent"] == ["healthsearch_qa"] and rag["repeated"] == 72
    for each in rag["sets"].values():
        assert each["questions"] == 24
        # The same words about the same questions, which two samples label.
        assert each["twice"][0] == 96 and each["twice"][2] < each["twice"][1]
    # What the second block holds is another sample than the first.
    _, first, second, ours, lot = rag["sets"]["PopQA"]["arms"].values()
    assert first["right"] != second["right"] and ours["right"] == lot["right"]
    assert "not there: healthsearch_qa" in (tmp_path / "papers_conformal_factuality.md").read_text()


def test_a_ratio_counts_right_claims(script: ModuleType, tmp_path: Path) -> None:
    rag = script.conformal_rag
    rename(tmp_path / "a.jsonl", claims(200), "gpt")
    item = script.scored(script.read(tmp_path / "a.jsonl"), "gpt")
    rows = np.arange(200)
    all_right, *stay = rag.kept([item], rows)
    assert all_right == (~item.wrong).sum()
    at = script.threshold(item.worst, rag.ALPHAS[0])
    assert stay[0] == (~item.wrong & (item.values >= at)).sum()
    # A question drawn twice counts twice.
    assert rag.kept([item], np.repeat(rows, 2))[0] == 2 * all_right


def test_published_thresholds_come_out_of_the_published_files(script: ModuleType) -> None:
    data = importlib.import_module("sources").SHARED
    folder = Path(os.environ.get("CALIBRAIL_DATA", data)) / "conformal_factuality" / "out"
    if not folder.is_dir():
        pytest.skip("no clone of github.com/tatsu-lab/conformal-factual-lm at CALIBRAIL_DATA")
    for name, (alpha, published) in script.PUBLISHED.items():
        answers = script.read(folder / f"{name}_subclaims_with_scores.jsonl")
        worst = script.scored(answers, next(iter(script.SCORES))).worst
        assert script.threshold(worst, alpha) == published


def test_published_figures_of_retrieval_come_out_of_the_published_files(script: ModuleType) -> None:
    rag = script.conformal_rag
    folder = Path(os.environ.get("CALIBRAIL_DATA", importlib.import_module("sources").SHARED))
    claims, folder = folder / "conformal_factuality" / "out", folder / rag.PLACE
    if not (folder.is_dir() and claims.is_dir()):
        pytest.skip("no clone of github.com/n4feng/ResponseQualityAssessment at CALIBRAIL_DATA")
    answers = script.read(folder / "FactScore" / "factscore_annotations.jsonl")
    alpha, published, _ = rag.PUBLISHED_REMOVED
    item = script.scored(answers, "similarity")
    removed = item.removed(script.left_out(item.worst, alpha)).mean()
    assert round(float(removed), 3) == published
    alpha, published = rag.PUBLISHED_THRESHOLD
    [questions, _] = rag.EXAMPLE
    worst = script.scored(rag.by_name(folder / rag.SCHEMA)[questions], "similarity").worst
    assert round(script.threshold(worst, alpha), 3) == published


def test_halves_measure_what_did_not_set_the_threshold(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rag = script.conformal_rag
    monkeypatch.setattr(rag, "SPLITS", 20)
    rename(tmp_path / "a.jsonl", claims(300), "gpt")
    item = script.scored(script.read(tmp_path / "a.jsonl"), "gpt")
    right = item._replace(worst=np.full(300, script.NONE_WRONG))
    removed, factual = rag.halved([item, right])
    for i, alpha in enumerate(rag.TARGETS):
        assert (
            abs(factual[1][i] - max(1 - alpha, np.mean(~(item.worst > script.NONE_WRONG)))) < 0.05
        )
    # Without a wrong claim nothing goes, and all is factual; groups count by their answers.
    assert set(removed[2]) == {0.0} and set(factual[2]) == {1.0}
    assert removed[0][0] == pytest.approx(removed[1][0] / 2, abs=1e-5)


def test_the_page_of_results_is_its_figures(script: ModuleType, repository: Path) -> None:
    results = repository / "benchmarks" / "results" / "papers_conformal_factuality.md"
    content = json.loads(results.with_suffix(".json").read_text(encoding="utf-8"))
    assert "\n".join(script.page(content)) in results.read_text(encoding="utf-8")
