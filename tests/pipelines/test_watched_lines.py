from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from calibrail import Example, Guardrail, calibrate
from calibrail.guardrail.decision import SEEN, Decision
from calibrail.guardrail.decision_log import DecisionLog, Entry
from calibrail.guardrail.decision_log.reader import Cursor, LogCounts, Logged, log_sources, read_on
from calibrail.pipelines.monitor_inputs import OwnDecisions, rows_of
from tests.pipelines.logs import column_guardrail, entries, logged


@pytest.fixture(scope="module")
def guardrail() -> Guardrail:
    return column_guardrail(on_failure="review")


def read(log: Path, guardrail: Guardrail) -> tuple[list[Logged], LogCounts]:
    tally, own = LogCounts(), OwnDecisions(guardrail.config)
    lines = [
        line
        for block in read_on(log_sources(log), Cursor(), tally)
        for line in own.usable(block, tally)
    ]
    return lines, tally


def test_what_a_service_logged_becomes_rows(tmp_path: Path, guardrail: Guardrail) -> None:
    with DecisionLog(tmp_path) as log:
        log.write(entries(guardrail, [0.1, 1.5, None]))
        example = Example("q", (), "", id="f", columns={"risk": 0.1})
        log.write([Entry.of(guardrail, example, guardrail.failed(example, ValueError("x")))])
    lines, tally = read(tmp_path, guardrail)
    rows = rows_of(lines)
    assert rows.score.tolist()[:2] == [0.1, 1.5] and rows.flagged.tolist() == [0, 1, 1, 1]
    assert rows.undefined.tolist() == [0, 0, 1, 0] and rows.failed.tolist() == [0, 0, 0, 1]
    assert rows.question_length.tolist() == [9, 9, 9, 1]
    assert rows.chunks.tolist() == [2, 2, 2, 0]
    assert rows.ref is not None and [ref[2] for ref in rows.ref] == ["t0", "t1", "t2", "f"]
    assert not any(map(math.isnan, rows.time))
    assert (tally.used, tally.found, tally.whole) == (4, {}, True)


def test_what_check_wrote_becomes_rows(tmp_path: Path, guardrail: Guardrail) -> None:
    path = tmp_path / "decisions.jsonl"
    threshold = float(guardrail.rule.thresholds(1)[0])
    unusable = Decision("row-3", "error", None, threshold, None, "row 3 cannot be used: id: twice")
    decisions = [item.decision for item in entries(guardrail, [0.1, 1.5])]
    path.write_text("".join(item.line() + "\n" for item in (*decisions, unusable)))
    lines, tally = read(path, guardrail)
    rows = rows_of(lines)
    assert rows.flagged.tolist() == [0, 1, 1] and rows.failed.tolist() == [0, 0, 1]
    assert all(map(math.isnan, [*rows.time, *rows.response_length, *rows.chunks]))
    assert (tally.used, tally.found) == (3, {"no_chain": 1})


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"outcome": "flag"}, "outcome"),
        ({"score": 5.0}, "outcome"),
        ({"score": None}, "outcome"),
        ({"score": None, "reason": "undefined score of column risk", "outcome": "pass"}, "outcome"),
        ({"threshold": 0.25}, "threshold"),
        ({"threshold": None}, "threshold"),
        ({"threshold": "high"}, "threshold"),
        ({"score": "high"}, "malformed"),
        ({"score": 10**400}, "malformed"),
        ({"id": 3}, "malformed"),
        ({"outcome": None}, "malformed"),
        ({"reason": None}, "malformed"),
    ],
)
def test_what_the_rule_does_not_give_is_named_and_not_used(
    tmp_path: Path, guardrail: Guardrail, change: dict[str, Any], code: str
) -> None:
    path = tmp_path / "decisions.jsonl"
    right = entries(guardrail, [0.1])[0].decision.to_dict()
    # Which guardrail decided stands in it; in a line of an older version its threshold tells.
    assert right.pop("guardrail") == guardrail.config.digest
    lines = [json.dumps(item) for item in (right, right | change, right)]
    path.write_text("\n".join(lines) + "\n")
    kept, tally = read(path, guardrail)
    assert [line.number for line in kept] == [1, 3]
    found = [(item.code, item.file, item.line) for item in tally.findings[1:]]
    assert found == [(code, str(path), 2)] and tally.skipped == {code: 1}


def test_decisions_of_others_and_answers_that_set_the_threshold_are_counted(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    logged(tmp_path, column_guardrail(alpha=0.2), [0.1, 0.2])
    logged(tmp_path, guardrail, [0.1, 1.5], texts=True)
    with DecisionLog(tmp_path) as log:
        seen = Decision("s", "error", None, None, None, SEEN)
        log.write([Entry(seen, guardrail.config.digest, kind="select", released=False)])
    lines, tally = read(tmp_path, guardrail)
    assert len(lines) == tally.used == 2
    assert tally.skipped == {"other_guardrail": 2, "seen_before": 1, "no_decision": 6}
    assert list(tally.others.values()) == [2]
    # An older line tells the lengths of its texts only by them.
    old = lines[0]._replace(content={**lines[0].content, "traffic": None})
    assert rows_of([old]).response_length.tolist() == [13] and rows_of([old]).chunks.tolist() == [2]


def test_thresholds_of_groups_are_told_from_the_line(tmp_path: Path) -> None:
    rows = [
        Example(
            response=f"a{row}",
            label=row % 2,
            columns={"risk": row % 2 + row % 7 / 10 + row % 4 // 2, "topic": "ab"[row % 4 // 2]},
        )
        for row in range(400)
    ]
    run = calibrate(rows, "column:column=risk,higher=hallucinated", alpha=0.1, by="topic")
    guardrail = run.freeze()
    asked = [
        Example(response="x", id=f"{topic}{risk}", columns={"risk": risk, "topic": topic})
        for topic in ("a", "b", "new")
        for risk in (0.5, 1.2, 1.8, 2.5)
    ]
    decided = guardrail.decide(asked)
    assert len({item.threshold for item in decided}) > 1
    with DecisionLog(tmp_path / "log") as log:
        pairs = zip(asked, decided, strict=True)
        log.write([Entry.of(guardrail, *pair) for pair in pairs])
    path = tmp_path / "decisions.jsonl"
    path.write_text("".join(item.line() + "\n" for item in decided))
    nobody = Decision("row-3", "error", None, None, None, "row 3 cannot be used: id: twice")
    with path.open("a") as file:
        file.write(nobody.line() + "\n")
    for source in (tmp_path / "log", path):
        lines, tally = read(source, guardrail)
        assert len(lines) == 12 + (source == path) and set(tally.found) <= {"no_chain"}
