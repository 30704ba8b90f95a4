"""Does a report on `worst_sentence` say of streams what the exported guardrail does?"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrail import Example, Guardrail, calibrate
from calibrail.data import read
from calibrail.data.splits import TEST
from calibrail.engine import use_engine
from calibrail.models.llm.transport import CallLimits, limit_calls
from calibrail.options import EngineOptions, ReadOptions, SplitOptions
from calibrail.pipelines.run import Run
from calibrail.scores.members import WorstSentence
from calibrail.scores.registry import ScoreSpec, build
from calibrail.text.sentences import answer_sentences
from tests.answers import write
from tests.chat_server import ChatServer, verdicts
from tests.command_line import calibrail as command
from tests.guardrail.sentences import Digits
from tests.pipelines.test_calibrate_sentences import rows

NOVELTY = "worst_sentence:detector=novelty"
Counts = dict[str, Any]


def recounted(guardrail: Guardrail, answers: Iterable[Example]) -> Counts:
    """Stream answers as a user does, word by word, and count what was shown."""
    stopped = dict.fromkeys(("before", "at", "after", "never"), 0)
    delays, shown_words, words, cut, n = [], [], [], 0, 0
    for answer in answers:
        n += 1
        text, columns = answer.response, dict(answer.columns)
        check = guardrail.stream_check(
            question=answer.question, contexts=answer.contexts, columns=columns
        )
        shown = len("".join(check.show(text[at : at + 7] for at in range(0, len(text), 7))))
        places = answer_sentences(text)
        ends = [number for number, item in enumerate(places) if item.end > shown]
        assert bool(ends) == (next(guardrail.stream([answer])).outcome != "pass")
        stop = ends[0] if ends else None
        wrong = [
            number
            for number, item in enumerate(places)
            for first, last in answer.spans or ()
            if any(map(str.isalnum, text[max(first, item.start) : min(last, item.end)]))
        ]
        if not answer.label:
            assert not wrong
            cut += stop is not None
            continue
        if stop is None:
            stopped["never"] += 1
        else:
            stopped["before" if stop < wrong[0] else "at" if stop == wrong[0] else "after"] += 1
            delays += [stop - wrong[0]] if stop >= wrong[0] else []
        written = [len(places[number].text.split()) for number in sorted({*wrong})]
        words.append(sum(written))
        seen = [number for number in sorted({*wrong}) if stop is None or number < stop]
        shown_words.append(sum(len(places[number].text.split()) for number in seen))
    return {
        "n": n,
        **stopped,
        "cut": cut,
        "delay": delays and float(np.mean(delays)),
        "words_shown": float(np.mean(shown_words)),
        "words": float(np.mean(words)),
    }


def reported(report: dict[str, Any]) -> Counts:
    measured = report["sentences"]
    stream = measured["stream"]
    return {
        "n": measured["n_answers"],
        **{name: share["count"] for name, share in stream["stopped"].items()},
        "cut": stream["cut"]["count"],
        **{
            name: stream[name]["estimate"] if stream[name]["estimate"] is not None else []
            for name in ("delay", "words_shown", "words")
        },
    }


def test_answers(run: Run, answers: Iterable[Example]) -> list[Example]:
    assert run.table is not None and run.codes is not None
    ids = run.table.ids.to_pylist()
    test = {name for name, code in zip(ids, run.codes, strict=True) if code == TEST}
    return [answer for answer in answers if answer.id in test]


test_answers.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize("detector", ["novelty", "numbers"])
def test_the_example_s_test_answers_are_stopped_as_the_report_says(detector: str) -> None:
    run = calibrate(
        "example:facts", f"worst_sentence:detector={detector}", alpha=0.2, baselines=False
    )
    answers = test_answers(run, read("example:facts", by_sentence=True))
    report = run.report.to_dict()
    assert reported(report) == recounted(run.freeze(), answers)
    assert report["sentences"]["n_left_out"] == 0
    stream = report["sentences"]["stream"]
    # What is stopped is what is flagged.
    assert stream["cut"]["count"] == report["test"]["fpr"]["count"]
    caught = sum(stream["stopped"][name]["count"] for name in ("before", "at", "after"))
    assert caught == report["test"]["coverage"]["count"]


def test_ragtruth_s_test_answers_are_stopped_as_the_report_says(real_data: Path) -> None:
    data = real_data / "ragtruth"
    run = calibrate(data, NOVELTY, alpha=0.2, baselines=False)
    answers = test_answers(run, read(data, by_sentence=True))
    report = run.report.to_dict()
    assert reported(report) == recounted(run.freeze(), answers)
    # One of each source and class, as for the verdict.
    assert len({(answer.group, answer.label) for answer in answers}) == len(answers)


def numbered(n: int = 240) -> list[Example]:
    """Return answers of sentences with numbers, those of 50 or more mostly unsupported."""
    rng, made = random.Random(3), []
    for number in range(n):
        bad, text, spans = number % 2, "", list[tuple[int, int]]()
        n_sentences = rng.randint(1, 5)
        worst = rng.randrange(n_sentences)
        for place in range(n_sentences):
            wrong = bool(bad) and (place == worst or rng.random() < 0.3)
            value = rng.randint(40, 99) if wrong else rng.randint(1, 60)
            said = "No number here." if rng.random() < 0.35 else f"It is {value}."
            if wrong:
                spans.append((len(text), len(text) + len(said)))
            text += said + " "
        columns: dict[str, float | str | None] = {"lang": "en" if number % 3 else "de"}
        made.append(
            Example(
                response=text.strip(),
                label=bad,
                id=f"a{number}",
                spans=tuple(spans),
                columns=columns,
                question=f"What is number {number}?",
            )
        )
    return made


@pytest.mark.parametrize(
    ("undefined", "options"),
    [("flag", {}), ("review", {"beta": 0.3}), ("pass", {}), ("flag", {"by": "lang"})],
)
def test_sentences_without_a_score_wait_as_they_do_in_a_stream(
    undefined: Any, options: dict[str, Any]
) -> None:
    score = WorstSentence(detector="length")
    score.members = {"detector": Digits()}
    answers = numbered()
    run = calibrate(answers, score, alpha=0.3, undefined=undefined, **options)
    guardrail = run.freeze(score=score)
    assert reported(run.report.to_dict()) == recounted(guardrail, test_answers(run, answers))


def changed(tmp_path: Path, items: list[dict[str, Any]], name: str) -> tuple[dict[str, Any], bytes]:
    """Calibrate by the command; return the report and calibration.json without its data."""
    data, run = write(tmp_path / f"{name}.jsonl", items), tmp_path / name
    options = ("--score", NOVELTY, "--alpha", 0.2, "--max-fpr", 0.9, "--min-coverage", 0.5)
    done = command("calibrate", data, *options, "-o", run)
    assert done.returncode in (0, 3, 4), done.stderr
    kept = json.loads((run / "calibration.json").read_text())
    del kept["data"]
    return json.loads((run / "report.json").read_text()), json.dumps(kept).encode()


def bare(report: dict[str, Any]) -> dict[str, Any]:
    return {name: report[name] for name in report if name not in ("sentences", "data", "reproduce")}


def test_marks_move_nothing_else_in_the_report(tmp_path: Path) -> None:
    items = rows()
    marked, calibration = changed(tmp_path, items, "marked")
    assert marked["sentences"]["stream"]["cut"]["n"] > 20
    plain = [{k: v for k, v in item.items() if k != "spans"} for item in items]
    unmarked, same = changed(tmp_path, plain, "plain")
    assert "sentences" not in unmarked
    assert (bare(unmarked), same) == (bare(marked), calibration)
    # Marks that say nothing, contradict the label, lie outside of the text or are none at all.
    wrong = [[], [[0, 4]], [[0, 10_000]], "somewhere"]
    broken = [
        item | ({"spans": wrong[number % 4]} if number % 5 == 0 else {})
        for number, item in enumerate(items)
    ]
    contradicted, same = changed(tmp_path, broken, "broken")
    assert (bare(contradicted), same) == (bare(marked), calibration)
    measured, n_test = contradicted["sentences"], marked["sentences"]["n_answers"]
    assert marked["sentences"]["n_left_out"] == 0 < measured["n_left_out"]
    assert measured["n_answers"] + measured["n_left_out"] == n_test
    page = (tmp_path / "broken" / "report.html").read_text()
    assert f"{measured['n_left_out']} test answers are left out of this table alone" in page
    assert "While the answer is being written" not in (tmp_path / "plain/report.html").read_text()


def test_the_data_s_own_sentences_are_marks_of_the_text(tmp_path: Path) -> None:
    answers = []
    for item in rows(80):
        text, given = item["response"], []
        # Two sentences of the text are one of the data's.
        places = answer_sentences(text)
        for first in range(0, len(places), 2):
            start, end = places[first].start, places[min(first + 1, len(places) - 1)].end
            bad = any(start <= begin < end for begin, _ in item["spans"])
            given.append({"start": start, "end": end, "label": int(bad)})
        answers.append({k: v for k, v in item.items() if k != "spans"} | {"sentences": given})
    data = write(tmp_path / "own.jsonl", answers)
    run = calibrate(data, NOVELTY, alpha=0.3)
    by_text = [
        Example(
            response=item["response"],
            question=item["question"],
            contexts=tuple(item["contexts"]),
            label=item["label"],
            id=item["id"],
            spans=tuple((s["start"], s["end"]) for s in item["sentences"] if s["label"]),
        )
        for item in answers
    ]
    counts = reported(run.report.to_dict())
    assert counts == recounted(run.freeze(), test_answers(run, by_text))
    assert counts["n"] > 30


@pytest.mark.parametrize("score", ["novelty", NOVELTY])
def test_what_cannot_be_measured_is_left_out(score: str) -> None:
    splitting = SplitOptions(seed=1)
    examples: Sequence[Example] = list(read("example:facts", by_sentence=True))
    source = examples if score == "novelty" else iter(examples)
    report = calibrate(source, score, alpha=0.3, splitting=splitting, baselines=False).report
    assert report.sentences is None


def test_rows_that_are_sentences_of_other_answers_are_not_measured(tmp_path: Path) -> None:
    """As tables of sentences are read where they are answers each, by their columns' names."""
    items = [
        {"id": f"{item['id']}-{place}", "group": item["id"], "response": text, "grade": "x"}
        | {"label": item["label"], "question": item["question"], "contexts": item["contexts"]}
        for item in rows(60)
        for place, text in enumerate([item["response"], "Summer and winter."])
    ]
    data = write(tmp_path / "sentences.jsonl", items)
    assert calibrate(data, NOVELTY, alpha=0.3).report.sentences is None
    mapped = ReadOptions(mapping={"answer_id": "group"})
    report = calibrate(data, NOVELTY, alpha=0.3, reading=mapped).report.to_dict()
    assert report["sentences"]["stream"]["stopped"]["at"]["n"] == report["test"]["n_hallucinated"]


