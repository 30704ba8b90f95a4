"""Is a file with judges' and a few human labels read, counted and judged row by row?"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from scipy.stats import binomtest

import calibrail
from calibrail.data.example import Example
from calibrail.errors import DataError, InputError
from calibrail.evaluation.judge_agreement import (
    LabelCounts,
    corrected_rates,
    one_of_each,
    sample_tests,
)
from calibrail.guardrail import Guardrail
from calibrail.options import ReadOptions, ScoreThreshold
from calibrail.pipelines.agree import JudgedRates, agree
from calibrail.pipelines.loading import Context
from calibrail.report import render_page
from calibrail.report.document import Section, Table
from calibrail.report.documents import agree as words
from calibrail.scores.registry import build_column
from tests.answers import rows, write
from tests.evaluation.agree.tables import counted

COLUMNS: dict[str, Any] = {"label_column": "human", "judge_column": "judge"}
LIMITS = {"min_caught": 0.8, "max_false_alarms": 0.2}
SCORES: dict[str, Any] = {"scores": ScoreThreshold("detector", "hallucinated", 0.75)}


def judged(n: int = 300, seed: int = 1, prefix: str = "New ") -> list[dict[str, Any]]:
    """Return answers that a judge has labelled, and people one in four, drawn at random."""
    rng = np.random.default_rng(seed)
    items = rows(n, seed, prefix)
    for item in items:
        truth = item.pop("label")
        item["truth"] = truth
        item["judge"] = int(truth if rng.random() < 0.9 else 1 - truth)
        item["human"] = int(truth) if rng.random() < 0.25 else None
        del item["group"]
    return items


@pytest.mark.parametrize("label", [0, 1])
def test_labels_of_one_class_ask_for_the_other_one(label: int) -> None:
    """What the judge does to answers of the other class is open, not close to what was asked."""
    answers = [
        Example(id=str(i), columns={"human": str(label) if i < 200 else None, "judge": str(label)})
        for i in range(400)
    ]
    result = agree(answers, **COLUMNS, **LIMITS)
    assert result.verdict == "inconclusive"
    page = words.document(result.to_dict())
    unseen = "faithful" if label else "hallucinated"
    said = f"People call no labelled answer {unseen}: have more labelled, until some are."
    assert page.next_step == said
    assert page.tiles[label].value == "unknown"


@pytest.fixture(scope="module")
def items() -> list[dict[str, Any]]:
    return judged()


@pytest.fixture(scope="module")
def answers(items: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("data") / "answers.jsonl", items)


def table(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def expected(items: Iterable[Mapping[str, Any]], flagged: list[bool]) -> dict[str, Any]:
    """Return the rates of labels and flags that stand in arrays."""
    listed = list(items)
    human = [-1 if item["human"] is None else item["human"] for item in listed]
    counts = counted(human, [item["judge"] for item in listed], flagged)
    return {
        name: {method: (item.estimate, item.upper) for method, item in rate.items()}
        for name, rate in corrected_rates(counts).items()
    }


def numbers(rates: Mapping[str, Any]) -> dict[str, Any]:
    """Return estimates and an end of their intervals."""
    return {
        name: {method: (item["estimate"], item["upper"]) for method, item in rate.items()}
        for name, rate in rates.items()
    }


def width(result: JudgedRates) -> float:
    found = only(result)["rates"]["prevalence"]["prediction_powered"]
    return float(found["upper"] - found["lower"])


def only(result: JudgedRates) -> dict[str, Any]:
    (judge,) = result.judges
    return judge


def test_a_score_column_flags_at_its_threshold(answers: Path, items: list[dict[str, Any]]) -> None:
    result = agree(answers, **COLUMNS, **SCORES)
    assert numbers(only(result)["rates"]) == expected(
        items, [item["detector"] >= 0.75 for item in items]
    )
    truth = np.mean([item["detector"] >= 0.75 for item in items if item["truth"]])
    measure = only(result)["rates"]["coverage"]["prediction_powered"]
    assert measure["lower"] <= truth <= measure["upper"]
    written = result.to_dict()
    assert written["schema"] == "calibrail.agreement/1"
    assert written["flag"] == {"column": "detector", "higher": "hallucinated", "threshold": 0.75}
    assert written["data"]["n"] == 600
    assert written["judges"][0]["counts"]["n_judge_alone"] == 600 - written["data"]["n_human"]
    assert len(written["data"]["sha256"]) == 64
    json.dumps(written, allow_nan=False)


def test_a_score_that_is_higher_for_faithful_flags_at_and_below(
    answers: Path, items: list[dict[str, Any]], tmp_path: Path
) -> None:
    turned = write(
        tmp_path / "turned.jsonl", [{**item, "detector": -item["detector"]} for item in items]
    )
    edge = sorted(item["detector"] for item in items)[300]
    given = agree(answers, **COLUMNS, scores=ScoreThreshold("detector", "hallucinated", edge))
    other = agree(turned, **COLUMNS, scores=ScoreThreshold("detector", "faithful", -edge))
    assert only(given)["rates"] == only(other)["rates"]


def test_without_decisions_there_is_only_prevalence(answers: Path) -> None:
    result = agree(answers, **COLUMNS)
    assert set(only(result)["rates"]) == {"prevalence"}
    assert result.to_dict()["flag"] is None and result.verdict is None


@pytest.fixture(scope="module")
def guardrail(tmp_path_factory: pytest.TempPathFactory) -> Guardrail:
    folder = tmp_path_factory.mktemp("run")
    source = write(folder / "answers.jsonl", rows(200))
    column = build_column("detector", higher="hallucinated")
    return calibrail.calibrate(source, column, alpha=0.2).freeze()


def test_a_guardrail_flags_what_it_does_not_pass(
    answers: Path, items: list[dict[str, Any]], guardrail: Guardrail
) -> None:
    result = agree(answers, **COLUMNS, guardrail=guardrail)
    edge = guardrail.calibration.threshold
    assert numbers(only(result)["rates"]) == expected(
        items, [item["detector"] >= edge for item in items]
    )
    assert result.to_dict()["flag"] == {"guardrail": "column", "threshold": edge}
    assert result.warnings == ()


def test_answers_that_set_the_threshold_are_left_out(tmp_path: Path, guardrail: Guardrail) -> None:
    known = [{**item, "judge": item["label"], "human": item["label"]} for item in rows(200)]
    source = write(tmp_path / "mixed.jsonl", [*judged(100), *known])
    result = agree(source, **COLUMNS, guardrail=guardrail)
    n = guardrail.calibration.n
    assert result.data["n_seen_before"] == n and only(result)["counts"]["n"] == 600 - n
    assert any(f"{n} hallucinated answers set the guardrail's" in item for item in result.warnings)


def test_labels_are_read_as_the_package_reads_them(tmp_path: Path) -> None:
    lines = ["judge,human", "1,true", "TRUE,1", "0, ", "false,", "0.0,0", ",1", ",", "1,0"]
    result = agree(table(tmp_path / "a.csv", lines), **COLUMNS)
    counts = only(result)["counts"]
    assert [counts[name] for name in ("n", "n_human", "n_judge", "n_both")] == [7, 5, 6, 4]
    assert (counts["n_human_alone"], counts["n_judge_alone"]) == (1, 2)
    assert only(result)["agreement"]["table"]["hallucinated_hallucinated"] == 2
    assert any("1 row has a human label and no judge label" in text for text in result.warnings)


def test_a_label_that_says_neither_is_set_aside_with_row_and_field(tmp_path: Path) -> None:
    lines = ["judge,human", "1,1", "1,yes", "0,0", "Fine?,1", "0,", "too,many,cells"]
    source = table(tmp_path / "a.csv", lines)
    quarantine = tmp_path / "out" / "quarantine.jsonl"
    result = agree(
        source,
        judge_column="judge",
        reading=ReadOptions(label_column="human", quarantine=quarantine),
    )
    assert result.n_quarantined == 3 and only(result)["counts"]["n"] == 3
    entries = [json.loads(line) for line in quarantine.open()]
    places = [(entry["row"], entry["field"]) for entry in entries]
    assert places == [(7, "row"), (3, "human"), (5, "judge")]
    row = {"row": 3, "id": "row-3", "field": "human"}
    assert entries[1] == {**row, "reason": "not 0 or 1", "value": "'yes'"}
    with pytest.raises(DataError, match=r"a\.csv, row 3, field human: not 0 or 1, got 'yes'\. "):
        agree(source, judge_column="judge", reading=ReadOptions(label_column="human", strict=True))


def test_labels_in_words_and_of_several_people_are_read_as_everywhere(tmp_path: Path) -> None:
    lines = ["judge,human", 'FAIL,"[1, 0, 1]"', 'Fine,"[0]"', "Fine,FAIL", 'Fine,"[0, 1]"']
    source = table(tmp_path / "a.csv", lines)
    reading = ReadOptions(label_column="human", label_map={"FAIL": 1, "Fine": 0, "1": 1, "0": 0})
    result = agree(source, judge_column="judge", reading=reading)
    assert (only(result)["counts"]["n_both"], result.n_quarantined) == (3, 1)
    assert only(result)["agreement"]["agreement"]["count"] == 2


def test_a_row_with_an_id_is_named_by_it(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", ["id,judge,human", "a-1,1,1", "b-2,0,Benign"])
    with pytest.raises(DataError, match=r"id 'b-2', field human: .* got 'Benign'\. Say what it"):
        agree(source, judge_column="judge", reading=ReadOptions(label_column="human", strict=True))
    quarantine = tmp_path / "quarantine.jsonl"
    agree(
        source,
        judge_column="judge",
        reading=ReadOptions(label_column="human", quarantine=quarantine),
    )
    (entry,) = [json.loads(line) for line in quarantine.open()]
    assert (entry["row"], entry["id"]) == (None, "b-2")


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["1,", "0,"], "no human label: the column 'human' is blank"),
        ([",1", ",0"], "no judge label: the column 'judge' is blank"),
        (["1,yes", "0,no"], "no usable row has a human label .* 2 rows could not be used"),
    ],
)
def test_a_column_without_labels_is_an_error(lines: list[str], reason: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=reason):
        agree(table(tmp_path / "a.csv", ["judge,human", *lines]), **COLUMNS)


def test_a_column_that_is_not_there_is_named(answers: Path) -> None:
    with pytest.raises(DataError, match=r"'verdict'; columns seen: .*judge"):
        agree(answers, label_column="human", judge_column="verdict")


def test_human_labels_of_flagged_answers_alone_are_no_random_sample(
    items: list[dict[str, Any]], tmp_path: Path
) -> None:
    chosen = [
        {**item, "human": item["truth"] if item["detector"] > 1.5 else None} for item in items
    ]
    result = agree(write(tmp_path / "a.jsonl", chosen), **COLUMNS, **SCORES, **LIMITS)
    assert result.verdict == "inconclusive"
    assert only(result)["certificate"]["reason_code"] == "no_sample"
    assert "Draw rows for people at random" in only(result)["reason"]
    for rate in only(result)["rates"].values():
        assert rate["prediction_powered"]["estimate"] is None
        assert "no random sample" in rate["prediction_powered"]["reason"]
    (warning,) = [text for text in result.warnings if "no random sample: " in text]
    assert "called hallucinated by the judge" in warning and "flagged" in warning
    assert all(test["differs"] for test in only(result)["random_sample"])


def test_what_else_weakens_the_result_is_said(items: list[dict[str, Any]], tmp_path: Path) -> None:
    odd = [{**item, "group": f"g{index % 40}"} for index, item in enumerate(items)]
    odd[0]["detector"], odd[1]["detector"] = None, "unknown"
    result = agree(write(tmp_path / "a.jsonl", odd), **COLUMNS, **SCORES)
    human = [item for item in odd if item["human"] is not None]
    assert len({item["group"] for item in human}) < len(human)
    assert result.data["n_sharing_a_group"] == len(odd) - 40
    text = "; ".join(result.warnings)
    assert (
        f"{len(odd) - 40} rows share a group" in text
        and "each of the 40 groups counts once" in text
    )
    assert "2 answers have no score and count as flagged." in text
    # Both count as flagged.
    flagged = [not isinstance(item["detector"], float) or item["detector"] >= 0.75 for item in odd]
    apart = agree(tmp_path / "a.jsonl", **COLUMNS, **SCORES, assume_independent=True)
    assert numbers(only(apart)["rates"]) == expected(odd, flagged)
    assert width(result) > 1.3 * width(apart)


def test_a_detector_that_fails_flags_and_is_counted(
    items: list[dict[str, Any]], answers: Path, guardrail: Guardrail, monkeypatch: Any
) -> None:
    def fail(examples: object) -> None:
        raise RuntimeError("no detector")

    monkeypatch.setattr(guardrail.score, "score", fail, raising=True)
    result = agree(answers, **COLUMNS, guardrail=guardrail)
    assert only(result)["rates"]["coverage"]["prediction_powered"]["estimate"] == 1.0
    assert any("failed on 600 answers, which count as flagged." in text for text in result.warnings)


def test_examples_in_memory_and_progress() -> None:
    examples = [
        Example(id=str(i), columns={"human": None if i % 2 else i % 4 / 2, "judge": i % 4 // 2})
        for i in range(600)
    ]
    seen: list[int] = []
    result = agree(examples, **COLUMNS, context=Context(progress=seen.append))
    assert seen == [256, 512, 600]
    assert result.data["source"] == "examples in memory"
    assert only(result)["agreement"]["agreement"]["estimate"] == 1.0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"label_column": "judge"}, "two columns; got 'judge' twice"),
        ({"judge_column": ["judge", "judge"]}, "two columns; got 'judge' twice"),
        ({"judge_column": []}, "must name the column"),
        ({"min_caught": 0.8}, "a verdict is about both"),
        ({"confidence": 1.0}, r"confidence must lie in \(0, 1\)"),
    ],
)
def test_refusals(answers: Path, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        agree(answers, **{**COLUMNS, **options})


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ((None, "faithful", None), "belong to a score_column"),
        ((None, None, 1.0), "belong to a score_column"),
        (("detector", None, 1.0), "add higher=.hallucinated. if a higher value"),
        (("detector", "faithful", None), "threshold must be .* got None"),
        (("detector", "hallucinated", math.nan), "threshold must be a finite number .* got nan"),
    ],
)
def test_a_threshold_that_is_named_in_part_is_refused(fields: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        ScoreThreshold(*fields)


def test_a_guardrail_and_a_column_are_one_too_many(answers: Path, guardrail: Guardrail) -> None:
    with pytest.raises(InputError, match="not both"):
        agree(answers, **COLUMNS, guardrail=guardrail, **SCORES)


@pytest.mark.parametrize(
    ("judged", "how"),
    [
        (("faithful", "hallucinated"), {"positive": "yes"}),
        (("no", "yes"), {"positive": "yes"}),
        (("PASS", "FAIL"), {"label_map": {"yes": 1, "no": 0}}),
        ((0, 1), {"positive": "yes"}),
        (("grounded", "n/a"), {"positive": "yes"}),
    ],
)
def test_what_people_meant_by_a_word_is_not_what_the_judge_means(
    judged: tuple[Any, Any], how: dict[str, Any]
) -> None:
    rows = [
        Example(id=str(i), columns={"human": ["no", "yes"][i % 2], "judge": judged[i % 2]})
        for i in range(40)
    ]
    result = agree(rows, **COLUMNS, **how)
    n_called = 0 if judged[1] == "n/a" else 20
    assert (
        only(result)["counts"]["n_human"] == 40
        and only(result)["counts"]["n_judge"] == 20 + n_called
    )
    assert only(result)["agreement"]["agreement"]["estimate"] == 1.0
    itself = any("read by its own name and words" in warning for warning in result.warnings)
    assert itself == (judged != ("no", "yes"))


@pytest.mark.parametrize(
    ("said", "meant"),
    [(("grounded", "ungrounded"), ("A", "B")), ((0, 1), ("fine", "bad")), (("no", "yes"), "NY")],
)
def test_a_value_that_the_judge_alone_holds_says_nothing_of_what_people_said(
    said: tuple[Any, Any], meant: Any
) -> None:
    rows = [
        Example(id=str(i), columns={"hallucinated": said[i % 2], "judge": meant[i % 2]})
        for i in range(40)
    ]
    result = agree(rows, judge_column="judge", label_column="hallucinated", positive=meant[1])
    assert (only(result)["counts"]["n_human"], only(result)["counts"]["n_judge"]) == (40, 40)
    assert only(result)["agreement"]["agreement"]["estimate"] == 1.0
    assert any("'hallucinated' was read by its own name" in item for item in result.warnings)


def test_the_name_of_the_judges_column_says_what_its_yes_means() -> None:
    rows = [
        Example(
            id=str(i), columns={"bad": ["no", "yes"][i % 2], "judge_faithful": ["yes", "no"][i % 2]}
        )
        for i in range(40)
    ]
    result = agree(rows, label_column="bad", judge_column="judge_faithful", positive="yes")
    assert only(result)["agreement"]["agreement"]["estimate"] == 1.0


def standing_in(
    tmp_path: Path,
    errors: Mapping[str, tuple[float, float]],
    n: int = 600,
    seed: int = 0,
    people: float = 1.0,
) -> tuple[Path, list[dict[str, Any]]]:
    """Write answers; each judge misses and raises so much of them by lot."""
    rng, made = np.random.default_rng(seed), []
    for index in range(n):
        truth = int(rng.random() < 0.4)
        row: dict[str, Any] = {"id": f"a{index}", "response": f"Answer {index}.", "question": "?"}
        row |= {"contexts": ["."], "lang": "de" if index % 2 else "en"}
        row["human"] = truth if rng.random() < people else None
        for name, (miss, alarm) in errors.items():
            row[name] = int(rng.random() >= miss if truth else rng.random() < alarm)
        made.append(row)
    return write(tmp_path / "judged.jsonl", made), made


def test_the_verdict_is_that_of_test_on_the_same_answers(tmp_path: Path) -> None:
    for name, errors in (("good", (0.08, 0.08)), ("bad", (0.35, 0.1)), ("near", (0.2, 0.1))):
        source, _ = standing_in(tmp_path, {"judge": errors})
        found = agree(source, **COLUMNS, **LIMITS)
        run = calibrail.test(
            source, score_column="judge", higher="hallucinated", label_column="human", **LIMITS
        )
        judge = only(found)
        assert (found.verdict, judge["reason"]) == (run.verdict, run.report.reason), name
        assert judge["needed"] == run.report.certificate["needed"]
        assert judge["caught"] == run.report.test.coverage.to_dict()
        assert judge["false_alarms"] == run.report.test.fpr.to_dict()
    assert found.verdict == "inconclusive" and judge["needed"]["hallucinated"] > 0


def test_several_judges_are_corrected_and_the_worst_decides(tmp_path: Path) -> None:
    errors = {"one": (0.145, 0.1), "two": (0.02, 0.02), "bad": (0.4, 0.4)}
    source, _ = standing_in(tmp_path, errors, seed=3)
    alone = agree(source, label_column="human", judge_column="one", **LIMITS)
    several = agree(source, label_column="human", judge_column=[*errors], **LIMITS)
    found = {item["judge"]: item for item in several.judges}
    assert alone.verdict == "certified" and found["one"]["verdict"] == "inconclusive"
    assert found["one"]["certificate"]["confidence"] > 0.95
    assert (found["two"]["verdict"], found["bad"]["verdict"]) == ("certified", "rejected")
    assert several.verdict == "rejected"
    # On page and terminal each stands on a line of its own.
    said = words.document(several.to_dict())
    assert [item.title for item in said.lead] == [*errors]
    assert said.lead[2].text.startswith("It may not stand in for people. With ")
    # Who may be used is named first, in the headline, the tiles and what is next.
    names = "1 of 3 judges certified: two; one inconclusive; bad rejected"
    assert said.headline == names and (said.verdict, said.tone) == ("rejected", "conditional")
    assert {tile.name.partition(":")[0] for tile in said.tiles} == {"two"}
    assert not any(name in said.summary for name in errors)
    # What to do with each of them stands together, below what is said of all.
    page, next_steps = render_page(said), [said.next_step, *said.alternatives]
    assert next_steps[1].startswith("Do not let bad stand in for people; mend its prompt")
    assert [step[:35] for step in next_steps[:1]] == ["Let two label in place of people, a"]
    assert 'class="verdict conditional"' in page
    places = [page.index(f"<b>{name}.</b>") for name in errors]
    assert max(places) < page.index("<b>Next:</b>") < page.index("Do not let bad stand")


def test_labels_in_another_file_are_joined_by_id(tmp_path: Path) -> None:
    source, made = standing_in(tmp_path, {"judge": (0.08, 0.08)})
    inside = agree(source, **COLUMNS, **LIMITS)
    bare = write(tmp_path / "b.jsonl", ({**row, "human": None} for row in made))
    rows = [f"{row['id']},{['fine', 'bad'][row['human']]}" for row in reversed(made)]
    labels = table(tmp_path / "l.csv", ["id,verdict", *rows, "other,bad"])
    how: dict[str, Any] = {"label_column": "verdict", "label_map": {"fine": 0, "bad": 1}}
    apart = agree(bare, judge_column="judge", labels=labels, **how, **LIMITS)
    assert only(apart) == only(inside)
    assert (
        apart.data["n_unmet"] == 1
        and "1 human label has an id that the data does not have" in apart.warnings[0]
    )
    strange = table(tmp_path / "s.csv", ["id,verdict", "x,bad", "y,fine"])
    with pytest.raises(
        DataError, match=r"no id of the human labels is one of .*: the first is x, there it is a0"
    ):
        agree(bare, judge_column="judge", labels=strange, **how)
    without = table(tmp_path / "w.csv", ["verdict,note", "bad,1", "fine,2"])
    with pytest.raises(DataError, match=r"w\.csv holds rows without an id"):
        agree(bare, judge_column="judge", labels=without, **how)


@pytest.mark.parametrize("higher", ["hallucinated", "faithful"])
def test_ratings_are_calibrated_on_labels_that_do_not_test(tmp_path: Path, higher: str) -> None:
    _, made = standing_in(tmp_path, {"judge": (0.0, 0.0)}, n=800)
    rng, sign = np.random.default_rng(1), 1 if higher == "hallucinated" else -1
    for index, row in enumerate(made):
        row["rating"] = 3 + sign * int(np.clip(round(3 * row["judge"] - 1.5 + rng.normal()), -2, 2))
        row["topic"] = f"t{index // 2}"
    source = write(tmp_path / "rated.jsonl", made)
    how = {"label_column": "human", "judge_column": "rating", "group_column": "topic"}
    found = agree(source, **how, judge_higher=higher, **LIMITS)
    judge = only(found)
    assert found.verdict == "certified" and 300 < found.data["n_calibrating"] < 500
    tested = judge["counts"]["n_human"]
    assert tested == 800 - found.data["n_calibrating"]
    assert judge["caught"]["n"] + judge["false_alarms"]["n"] <= tested
    wrong = {row["id"] for row in found.errors}
    for row in made:
        flagged = row["rating"] * sign >= judge["threshold"] * sign
        assert row["id"] not in wrong or flagged != row["human"]
    with pytest.raises(InputError, match="does a higher rating of rating speak"):
        agree(source, **how)


def test_segments_get_a_verdict_each_and_errors_are_listed_by_them(tmp_path: Path) -> None:
    _, made = standing_in(tmp_path, {"judge": (0.03, 0.03)}, n=1000, people=0.8)
    rng = np.random.default_rng(2)
    for row in made:
        if row["lang"] == "de" and rng.random() < 0.35:
            row["judge"] = 1 - row["judge"]
    result = agree(write(tmp_path / "a.jsonl", made), **COLUMNS, **LIMITS, by="lang")
    found = {row["segment"]: row for row in result.by}
    assert (found["en"]["verdict"], found["de"]["verdict"]) == ("certified", "rejected")
    for name, row in found.items():
        here = [item for item in made if item["lang"] == name and item["human"] is not None]
        caught = [item["judge"] for item in here if item["human"]]
        assert (row["caught"]["count"], row["caught"]["n"]) == (sum(caught), len(caught))
        rate = row["rates"]["prevalence"]["prediction_powered"]
        assert rate["lower"] < 0.4 < rate["upper"]
    tables = [
        table
        for part in words.document(result.to_dict()).blocks
        if isinstance(part, Section)
        for table in part.blocks
        if isinstance(table, Table)
    ]
    segments = [row["segment"] for row in result.by]
    assert segments in [[row[0] for row in table.rows] for table in tables]
    (by_segment,) = [row for row in only(result)["errs"] if row["feature"] == "segment"]
    assert by_segment["p_holm"] <= 0.05
    assert {row["feature"] for row in only(result)["errs"]} > {"segment"}
    whole = only(result)["rates"]["prevalence"]["stratified"]
    assert whole["lower"] < 0.4 < whole["upper"]
    wrong = [row for row in made if row["human"] not in (None, row["judge"])]
    assert len(result.errors) == len(wrong)
    assert [row["segment"] for row in result.errors] == sorted(row["lang"] for row in wrong)


def test_a_group_counts_once_and_a_second_look_is_one(tmp_path: Path) -> None:
    _, made = standing_in(tmp_path, {"judge": (0.06, 0.06)}, n=500)
    repeated = [
        {**row, "id": f"{row['id']}-{k}", "response": f"{k} {row['response']}", "topic": row["id"]}
        for row in made
        for k in range(3)
    ]
    once = write(tmp_path / "once.jsonl", made)
    thrice = write(tmp_path / "thrice.jsonl", repeated)
    how: dict[str, Any] = {**COLUMNS, **LIMITS}
    single, grouped = agree(once, **how), agree(thrice, **how, group_column="topic")
    assert only(single)["caught"]["n"] == only(grouped)["caught"]["n"]
    assert only(single)["false_alarms"]["n"] == only(grouped)["false_alarms"]["n"]
    assert grouped.data["n_set_aside"] == 1000
    # So do its rates, what both labels say, and copies word for word.
    copied = write(
        tmp_path / "copied.jsonl",
        [{**row, "id": f"{row['id']}{k}"} for row in made for k in (0, 1)],
    )
    one = only(single)["rates"]["prevalence"]
    for source, more in ((thrice, {"group_column": "topic"}), (copied, {})):
        found = only(agree(source, **how, **more))
        for method, rate in found["rates"]["prevalence"].items():
            for end in ("estimate", "lower", "upper"):
                assert rate[end] == pytest.approx(one[method][end], abs=0.01)
        for name, of in (("sensitivity", "caught"), ("specificity", "false_alarms")):
            assert found["agreement"][name]["n"] == found[of]["n"]
    looks = tmp_path / "looks.json"
    assert agree(once, **how, looks=looks).verdict == "certified"
    for least, first in ((0.85, "Have people label"), (0.999, "Do not rely on it")):
        again = agree(once, **{**how, "min_caught": least}, looks=looks)
        assert again.verdict == "inconclusive" and "looked at before" in only(again)["reason"]
        step = words.document(again.to_dict()).next_step
        assert step.startswith(first) and "that nobody has looked at" in step


def test_unequal_drawing_probabilities_are_undone_by_lot(tmp_path: Path) -> None:
    """The judge is worse where people look more often: all labels together misjudge it."""
    rng, made = np.random.default_rng(5), []
    for index in range(6000):
        hard, truth = index % 2, int(rng.random() < 0.4)
        chance = (0.1, 0.8)[hard]
        judge = truth if rng.random() > (0.02, 0.4)[hard] else 1 - truth
        drawn = rng.random() < chance
        made.append({"id": f"a{index}", "human": truth if drawn else None, "judge": judge})
        made[-1] |= {"chance": chance, "response": f"Answer {index}.", "question": "?"}
        made[-1] |= {"contexts": ["."]}
    source = write(tmp_path / "a.jsonl", made)
    biased = only(agree(source, **COLUMNS))
    assert biased["caught"]["upper"] < 0.75
    fair = agree(source, **COLUMNS, probability="chance")
    caught = only(fair)["caught"]
    assert caught["lower"] < 0.79 < caught["upper"] and caught["estimate"] > 0.74
    assert fair.data["n_thinned"] > 1500 and "set aside at random" in fair.warnings[0]
    made[0] |= {"human": 1, "chance": 0}
    with pytest.raises(DataError, match="id 'a0', field chance: it needs"):
        agree(write(tmp_path / "b.jsonl", made), **COLUMNS, probability="chance")


def test_rows_that_are_alike_are_drawn_by_lots_of_their_own() -> None:
    """Of rows without ids whole cells of people's and the judge's labels stayed, or went."""
    rng, made = np.random.default_rng(4), []
    for _ in range(2000):
        truth, chance = int(rng.random() < 0.4), float(rng.choice([0.2, 0.8]))
        judge = truth if rng.random() < 0.75 else 1 - truth
        made.append({"human": truth if rng.random() < chance else None, "judge": judge})
        made[-1] |= {"chance": chance}
    labelled = [(row["human"], row["judge"]) for row in made if row["human"] is not None]
    likely = sum(row["human"] is not None and row["chance"] == 0.8 for row in made)
    columns = {name: [row[name] for row in made] for name in made[0]}
    result = agree(columns, **COLUMNS, probability="chance")
    # Of each kind of row one in four stays, of those that were drawn with the higher probability.
    assert abs(result.data["n_thinned"] - 0.75 * likely) < 60
    caught = only(result)["caught"]
    assert len({*labelled}) == 4 and caught["lower"] < 0.75 < caught["upper"]


def test_where_the_lot_leaves_no_label_that_is_said() -> None:
    made = [
        Example(
            id=f"a{i}", columns={"human": str(i % 2) if i < 3 else None, "judge": 1.0 * (i % 2)}
        )
        for i in range(50)
    ]
    rows = [
        replace(item, columns={**item.columns, "q": 1.0 - 0.999 * (i > 9)})
        for i, item in enumerate(made)
    ]
    with pytest.raises(DataError, match="all 3 human labels are set aside at random"):
        agree(rows, **COLUMNS, probability="q")


def ids(labels: Iterable[tuple[object, object]]) -> list[str]:
    return ["id,human", *(f"{id},{label}" for id, label in labels)]


def test_ids_that_stand_twice_are_told(tmp_path: Path) -> None:
    source, made = standing_in(tmp_path, {"judge": (0.08, 0.08)}, n=200)
    pairs = [(row["id"], row["human"]) for row in made]
    bare = write(tmp_path / "bare.jsonl", ({**row, "human": None} for row in made))
    # The same label twice, as of two people, is one label.
    twice = table(tmp_path / "twice.csv", ids([*pairs, pairs[3]]))
    apart = agree(bare, **COLUMNS, labels=twice)
    assert only(apart)["caught"] == only(agree(source, **COLUMNS))["caught"]
    unlike = table(tmp_path / "unlike.csv", ids([*pairs, ("a3", 1 - made[3]["human"])]))
    with pytest.raises(DataError, match="gives id a3 two labels"):
        agree(bare, **COLUMNS, labels=unlike)
    other = {**made[3], "human": None, "response": "Another answer.", "judge": 1}
    again = write(tmp_path / "again.jsonl", [*({**row, "human": None} for row in made), other])
    with pytest.raises(DataError, match="has several answers of id a3"):
        agree(again, **COLUMNS, labels=twice)
    # Where labels stand beside the answers, each answer of an id has its own.
    beside = write(tmp_path / "beside.jsonl", [*made, {**other, "human": 1}])
    assert only(agree(beside, **COLUMNS))["counts"]["n_both"] == 201


@pytest.mark.parametrize("spelt", ["{}", "{}.0", '"{}"'])
def test_numbers_as_ids_join_however_they_are_spelt(tmp_path: Path, spelt: str) -> None:
    _, made = standing_in(tmp_path, {"judge": (0.08, 0.08)}, n=100)
    answers = write(
        tmp_path / "n.jsonl", [{"id": i, "judge": row["judge"]} for i, row in enumerate(made)]
    )
    labels = ids((spelt.format(i), row["human"]) for i, row in enumerate(made))
    result = agree(answers, **COLUMNS, labels=table(tmp_path / "l.csv", labels))
    assert only(result)["counts"]["n_both"] == 100 and not result.data["n_unmet"]


def rated(tmp_path: Path, ratings: Iterable[object]) -> Path:
    rows = ({"id": i, "human": i % 2, "judge": value} for i, value in enumerate(ratings))
    return write(tmp_path / "rated.jsonl", rows)


def test_ratings_beside_words_and_after_labels_are_ratings(tmp_path: Path) -> None:
    source = rated(
        tmp_path,
        (
            "N/A" if i % 9 == 0 else "refused" if i % 9 == 1 else 1 + 3 * (i % 2) - i % 3 // 2
            for i in range(360)
        ),
    )
    with pytest.raises(InputError, match="does a higher rating of judge speak"):
        agree(source, **COLUMNS)
    result = agree(source, **COLUMNS, judge_higher="hallucinated")
    assert only(result)["threshold"] == 3 and only(result)["caught"]["estimate"] == 1.0
    late = rated(tmp_path, (i % 2 * (1 if i < 200 else 5) for i in range(400)))
    with pytest.raises(DataError, match="judge holds 5, a rating, after labels"):
        agree(late, **COLUMNS)
    found = only(agree(late, **COLUMNS, judge_higher="hallucinated"))
    assert found["threshold"] is not None and found["caught"]["estimate"] == 1.0


def test_a_direction_of_labels_is_not_ignored(tmp_path: Path) -> None:
    source = rated(tmp_path, (1 - i % 2 for i in range(400)))
    assert only(agree(source, **COLUMNS))["caught"]["estimate"] == 0.0
    found = only(agree(source, **COLUMNS, judge_higher="faithful"))
    assert (found["caught"]["estimate"], found["false_alarms"]["estimate"]) == (1.0, 0.0)
    # Of two values there is one call, so that every label tests it.
    assert found["threshold"] is None and found["caught"]["n"] == 200


def test_labels_of_numbers_that_a_map_explains_are_no_ratings(tmp_path: Path) -> None:
    source = rated(tmp_path, (1 + i % 2 for i in range(100)))
    result = only(agree(source, **COLUMNS, label_map={0: 0, 1: 0, 2: 1}, judge_higher=None))
    assert result["threshold"] is None and result["counts"]["n_both"] == 100


def test_a_word_of_the_judge_that_is_not_clear_is_told_of_the_judge(tmp_path: Path) -> None:
    source = rated(tmp_path, (["yes", "no"][i % 2] for i in range(40)))
    with pytest.raises(
        DataError, match=r"has a judge label in the column 'judge'.*--positive|positive="
    ):
        agree(source, **COLUMNS)
    assert only(agree(source, **COLUMNS, positive="no"))["caught"]["estimate"] == 1.0


def test_how_many_of_just_these_answers_are_hallucinated(
    tmp_path: Path, items: list[dict[str, Any]]
) -> None:
    def among(rows: list[dict[str, Any]], **how: Any) -> dict[str, Any] | None:
        result = agree(write(tmp_path / "answers.jsonl", rows), **COLUMNS, **how)
        said = repr(document(result))
        found = only(result)["among"]
        assert (f"Of these {len(rows)} answers" in said) == (found is not None)
        return cast("dict[str, Any] | None", found)

    n_bad, document = sum(item["truth"] for item in items), lambda it: words.document(it.to_dict())
    found = among(items)
    assert found is not None and found["n"] == 600
    known = sum(item["human"] or 0 for item in items)
    assert known < found["lower"] <= n_bad <= found["upper"] < 600
    rate = only(agree(write(tmp_path / "a.jsonl", items), **COLUMNS))["rates"]["prevalence"]
    powered = rate["prediction_powered"]
    assert found["upper"] - found["lower"] < 600 * (powered["upper"] - powered["lower"])
    every = among([{**item, "human": int(item["truth"])} for item in items])
    assert every is not None and every["lower"] == every["upper"] == n_bad
    # Drawn in groups, too few, no random sample, or with ratings whose limit they chose: none.
    assert among([{**item, "group": f"g{i // 2}"} for i, item in enumerate(items)]) is None
    assert (
        among(
            [{**item, "human": item["human"] if i < 90 else None} for i, item in enumerate(items)]
        )
        is None
    )
    assert (
        among([{**item, "human": item["human"] if item["judge"] else None} for item in items])
        is None
    )
    assert (
        among([{**item, "judge": item["detector"]} for item in items], judge_higher="hallucinated")
        is None
    )


def test_of_labels_that_say_neither_no_number_of_these_answers_follows(tmp_path: Path) -> None:
    """A label that is set aside may be of the answers that are hallucinated."""
    lines = [f"{i},{('1', '0', '', '')[i % 4]},{i % 2}" for i in range(200)]
    path = table(tmp_path / "a.csv", ["id,human,judge", *lines])
    assert only(agree(path, **COLUMNS))["among"]["n"] == 200
    lines[0] = "0,unsure,0"
    path = table(tmp_path / "b.csv", ["id,human,judge", *lines])
    assert only(agree(path, **COLUMNS))["among"] is None
    skipped = {"0": 0, "1": 1, "unsure": "skip"}
    assert only(agree(path, **COLUMNS, label_map=skipped))["among"] is None


def test_of_files_that_people_label_in_part_the_number_is_held(tmp_path: Path) -> None:
    """Ninety-five in a hundred, whatever the judge is like: 40 files hold 34 or more."""
    rng, missed = np.random.default_rng(3), 0
    for run in range(40):
        truth = np.arange(120) < 24
        judge = rng.random(120) < 0.3 if run % 2 else truth != (rng.random(120) < 0.2)
        drawn = rng.permutation(120) < 30
        lines = (f"{i},{int(truth[i]) if drawn[i] else ''},{int(judge[i])}" for i in range(120))
        path = table(tmp_path / f"{run}.csv", ["id,human,judge", *lines])
        found = only(agree(path, **COLUMNS))["among"]
        missed += found is not None and not found["lower"] <= 24 <= found["upper"]
    assert missed <= 6


def test_declared_looks_share_the_error_where_no_file_keeps_them(tmp_path: Path) -> None:
    source, _ = standing_in(tmp_path, {"judge": (0.08, 0.08)}, n=200)
    once, thrice = agree(source, **COLUMNS, **LIMITS), agree(source, **COLUMNS, **LIMITS, n_looks=5)
    assert once.confidence == 0.95 and thrice.confidence == pytest.approx(0.99)
    assert only(thrice)["caught"]["lower"] < only(once)["caught"]["lower"]


@pytest.mark.parametrize(
    ("names", "column"),
    [(("human", "label"), "human"), (("x", "label"), "label"), (("x", "is_hallucinated"),) * 2],
)
def test_labels_of_people_are_found_by_their_name(
    names: tuple[str, str], column: Any, tmp_path: Path
) -> None:
    column = column if isinstance(column, str) else column[1]
    made = [f"{i},{i % 2},{i % 2},{i % 2}" for i in range(60)]
    source = table(tmp_path / "a.csv", [f"id,label_of_judge,{','.join(names)}", *made])
    found = agree(source, judge_column="label_of_judge")
    assert found.columns["human"] == column and only(found)["caught"]["count"] == 30


def test_where_no_column_reads_as_labels_of_people_the_option_is_named(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", ["id,hallucinated,gold_verdict", "1,1,1", "2,0,0"])
    with pytest.raises(
        DataError, match=r"columns seen: id, gold_verdict; .*label_column='gold_ver"
    ):
        agree(source, judge_column="hallucinated")


def test_whole_groups_drawn_for_people_are_a_random_sample_of_groups() -> None:
    """Half of 10 groups against 8 of 30 is chance; 50 of 100 rows against 80 of 300 is not."""
    made = [
        Example(
            id=f"{group}-{k}",
            group=f"g{group}",
            columns={"judge": float(called), "human": str(int(called)) if group < 10 else None},
        )
        for group in range(40)
        for called in [group < 5 or 10 <= group < 18]
        for k in range(10)
    ]
    (test,) = only(agree(made, **COLUMNS))["random_sample"]
    assert (test["human_labelled"], test["others"]) == (
        {"count": 5, "n": 10},
        {"count": 8, "n": 30},
    )
    assert not test["differs"] and test["p_value"] > 0.1
    lone = [Example(id=item.id, columns=item.columns) for item in made]
    (test,) = only(agree(lone, **COLUMNS))["random_sample"]
    assert test["differs"] and test["human_labelled"] == {"count": 50, "n": 100}


def test_what_a_judge_says_unclearly_is_named_by_column(tmp_path: Path) -> None:
    source, made = standing_in(tmp_path, {"judge": (0.08, 0.08)})
    for row in made[:7]:
        row["judge"] = "cannot tell, perhaps"
    found = agree(write(source, made), **COLUMNS)
    assert found.data["n_unreadable"] == {"judge": 7} and found.data["n_quarantined"] == 7
    (warning,) = [text for text in found.warnings if "cannot be read in 7 rows" in text]
    assert "'judge'" in warning and "id 'a0'" in warning


def test_errors_are_told_by_length_position_and_author(tmp_path: Path) -> None:
    """The judge passes its own hallucinations, long answers, and those that come second."""
    source, made = standing_in(tmp_path, {"gpt-4o": (0.0, 0.0)}, n=600)
    told = {}
    for feature in ("length", "position", "generator", "author", "nothing"):
        for index, row in enumerate(made):
            row |= {"model": ("GPT 4o", "llama", "qwen")[index % 3], "topic": f"t{index // 2}"}
            # Of a topic one answer counts: its first or second one.
            row["human"] = row["human"] if (index // 2 + index // 100) % 2 == index % 2 else None
            row["response"] = f"Answer {index}" + " and so on" * (index // 4 % 5)
            wrong = {
                "length": index // 4 % 5 == 4,
                "position": index % 2 == 1,
                "generator": index % 3 == 1,
                "author": index % 3 == 0,
                "nothing": index * 7919 % 101 < 10,
            }[feature]
            row["gpt-4o"] = (row["human"] or 0) ^ wrong
        errs = only(agree(write(source, made), judge_column="gpt-4o", group_column="topic"))["errs"]
        told[feature] = {row["feature"] for row in errs if row["p_holm"] <= 0.05}
        made = standing_in(tmp_path, {"gpt-4o": (0.0, 0.0)}, n=600)[1]
    assert "length" in told["length"] and "position" not in told["length"]
    assert "position" in told["position"] and "author" not in told["position"]
    assert {"generator"} <= told["generator"] and {"author", "generator"} <= told["author"]
    assert not told["nothing"]


def test_a_judge_that_says_the_opposite_is_told_apart_from_a_bad_one() -> None:
    def rows(flip: int) -> list[Example]:
        return [
            Example(id=str(i), columns={"human": str(i % 2), "judge": str((i + flip) % 2)})
            for i in range(200)
        ]

    (warning,) = [
        item for item in agree(rows(1), judge_column="judge").warnings if "1 means" in item
    ]
    assert "add judge_higher='faithful' where" in warning
    assert not any("1 means" in item for item in agree(rows(0), judge_column="judge").warnings)
    turned = agree(rows(1), judge_column="judge", judge_higher="faithful")
    assert not any("1 means" in item for item in turned.warnings)
    # A name that says its 1 is faithful may be wrong: the remedy is the other way round.
    named = [
        replace(row, columns={"human": row.columns["human"], "right": row.columns["judge"]})
        for row in rows(0)
    ]
    (warning,) = agree(named, judge_column="right").warnings
    assert "add judge_higher='hallucinated' where" in warning
    mended = agree(named, judge_column="right", judge_higher="hallucinated")
    assert not mended.warnings and only(mended)["caught"]["estimate"] == 1.0


def test_of_a_judge_that_is_rejected_a_leaning_to_the_opposite_is_told(tmp_path: Path) -> None:
    """A column whose 1 means faithful, and that says it of nearly none, hardly leans that way."""
    lines = [f"{i},{i % 2},{int(i % 20 not in (0, 1, 3))}" for i in range(100)]
    path = table(tmp_path / "a.csv", ["id,human,judge", *lines])
    asked = agree(path, **COLUMNS, **LIMITS)
    assert asked.verdict == "rejected" and only(asked)["agreement"]["kappa"]["upper"] > 0.0
    assert [item for item in asked.warnings if "1 means faithful" in item]
    assert not agree(path, **COLUMNS).warnings


def test_labels_in_another_file_are_asked_for_first(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", ["id,judge", *(f"{i},{i % 2}" for i in range(20))])
    with pytest.raises(DataError, match="name the file that has them"):
        agree(path, judge_column="judge")


def test_a_judge_that_says_nothing_catches_nothing(tmp_path: Path) -> None:
    source, made = standing_in(tmp_path, {"judge": (0.0, 0.0)})
    assert agree(source, **COLUMNS, **LIMITS).verdict == "certified"
    caught = [row for row in made if row["human"] == 1]
    for row in caught[::2]:
        row["judge"] = None
    silent = agree(write(tmp_path / "silent.jsonl", made), **COLUMNS, **LIMITS)
    assert silent.verdict == "rejected" and only(silent)["caught"]["n"] == len(caught)
    assert any("and count as not called hallucinated" in text for text in silent.warnings)


def test_silence_on_hallucinated_answers_hides_none_of_them(tmp_path: Path) -> None:
    """Of what the judge speaks of a fifth is hallucinated, and of all answers two fifths are."""
    _, made = standing_in(tmp_path, {"judge": (0.05, 0.05)}, n=3000)
    rng = np.random.default_rng(4)
    for row in made:
        row["judge"] = None if row["human"] and rng.random() < 0.6 else row["judge"]
        row["human"] = row["human"] if rng.random() < 0.2 else None
    found = only(agree(write(tmp_path / "a.jsonl", made), **COLUMNS))
    for rate in found["rates"]["prevalence"].values():
        assert rate["lower"] < 0.4 < rate["upper"]
    assert found["rates"]["prevalence"]["prediction_powered"]["lower"] > 0.3
    assert found["counts"]["n_human_alone"] > 0
    # Where people label what a judge speaks of, answers that nobody labels have no part.
    heard = [row for row in made if row["judge"] is not None]
    more = [{**row, "id": f"x{row['id']}", "judge": None, "human": None} for row in made]
    mixed = [row | {"response": f"{row['response']} {row['id']}"} for row in (*heard, *more)]
    few, all_ = (only(agree(write(tmp_path / "b.jsonl", it), **COLUMNS)) for it in (heard, mixed))
    assert few["rates"] == all_["rates"]


def test_an_id_of_two_files_is_that_of_two_answers(tmp_path: Path) -> None:
    _, made = standing_in(tmp_path, {"judge": (0.05, 0.05)}, n=60)
    people = table(tmp_path / "l.csv", ids([(row["id"], row["human"]) for row in made]))
    for row in made:
        del row["human"]
    one = write(tmp_path / "one.jsonl", made)
    assert agree(one, **COLUMNS, labels=people).data["n_human"] == 60
    other = write(
        tmp_path / "two.jsonl", [{**row, "response": f"Another {row['id']}"} for row in made[:2]]
    )
    with pytest.raises(DataError, match="several answers of id a0"):
        agree([one, other], **COLUMNS, labels=people)


def test_rows_of_one_id_that_differ_by_spaces_are_two(tmp_path: Path) -> None:
    _, made = standing_in(tmp_path, {"judge": (0.0, 0.0)})
    first = next(row for row in made if row["human"] is not None)
    again = {**first, "response": first["response"].replace(" ", "  ", 1)}
    result = agree([*map(dict, made), again], **COLUMNS, **LIMITS)
    assert result.verdict == "certified"


def test_other_segments_are_another_look(tmp_path: Path) -> None:
    _, made = standing_in(tmp_path, {"judge": (0.05, 0.05)})
    for place, row in enumerate(made):
        row["part"] = "xy"[place // 7 % 2]
    looks = tmp_path / "looks.json"
    asked: dict[str, Any] = {**COLUMNS, **LIMITS, "looks": looks}
    found = [agree(made, by=by, **asked).verdict for by in ("lang", "part", "lang")]
    assert found == ["certified", "inconclusive", "certified"]


def test_a_row_that_could_not_be_drawn_is_an_error(tmp_path: Path) -> None:
    _, made = standing_in(tmp_path, {"judge": (0.05, 0.05)})
    for place, row in enumerate(made):
        row["p"] = 0.5 if place else None
    with pytest.raises(DataError, match="field p: it needs the probability"):
        agree(made, probability="p", **COLUMNS)


def test_labels_of_rows_drawn_singly_meet_large_groups_no_more_often_than_small_ones() -> None:
    """The judge catches 65 % in groups of one answer, and 95 % in groups of 20: 80 % in all."""
    rng, made = np.random.default_rng(2), []
    for group in range(200):
        caught = 0.95 if group % 2 else 0.65
        truth = rng.random() < 0.5
        for k in range(20 if group % 2 else 1):
            judge = rng.random() < (caught if truth else 0.1)
            cells = {"judge": str(int(judge)), "truth": str(int(truth)), "human": None}
            made.append(Example(id=f"{group}-{k}", group=f"g{group}", columns=cells))

    def drawn(places: Iterable[int]) -> list[Example]:
        chosen = set(places)
        return [
            replace(item, columns={**item.columns, "human": item.columns["truth"]})
            if place in chosen
            else item
            for place, item in enumerate(made)
        ]

    how: dict[str, Any] = {**COLUMNS, "min_caught": 0.8, "max_false_alarms": 0.5}
    order = [*map(int, rng.permutation(len(made)))]
    singly = agree(drawn(order[:300]), **how)
    assert singly.verdict == "inconclusive" and singly.data["n_larger"] > 60
    assert only(singly)["caught"]["n"] < 30
    assert any("of larger groups were set aside at random" in text for text in singly.warnings)
    # Groups that were drawn, one answer of each or whole, all count.
    first = {made[place].group: place for place in order}
    some = [*first.values()][:150]
    kept = {made[place].group for place in some}
    whole = [place for place, item in enumerate(made) if item.group in kept]
    one, all_of = agree(drawn(some), **how), agree(drawn(whole), **how)
    for result in (one, all_of):
        assert result.data["n_larger"] == 0
        assert only(result)["caught"]["n"] + only(result)["false_alarms"]["n"] == 150
    independent = agree(drawn(order[:300]), **how, assume_independent=True)
    assert independent.data["n_larger"] == 0


@pytest.mark.parametrize("scale", [0.1, 0.0612])
def test_weights_are_not_taken_for_probabilities(scale: float) -> None:
    """Not even where they add up to the number of labels: of the likely half too few have one."""
    rng, made = np.random.default_rng(3), []
    for index in range(900):
        chance = (0.1, 0.5)[index % 2]
        truth, drawn = int(rng.random() < 0.4), rng.random() < chance
        cells = {"human": str(truth) if drawn else None, "judge": str(truth)}
        columns = {**cells, "chance": chance, "weight": scale / chance}
        made.append(Example(id=f"a{index}", columns=columns))
    limits = {**COLUMNS, **LIMITS}
    assert agree(made, **limits, probability="chance").verdict == "certified"
    result = agree(made, **limits, probability="weight")
    judge = only(result)
    assert (result.verdict, judge["certificate"]["reason_code"]) == ("inconclusive", "no_sample")
    assert "Give the probabilities with which rows were drawn" in judge["reason"]
    assert judge["rates"]["prevalence"]["prediction_powered"]["estimate"] is None


def test_labels_that_grow_under_new_names_are_further_looks(tmp_path: Path) -> None:
    made, verdicts = standing_in(tmp_path, {"judge": (0.03, 0.03)}, n=400)[1], []
    for place, n in enumerate((200, 300, 400)):
        source = write(tmp_path / f"judged-{place}.jsonl", made[:n])
        looks = source.with_suffix(".looks.json")
        result = agree(source, **COLUMNS, **LIMITS, looks=looks)
        # The very same look is none.
        assert agree(source, **COLUMNS, **LIMITS, looks=looks).judges == result.judges
        verdicts.append((result.verdict, "looked at before" in only(result)["reason"]))
    assert verdicts == [("certified", False), *[("inconclusive", True)] * 2]


def test_limits_named_after_a_look_state_what_both_bounds_have_together(tmp_path: Path) -> None:
    made = standing_in(tmp_path, {"judge": (0.03, 0.03)}, n=400)[1]
    source = write(tmp_path / "judged.jsonl", made)
    looks = {"looks": tmp_path / "judged.looks.json"}
    assert agree(source, **COLUMNS, **looks).confidence == 0.95
    result = agree(source, **COLUMNS, **LIMITS, **looks)
    proof = only(result)["certificate"]
    assert result.verdict == "certified" and result.confidence == proof["confidence"] == 0.95
    assert "With 95% confidence" in proof["reason"] and "half of" in result.warnings[-1]
    caught = binomtest(proof["coverage"]["count"], proof["coverage"]["n"])
    page = unescape(render_page(words.document(result.to_dict())))
    assert "with 97.5% confidence" in page and "with 95% confidence" not in page
    low = caught.proportion_ci(0.95, "exact").low
    assert proof["coverage_at_least"] == pytest.approx(low)


def test_answers_of_one_id_are_one_group_unless_they_have_groups(tmp_path: Path) -> None:
    """An id that is a question's: six answers of it, all alike, are one."""
    rng, made = np.random.default_rng(6), []
    for question in range(60):
        truth = int(rng.random() < 0.4)
        judge = int(rng.random() < (0.9 if truth else 0.1))
        for k in range(6):
            row: dict[str, Any] = {"id": f"q{question}", "response": f"Answer {k} to {question}"}
            made.append(row | {"human": truth, "judge": judge})
    path = write(tmp_path / "repeated.jsonl", made)
    found = agree(path, **COLUMNS, **LIMITS)
    judge = only(found)
    assert judge["caught"]["n"] + judge["false_alarms"]["n"] == 60
    assert found.verdict == "inconclusive" and found.data["n_sharing_a_group"] == 300
    assert any("60 ids stand for several answers" in text for text in found.warnings)
    assert only(agree(path, **COLUMNS, assume_independent=True))["caught"]["n"] > 60
    numbered = [{**row, "topic": f"t{place}"} for place, row in enumerate(made)]
    apart = agree(numbered, **COLUMNS, group_column="topic")
    assert only(apart)["caught"]["n"] + only(apart)["false_alarms"]["n"] == 360


