"""Groups, systems and labels mean the same however they are spelt, and other ones never do."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import calibrail
from calibrail.data.example import Example
from calibrail.data.reading import read
from calibrail.data.values import group_name, name_of, same_text, spelling
from calibrail.errors import InputError
from calibrail.guardrail import FrozenConfig, Guardrail
from calibrail.guardrail.file import content_digest, render
from calibrail.pipelines.check import check_source
from calibrail.scores import ScoreSpec, build
from calibrail.scores.registry import build_column
from calibrail.text.words import names, numbers, rules_of, words

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
        ([None, "nan", "<NA>", "None", "N/A", "n/a", "#N/A"], ""),
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


def in_every_source(answers: list[dict[str, Any]], folder: Path) -> Iterator[Any]:
    """Yield the same rows as dicts, a frame, a table and files."""
    frame = pd.DataFrame(answers)
    table = pa.Table.from_pandas(frame)
    frame.to_csv(folder / "a.csv", index=False)
    texts = frame.astype({name: str for name in frame if isinstance(frame[name][0], UUID)})
    texts.to_json(folder / "a.jsonl", orient="records", lines=True, date_format="iso")
    frame.to_parquet(folder / "a.parquet")
    yield from (answers, frame, table, table.to_pandas(types_mapper=pd.ArrowDtype))
    yield from (folder / f"a.{kind}" for kind in ("csv", "jsonl", "parquet"))


def german(number: float) -> str:
    """Return a number as a German sheet shows it: 1.734 or 812,5."""
    text = f"{number:,.1f}".removesuffix(".0")
    return text.translate({ord(","): ".", ord("."): ","})


@pytest.mark.parametrize("kind", ["csv", "jsonl", "frame", "parquet"])
def test_a_guardrail_knows_what_parted_decimals_when_it_was_calibrated(
    kind: str, tmp_path: Path
) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "calibration.csv"
    scores = [
        round(1000 + 2000 * rng.random() if i % 2 else 900 * rng.random(), 1) for i in range(300)
    ]
    scores = [round(score) if i % 3 else score for i, score in enumerate(scores)]
    versions = ["1.10" if i % 5 else "1.100" for i in range(300)]
    lines = [
        f"{i};{german(s)};{v};{i % 2}\n"
        for i, (s, v) in enumerate(zip(scores, versions, strict=True))
    ]
    path.write_text("id;score;v;label\n" + "".join(lines), encoding="utf-8")
    guardrail = calibrail.calibrate(path, score=SCORE, alpha=0.2, by="v").freeze()
    assert guardrail.decimals == {"score": ","}
    fresh = [
        {"id": name, "score": cell, "v": "1.100"} for name, cell in (("a", "1.734"), ("b", "2.011"))
    ]
    frame = pd.DataFrame(fresh)
    source: Any = frame if kind == "frame" else tmp_path / f"fresh.{kind}"
    if kind == "csv":
        frame.to_csv(source, index=False, sep=";")
    elif kind == "jsonl":
        frame.to_json(source, orient="records", lines=True)
    elif kind == "parquet":
        frame.to_parquet(source)
    decisions = [*guardrail.decide(source), *guardrail.stream(source)]
    decisions += [
        guardrail.check(columns={"score": item["score"], "v": item["v"]}) for item in fresh
    ]
    assert [item.score for item in decisions] == [1734.0, 2011.0] * 3
    assert len({(item.score, item.outcome) for item in decisions}) == 2
    # The group 1.100 is no number of its own, and what shows its mark is read by that.
    assert len({item.threshold for item in decisions}) == 1
    known = guardrail.rule.groups.groups  # type: ignore[union-attr]
    assert decisions[0].threshold == known["1.100"].threshold
    assert guardrail.check(columns={"score": "0.75", "v": "1.10"}).score == 0.75
    frame["score"] = ["1.734", "0.5"]
    assert [item.score for item in guardrail.decide(frame)] == [1.734, 0.5]
    of_points = calibrail.calibrate(rows(["a"], 300), score=SCORE, alpha=0.2).freeze()
    assert of_points.decimals == {} and b'"decimals"' not in of_points.config.to_bytes()
    assert of_points.check(columns={"score": "1.734"}).score == 1.734


def test_check_reads_a_fresh_file_with_the_marks_of_the_calibration(tmp_path: Path) -> None:
    path = tmp_path / "fresh.csv"
    path.write_text("id;score\na;1.734\nb;2.011\n", encoding="utf-8")
    answers = [{"id": i, "score": german(1500.5 * (i % 2) + i), "label": i % 2} for i in range(80)]
    guardrail = calibrail.calibrate(answers, score=SCORE, alpha=0.2).freeze()
    check_source(guardrail, path, tmp_path / "decisions.jsonl")
    lines = (tmp_path / "decisions.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["score"] for line in lines] == [1734.0, 2011.0]


def test_long_whole_numbers_are_other_contents(tmp_path: Path) -> None:
    n = 2**53
    answers = [{"order": n + i, "score": 0.5, "label": i % 2} for i in range(4)]
    made = [
        [item.digest() for item in read(source, require=())]
        for source in in_every_source(answers, tmp_path)
    ]
    wide = pa.table({name: [row[name] for row in answers] for name in answers[0]})
    for kind in (pa.uint64(), pa.decimal128(20, 0)):
        column = wide["order"].cast(kind)
        made.append(
            [item.digest() for item in read(wide.set_column(0, "order", column), require=())]
        )
    assert len(set(made[0])) == 4 and all(item == made[0] for item in made)
    assert spelling(n + 1) == spelling(f"{n + 1}.0") == spelling(Decimal(n + 1)) != spelling(n)
    assert spelling(float(n)) == spelling(n)


def test_other_words_are_other_texts() -> None:
    assert same_text("In Ma\u00dfen") != same_text("In Massen")
    assert same_text("STRA\u1e9eE") == same_text("stra\u00dfe")
    # As before: Greek, and letters that are one sign.
    assert same_text("\u039f\u0394\u039f\u03a3 \ufb01n") == "\u03bf\u03b4\u03bf\u03c3 fin"


@pytest.mark.parametrize("sign", ["\u00ad", "\u200b", "\u2060", "\ufeff", "\u2066", "\ufe0f"])
def test_a_sign_that_nobody_sees_changes_no_score_and_no_identity(sign: str) -> None:
    plain = "The Rhine is 5% of 1234, says Marie Curie."
    spelt = sign + plain.replace("in", f"i{sign}n").replace("5%", f"5{sign}%").replace(
        "23", f"2{sign}3"
    )
    for pieces in (words, names, numbers):
        found = pieces(spelt)
        assert [item.text for item in found] == [item.text for item in pieces(plain)]
        shown = [spelt[item.start : item.end].replace(sign, "") for item in found]
        assert shown == [plain[item.start : item.end] for item in pieces(plain)]
    one, other = (Example("q", ("The Rhine says: Marie Curie.",), text) for text in (plain, spelt))
    assert one.digest() == other.digest()
    seen, same = build(ScoreSpec("novelty")).score([one, other]).values
    assert seen == same


def test_a_guardrail_of_before_still_sees_the_signs() -> None:
    rng = np.random.default_rng(0)
    said = [
        f"the r{i} " + ("x y z" if rng.random() < 0.7 * (i % 2) + 0.1 else "a b")
        for i in range(200)
    ]
    answers = [
        {"id": i, "question": "q", "contexts": [f"the r{i} a b"], "response": text, "label": i % 2}
        for i, text in enumerate(said)
    ]
    asked = {"question": "q", "contexts": ["The Rhine."], "response": "The Rhi\u00adne."}
    with rules_of(2):
        before = calibrail.calibrate(answers, score="novelty", alpha=0.2).freeze()
    again = Guardrail(FrozenConfig.from_bytes(before.config.to_bytes()))
    assert again.check(**asked).score == 1.0
    assert (
        calibrail.calibrate(answers, score="novelty", alpha=0.2).freeze().check(**asked).score
        == 0.0
    )


MOMENTS = [pd.Timestamp("2024-01-01 12:00", tz="UTC"), pd.Timestamp("2024-01-02 00:00", tz="UTC")]


@pytest.mark.parametrize(
    ("cells", "known"),
    [
        ([dt.date(2024, 1, 1), dt.date(2024, 1, 2)], ["2024-01-01", "2024-01-02"]),
        ([True, False], ["True", "False"]),
        ([dt.time(1, 2), dt.time(3, 4)], ["01:02:00", "03:04:00"]),
        (
            [dt.datetime(2024, 1, 1, 12), dt.datetime(2024, 1, 2)],
            ["2024-01-01 12:00:00", "2024-01-02"],
        ),
        (MOMENTS, ["2024-01-01 12:00:00+00:00", "2024-01-02 00:00:00+00:00"]),
        (["1e+05", "1.5e+06"], ["100000", "1500000"]),
        ([UUID(int=1), UUID(int=2)], [str(UUID(int=1)), str(UUID(int=2))]),
        ([2**53, 2**53 + 2], [str(2**53), str(2**53 + 2)]),
    ],
)
def test_a_column_of_groups_is_named_alike_in_every_source(
    cells: list[Any], known: list[str], tmp_path: Path
) -> None:
    answers = [{"id": i, "v": cell, "score": 0.5, "label": i % 2} for i, cell in enumerate(cells)]
    for source in in_every_source(answers, tmp_path):
        made = list(read(source, require=(), keep=("v",), group_column="v"))
        assert [item.group for item in made] == known
        assert [group_name(item.columns["v"]) for item in made] == known
        assert [item.id for item in read(source, require=(), id_column="v")] == known


def test_a_name_is_the_number_or_time_that_it_spells() -> None:
    assert name_of(Decimal("1.10")) == name_of(1.1) == "1.1"
    assert name_of("2024-01-01T13:00:00+01:00") == name_of("2024-01-01 12:00Z")
    assert name_of("2024-01-01T12:00:00.500000000") == name_of("2024-01-01 12:00:00.5")
    # What is no time, or one to the nanosecond, stays as it is written.
    for name in ("2024-13-01T12:00", "2024-01-01 12:00:00.123456789", "12e4567", "1.23e+01"):
        assert name_of(name) == name


def test_numbers_in_lists_of_a_frame_are_their_shortest_digits() -> None:
    kind = pd.ArrowDtype(pa.list_(pa.float32()))
    frame = pd.DataFrame(
        {"id": [1, 2], "label": [0, 1], "s": pd.Series([[0.1, 0.3], None], dtype=kind)}
    )
    made = [item.columns["s"] for item in read(frame, require=(), keep=("s",))]
    assert made == ["[0.1, 0.3]", None]