def test_shards_of_the_run_stay_its_own(tmp_path: Path) -> None:
    data, shards = write(tmp_path / "answers.jsonl", rows(60)), tmp_path / "shards"
    with use_engine(EngineOptions(shards=shards)):
        run = calibrate(data, NOVELTY, alpha=0.3)
    assert run.report.sentences is not None
    manifests = [
        json.loads((folder / "manifest.json").read_text())
        for folder in (shards, shards / "sentences")
    ]
    assert [item["what"][0]["score"] for item in manifests] == [NOVELTY, "novelty"]
    assert manifests[0]["n_rows"] == 60
    assert run.report.sentences == calibrate(data, NOVELTY, alpha=0.3).report.sentences


def test_lengths_as_groups_cannot_be_streamed_and_are_not_measured() -> None:
    by = ("lang", "length")
    score = WorstSentence(detector="length")
    score.members = {"detector": Digits()}
    run = calibrate(numbered(), score, alpha=0.3, by=by)
    assert run.report.sentences is None


@pytest.mark.usefixtures("fresh_models")
@pytest.mark.parametrize("kept", [True, False])
def test_no_request_is_sent_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    if not kept:
        monkeypatch.setattr("calibrail.models.llm.chat.MOST_IN_MEMORY", 1)
    limits = CallLimits(cache=None)
    with ChatServer(verdicts(lambda text: (len(text) % 97) / 97)) as server, limit_calls(limits):
        inner = f"judge:model=tiny,mode=logprob,base_url={server.url}"
        score = build(ScoreSpec("worst_sentence", {"detector": inner}))
        data = write(tmp_path / "answers.jsonl", rows(60))
        run = calibrate(data, score, alpha=0.3)
        run.save(tmp_path / "run")
        texts = {text for item in rows(60) for text in [item["response"]]}
        n_sentences = sum(len(answer_sentences(text)) for text in texts)
        assert len(server.seen) <= n_sentences + 1
    measured = json.loads((tmp_path / "run/report.json").read_text())["sentences"]
    page = (tmp_path / "run/report.html").read_text()
    if kept:
        assert measured["stream"]["cut"]["n"] > 10
    else:
        assert measured["stream"] is None and "sends no requests" in measured["reason"]
        assert "Not measured: the sentences" in page
