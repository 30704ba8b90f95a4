"""Are the answers on the page those of the test part, cut as the guardrail cuts them?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrail import calibrate, read
from calibrail.data.sentences import sentences_of
from calibrail.pipelines.examples import TRIMMED_EXAMPLES_MOST
from calibrail.pipelines.loading import Context
from calibrail.pipelines.run import Run
from calibrail.report.documents.examples import KINDS
from calibrail.text.removal import trim
from calibrail.text.structure import joins
from tests.answers import write
from tests.sentence_answers import marked_rows

SPEC = "column:column=scores,higher=hallucinated"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("data") / "answers.jsonl", marked_rows())


@pytest.fixture(scope="module")
def run(answers: Path) -> Run:
    return calibrate(answers, SPEC, alpha=0.2, unit="sentence", min_kept=0.3)


def examples(run: Run) -> Any:
    return run.examples


def by_hand(run: Run) -> dict[str, set[str]]:
    """Return the test answers of each kind, from the rows and the threshold alone."""
    assert run.table is not None and run.codes is not None
    kinds: dict[str, set[str]] = {kind: set() for kind in KINDS}
    test = {run.table.ids[int(row)].as_py() for row in np.flatnonzero(run.codes == 2)}
    for row in marked_rows():
        if row["id"] not in test:
            continue
        starts = {start for start, _ in row["spans"]}
        text, place, wrong = row["response"], 0, []
        for sentence in text.split(". "):
            wrong.append(place in starts)
            place += len(sentence) + 2
        gone = [score >= run.calibration.threshold for score in row["scores"]]
        if all(gone):
            kinds["emptied"].add(row["id"])
            continue
        missed = any(w and not g for w, g in zip(wrong, gone, strict=True))
        if missed:
            kinds["misses"].add(row["id"])
        if any(g and not w for w, g in zip(wrong, gone, strict=True)):
            kinds["losses"].add(row["id"])
        if any(wrong) and not missed:
            kinds["freed"].add(row["id"])
    return kinds


def test_every_kind_is_counted_and_shown_worst_first(run: Run) -> None:
    shown, expected = examples(run), by_hand(run)
    seen: list[str] = []
    for kind in KINDS:
        some = shown[kind]
        assert some["n"] == len(expected[kind])
        ids = [item["id"] for item in some["items"]]
        assert set(ids) <= expected[kind]
        # An answer of two kinds is shown once.
        assert len(ids) == min(TRIMMED_EXAMPLES_MOST, len(expected[kind] - set(seen)))
        seen += ids
    assert len(seen) == len(set(seen)) > TRIMMED_EXAMPLES_MOST
    for items, sign in ((shown["misses"]["items"], 1.0), (shown["losses"]["items"], -1.0)):
        scores = [sign * (item["sentences"][item["place"]]["score"] or 0.0) for item in items]
        assert scores == sorted(scores)
        assert all(item["sentences"][item["place"]]["label"] == (sign > 0) for item in items)
    worst = min(
        score
        for row in marked_rows()
        if row["id"] in expected["misses"]
        for score, start in zip(row["scores"], _starts(row["response"]), strict=True)
        if start in {start for start, _ in row["spans"]} and score < run.calibration.threshold
    )
    item = shown["misses"]["items"][0]
    assert item["sentences"][item["place"]]["score"] == worst


def _starts(text: str) -> list[int]:
    return [0, *(place + 2 for place in range(len(text)) if text.startswith(". ", place))]


def test_texts_are_those_of_the_file_and_what_is_released_is_what_trimming_gives(
    answers: Path, run: Run
) -> None:
    known = {item.id: item for item in read(answers, by_sentence=True)}
    for kind in KINDS:
        for item in examples(run)[kind]["items"]:
            answer = known[item["id"]]
            assert (item["response"], item["question"]) == (answer.response, answer.question)
            assert item["spans"] == answer.spans
            places = sentences_of(answer)
            gone = [part["removed"] for part in item["sentences"]]
            cut = trim(answer.response, places, gone, joins(answer.response, places))
            assert item["text"] == cut.text and item["threshold"] == run.calibration.threshold


def test_the_page_strikes_out_and_no_text_leaves_numbers(
    answers: Path, run: Run, tmp_path: Path
) -> None:
    page = (run.save(tmp_path / "run") / "report.html").read_text(encoding="utf-8")
    loss = examples(run)["losses"]["items"][0]
    part = loss["sentences"][loss["place"]]
    lost = loss["response"][part["start"] : part["end"]]
    assert f"<del>{lost}</del>" in page
    early = calibrate(
        answers, SPEC, alpha=0.2, unit="sentence", min_kept=0.3, context=Context(text=False)
    )
    for bare, name in ((run, "late"), (early, "early")):
        folder = bare.save(tmp_path / name, text=False)
        page = (folder / "report.html").read_text(encoding="utf-8")
        assert "metres high" not in page and "How high" not in page and loss["id"] in page
        for file in ("report.json", "scores.parquet", "sentences.parquet"):
            assert (folder / file).read_bytes() == (tmp_path / "run" / file).read_bytes()
            assert b"metres high" not in (folder / file).read_bytes()


def test_an_iterator_is_read_once_and_lends_its_texts(answers: Path, run: Run) -> None:
    once = iter(list(read(answers, keep=("scores",), by_sentence=True)))
    shown = examples(calibrate(once, SPEC, alpha=0.2, unit="sentence", min_kept=0.3))
    assert shown == examples(run) and shown["losses"]["items"][0]["response"]


def test_judged_sentences_are_marked_whole(tmp_path: Path) -> None:
    rows = []
    for row in marked_rows():
        wrong = {start for start, _ in row["spans"]}
        texts = row["response"].split(". ")
        texts = [text if text.endswith(".") else f"{text}." for text in texts]
        parts = [
            {"text": text, "label": int(start in wrong)}
            for text, start in zip(texts, _starts(row["response"]), strict=True)
        ]
        rows.append({**row, "sentences": parts} | {"spans": None})
    shown = examples(
        calibrate(write(tmp_path / "given.jsonl", rows), SPEC, alpha=0.2, unit="sentence")
    )
    item = shown["losses"]["items"][0]
    marked = tuple((part["start"], part["end"]) for part in item["sentences"] if part["label"] == 1)
    assert item["response"] and item["spans"] == marked
