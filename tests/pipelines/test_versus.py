"""Does a comparison of two systems read, join, weigh and judge what stands in files?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import unescape
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


def page(run: calibrail.SystemComparison, folder: Path) -> str:
    """Return the report that a run saves, with its entities for what they are."""
    run.save(folder / "run", force=True)
    text = unescape((folder / "run" / "report.html").read_text("utf-8"))
    return " ".join(text.split())


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
    assert "a.jsonl hallucinates less often than b.jsonl: by " in found["reason"]


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
    assert wide["reason"].startswith(
        "a.jsonl hallucinates at most 5 points more often than b.jsonl"
    )
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
    assert content["outcome"] == "better"
    (drawn,) = content["random_sample"]
    assert (drawn["share"], drawn["count"], drawn["n"]) == ("drawn", 809, 2000)
    assert drawn["expected"] == pytest.approx(830.0) and not drawn["differs"]
    # By themselves they are no random sample, which shows, and nothing is decided.
    doubted = asked(*paths, judge_column="judge")
    assert doubted["verdict"] == "inconclusive" and doubted["reason_code"] == "no_sample"
    one[0]["q"] = None
    one[0]["human"] = 1
    with pytest.raises(DataError, match=r"id '0', field q: it needs the probability"):
        asked(*files(tmp_path, one, other), probability="q")


def test_a_page_counts_questions_as_questions(tmp_path: Path) -> None:
    shown = page(calibrail.versus(*files(tmp_path, *answers(60, labelled=30))), tmp_path)
    assert "<dt><bdi>Questions</bdi></dt><dd><bdi>60</bdi></dd>" in shown
    assert "60 answers" not in shown


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
    assert other["outcome"] == "no verdict"
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
    looks, sources = tmp_path / "looks.json", files(tmp_path, *answers())
    content = asked(*sources, labelled_by="gpt", looks=looks)
    assert (content["verdict"], content["reason_code"]) == ("inconclusive", "labels_of_judge")
    # What the interval shows of the judge's labels, and whose they are.
    assert content["outcome"] == "better" and content["difference"]["upper"] < 0.0
    assert content["reason"].startswith("a.jsonl hallucinates less often than b.jsonl: by ")
    assert "confidence. This only agrees with gpt: labels come from" in content["reason"]
    again = calibrail.versus(*sources, labelled_by="gpt", judge_column="judge", looks=looks)
    assert again.content["reason_code"] == "looked_before" and "No verdict, on lab" in repr(again)
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


@pytest.mark.parametrize(("stated", "labelled"), [(0.1, 240), (0.6, 40), (1.0, 200)])
def test_probabilities_that_the_number_of_labels_refutes_decide_nothing(
    tmp_path: Path, stated: float, labelled: int
) -> None:
    one, other = answers(400, (0.1, 0.4), labelled)
    for row in one:
        row["q"] = stated
    doubted = calibrail.versus(*files(tmp_path, one, other), probability="q")
    content = doubted.to_dict()
    assert (content["outcome"], content["reason_code"]) == ("no verdict", "no_sample")
    said = f"{labelled} of 400 are labelled, where the probabilities add up to {400 * stated:.1f}"
    assert said in content["reason"] and "below 1% they are doubted" in content["reason"]
    text = page(doubted, tmp_path)
    assert "no interval means anything" in text and "It holds for every margin" not in text
    for row in one:
        row["q"] = labelled / 400
    plain = calibrail.versus(*files(tmp_path, one, other), probability="q")
    assert plain.to_dict()["reason_code"] == "bounds"
    said = f"with the stated probabilities: {labelled} of 400 are labelled"
    assert said in page(plain, tmp_path)


def test_questions_of_a_group_that_were_drawn_together_are_no_doubt(tmp_path: Path) -> None:
    one, other = answers(400, (0.1, 0.4), 400)
    rng = np.random.default_rng(3)
    drawn = rng.random(20) < 0.5
    for side in (one, other):
        for row in side:
            group = int(row["id"]) % 20
            row |= {"source": f"s{group}", "q": 0.5}
            row["human"] = row["human"] if drawn[group] else None
    (test,) = asked(*files(tmp_path, one, other), probability="q", group_column="source")[
        "random_sample"
    ]
    assert (test["count"], test["n"], test["differs"]) == (int(drawn.sum()), 20, False)


def test_the_other_way_round_is_the_same_look(tmp_path: Path) -> None:
    paths, looks = files(tmp_path, *answers()), tmp_path / "looks.json"
    how: dict[str, Any] = {"judge_column": "judge", "looks": looks}
    first, turned = asked(*paths, **how), asked(*paths[::-1], **how)
    assert [item["verdict"] for item in (first, turned)] == ["certified", "rejected"]
    ((look,),) = json.loads(looks.read_text("utf-8"))["questions"].values()
    assert look["verdict"] == f"rejected, {paths[1]} against {paths[0]}"
    # Known by ids alone, too, and answers with more labels are another look, whichever is A.
    bare = [[{**row, "question": "", "response": ""} for row in side] for side in answers()]
    paths, how["looks"] = files(tmp_path, *bare, names=("c", "d")), tmp_path / "bare.json"
    assert asked(*paths, **how)["verdict"] == "certified"
    assert asked(*paths[::-1], **how)["verdict"] == "rejected"
    more = [
        [{**row, "question": "", "response": ""} for row in side] for side in answers(labelled=110)
    ]
    assert asked(*files(tmp_path, *more, names=("d", "c")), **how)["reason_code"] == "looked_before"


def test_other_probabilities_are_another_look(tmp_path: Path) -> None:
    one, other = answers(400, (0.1, 0.4), 200)
    for stated, code in ((0.5, "bounds"), (0.55, "looked_before")):
        for row in one:
            row["q"] = stated
        paths = files(tmp_path, one, other)
        content = asked(*paths, probability="q", looks=tmp_path / "looks.json")
        assert content["reason_code"] == code


def test_labels_of_a_judge_are_called_so_throughout(tmp_path: Path) -> None:
    paths = files(tmp_path, *answers())
    run = calibrail.versus(*paths, judge_column="judge", labelled_by="gpt-5, prompt 3")
    text = page(run, tmp_path)
    assert "a.jsonl is better, on labels of gpt-5, prompt 3" in text
    assert "gpt-5, prompt 3 labelled both answers to 100" in text
    assert "By gpt-5, prompt 3" in text and "people labelled" not in text.lower()
    assert "Have people label answers, and run this on their labels" in text
    by_people = calibrail.versus(*paths, judge_column="judge", labelled_by="people")
    assert by_people.to_dict()["data"]["labelled_by"] is None


def test_a_judge_that_labelled_for_one_system_labelled_for_the_comparison(tmp_path: Path) -> None:
    sides = answers(60, (0.05, 0.6), 60)
    known = {row["id"]: row["human"] for row in sides[1]}
    named = [[{**row, "label": row["human"]} for row in sides[0]], sides[1]]
    bare = [[{k: row[k] for k in row if k not in ("human", "judge")} for row in it] for it in named]
    ours, theirs = files(tmp_path, *bare)
    with calibrail.label(theirs, tmp_path / "labels", looks=False) as session:
        while (task := session.next("bot")) is not None:
            session.put("bot", task.order, known[task.id], judge="gpt")
    content = asked(ours, tmp_path / "labels", label_column="label")
    assert (content["outcome"], content["reason_code"]) == ("better", "labels_of_judge")
    # A row that names a model says the same.
    told = [sides[0], [{**row, "annotator": "gpt-4o"} for row in sides[1]]]
    there = files(tmp_path, *told, names=("c", "d"))
    assert asked(*there)["reason_code"] == "labels_of_judge"
    assert asked(*there, labelled_by="people")["reason_code"] != "labels_of_judge"


def test_a_mean_of_ratings_is_no_share_and_two_scales_are_no_judge(tmp_path: Path) -> None:
    one, other = answers()
    for row in (*one, *other):
        row["judge"] = 5 - 4 * row["judge"]
    one[0]["judge"] = 3
    paths, how = files(tmp_path, one, other), {"judge_column": "judge"}
    run = calibrail.versus(*paths, **how, judge_higher="faithful")
    assert [item["judge"] for item in run.to_dict()["systems"]] == [None, None]
    assert "By the judge" not in page(run, tmp_path)
    labels = calibrail.versus(*files(tmp_path, *answers()), **how)
    assert "By the judge" in page(labels, tmp_path)
    for row in one:
        row["judge"] = row["judge"] / 5
    with pytest.raises(
        DataError, match=r"judge rates A from 0\.2 to 1 and B from 1 to 5, as on two"
    ):
        asked(*files(tmp_path, one, other), judge_column="judge", judge_higher="faithful")


def test_an_interval_between_zero_and_the_margin_says_who_is_worse(tmp_path: Path) -> None:
    paths = files(tmp_path, *answers(300, (0.3, 0.1), 300))
    low, high = ends(asked(*paths))
    assert 0.0 < low < 0.15 < high < 0.3
    run = calibrail.versus(*paths, margin=0.15)
    content = run.to_dict()
    assert (content["outcome"], content["verdict"]) == ("worse", "inconclusive")
    assert "a.jsonl hallucinates more often than b.jsonl: by " in content["reason"]
    said = "whether at most 15 points more, as allowed, is open."
    assert content["reason"].endswith(said)
    assert "a.jsonl is worse, by how much is open".upper() in repr(run).upper()
    assert "settles whether a.jsonl is at most 15 points worse" in page(run, tmp_path)
    wide = asked(*paths, margin=0.3)
    assert wide["outcome"] == "non-inferior"
    assert "a.jsonl hallucinates more often than b.jsonl: by " in wide["reason"]
    assert wide["reason"].endswith("which is at most 30 points more, as allowed.")
    turned = asked(*paths[::-1], margin=0.15)
    assert turned["outcome"] == "better" and "less often" in turned["reason"]


def test_few_labels_tell_nothing_of_how_many_more(tmp_path: Path) -> None:
    few = calibrail.versus(*files(tmp_path, *answers(400, (0.2, 0.3), 19)))
    assert few.to_dict()["outcome"] == "not separated" and few.to_dict()["needed"] is None
    assert "With 19 labelled questions nothing tells how many more" in page(few, tmp_path)
    enough = asked(*files(tmp_path, *answers(400, (0.2, 0.3), 20)))
    assert enough["outcome"] == "not separated" and enough["needed"] > 20


def test_duplicates_are_told_from_answers_without_a_partner(tmp_path: Path) -> None:
    one, other = answers()
    again = other[0] | {"response": "Another answer."}
    run = calibrail.versus(*files(tmp_path, one[:300], [*other, again, again | {"id": "new"}]))
    content = run.to_dict()
    assert other[0]["id"] == "399" and content["data"]["n"] == 300
    left_out = [(item["n_alone"], item["n_repeated"]) for item in content["systems"]]
    assert left_out == [(0, 0), (102, 0)]
    run = calibrail.versus(*files(tmp_path, one, [*other, again]))
    left_out = [(item["n_alone"], item["n_repeated"]) for item in run.to_dict()["systems"]]
    assert left_out == [(0, 1), (0, 2)]
    text = page(run, tmp_path)
    assert "3 answers share their id with another one" in text and "no partner" not in text


def test_ids_that_mean_other_questions_join_nothing(tmp_path: Path) -> None:
    one, other = answers()
    other[0]["question"] = "Quite another question?"
    run = calibrail.versus(*files(tmp_path, one, other))
    content = run.to_dict()
    assert content["columns"]["joined_by"] == "id" and content["data"]["n"] == 399
    assert (content["data"]["n_unlike"], content["data"]["first_unlike"]) == (1, ["399"])
    left_out = "1 pair by id left out: the two systems have other questions there, first at '399'"
    assert left_out in page(run, tmp_path)
    for number, row in enumerate(other):
        row["id"] = f"{number}"
    assert asked(*files(tmp_path, one, other))["columns"]["joined_by"] == "question"
    for row in other:
        row["question"] = f"B asks {row['id']}"
    with pytest.raises(DataError, match=r"stands for one question in .* and for another"):
        asked(*files(tmp_path, one, other))


@pytest.mark.parametrize("labelled", [400, 100])
def test_labels_that_cannot_be_read_are_named(tmp_path: Path, labelled: int) -> None:
    one, other = answers(labelled=labelled)
    for row in (*one, *other):
        row["human"] = None if row["human"] is None else ("no", "yes")[row["human"]]
    with pytest.raises(DataError, match=r"field human: not 0 or 1, got '(yes|no)'"):
        asked(*files(tmp_path, one, other))
    for name, side in zip("xy", (one, other), strict=True):
        for row in side:
            row["rag"] = name
    with pytest.raises(DataError, match=r"field human: not 0 or 1, got '(yes|no)'"):
        asked(write(tmp_path / "both.jsonl", [*one, *other]), system_column="rag")


def test_answers_whose_partner_got_no_label_show_that_pairs_were_chosen(tmp_path: Path) -> None:
    """B was labelled only where A hallucinates."""
    first, second = answers(600, (0.3, 0.3), 300)
    bad = {row["id"] for row in first if row["human"] == 1}
    assert asked(*files(tmp_path, first, second))["outcome"] == "not separated"
    for row in second:
        row["human"] = row["human"] if row["id"] in bad else None
    content = asked(*files(tmp_path, first, second))
    assert (content["verdict"], content["reason_code"]) == ("inconclusive", "no_sample")
    assert "called hallucinated by people, where both answers are labelled" in content["reason"]
    for row in first:
        # That only some of B are labelled is no choice by itself.
        row["human"] = row["human"] if int(row["id"]) % 2 else None
    fair = answers(600, (0.1, 0.4), 300)
    for row in fair[1]:
        row["human"] = row["human"] if int(row["id"]) % 2 else None
    assert asked(*files(tmp_path, *fair))["outcome"] == "better"


def test_other_groups_are_another_look(tmp_path: Path) -> None:
    sides = answers(400, (0.1, 0.35), 400)
    for row in [*sides[0], *sides[1]]:
        row["doc"] = f"d{int(row['id']) // 2}"
    sources, looks = files(tmp_path, *sides), tmp_path / "looks.json"
    found = [
        asked(*sources, looks=looks, **how)["verdict"]
        for how in ({"group_column": "doc"}, {}, {"group_column": "doc"})
    ]
    assert found == ["certified", "inconclusive", "certified"]


def test_a_file_against_itself_is_refused_and_the_same_answers_are_counted(tmp_path: Path) -> None:
    one, other = answers()
    path, again = files(tmp_path, one, one)
    for second in (path, again):
        with pytest.raises(
            InputError, match="hold the same bytes: name the answers of two systems"
        ):
            asked(path, second)
    for row, copied in zip(other, one[::-1], strict=True):
        row["response"] = copied["response"] if int(row["id"]) < 30 else row["response"]
    text = page(calibrail.versus(*files(tmp_path, one, other)), tmp_path)
    assert "30 pairs have the same answer of both systems" in text


@pytest.mark.parametrize("rated", [False, True])
def test_the_other_way_round_every_number_changes_its_sign(tmp_path: Path, rated: bool) -> None:
    """The doubt about the draw among them: the judge calls A the worse one where labels are."""
    for seed in range(3):
        one, other = answers(200, (0.3, 0.3), 200, seed=seed)
        rng = np.random.default_rng(seed)
        rows = {row["id"]: row for row in other}
        for row in one:
            twin, drawn = (
                rows[row["id"]],
                rng.random() < (0.3 if seed else 0.1 + 0.4 * row["judge"]),
            )
            row["doc"], twin["doc"] = f"a{int(row['id']) // 2}", f"b{int(row['id']) // 3}"
            for item in (row, twin):
                item["judge"] = item["judge"] * 4 + rng.random() if rated else item["judge"]
                item["human"] = item["human"] if drawn else None
        how = {"judge_column": "judge", "judge_higher": "hallucinated", "group_column": "doc"}
        paths = files(tmp_path, one, other)
        first, turned = asked(*paths, **how), asked(*paths[::-1], **how)
        low, high = ends(turned)
        assert ends(first) == (-high, -low) and first["data"]["n_groups"] < 40
        assert first["difference"]["estimate"] == -turned["difference"]["estimate"]
        found = [{test["p_value"] for test in it["random_sample"]} for it in (first, turned)]
        assert found[0] == found[1] and first["reason_code"] == turned["reason_code"]
    drawn = [test["share"] for test in first["random_sample"]]
    assert drawn == ["by_people", "by_people", "a_worse", "b_worse"][-len(drawn) :]


def test_systems_whose_names_letter_case_tells_apart_are_told(tmp_path: Path) -> None:
    rows = [
        {**row, "rag": name}
        for side, name in zip(answers(), ("GPT", "gpt "), strict=True)
        for row in side
    ]
    content = asked(write(tmp_path / "both.jsonl", rows), system_column="rag")
    assert [item["name"] for item in content["systems"]] == ["GPT", "gpt"]
    assert content["warnings"][0].startswith("rag holds 'GPT' and 'gpt': letter case and spaces")


def apart(
    folder: Path,
    b: str = "{}",
    names: tuple[str, str] = ("bare-a", "bare-b"),
    rates: tuple[float, float] = (0.1, 0.6),
) -> tuple[tuple[Path, ...], list[list[dict[str, Any]]]]:
    """Return files of answers whose labels are taken out, and these; ids of B are spelt so."""
    sides = answers(60, rates, 30)
    labels: list[list[dict[str, Any]]] = []
    for side, spelt in zip(sides, ("{}", b), strict=True):
        for row in side:
            row["id"] = spelt.format(row["id"])
        known = [row for row in side if row["human"] is not None]
        labels.append([{"id": row["id"], "human": row["human"]} for row in known])
    bare = [[{k: v for k, v in row.items() if k != "human"} for row in side] for side in sides]
    return files(folder, *bare, names=names), labels


def told(content: Mapping[str, Any]) -> tuple[Any, ...]:
    return content["counts"], ends(content), content["data"]["n_labelled"], content["outcome"]


@pytest.mark.parametrize("b", ["{}", "b{}"])
def test_labels_in_files_of_their_own_are_joined_by_id(tmp_path: Path, b: str) -> None:
    inside = asked(*files(tmp_path, *answers(60, (0.1, 0.6), 30)))
    paths, (ours, theirs) = apart(tmp_path, b)
    more = [*theirs, {"id": "new", "human": 1}, {"id": "7", "human": None}]
    of_each = files(tmp_path, ours, more, names=("la", "lb"))
    each = calibrail.versus(*paths, labels=of_each)
    content = each.to_dict()
    assert told(content) == told(inside) and inside["outcome"] == "better"
    data = [content["data"][name] for name in ("n_unmet", "n_quarantined")]
    assert data == [1, 1] and not inside["data"]["n_unmet"]
    assert "1 human label has an id that the data does not have" in page(each, tmp_path)
    turned = asked(*paths[::-1], labels=[str(path) for path in of_each[::-1]])
    assert turned["outcome"] == "worse" and turned["counts"]["neither"] == 17
    both = write(tmp_path / "both.jsonl", [*ours, *theirs])
    if b == "b{}":
        one = asked(*paths, labels=both)
        # A copy of a file says nothing of B alone.
        assert told(one) == told(asked(*paths, labels=(both, both))) == told(inside)
        assert one["data"]["n_unmet"] == one["data"]["n_quarantined"] == 0
        return
    for given in (both, of_each[:1] * 2):
        with pytest.raises(
            DataError, match=r"a human label of id .* may be of .* or of .*b\.jsonl"
        ):
            asked(*paths, labels=given, label_column="human")


def test_a_file_of_labels_may_say_whose_they_are(tmp_path: Path) -> None:
    inside = asked(*files(tmp_path, *answers(60, (0.1, 0.6), 30)))
    paths, labels = apart(tmp_path)
    pairs = list(zip(("x", "y"), labels, strict=True))
    long = write(
        tmp_path / "long.jsonl", [{**row, "rag": name} for name, side in pairs for row in side]
    )
    columns: dict[str, dict[str, Any]] = {}
    for name, side in pairs:
        for row in side:
            columns.setdefault(row["id"], {"id": row["id"]})[name] = row["human"]
    wide = write(tmp_path / "wide.jsonl", [*columns.values()])
    how: dict[str, Any] = {"system": ("x", "y")}
    for found in (
        asked(*paths, labels=long, system_column="rag", **how),
        asked(*paths, labels=wide, positive="1", **how),
    ):
        assert told(found) == told(inside)
    rows = [
        {**json.loads(line), "rag": name}
        for name, path in zip("xy", paths, strict=True)
        for line in path.read_text("utf-8").splitlines()
    ]
    source, how["system_column"] = write(tmp_path / "rows.jsonl", rows), "rag"
    each = files(tmp_path, *labels, names=("lx", "ly"))
    for given in (long, wide, each):
        found = asked(source, labels=given, positive="1", **how)
        assert told(found) == told(inside)
    turned = asked(source, labels=each[::-1], system_column="rag", system=("y", "x"))
    assert turned["outcome"] == "worse"
    with pytest.raises(InputError, match="holds 'x', 'y'; name two of them, A first"):
        asked(*paths, labels=long, system_column="rag", system=("x", "z"))
    with pytest.raises(InputError, match="holds 'x', 'y'; name two of them, A first"):
        # The order of answers is none of labels.
        asked(source, labels=each, system_column="rag")
    with pytest.raises(DataError, match=r"a human label of id .* may be of x or of y"):
        asked(source, labels=each[0], **how)
    for wrong in ({"system": ("x", "z")}, {"system": ("x",)}, {}):
        with pytest.raises(DataError, match=r"may be of .* or of .*; columns seen: id, x, y"):
            asked(*paths, labels=wide, positive="1", **wrong)
    with pytest.raises(InputError, match="name two sources"):
        asked(*paths, labels=each, **how)


def test_labels_that_cannot_be_joined_are_refused(tmp_path: Path) -> None:
    paths, (ours, theirs) = apart(tmp_path)
    good, rows = write(tmp_path / "good.jsonl", theirs), list[list[dict[str, Any]]]()
    rows.append([{"id": "x", "human": 1}])
    rows.append([*ours, {**ours[0], "human": 1 - ours[0]["human"]}])
    rows.append([{"human": 1}, {"human": 0}])
    says = ("no id of the human labels is one of .*a.jsonl: the first is x, there it is 0",)
    says += (f"gives id {ours[0]['id']} two labels", "holds rows without an id")
    for said, bad in zip(says, rows, strict=True):
        with pytest.raises(DataError, match=said):
            asked(*paths, labels=(write(tmp_path / "bad.jsonl", bad), good))
    with pytest.raises(InputError, match="name two sources"):
        asked(*paths, labels=(good, good, good))
    one = write(tmp_path / "one.jsonl", ours)
    again = {"id": ours[0]["id"], "question": "Else?", "response": "Another one."}
    twice = write(tmp_path / "twice.jsonl", [again])
    with pytest.raises(DataError, match=f"several answers of id {ours[0]['id']}"):
        asked([paths[0], twice], paths[1], labels=(one, good))
    with pytest.raises(DataError, match=r"name the\s+file that has them \(labels="):
        asked(*paths)


def test_labels_of_another_file_are_the_same_look_and_whose_they_are(tmp_path: Path) -> None:
    sides, looks = answers(60, (0.1, 0.6), 30), tmp_path / "looks.json"
    inside = files(tmp_path, *sides, names=("c", "d"))
    assert asked(*inside, judge_column="judge", looks=looks)["verdict"] == "certified"
    paths, labels = apart(tmp_path, names=("c", "d"))
    given = files(
        tmp_path,
        *[[{"id": row["id"], "faulty": row["human"]} for row in side] for side in labels],
        names=("la", "lb"),
    )
    how: dict[str, Any] = {"labels": given, "label_column": "faulty", "looks": looks}
    again = asked(*paths, judge_column="judge", **how)
    assert again["verdict"] == "certified" and again["columns"]["human"] == "faulty"
    assert asked(*paths, **how)["reason_code"] == "looked_before"
    # What a judge says of an answer may be unreadable beside labels that are.
    text = paths[0].read_text("utf-8").replace('"judge": 0', '"judge": "perhaps"', 1)
    odd = tmp_path / "odd.jsonl"
    odd.write_text(text, "utf-8")
    content = asked(odd, paths[1], judge_column="judge", labels=given, label_column="faulty")
    assert content["data"]["n_quarantined"] == 1
    # The file of labels says whose they are, and that of answers does not.
    by_model = [[{**row, "annotator": "gpt-4o"} for row in side] for side in labels]
    found = asked(*paths, labels=files(tmp_path, labels[0], by_model[1], names=("lc", "ld")))
    assert found["reason_code"] == "labels_of_judge"
    assert found["data"]["labelled_by"].startswith("gpt-4o")
    rows = [[{**row, "annotator": "gpt-4o"} for row in side] for side in sides]
    people = files(tmp_path, *labels, names=("le", "lf"))
    found = asked(*files(tmp_path, *rows, names=("e", "f")), labels=people)
    assert found["data"]["labelled_by"] is None and found["verdict"] == "certified"


def test_labels_of_a_folder_are_joined_by_id(tmp_path: Path) -> None:
    paths, (ours, theirs) = apart(tmp_path)
    known = {row["id"]: row["human"] for row in theirs}
    drawn = [row for row in answers(60)[1] if row["id"] in known]
    folder = tmp_path / "labels"
    with calibrail.label(write(tmp_path / "d.jsonl", drawn), folder, looks=False) as session:
        while (task := session.next("Ann")) is not None:
            session.put("Ann", task.order, known[task.id])
    given = write(tmp_path / "ours.jsonl", ours), folder
    found = asked(*paths, labels=given)
    assert found["data"]["n_labelled"] == 30 and found["outcome"] == "better"
    with pytest.raises(InputError, match="says not how its answers were drawn"):
        asked(*paths, labels=(given[0], folder / "labels.jsonl"))
