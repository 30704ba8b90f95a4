"""Does a comparison of two systems read, join, weigh and judge what stands in files?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrail
from calibrail.data.example import Example
from calibrail.errors import DataError, InputError
from tests.answers import write


def answers(
    n: int = 400,
    rates: tuple[float, float] = (0.1, 0.3),
    labelled: int = 100,
    right: float = 0.9,
    seed: int = 0,
    words: str = "",
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return answers of A and of B to the same questions, in unlike orders."""
    rng = np.random.default_rng(seed)
    people = rng.random((n, 2)) < rates
    judge = people ^ (rng.random((n, 2)) >= right)
    known = rng.permutation(n) < labelled
    sides: list[list[dict[str, Any]]] = [[], []]
    for row in range(n):
        for side in (0, 1):
            sides[side].append(
                {
                    "id": f"{row}",
                    "question": f"Question {row}?",
                    "response": f"Answer {side} to {row}{words}.",
                    "human": int(people[row, side]) if known[row] else None,
                    "judge": int(judge[row, side]),
                }
            )
    return sides[0], sides[1][::-1]


def files(
    folder: Path, *sides: list[dict[str, Any]], names: tuple[str, str] = ("a", "b")
) -> tuple[Path, ...]:
    pairs = zip(names, sides, strict=False)
    return tuple(write(folder / f"{name}.jsonl", side) for name, side in pairs)


def asked(*sources: Any, **how: Any) -> dict[str, Any]:
    content = calibrail.versus(*sources, **how).to_dict()
    json.dumps(content, allow_nan=False)
    return content


def ends(content: Mapping[str, Any]) -> tuple[float, float]:
    return content["difference"]["lower"], content["difference"]["upper"]


def test_the_better_system_is_found_and_the_other_is_worse(tmp_path: Path) -> None:
    one, other = files(tmp_path, *answers())
    found, turned = asked(one, other, judge_column="judge"), asked(other, one, judge_column="judge")
    assert (found["outcome"], found["verdict"]) == ("better", "certified")
    assert (turned["outcome"], turned["verdict"]) == ("worse", "rejected")
    assert ends(turned) == pytest.approx([-end for end in reversed(ends(found))])
    low, high = ends(found)
    assert low < -0.2 < high < 0.0 and found["difference"]["method"].startswith("bets")
    assert sum(found["counts"].values()) == found["data"]["n_labelled"] == 100
    assert found["data"]["n_judged"] == found["data"]["n"] == 400
    assert [item["name"] for item in found["systems"]] == [str(one), str(other)]
    assert "A hallucinates less often than B: by " in found["reason"]


def test_without_a_judge_the_interval_is_exact(tmp_path: Path) -> None:
    content = asked(*files(tmp_path, *answers()))
    assert content["difference"]["method"] == "exact, paired (Buehler)"
    counts = content["counts"]
    gap = counts["only_a"] - counts["only_b"]
    assert content["difference"]["estimate"] == gap / 100
    assert content["systems"][0]["judge"] is None and content["random_sample"] == []


def test_a_margin_asks_whether_a_is_not_much_worse(tmp_path: Path) -> None:
    paths = files(tmp_path, *answers(3000, (0.1, 0.1), 1500, 0.95))
    without, wide, narrow = (asked(*paths, margin=margin) for margin in (None, 0.05, 0.001))
    assert ends(without) == ends(wide) == ends(narrow)
    assert without["outcome"] == narrow["outcome"] == "not separated" and narrow["needed"]
    assert (wide["outcome"], wide["verdict"]) == ("non-inferior", "certified")
    assert wide["reason"].startswith("A hallucinates at most 5 points more often than B")
    worse = asked(*files(tmp_path, *answers(400, (0.5, 0.1), 200)), margin=0.1)
    assert (worse["outcome"], worse["verdict"]) == ("worse", "rejected")


def test_answers_are_joined_by_id_question_or_group(tmp_path: Path) -> None:
    one, other = answers()
    by_id = asked(*files(tmp_path, one, other))
    for row in other:
        row["id"] = f"b{row['id']}"
    by_question = asked(*files(tmp_path, one, other))
    for row in (*one, *other):
        row["group"] = row.pop("question")
    by_group = asked(*files(tmp_path, one, other))
    joined = [item["columns"]["joined_by"] for item in (by_id, by_question, by_group)]
    assert joined == ["id", "question", "group"]
    assert by_id["counts"] == by_question["counts"] == by_group["counts"]
    assert by_id["data"]["n"] == by_group["data"]["n"] == by_group["data"]["n_groups"] == 400


