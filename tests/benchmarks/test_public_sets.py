"""Are public tables made of clones as the pages have them, and is it said where they are not?"""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def public(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("public_sets")


def write(path: Path, content: Any) -> None:
    """Write a JSON file, or one with a line for each of several rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = content if path.suffix == ".jsonl" else [content]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def rows(text: str) -> list[dict[str, str]]:
    return [*csv.DictReader(io.StringIO(text, newline=""))]


def test_the_files_of_the_pages_are_these(public: ModuleType, real_data: Path) -> None:
    said = {item.path: item.said(real_data) for item in public.TABLES}
    assert {*said.values()} == {"as the pages have it"}, said


def test_files_that_are_not_there_are_made_and_said_to_differ(
    public: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CALIBRAIL_DATA", str(tmp_path))
    write(tmp_path / "clones" / "HaluEval" / "data" / "qa_data.json", {"question": "Who?"})
    (tmp_path / "truthfulqa").mkdir()
    (tmp_path / "truthfulqa" / "TruthfulQA.csv").write_text("own")
    with pytest.raises(SystemExit) as ended:
        public.main()
    said = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert ended.value.code == 1 and said.keys() == {item.path for item in public.TABLES}
    assert said["halueval/qa_data.json"] == "other bytes than the pages have"
    assert (tmp_path / "halueval" / "qa_data.json").read_text() == '{"question": "Who?"}\n'
    clone = f"git clone https://github.com/vectara/FaithBench {tmp_path / 'clones' / 'FaithBench'}"
    assert said["faithbench/spans.csv"] == f"not there: {clone}"
    # A file that is there stays.
    assert (tmp_path / "truthfulqa" / "TruthfulQA.csv").read_text() == "own"


def test_the_page_clones_all_that_the_tables_need(public: ModuleType, repository: Path) -> None:
    page = (repository / "docs" / "example-data.md").read_text(encoding="utf-8")
    cloned = re.findall(r"[\w-]+/[\w-]+", page.split("for name in ")[1].split("do git")[0])
    assert {*cloned} == {item.repository for item in public.TABLES}
    assert "data/clones/${name#*/}" in page
    assert {item.clone for item in public.TABLES} == {
        f"clones/{name.partition('/')[2]}" for name in cloned
    }


def test_claims_are_the_first_half_of_each_subset(public: ModuleType, tmp_path: Path) -> None:
    for i, column in enumerate(public.FACTCG):
        name = column.replace("_", "-") if i else "base"
        scores = {each: [[1, i / 8], [0, 0.5], [1, 1]] for each in ("Reveal", "Wice")}
        write(tmp_path / "benchmarks" / "scores" / f"{name}.json", scores)
    first, second = rows(public.claims(tmp_path))
    assert (first["id"], second["id"], first["label_supported"]) == ("Reveal-0", "Wice-0", "1")
    assert [float(first[column]) for column in public.FACTCG] == [i / 8 for i in range(7)]


def test_summaries_of_frank(public: ModuleType, tmp_path: Path) -> None:
    keys = {"hash": "0123456789abcdef", "model_name": "bart", "dataset": "cnndm"}
    name = "baseline_factuality_metrics_outputs"
    write(tmp_path / "data" / f"{name}.json", [keys | {"FactCC": 1.0, "Rouge L": 0.4}])
    write(tmp_path / "data" / "human_annotations.json", [keys | {"Factuality": 0.5}])
    line = public.frank(tmp_path).splitlines()[1]
    assert line == "0123456789ab-bart,0123456789ab,cnndm,bart,1,1.0,,,,,0.4"


def test_the_worst_annotation_labels_a_summary(public: ModuleType, tmp_path: Path) -> None:
    about = dict.fromkeys(public.DETECTORS.values(), 0.5) | {"summarizer": "one"}
    said = [["Benign"], ["Unwanted", "Unwanted.Intrinsic"]]
    spans = [
        {"label": label, "summary_start": 0, "summary_end": i, "annotator_id": "0123456789"}
        for i, label in enumerate(said)
    ]
    samples = [
        {"sample_id": i, "source": "A.", "summary": "B.", "metadata": about, "annotations": marked}
        for i, marked in enumerate((spans[:1], spans, []))
    ]
    for batch in (*range(1, 13), 14, 15, 16):
        path = tmp_path / "data_for_release" / f"batch_{batch}.json"
        write(path, {"samples": samples if batch == 2 else []})
    found = rows(public.faithbench(tmp_path))
    shown = [(row["id"], row["group"], row["worst"], row["label"]) for row in found]
    worst = [("benign", "0"), ("unwanted", "1"), ("none", "0")]
    assert shown == [(f"2-{i}", "s0", *each) for i, each in enumerate(worst)]
    assert public.faithbench_spans(tmp_path).splitlines()[2:] == [
        "2-1,0,0,01234567,Benign",
        "2-1,0,1,01234567,Unwanted|Unwanted.Intrinsic",
    ]


def test_sentences_have_the_scores_of_both_models(
    public: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "qwen": [
            {
                "wiki_bio_test_idx": 7,
                "sentences": ["A.", "B."],
                "annotations": ["accurate", "minor_inaccurate"],
                "sentence_scores": [0.1, 0.2],
            }
        ],
        "gemma": [{"wiki_bio_test_idx": key, "sent_scores": [0.3, 0.4]} for key in (6, 7)],
    }
    monkeypatch.setattr(
        public, "committed", lambda _, __, path: files["gemma" if "gemma" in path else "qwen"]
    )
    assert public.wikibio_237(tmp_path).splitlines()[1:] == [
        "7-0,7,A.,0,accurate,0.1,0.3",
        "7-1,7,B.,1,minor_inaccurate,0.2,0.4",
    ]


def test_answers_of_other_sources_stay_out(public: ModuleType, tmp_path: Path) -> None:
    here, left_out = str(min(public.SOURCES)), str(min(public.LEFT_OUT))
    answers = [("1", here), (left_out, here), ("2", "1")]
    lines = [{"id": key, "source_id": source} for key, source in answers]
    write(tmp_path / "dataset" / "response.jsonl", lines)
    found = [json.loads(line) for line in public.ragtruth(tmp_path, "response").splitlines()]
    assert found == lines[:1]


def test_a_question_has_the_passage_that_answers_it(public: ModuleType, tmp_path: Path) -> None:
    passage = {"title": "T", "text": "It is M\u00fcller."}
    row = {"question": "Who?", "answers": ["M\u00fcller"], "ctxs": [passage | {"score": 1.0}]}
    path = tmp_path / "qa_data" / "nq-open-oracle.jsonl.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(json.dumps(row).encode()))
    [line] = public.natural_questions(tmp_path).splitlines()
    assert "Müller" in line
    expected = {"question": "Who?", "answers": ["Müller"], "passage": passage}
    assert json.loads(line) == expected


def test_labels_of_a_fold_choose_no_heads_for_it(public: ModuleType, tmp_path: Path) -> None:
    def made(turned: bool) -> list[dict[str, str]]:
        """Return answers of one chunk; labels of the first fold may be turned around."""
        answers = []
        for i in range(40):
            label = i % 3 % 2 ^ (turned and i % public.FOLDS == 0)
            heads = {f"{j}": (i * (j + 3)) % 7 / 7 for j in range(6)}
            layers = {f"layer_{j}": (i * (j + 2)) % 5 / 5 for j in range(6)}
            chunk = {"prompt_attention_score": heads, "parameter_knowledge_scores": layers}
            scores = [chunk | {"hallucination_label": int(label)}]
            answers.append({"source_id": f"{i}", "response": "R.", "scores": scores})
        folder = tmp_path / "ReDeEP" / "log" / "test_llama2_7B"
        write(folder / "llama2_7B_response_chunk.json", answers)
        return rows(public.redeep(tmp_path))

    plain, turned = ([*made(each)] for each in (False, True))
    assert [row["label"] for row in plain[:4]] == ["0", "1", "0", "0"]
    apart, everywhere = "redeep_out_of_fold", "redeep_heads_chosen_on_these_labels"
    same = [one[apart] == other[apart] for one, other in zip(plain, turned, strict=True)]
    assert all(same[:: public.FOLDS]) and not all(same)
    assert [row[everywhere] for row in plain] != [row[everywhere] for row in turned]
