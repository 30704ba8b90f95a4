"""From files to a report, where sentences are removed: through the command, and in Python."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import calibrail
from calibrail.conformal import clopper_pearson, rank
from calibrail.errors import InputError
from tests.command_line import calibrail as command

WORDS = [
    "river",
    "stone",
    "bridge",
    "market",
    "harbour",
    "window",
    "garden",
    "letter",
    "silver",
    "candle",
    "forest",
    "castle",
    "mirror",
    "winter",
    "summer",
    "copper",
    "planet",
    "violin",
    "basket",
    "saddle",
    "anchor",
    "barrel",
    "cotton",
    "ribbon",
    "tunnel",
]
FOREIGN = ["quark", "boson", "lepton", "hadron", "meson", "gluon", "photon", "baryon"]


def row(number: int, rng: random.Random, **changes: Any) -> dict[str, Any]:
    """Return an answer of one to six sentences; every second one holds foreign words somewhere.

    A foreign word now and then in what is supported, and few in what is not, make scores overlap.
    """
    context = " ".join(rng.choice(WORDS) for _ in range(60))
    n, bad = rng.randint(1, 6), number % 2 == 0
    worst, text, spans = rng.randrange(n), "", []
    for place in range(n):
        wrong = bad and (place == worst or rng.random() < 0.2)
        n_foreign = rng.randint(1, 5) if wrong else int(rng.random() < 0.25)
        words = [rng.choice(FOREIGN) for _ in range(n_foreign)]
        words += [rng.choice(context.split()) for _ in range(6 - n_foreign)]
        sentence = " ".join(words).capitalize() + "."
        if wrong:
            spans.append([len(text), len(text) + 5])
        text += sentence + " "
    return {
        "id": f"a{number}",
        "question": f"What about {context.split()[0]} {number}?",
        "contexts": [context],
        "response": text.strip(),
        "label": int(bad),
        "spans": spans,
        **changes,
    }


def rows(n: int = 200, **changes: Any) -> list[dict[str, Any]]:
    rng = random.Random(7)
    return [row(number, rng, **changes) for number in range(n)]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[list[dict[str, Any]]], Path]:
    def written(items: list[dict[str, Any]], name: str = "data.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
        return path

    return written


Write = Callable[[list[dict[str, Any]]], Path]
BY_SENTENCE = ("--unit", "sentence", "--alpha", 0.1, "--score", "novel_count")
BY_SENTENCE += ("--guarantee", "marginal")


def calibrated(
    data: Path, *options: object, code: int = 0, baselines: bool = False
) -> dict[str, Any]:
    run = data.parent / "RUN"
    if not baselines:
        options = (*options, "--no-baselines")
    done = command("calibrate", data, *BY_SENTENCE, *options, "-o", run)
    assert done.returncode == code, done.stderr
    report: dict[str, Any] = json.loads((run / "report.json").read_text())
    return report


def by_answer(run: Path) -> dict[str, list[dict[str, Any]]]:
    answers: dict[str, list[dict[str, Any]]] = {}
    for item in pq.read_table(run / "sentences.parquet").to_pylist():
        answers.setdefault(item["id"], []).append(item)
    return answers


def test_the_report_counts_what_the_table_of_sentences_shows(write: Write) -> None:
    data = write(rows())
    report = calibrated(data, "--min-kept", 0.4, baselines=True)
    assert report["unit"] == report["promise"]["unit"] == "sentence"
    answers = by_answer(data.parent / "RUN")
    assert sorted(answers) == sorted(item["id"] for item in rows())

    def lowest(sentences: list[dict[str, Any]]) -> float:
        return min(item["novel_count"] for item in sentences if item["label"] == 1)

    bad = {name: item for name, item in answers.items() if any(s["label"] for s in item)}
    calibration = sorted(lowest(item) for item in bad.values() if item[0]["split"] == "calibration")
    k = rank(len(calibration), 0.1, "marginal", 0.1)
    threshold = calibration[k - 1]
    assert (report["threshold"], report["rank"]) == (threshold, k)

    test = {name: item for name, item in answers.items() if item[0]["split"] == "test"}
    kept = {name: [s for s in item if s["novel_count"] < threshold] for name, item in test.items()}
    freed = [not any(s["label"] for s in kept[name]) for name in test if name in bad]
    touched = [len(kept[name]) < len(item) for name, item in test.items() if name not in bad]
    shares = [
        sum(not s["label"] for s in kept[name]) / n
        for name, item in test.items()
        if (n := sum(not s["label"] for s in item))
    ]
    measured = report["test"]
    assert (measured["freed"]["count"], measured["freed"]["n"]) == (sum(freed), len(freed))
    assert [measured["freed"][end] for end in ("lower", "upper")] == pytest.approx(
        clopper_pearson(sum(freed), len(freed), 0.95)
    )
    assert (measured["fpr"]["count"], measured["fpr"]["n"]) == (sum(touched), len(touched))
    assert measured["coverage"]["count"] == sum(freed)
    assert measured["kept_supported"]["n"] == len(shares)
    assert measured["kept_supported"]["estimate"] == pytest.approx(np.mean(shares))
    assert measured["kept_supported"]["lower"] < np.mean(shares)
    assert measured["emptied"]["count"] == sum(not item for item in kept.values())
    assert measured["untouched"]["count"] == sum(kept[n] == test[n] for n in test)
    assert measured["reviewed"] == {**measured["reviewed"], "count": 0, "n": len(test)}
    section = report["sentences"]
    assert section["removed"]["unsupported"] == {
        "count": sum(s["label"] for n, item in test.items() for s in item if s not in kept[n]),
        "n": sum(s["label"] for item in test.values() for s in item),
    }
    assert section["n_sentences"] == sum(map(len, test.values()))
    nothing, everything, least = section["baselines"][:3]
    assert [item["name"] for item in section["baselines"][:3]] == [
        *("nothing", "everything", "least_overlapping")
    ]
    assert (nothing["freed"]["count"], nothing["kept_supported"]["estimate"]) == (0, 1.0)
    assert everything["freed"]["estimate"] == 1.0
    assert everything["kept_supported"]["estimate"] == 0.0
    assert 0.0 < least["kept_supported"]["estimate"] < 1.0
    assert {"length", "rouge_l"} <= {item["name"] for item in section["baselines"][3:]}


def test_the_ranking_is_that_of_sentences_and_not_of_values_that_saw_labels(write: Write) -> None:
    data = write(rows())
    report = calibrated(data)
    test = [
        s for item in by_answer(data.parent / "RUN").values() for s in item if s["split"] == "test"
    ]
    wins = [
        (bad["novel_count"] > good["novel_count"]) + (bad["novel_count"] == good["novel_count"]) / 2
        for bad in test
        if bad["label"]
        for good in test
        if not good["label"]
    ]
    assert report["test"]["auroc"]["estimate"] == pytest.approx(np.mean(wins))
    assert report["test"]["auroc"]["method"].startswith("obuchowski")
    assert report["curve"] is None and report["confounds"] is None


@pytest.mark.parametrize(
    ("options", "verdict", "code"),
    [
        (("--min-kept", 0.05, "--guarantee", "pac", "--alpha", 0.2), "certified", 0),
        (("--min-kept", 0.99), "rejected", 3),
        (("--min-kept", 0.5, "--max-fpr", 0.01), "rejected", 3),
        (("--max-fpr", 0.9), "inconclusive", 4),
        ((), "inconclusive", 0),
    ],
)
def test_the_verdict_decides_the_exit_code(
    write: Write, options: tuple[object, ...], verdict: str, code: int
) -> None:
    report = calibrated(write(rows()), *options, code=code)
    assert report["verdict"] == report["certificate"]["verdict"] == verdict
    if verdict == "inconclusive":
        assert "--min-kept" in report["reason"]


def test_a_score_that_knows_nothing_is_rejected_for_what_it_removes(write: Write) -> None:
    items = rows()
    for item in items:
        # The same number everywhere: whatever frees answers empties them.
        n = item["response"].count(".")
        item["blind"] = json.dumps([0.5] * n)
    run = write(items).parent / "RUN"
    done = command(
        *("calibrate", run.parent / "data.jsonl", "--unit", "sentence", "--alpha", 0.1),
        *("--score-column", "blind", "--higher", "hallucinated", "--min-kept", 0.7, "-o", run),
    )
    assert done.returncode == 3, done.stderr
    report = json.loads((run / "report.json").read_text())
    assert report["test"]["kept_supported"]["estimate"] == 0.0
    assert report["test"]["freed"]["estimate"] == report["test"]["emptied"]["estimate"] == 1.0
    assert "keeps at most" in report["reason"]


def test_a_column_of_lists_gives_each_sentence_its_number(write: Write) -> None:
    items, rng = rows(), random.Random(3)
    numbers = {}
    for item in items:
        n = item["response"].count(".")
        numbers[item["id"]] = [round(rng.random(), 3) for _ in range(n)]
        item["mine"] = numbers[item["id"]]
    data = write(items)
    done = command(
        *("calibrate", data, "--unit", "sentence", "--alpha", 0.2, "--no-baselines"),
        *("--score-column", "mine", "--higher", "faithful", "-o", data.parent / "RUN"),
    )
    assert done.returncode == 0, done.stderr
    answers = by_answer(data.parent / "RUN")
    assert {
        name: [-item["mine"] for item in sentences] for name, sentences in answers.items()
    } == numbers


def test_python_and_the_command_say_the_same(write: Write) -> None:
    data = write(rows())
    from_file = calibrated(data, "--min-kept", 0.4, "--guarantee", "pac", baselines=True)
    run = calibrail.calibrate(
        rows(), "novel_count", alpha=0.1, unit="sentence", min_kept=0.4, guarantee="pac"
    )
    again = run.report.to_dict()
    for name in ("threshold", "test", "sentences", "certificate", "verdict", "detectors"):
        assert again[name] == from_file[name]
    assert run.sentences is not None and len(run.sentences) > 200


@pytest.mark.parametrize("engine", ["local", "processes"])
def test_engines_and_shards_give_the_same_bytes(write: Write, tmp_path: Path, engine: str) -> None:
    data = write(rows(60))
    plain = ("--alpha", 0.3, "--seed", 1)
    calibrated(data, *plain)
    names = ("report.json", "calibration.json")
    before = [json.loads((tmp_path / "RUN" / name).read_text()) for name in names]
    sentences = pq.read_table(tmp_path / "RUN" / "sentences.parquet")
    shards = ("--engine", engine, "--shards", tmp_path / "SHARDS", "--shard-rows", 50)
    calibrated(data, *plain, *shards)
    after = [json.loads((tmp_path / "RUN" / name).read_text()) for name in names]
    for one, two in zip(before, after, strict=True):
        one.pop("reproduce", None), two.pop("reproduce", None)
        assert one == two
    assert pq.read_table(tmp_path / "RUN" / "sentences.parquet") == sentences


def test_the_order_of_the_rows_changes_no_number(write: Write) -> None:
    items = rows()
    first = calibrated(write(items), "--min-kept", 0.4)
    random.Random(1).shuffle(items)
    second = calibrated(write(items), "--min-kept", 0.4)
    for report in (first, second):
        # Of both the answers are drawn again by a fixed seed, row by row.
        for name in ("stream", "spans"):
            del report["sentences"][name]
    assert first["test"] == second["test"]
    assert first["certificate"] == second["certificate"]
    assert first["sentences"] == second["sentences"]


def test_one_answer_of_each_group_counts(write: Write) -> None:
    items = rows(300)
    for number, item in enumerate(items):
        item["group"] = f"source {number // 3}"
    report = calibrated(write(items), "--clustered", "--alpha", 0.2)
    answers = by_answer(write(items).parent / "RUN")
    groups = {item["id"]: item["group"] for item in items}
    # Of the answers of one group and class, those that do not count are set aside.
    on_test = [name for name, item in answers.items() if item[0]["split"] == "test"]
    assert report["test"]["untouched"]["n"] == len({groups[name] for name in on_test})
    bad = [name for name in on_test if any(s["label"] for s in answers[name])]
    assert report["test"]["freed"]["n"] == len({groups[name] for name in bad}) == len(bad)
    assert report["clustering"]["n_clusters"] < report["clustering"]["n"]


def test_copies_of_an_answer_count_once(write: Write) -> None:
    items = rows(120)
    doubled = [*items, *({**item, "id": f"{item['id']}-again"} for item in items)]
    report = calibrated(write(doubled), "--alpha", 0.2)
    assert report["data"]["copies"]["n"] == 240
    assert report["test"]["freed"]["n"] + report["n_calibration"] <= 60
    assert report["sentences"]["n_answers"] == report["test"]["untouched"]["n"] <= 60


def test_every_group_of_a_column_has_a_threshold_and_a_verdict(write: Write) -> None:
    items = rows(400)
    for number, item in enumerate(items):
        item["topic"] = "even" if number % 4 < 2 else "odd"
    report = calibrated(
        write(items), *("--by", "topic", "--alpha", 0.2, "--min-kept", 0.01), code=4
    )
    groups = {item["group"]: item for item in report["by_group"]["rows"]}
    assert set(groups) == {"even", "odd"}
    for item in groups.values():
        assert item["min_kept"] == 0.01 and 0.0 < item["kept"]["estimate"] <= 1.0
        # Its own threshold, tested at the level of one of two groups.
        assert item["kept"]["confidence"] == pytest.approx(0.975)
    freed = sum(item["coverage"]["count"] for item in groups.values())
    assert freed == report["test"]["freed"]["count"]
    n_kept = sum(item["kept"]["n"] for item in groups.values())
    assert n_kept == report["test"]["kept_supported"]["n"]


@pytest.mark.parametrize("policy", ["flag", "review", "pass"])
def test_sentences_without_a_score_follow_the_policy(write: Write, policy: str) -> None:
    items, rng = rows(), random.Random(5)
    for item in items:
        n = item["response"].count(".")
        item["mine"] = [None if rng.random() < 0.03 else round(rng.random(), 3) for _ in range(n)]
    data = write(items)
    done = command(
        *("calibrate", data, "--unit", "sentence", "--alpha", 0.3, "--undefined", policy),
        *("--score-column", "mine", "--higher", "hallucinated", "--no-baselines"),
        *("-o", data.parent / "RUN"),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((data.parent / "RUN" / "report.json").read_text())
    test = [i for i in by_answer(data.parent / "RUN").values() if i[0]["split"] == "test"]
    lost = [item for item in test if any(s["mine"] is None for s in item)]
    assert lost
    reviewed = report["test"]["reviewed"]["count"]
    assert reviewed == (len(lost) if policy == "review" else 0)
    assert report["sentences"]["n_undefined"] == sum(s["mine"] is None for i in test for s in i)

    def kept(score: float | None) -> bool:
        if score is None:
            return policy == "pass"
        return score < report["threshold"]

    freed = sum(
        (policy == "review" and item in lost)
        or not any(s["label"] and kept(s["mine"]) for s in item)
        for item in test
        if any(s["label"] for s in item)
    )
    assert report["test"]["freed"]["count"] == freed
    untouched = sum(all(kept(s["mine"]) for s in item) for item in test)
    assert report["test"]["untouched"]["count"] == untouched


def test_a_detector_that_learns_does_from_sentences(write: Write) -> None:
    data = write(rows(300))
    report = calibrated(
        data, *("--score", 'ensemble:scores="novel_count,length"'), *("--alpha", 0.2)
    )
    learnt = report["detectors"][0]
    assert learnt["threshold"] is not None
    assert learnt["auroc"]["estimate"] > 0.6
    fit = [i for i in by_answer(data.parent / "RUN").values() if i[0]["split"] == "fit"]
    assert fit


def test_detectors_beside_it_are_told_apart_by_what_they_keep(write: Write) -> None:
    report = calibrated(write(rows(400)), "--score", "length")
    [beside] = report["sentences"]["detectors"]
    [as_row] = report["detectors"]
    assert beside["name"] == as_row["name"] == "length"
    gap = beside["kept_beyond_detector"]
    mine, other = report["test"]["kept_supported"], beside["kept_supported"]
    assert gap["estimate"] == pytest.approx(other["estimate"] - mine["estimate"])
    assert as_row["detector_beats"] == (gap["upper"] < 0.0)
    assert as_row["beats_detector"] == (gap["lower"] > 0.0)
    assert as_row["detector_beats"]


def test_an_introduction_goes_with_what_it_introduces(write: Write) -> None:
    items = rows(100)
    for item in items[::2]:
        first = (
            "Two reasons:\n- Quark boson lepton hadron meson.\n- Gluon photon baryon quark boson."
        )
        item["contexts"] = [*item["contexts"], "two reasons"]
        item["response"] = f"{first}\n\n{item['response']}"
        item["spans"] = [
            [len("Two reasons:\n- "), len(first)],
            *([a + len(first) + 2, b + len(first) + 2] for a, b in item["spans"]),
        ]
    report = calibrated(write(items), "--alpha", 0.2)
    assert report["sentences"]["also_removed"] > 0
    removed = report["sentences"]["removed"]["supported"]
    assert removed["count"] >= report["sentences"]["also_removed"]


def test_answers_that_say_nothing_of_their_sentences_are_set_aside(write: Write) -> None:
    items = rows()
    for item in items[:4:2]:
        item["spans"] = []
    items[1]["spans"] = [[0, 4]]
    items[3]["response"] = "   "
    data = write(items)
    report = calibrated(data)
    assert report["data"]["n_quarantined"] == 4
    reasons = (data.parent / "RUN" / "quarantine.jsonl").read_text().splitlines()
    assert len(reasons) == 4
    assert len(by_answer(data.parent / "RUN")) == 196


def test_more_of_a_sentence_may_have_to_be_marked(write: Write) -> None:
    items = rows()
    for item in items[::2]:
        # Whole sentences, but for one of which a word is marked.
        item["spans"] = [[0, 3], *([a, b + 15] for a, b in item["spans"] if a > 3)]
    items = [item for item in items if item["label"] == 0 or len(item["spans"]) > 1]
    any_part = calibrated(write(items), "--alpha", 0.3)
    most = calibrated(write(items), "--alpha", 0.3, "--span-share", 0.2)
    assert most["sentences"]["n_unsupported"] < any_part["sentences"]["n_unsupported"]
    assert most["data"]["reading"]["options"] != {} or most["data"]["reading"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"beta": 0.1}, "beta"),
        ({"guarantee": "paper"}, "paper"),
        ({"risks": ("fpr<=0.2",)}, "risks"),
        ({"target": "example:facts"}, "target"),
        ({"unit": "answer", "min_kept": 0.5}, "min_kept"),
        ({"unit": "clause"}, "unit"),
        ({"min_kept": 1.5}, "min_kept"),
        ({"min_kept": 0}, r"min_kept must lie in \(0, 1\]"),
    ],
)
def test_what_makes_no_sense_of_sentences_is_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        calibrail.calibrate(rows(40), "novel_count", **({"unit": "sentence"} | options))


def test_sentences_that_check_would_cut_otherwise_are_told(write: Write) -> None:
    """A threshold about halves of sentences says little of whole ones."""
    told = []
    for each in (1, 2):
        items = [{**item, "sentences": parted(item, each)} for item in rows(120)]
        for item in items:
            del item["spans"]
        report = calibrated(write(items, f"{each}.jsonl"))
        n = sum(item["response"].count(".") > 1 for item in items) if each == 2 else 0
        assert report["data"]["n_cut_otherwise"] == n
        told.append(any("others than `check` finds" in note for note in report["notes"]))
    assert told == [False, True]


def parted(item: dict[str, Any], each: int) -> list[dict[str, Any]]:
    """Return the sentences of a row, so many of them as one, with their labels."""
    ends = [place + 1 for place, letter in enumerate(item["response"]) if letter == "."][::-1]
    starts = [0, *reversed(ends[1:])]
    parts = list(zip(starts, reversed(ends), strict=True))
    several = [parts[first : first + each] for first in range(0, len(parts), each)]
    return [
        {
            "text": item["response"][start:end].strip(),
            "label": int(any(start <= first < end for first, _ in item["spans"])),
        }
        for start, end in ((one[0][0], one[-1][1]) for one in several)
    ]