def test_answers_without_a_partner_are_counted_and_left_out(tmp_path: Path) -> None:
    one, other = answers()
    content = asked(*files(tmp_path, one[:300], [*other, other[0] | {"id": "new"}]))
    assert content["data"]["n"] == 300
    assert [item["n_alone"] for item in content["systems"]] == [0, 101]
    with pytest.raises(DataError, match="shares its id, question or group"):
        asked(*files(tmp_path, [{"id": "a", "human": 1}], [{"id": "b", "human": 1}]))


def test_one_file_may_hold_both_systems(tmp_path: Path) -> None:
    one, other = answers()
    two = asked(*files(tmp_path, one, other))
    rows = [
        row | {"rag": name} for name, side in zip("xy", (one, other), strict=True) for row in side
    ]
    path = write(tmp_path / "both.jsonl", rows)
    content = asked(path, system_column="rag")
    assert content["counts"] == two["counts"] and ends(content) == ends(two)
    turned = asked(path, system_column="rag", system=("y", "x"))
    assert [item["name"] for item in turned["systems"]] == ["y", "x"]
    assert turned["outcome"] == "worse"
    with pytest.raises(InputError, match="holds 'x', 'y'; name two of them, A first"):
        asked(path, system_column="rag", system=("x", "z"))
    with pytest.raises(InputError, match="name two sources, A and B, or one and the column"):
        asked(path)


def test_ratings_are_turned_and_scaled(tmp_path: Path) -> None:
    one, other = answers()
    labels = asked(*files(tmp_path, one, other), judge_column="judge")
    for row in (*one, *other):
        row["judge"] = 90.0 - 80.0 * row["judge"]
    paths = files(tmp_path, one, other)
    ratings = asked(*paths, judge_column="judge", judge_higher="faithful")
    assert ends(ratings) == ends(labels)
    with pytest.raises(InputError, match="does a higher rating of judge speak for"):
        asked(*paths, judge_column="judge")


def test_probabilities_weigh_labels(tmp_path: Path) -> None:
    one, other = answers(2000, (0.1, 0.4), 2000)
    rng, by_id = np.random.default_rng(2), {row["id"]: row for row in other}
    for row in one:
        row["q"] = 0.8 if row["judge"] != by_id[row["id"]]["judge"] else 0.1
        if rng.random() >= row["q"]:
            row["human"] = None
    paths = files(tmp_path, one, other)
    content = asked(*paths, judge_column="judge", probability="q")
    assert -0.45 < ends(content)[0] < -0.3 < ends(content)[1] < 0.0
    assert content["outcome"] == "better" and content["random_sample"] == []
    # By themselves they are no random sample, which shows, and nothing is decided.
    doubted = asked(*paths, judge_column="judge")
    assert doubted["verdict"] == "inconclusive" and doubted["reason_code"] == "no_sample"
    one[0]["q"] = None
    one[0]["human"] = 1
    with pytest.raises(DataError, match=r"id '0', field q: it needs the probability"):
        asked(*files(tmp_path, one, other), probability="q")


def test_questions_of_a_group_are_one_bet(tmp_path: Path) -> None:
    one, other = answers(400, (0.1, 0.3), 400)
    alone = asked(*files(tmp_path, one, other))
    copies = [
        [row | {"id": f"{row['id']}-{k}", "source": row["id"]} for row in side for k in range(3)]
        for side in (one, other)
    ]
    grouped = asked(*files(tmp_path, *copies), group_column="source")
    known = asked(*files(tmp_path, *copies))
    assert grouped["data"]["n_groups"] == known["data"]["n_groups"] == 400
    assert ends(grouped) == ends(known)
    widths = [high - low for low, high in (ends(alone), ends(grouped))]
    assert widths[1] > 0.95 * widths[0]


def test_half_labelled_questions_are_told_and_none_is_an_error(tmp_path: Path) -> None:
    one, other = answers(labelled=3)
    for row in other:
        row["human"] = None
    other[0]["human"] = 1
    with pytest.raises(DataError, match="people labelled both answers to none of 400 questions"):
        asked(*files(tmp_path, one, other))
    other[0]["human"] = 1
    one[-1]["human"] = 0
    content = asked(*files(tmp_path, one, other))
    assert (content["data"]["n_labelled"], content["data"]["n_half_labelled"]) == (1, 3)