def test_a_group_counts_once_in_each_segment_that_it_is_in(tmp_path: Path) -> None:
    """Eight systems answer the same questions: each has a label a question."""
    rng = np.random.default_rng(3)
    made = [
        Example(
            id=f"{question}-{system}",
            group=f"q{question}",
            columns={"human": str(truth), "judge": str(truth), "system": f"s{system}"},
        )
        for question in range(60)
        for system in range(8)
        for truth in [int(rng.random() < 0.5)]
    ]
    found = agree(made, **COLUMNS, **LIMITS, by="system")
    for row in found.by:
        assert row["caught"]["n"] + row["false_alarms"]["n"] == 60
        assert row["verdict"] == "certified"
    # In all, one answer of each class of a question counts.
    assert only(found)["caught"]["n"] <= 60 and only(found)["false_alarms"]["n"] <= 60


def test_labels_that_lie_in_one_segment_say_nothing_of_all(tmp_path: Path) -> None:
    """The judge catches 60 % where few are labelled, and 98 % where most are: too few in all."""
    rng, made = np.random.default_rng(7), []
    for index in range(1600):
        some = index % 8 == 0
        truth = int(rng.random() < 0.4)
        judge = int(rng.random() < (0.98 if some else 0.6)) if truth else int(rng.random() < 0.05)
        cells = {"judge": str(judge), "lang": "en" if some else "de"}
        human = str(truth) if rng.random() < (0.9 if some else 0.03) else None
        cells |= {"p": "0.9" if some else "0.03"}
        made.append(Example(id=f"s{index}", columns={**cells, "human": human}))
    found = agree(made, **COLUMNS, **LIMITS, by="lang")
    judge = only(found)
    assert found.verdict == "inconclusive"
    assert judge["certificate"]["reason_code"] == "no_sample"
    assert "labelled: " in judge["reason"] and " in de" in judge["reason"]
    assert "Give the probabilities" in judge["reason"]
    rates = judge["rates"]["prevalence"]
    assert rates["prediction_powered"]["estimate"] is None and judge["among"] is None
    assert rates["stratified"]["lower"] < 0.4 < rates["stratified"]["upper"]
    assert {row["segment"]: row["verdict"] for row in found.by}["en"] == "certified"
    assert any("--probability" in text or "probability=" in text for text in found.warnings)
    # With the probabilities nothing is left of the difference.
    weighed = agree(made, **COLUMNS, **LIMITS, by="lang", probability="p")
    assert only(weighed)["certificate"]["reason_code"] != "no_sample"
    # Within a segment all labels were drawn alike: none of its own is set aside.
    assert weighed.data["n_thinned"] > 100
    for with_p, alone in zip(weighed.by, found.by, strict=True):
        assert with_p["counts"] == alone["counts"] and with_p["caught"] == alone["caught"]
    one = agree(made, **COLUMNS, **LIMITS, probability="p")
    assert one.judges[0]["caught"] == weighed.judges[0]["caught"]
    assert one.judges[0]["counts"] == weighed.judges[0]["counts"]


