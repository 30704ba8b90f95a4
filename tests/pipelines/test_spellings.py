"""Groups, systems and labels mean the same however they are spelt, and other ones never do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrail
from calibrail.errors import InputError
from calibrail.guardrail import FrozenConfig, Guardrail
from calibrail.guardrail.file import content_digest, render
from calibrail.scores import ScoreSpec, build
from calibrail.scores.registry import build_column

SCORE = build_column("score", "hallucinated")


def rows(names: list[Any], n: int = 60) -> list[dict[str, Any]]:
    """Return n answers of each group; those of every further group have higher scores."""
    rng = np.random.default_rng(0)
    return [
        {"id": f"{i}-{j}", "v": name, "label": j % 2, "score": round(j % 2 + i + rng.random(), 6)}
        for i, name in enumerate(names)
        for j in range(n)
    ]


def groups_of(names: list[Any]) -> list[str]:
    made = calibrail.calibrate(rows(names), score=SCORE, alpha=0.2, by="v").rule.groups
    return sorted({*made.groups, *made.small})  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "names",
    [["1.1", "1.10"], ["01234", "1234"], [2**60 + 1, 2**60 + 2], ["12e4567", "98e7654"]],
)
def test_groups_of_other_names_are_others(names: list[Any]) -> None:
    assert groups_of(names) == sorted(map(str, names))


@pytest.mark.parametrize(
    ("names", "name"),
    [
        ([7, 7.0, "7"], "7"),
        (["caf\u00e9", "cafe\u0301", "caf\u00e9\u00a0"], "caf\u00e9"),
        ([True, "TRUE", "true"], "True"),
        ([pd.Timestamp("2024-01-01"), "2024-01-01"], "2024-01-01"),
        ([None, "nan", "<NA>", "None"], ""),
    ],
)
def test_a_group_that_is_spelt_differently_is_one(names: list[Any], name: str) -> None:
    assert groups_of([*names, "NA"]) == sorted([name, "NA"])


def test_a_guardrail_knows_its_groups_as_they_are_spelt() -> None:
    made = calibrail.calibrate(rows(["1.1", "1.10", True, False]), score=SCORE, alpha=0.2, by="v")
    guardrail = made.freeze()
    known = made.rule.groups.groups  # type: ignore[union-attr]
    for cell, name in (
        ("1.1", "1.1"),
        (1.1, "1.1"),
        ("1.10", "1.10"),
        ("TRUE", "True"),
        (0, "False"),
    ):
        said = guardrail.check(columns={"score": 0.5, "v": cell})
        assert said.threshold == known[name].threshold
    assert guardrail.check(columns={"score": 0.5, "v": "1.100"}).threshold not in {
        item.threshold for item in known.values()
    }


def of_before(guardrail: Guardrail, names: dict[str, str]) -> Guardrail:
    """Return a guardrail as it was written when groups that spell numbers were numbers."""
    content = json.loads(guardrail.config.to_bytes())
    grouped = content["groups"]
    assert grouped.pop("named") is True
    grouped["groups"] = {names[name]: item for name, item in grouped["groups"].items()}
    content["digest"] = content_digest(content)
    return Guardrail(FrozenConfig.from_bytes(render(content)))


def test_a_guardrail_of_before_names_its_groups_as_before() -> None:
    made = calibrail.calibrate(rows(["1.1", "7", "a "]), score=SCORE, alpha=0.2, by="v")
    before = of_before(made.freeze(), {"1.1": "1.1", "7": "7.0", "a": "a "})
    known = made.rule.groups.groups  # type: ignore[union-attr]
    for cell, name in (("1.10", "1.1"), (1.1, "1.1"), (7, "7"), ("07", "7"), ("a ", "a")):
        said = before.check(columns={"score": 0.5, "v": cell})
        assert said.threshold == known[name].threshold
    assert b'"named"' not in before.config.to_bytes()


def test_systems_are_named_as_they_are_spelt() -> None:
    rng = np.random.default_rng(0)
    answers = [
        {"id": i, "question": f"Q {i}?", "response": f"{name} {i}", "system": name}
        | {"human": int(rng.random() < rate)}
        for name, rate in (("4.10", 0.2), ("4.1", 0.6))
        for i in range(60)
    ]
    made = calibrail.versus(
        answers, system_column="system", system=("4.10", "4.1"), label_column="human"
    )
    assert [item["name"] for item in made.to_dict()["systems"]] == ["4.10", "4.1"]
    for answer in answers:
        answer["system"] = {"4.10": "4.0", "4.1": "3.5"}[answer["system"]]
    made = calibrail.versus(
        answers, system_column="system", system=("4.0", "3.5"), label_column="human"
    )
    assert [item["name"] for item in made.to_dict()["systems"]] == ["4", "3.5"]


@pytest.mark.parametrize("name", ["7", "7.0"])
def test_a_shift_calibrates_on_a_group_as_it_is_spelt(name: str) -> None:
    made = calibrail.shift(rows([7, 8]), score=SCORE, by="v", calibrate_on=(name,), alpha=0.2)
    assert "'8'" in repr(made.to_dict())
    with pytest.raises(InputError, match="it holds '7', '8'"):
        calibrail.shift(rows([7, 8]), score=SCORE, by="v", calibrate_on=("9",), alpha=0.2)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "frame"])
@pytest.mark.parametrize("positive", ["true", "True", "1"])
def test_a_truth_value_is_the_positive_one_in_every_source(
    kind: str, positive: str, tmp_path: Path
) -> None:
    frame = pd.DataFrame([{"id": i, "judge": i % 2 == 1} for i in range(4)])
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    source = frame if kind == "frame" else tmp_path / f"a.{kind}"
    params = {"column": "judge", "higher": "hallucinated", "positive": positive}
    score = build(ScoreSpec("column", params))
    made = calibrail.read(source, require=(), labelled=False, keep=("judge",))
    assert [score.value(example) for example in made] == [0.0, 1.0, 0.0, 1.0]


def test_a_label_that_is_kept_is_the_text_that_it_was() -> None:
    answers = [
        {"id": i, "human": code, "judge": code, "response": f"Answer {i} of {7 * i} says so."}
        for i in range(80)
        for code in [["01", "1"][i % 2]]
    ]
    made = calibrail.agree(answers, label_column="human", judge_column="judge", positive="01")
    assert made.data["n_human"] == 80
    assert made.to_dict()["judges"][0]["caught"]["count"] == 40