def test_another_judge_or_level_is_another_look_and_another_margin_is_none(tmp_path: Path) -> None:
    paths, looks = files(tmp_path, *answers()), tmp_path / "looks.json"
    first = asked(*paths, judge_column="judge", looks=looks)
    again = asked(*paths, judge_column="judge", margin=0.02, looks=looks)
    assert first["verdict"] == again["verdict"] == "certified"
    other = asked(*paths, looks=looks)
    assert (other["verdict"], other["reason_code"]) == ("inconclusive", "looked_before")
    assert other["outcome"] == "not separated"
    sure = asked(*paths, judge_column="judge", confidence=0.9, looks=looks)
    assert sure["reason_code"] == "looked_before"
    fresh = files(tmp_path, *answers(seed=1, words=" anew"), names=("c", "d"))
    assert asked(*fresh, judge_column="judge", looks=looks)["verdict"] == "certified"


def test_declared_looks_share_the_error(tmp_path: Path) -> None:
    paths, looks = files(tmp_path, *answers()), tmp_path / "looks.json"
    first = asked(*paths, n_looks=2, looks=looks)
    second = asked(*paths, judge_column="judge", n_looks=2, looks=looks)
    assert first["confidence"] == second["confidence"] == pytest.approx(0.975)
    assert second["verdict"] == "certified"


def test_labels_of_a_judge_certify_nothing(tmp_path: Path) -> None:
    content = asked(*files(tmp_path, *answers()), labelled_by="gpt")
    assert (content["verdict"], content["reason_code"]) == ("inconclusive", "labels_of_judge")
    assert asked(*files(tmp_path, *answers()), labelled_by="people")["verdict"] == "certified"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"margin": 1.5}, "margin must"),
        ({"confidence": 1.0}, "confidence must"),
        ({"judge_column": "human"}, "labels of people and of the judge must be two columns"),
        ({"probability": "none"}, "has no column 'none'"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, how: dict[str, Any], said: str) -> None:
    with pytest.raises((InputError, DataError), match=said):
        asked(*files(tmp_path, *answers(20, labelled=10)), **how)


def test_rows_whose_labels_cannot_be_read_are_set_aside(tmp_path: Path) -> None:
    one, other = answers()
    one[0]["human"] = "perhaps"
    path = tmp_path / "aside.jsonl"
    content = asked(*files(tmp_path, one, other), quarantine=path)
    assert content["data"]["n_quarantined"] == 1 and "perhaps" in path.read_text("utf-8")


def test_examples_in_memory_and_the_folder_that_is_written(tmp_path: Path) -> None:
    sides = [
        [
            Example(
                id=row["id"], columns={"human": None if row["human"] is None else str(row["human"])}
            )
            for row in side
        ]
        for side in answers()
    ]
    run = calibrail.versus(*sides)
    run.save(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "versus.json").read_text("utf-8")) == run.to_dict()
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "A is better" in page and "A alone on" in page
    assert "A IS BETTER" in repr(run).upper()


def test_a_question_without_a_probability_is_no_question_that_could_not_be_drawn(
    tmp_path: Path,
) -> None:
    one, other = answers(600, (0.1, 0.4), 600)
    for row in one:
        row["q"] = 0.5
    one[7] |= {"q": None, "human": None}
    with pytest.raises(DataError, match=r"id '7', field q: it needs the probability"):
        asked(*files(tmp_path, one, other), probability="q")
    one[7]["q"] = 0.5
    other[8]["human"] = None
    with pytest.raises(DataError, match="1 question that was drawn for people has a label of A"):
        asked(*files(tmp_path, one, other), probability="q")


def test_a_group_that_was_not_labelled_may_be_the_largest(tmp_path: Path) -> None:
    one, other = answers(200, (0.5, 0.05), 60)
    giant = [
        row | {"id": f"g{k}", "human": None, "judge": None, "source": "giant"}
        for k, row in enumerate(one[:100])
    ]
    for number, row in enumerate([*one, *other]):
        row["source"] = f"s{number % len(one)}"
    alone = asked(*files(tmp_path, one, other), group_column="source")
    beside = asked(*files(tmp_path, one + giant, other + giant), group_column="source")
    assert alone["outcome"] == "worse"
    # Had the lot drawn it, it would have weighed as much as all that were.
    assert beside["outcome"] == "not separated"