def test_one_answer_of_groups_that_were_drawn_is_a_random_sample_of_them() -> None:
    """Large groups are hallucinated more often: a row of each group by lot is labelled less."""
    rng, differ = np.random.default_rng(0), 0
    for _ in range(20):
        size = rng.integers(1, 10, 300)
        unit = np.repeat(np.arange(300), size)
        called = rng.random(len(unit)) < 0.1 * size[unit]
        order = rng.permutation(len(unit))
        first = order[np.unique(unit[order], return_index=True)[1]]
        people = np.isin(np.arange(len(unit)), rng.choice(first, 150, replace=False))
        alone = one_of_each(unit, people)
        assert len(alone) == 300 and people[alone].sum() == 150
        cells = np.zeros((3, 3, 2), np.int64)
        places = np.where(people, 0, 2), called.astype(np.int64), 0 * unit
        np.add.at(cells, tuple(item[alone] for item in places), 1)
        (test,) = sample_tests(LabelCounts(cells, decided=False))
        differ += test["differs"]
    assert differ <= 1


def test_a_copy_of_the_labels_is_no_judge(tmp_path: Path) -> None:
    _, made = standing_in(tmp_path, {"judge": (0.05, 0.05)}, people=0.5)
    for row in made:
        row["twin"] = row["human"]
    path = write(tmp_path / "twin.jsonl", made)
    for judge, copied in (("twin", True), ("judge", False)):
        found = agree(path, label_column="human", judge_column=judge)
        assert any("a copy of the labels" in text for text in found.warnings) == copied


