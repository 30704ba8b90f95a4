"""Is a file with a judge's and a few human labels read, counted and judged row by row?"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrail
from calibrail.data.example import Example
from calibrail.errors import DataError, InputError
from calibrail.evaluation.judge_agreement import Rate, corrected_rates
from calibrail.guardrail import Guardrail
from calibrail.options import ReadOptions, ScoreThreshold
from calibrail.pipelines.agree import JudgedRates, agree
from calibrail.pipelines.loading import Context
from calibrail.scores.registry import build_column
from tests.answers import rows, write
from tests.evaluation.agree.tables import counted

COLUMNS = {"human": "human", "judge": "judge"}
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
    return numbers(corrected_rates(counts))


def numbers(rates: Mapping[Any, Rate]) -> dict[str, Any]:
    """Return estimates, intervals and numbers of rows."""
    return {
        name: {
            method: (item.n_human, item.n_judge, item.measure.estimate, item.measure.upper)
            for method, item in rate
        }
        for name, rate in rates.items()
    }


def without_trust(result: JudgedRates) -> dict[str, Any]:
    rates: dict[str, Any] = result.to_dict()["rates"]
    return {
        name: {key: value for key, value in rate.items() if key != "trust"}
        for name, rate in rates.items()
    }


def test_a_score_column_flags_at_its_threshold(answers: Path, items: list[dict[str, Any]]) -> None:
    result = agree(answers, **COLUMNS, **SCORES)
    assert numbers(result.rates) == expected(items, [item["detector"] >= 0.75 for item in items])
    assert {trust.method for trust in result.trust.values()} == {"prediction_powered"}
    truth = np.mean([item["detector"] >= 0.75 for item in items if item["truth"]])
    measure = result.rates["coverage"].prediction_powered.measure
    assert measure.lower <= truth <= measure.upper
    assert result.rates["coverage"].judge_only.measure.estimate < truth - 0.03
    written = result.to_dict()
    assert written["schema"] == "calibrail.agreement/1"
    assert written["flag"] == {"column": "detector", "higher": "hallucinated", "threshold": 0.75}
    assert written["data"]["n"] == 600 and written["data"]["n_judge_alone"] == 600 - sum(
        item["human"] is not None for item in items
    )
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
    assert without_trust(given) == without_trust(other)
    assert given.counts.cells[..., 1].sum() == 300  # the answer at the threshold, too


def test_without_decisions_there_is_only_prevalence(answers: Path) -> None:
    result = agree(answers, **COLUMNS)
    assert set(result.to_dict()["rates"]) == {"prevalence"}
    assert result.to_dict()["flag"] is None and result.to_dict()["errs_alike"] == []


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
    assert numbers(result.rates) == expected(items, [item["detector"] >= edge for item in items])
    assert result.to_dict()["flag"] == {"guardrail": "column", "threshold": edge}
    assert result.warnings == ()


def test_answers_that_set_the_threshold_are_left_out_and_nothing_is_trusted(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    known = [{**item, "judge": item["label"], "human": item["label"]} for item in rows(200)]
    source = write(tmp_path / "mixed.jsonl", [*judged(100), *known])
    result = agree(source, **COLUMNS, guardrail=guardrail)
    n = guardrail.calibration.n
    assert result.data["n_seen_before"] == n and result.counts.n == 600 - n
    assert {trust.method for trust in result.trust.values()} == {None}
    assert any(f"{n} hallucinated answers set the guardrail's" in item for item in result.warnings)


def test_labels_are_read_as_the_package_reads_them(tmp_path: Path) -> None:
    lines = ["judge,human", "1,true", "TRUE,1", "0, ", "false,", "0.0,0", ",1", ",", "1,0"]
    result = agree(table(tmp_path / "a.csv", lines), **COLUMNS)
    counts = result.counts
    assert (counts.n, counts.n_human, counts.n_judge, counts.n_both) == (7, 5, 6, 4)
    alone = counts.to_dict()
    assert (alone["n_human_alone"], alone["n_judge_alone"]) == (1, 2)
    assert result.agreement.table["hallucinated_hallucinated"] == 2
    assert result.data["n_unlabelled"] == 1
    assert result.rates["prevalence"].human_only.n_human == 5
    assert result.rates["prevalence"].prediction_powered.n_human == 4
    assert any("1 row with a human label and no judge label" in text for text in result.warnings)


def test_a_label_that_says_neither_is_set_aside_with_row_and_field(tmp_path: Path) -> None:
    lines = ["judge,human", "1,1", "1,yes", "0,0", "0.5,1", "0,", "too,many,cells"]
    source = table(tmp_path / "a.csv", lines)
    quarantine = tmp_path / "out" / "quarantine.jsonl"
    result = agree(source, **COLUMNS, reading=ReadOptions(quarantine=quarantine))
    assert result.n_quarantined == 3 and result.counts.n == 3
    entries = [json.loads(line) for line in quarantine.open()]
    places = [(entry["row"], entry["field"]) for entry in entries]
    assert places == [(7, "row"), (3, "human"), (5, "judge")]
    row = {"row": 3, "id": "row-3", "field": "human"}
    assert entries[1] == {**row, "reason": "not 0 or 1", "value": "'yes'"}
    with pytest.raises(DataError, match=r"a\.csv, row 3, field human: not 0 or 1, got 'yes'\. "):
        agree(source, **COLUMNS, reading=ReadOptions(strict=True))


def test_labels_in_words_and_of_several_people_are_read_as_everywhere(tmp_path: Path) -> None:
    lines = ["judge,human", 'FAIL,"[1, 0, 1]"', 'Fine,"[0]"', "Fine,FAIL", 'Fine,"[0, 1]"']
    source = table(tmp_path / "a.csv", lines)
    reading = ReadOptions(label_map={"FAIL": 1, "Fine": 0, "1": 1, "0": 0})
    result = agree(source, **COLUMNS, reading=reading)
    assert (result.counts.n_both, result.n_quarantined) == (3, 1)
    assert result.rates["prevalence"].human_only.measure.estimate == pytest.approx(2 / 3)


def test_a_row_with_an_id_is_named_by_it(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", ["id,judge,human", "a-1,1,1", "b-2,0,Benign"])
    with pytest.raises(DataError, match=r"id 'b-2', field human: .* got 'Benign'\. Say what it"):
        agree(source, **COLUMNS, reading=ReadOptions(strict=True))
    quarantine = tmp_path / "quarantine.jsonl"
    agree(source, **COLUMNS, reading=ReadOptions(quarantine=quarantine))
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
        agree(answers, human="human", judge="verdict")


def test_human_labels_of_flagged_answers_alone_are_no_random_sample(
    items: list[dict[str, Any]], tmp_path: Path
) -> None:
    chosen = [
        {**item, "human": item["truth"] if item["detector"] > 1.5 else None} for item in items
    ]
    result = agree(write(tmp_path / "a.jsonl", chosen), **COLUMNS, **SCORES)
    assert {trust.method for trust in result.trust.values()} == {None}
    assert "label rows drawn at random" in result.trust["coverage"].reason
    assert sum("not like the others" in text for text in result.warnings) == 2
    assert all(test["differs"] for test in result.to_dict()["random_sample"])


def test_a_judge_that_errs_along_with_the_detector_is_noticed(
    items: list[dict[str, Any]], tmp_path: Path
) -> None:
    along = [
        {**item, "human": item["truth"], "judge": int(item["detector"] >= 0.75)}
        if index % 3
        else {**item, "human": None, "judge": int(item["detector"] >= 0.75)}
        for index, item in enumerate(items)
    ]
    result = agree(write(tmp_path / "a.jsonl", along), **COLUMNS, **SCORES)
    assert sum("errs differently on flagged" in text for text in result.warnings) == 2


def test_what_else_weakens_the_result_is_said(items: list[dict[str, Any]], tmp_path: Path) -> None:
    odd = [{**item, "group": f"g{index % 40}"} for index, item in enumerate(items)]
    odd[0]["detector"], odd[1]["detector"] = None, "unknown"
    result = agree(write(tmp_path / "a.jsonl", odd), **COLUMNS, **SCORES)
    human = [item for item in odd if item["human"] is not None]
    sharing = len(human) - len({item["group"] for item in human})
    assert result.data["n_sharing_a_group"] == sharing > 0
    text = "; ".join(result.warnings)
    assert f"{sharing} of {len(human)} rows with a human label share" in text
    times = (len(human) / len({item["group"] for item in human})) ** 0.5
    assert f"the intervals are {times:.1f} times too narrow, or more" in text
    assert "2 answers without a score: counted as flagged" in text
    # Both count as flagged.
    flagged = [not isinstance(item["detector"], float) or item["detector"] >= 0.75 for item in odd]
    assert numbers(result.rates) == expected(odd, flagged)


def test_a_detector_that_fails_flags_and_is_counted(
    items: list[dict[str, Any]], answers: Path, guardrail: Guardrail, monkeypatch: Any
) -> None:
    def fail(examples: object) -> None:
        raise RuntimeError("no detector")

    monkeypatch.setattr(guardrail.score, "score", fail, raising=True)
    result = agree(answers, **COLUMNS, guardrail=guardrail)
    assert result.counts.cells[..., 0].sum() == 0
    assert any("failed on 600 answers: counted as flagged" in text for text in result.warnings)


def test_examples_in_memory_and_progress() -> None:
    examples = [
        Example(id=str(i), columns={"human": None if i % 2 else i % 4 / 2, "judge": i % 4 // 2})
        for i in range(600)
    ]
    seen: list[int] = []
    result = agree(examples, **COLUMNS, context=Context(progress=seen.append))
    assert seen == [256, 512, 600]
    assert result.data["source"] == "examples in memory"
    assert result.agreement.agreement.estimate == 1.0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"human": "judge"}, "two columns; got 'judge' twice"),
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
    result = agree(rows, human="human", judge="judge", reading=ReadOptions(**how))
    n_called = 0 if judged[1] == "n/a" else 20
    assert result.counts.n_human == 40 and result.counts.n_judge == 20 + n_called
    assert result.agreement.agreement.estimate == 1.0
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
    result = agree(
        rows, human="hallucinated", judge="judge", reading=ReadOptions(positive=meant[1])
    )
    assert (result.counts.n_human, result.counts.n_judge) == (40, 40)
    assert result.agreement.agreement.estimate == 1.0
    assert any("'hallucinated' was read by its own name" in item for item in result.warnings)


def test_the_name_of_the_judges_column_says_what_its_yes_means() -> None:
    rows = [
        Example(
            id=str(i), columns={"bad": ["no", "yes"][i % 2], "judge_faithful": ["yes", "no"][i % 2]}
        )
        for i in range(40)
    ]
    result = agree(rows, human="bad", judge="judge_faithful", reading=ReadOptions(positive="yes"))
    assert result.agreement.agreement.estimate == 1.0