def test_what_stands_in_the_way_of_a_join_or_a_draw_is_shown(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", ["id,judge,p", *(f"{i},{i % 2},2" for i in range(20))])
    people = table(tmp_path / "l.csv", ids([(f"{i:04}", i % 2) for i in range(20)]))
    with pytest.raises(DataError, match="the first is 0000, there it is 0"):
        agree(source, judge_column="judge", labels=people)
    numbers = [json.dumps({"id": i, "human": i % 2}) for i in range(20)]
    lines = table(tmp_path / "l.jsonl", numbers)
    assert agree(source, judge_column="judge", labels=lines).data["n_human"] == 20
    with pytest.raises(DataError, match=r"field p: .*got 2.0; write it there"):
        agree(source, judge_column="judge", labels=lines, probability="p")


def test_a_named_column_of_ids_is_the_one_of_the_file_that_has_it(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", ["id,judge", *(f"{i},{i % 2}" for i in range(20))])
    other = table(tmp_path / "b.csv", ["key,judge", *(f"{i},{i % 2}" for i in range(20))])
    people = table(tmp_path / "l.csv", ["key,human", *(f"{i},{i % 2}" for i in range(20))])
    plain = table(tmp_path / "p.csv", ids([(i, i % 2) for i in range(20)]))
    asked: Any = {"judge_column": "judge", "id_column": "key"}
    for data, labels in ((source, people), (other, people), (other, plain)):
        assert agree(data, labels=labels, **asked).data["n_human"] == 20
    with pytest.raises(DataError, match="no id column 'key'"):
        agree(source, labels=plain, **asked)
    # It may stand within another field; labels may be rows that are read once.
    named = [{"id": f"{i}", "human": i % 2, "meta": {"key": f"{19 - i}"}} for i in range(20)]
    inner = write(tmp_path / "l.jsonl", named)
    within: Any = {"judge_column": "judge", "id_column": "meta.key"}
    turned = agree(source, labels=inner, **within)
    assert turned.judges[0]["agreement"]["table"]["faithful_hallucinated"] == 10
    once = ({"key": f"{i}", "human": i % 2} for i in range(20))
    assert agree(source, labels=once, **asked).data["n_human"] == 20


def test_labels_of_another_file_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", ["id,judge", *(f"{i},{i % 2}" for i in range(20))])
    lines = ["id,human,label", *(f"{i},{i % 2},{1 - i % 2}" for i in range(20))]
    with pytest.raises(DataError, match="contradict"):
        agree(source, judge_column="judge", labels=table(tmp_path / "l.csv", lines))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_segment_without_labels_has_no_verdict_and_stops_none(tmp_path: Path) -> None:
    lines = [
        f"{i},{'de' if i % 2 else 'en'},{i % 3 // 2 if i % 8 < 5 else ''},{i % 3 // 2}"
        for i in range(300)
    ]
    lines += [f"x{i},xx,,{i % 2}" for i in range(40)]
    source = table(tmp_path / "a.csv", ["id,lang,human,judge", *lines])
    asked: dict[str, Any] = {"by": "lang", "min_caught": 0.6, "max_false_alarms": 0.3}
    found = agree(source, label_column="human", judge_column="judge", **asked)
    rows = {row["segment"]: row["verdict"] for row in found.by}
    assert rows == {"de": "certified", "en": "certified", "xx": "inconclusive"}


def test_languages_are_not_offered_as_labels(items: list[dict[str, Any]], tmp_path: Path) -> None:
    made = [{**row, "lang": ("de", "en")[i % 2]} for i, row in enumerate(items)]
    for row in made:
        del row["truth"]
    path = write(tmp_path / "lang.jsonl", made)
    said = (
        r"labels but human, which is named as a judge's; other columns seen: .*lang.*programs said"
    )
    with pytest.raises(DataError, match=said) as told:
        agree(path, judge_column="human")
    assert "'lang'" not in str(told.value)
    for row in made:
        del row["human"]
    for judge in ("judge", "gpt_label"):
        bare = [{**row, "gpt_label": row["judge"]} for row in made]
        with pytest.raises(DataError, match="no column that reads as people's labels") as told:
            agree(write(tmp_path / "bare.jsonl", bare), judge_column=judge)
        assert "'lang'" not in str(told.value) and "label_column=" in str(told.value)


def test_nobody_is_advised_to_label_so_that_a_judge_is_rejected(tmp_path: Path) -> None:
    made = [
        {"id": f"{i}", "response": f"Answer {i}.", "human": i % 2, "lang": ("de", "en")[i % 4 // 2]}
        for i in range(160)
    ]
    for i, row in enumerate(made):
        # In German it catches 70% of what it is to catch 80% of, in English 90%.
        right = i // 4 % 10 < (7 if row["lang"] == "de" else 9)
        row["judge"] = row["human"] if right or not row["human"] else 0
    found = agree(write(tmp_path / "by.jsonl", made), **COLUMNS, **LIMITS, by="lang")
    text = " ".join(unescape(render_page(words.document(found.to_dict()))).split())
    assert [row["verdict"] for row in found.by] == ["inconclusive", "inconclusive"]
    more = [words._more(row, found.to_dict()) for row in found.by]
    assert more[0] == "" and "hallucinated answer" in more[1] and more[1] in text
    # A segment without a hallucinated answer is not settled by faithful ones.
    few = [row for row in made if row["lang"] == "en" and not row["human"]][:5]
    rest = [row for row in made if row["lang"] == "de" or row in few]
    found = agree(write(tmp_path / "rest.jsonl", rest), **COLUMNS, **LIMITS, by="lang")
    text = " ".join(unescape(render_page(words.document(found.to_dict()))).split())
    assert found.by[1]["needed"]["faithful"] and "faithful answers" not in text.split("By lang")[1]


def repeated(seed: int, name: str = "") -> list[dict[str, Any]]:
    """Return answers without texts: of half of the ids five, which the judge knows less well."""
    rng, made = np.random.default_rng(seed), list[dict[str, Any]]()
    for index in range(400):
        truth = int(rng.random() < 0.5)
        for _ in range(5 if index % 2 else 1):
            caught = 0.55 if index % 2 else 0.97
            judge = int(rng.random() < (caught if truth else 0.05))
            people = truth if rng.random() < 0.3 else None
            made.append(
                {"id": f"q{index}", "doc": f"{name}{index}", "human": people, "judge": judge}
            )
    return [made[row] for row in rng.permutation(len(made))]


def test_large_ids_count_where_their_rows_were_drawn_singly() -> None:
    # The judge catches 76% of what an id has on average, and 97% where an id stands once.
    verdicts = Counter(agree(repeated(seed), **COLUMNS, **LIMITS).verdict for seed in range(6))
    assert not verdicts["certified"]


def test_other_names_of_groups_draw_the_same_answers() -> None:
    found = [
        agree(repeated(1, name), **COLUMNS, **LIMITS, group_column="doc").judges
        for name in ("", "a", "z")
    ]
    assert found[0] == found[1] == found[2]
