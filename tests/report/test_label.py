"""Does the page of labels say what they show, and what it cannot know?"""

from __future__ import annotations

import re
from typing import Any

import pytest

from calibrail.conformal import SequentialTest
from calibrail.conformal.sequential.forecast import labels_left
from calibrail.conformal.sequential.sequential_test import UnsureTest
from calibrail.formatting import lower_percent, upper_percent
from calibrail.options import Drawing, Requirement
from calibrail.report.document import Figure, Table, Text, all_blocks
from calibrail.report.documents import label


def content(flagged: list[bool], labels: list[int | None], **more: Any) -> dict[str, Any]:
    """Return what a certificate from labels holds, as far as the document reads it."""
    unsure = [value is None for value in labels]
    state = UnsureTest.of(SequentialTest(Requirement(0.3, 0.7, 0.9)))
    if labels:
        state = state.update(flagged, labels, unsure)
    made = state.certificate()
    counts = {"hallucinated": labels.count(1), "faithful": labels.count(0)}
    counts["unsure"] = labels.count(None)
    course = {"labelled": [1, 2], "coverage": {}, "fpr": {}}
    found = {
        **made.to_dict(),
        "drawing": Drawing().to_dict(),
        "seed": 0,
        "n_drawn": len(labels),
        "labels": counts,
        "n_unsure": state.n_unsure,
        "n_skipped": 0,
        "n_reviewed": 0,
        "n_changed": 0,
        "blind_verdict": None,
        "n_undone": 0,
        "held_up": {"final": 0, "open": 0, "disagreements": 0},
        "annotators": {"ada": len(labels)},
        "agreement": None,
        "expect": labels_left(state, flagged).to_dict(),
        "course": course,
        "withheld": False,
        "exhausted": False,
        "n_waiting": 0,
    } | more
    result: dict[str, Any] = {
        **made.to_dict(),
        "reason": label.reason(made.to_dict(), counts),
        "looks": [],
        "freshness": "new",
        "n_undefined": 0,
        "data": {},
        "sequential": found,
    }
    return result | {"warnings": label.warnings(result)}


def texts(result: dict[str, Any]) -> str:
    made = label.label_document(result)
    blocks = [block.text for block in all_blocks(made.blocks) if isinstance(block, Text)]
    return " ".join([made.summary, *blocks, *(item.text for item in made.warnings)])


GOOD = ([True] * 40 + [False] * 40, [1] * 40 + [0] * 40)


def test_a_verdict_says_with_which_label_it_fell() -> None:
    found = content(*GOOD)
    said, fell = texts(found), found["sequential"]["decided"]["labelled"]
    assert "Enough is shown to be caught; false alarms are shown" in said
    assert f"The verdict was reached with the {fell}th label." in said
    assert "To expect" not in said and "foreseen" not in said


def test_before_the_first_label_the_page_says_what_it_takes() -> None:
    made = label.label_document(content([], []))
    assert made.headline == "Not started: nothing is labelled yet" and made.title == "labels for"
    assert made.summary.startswith("A certificate takes at least ")
    assert [tile.name for tile in made.tiles] == ["Labelled"]
    drawn = {block.name for block in all_blocks(made.blocks) if isinstance(block, Figure)}
    assert not drawn & {"target", "rates"}
    assert made.next_step.startswith("Label the first answers: ")
    begun = label.label_document(content([True], [1]))
    assert (begun.headline, begun.title) == ("Inconclusive", "labels for")
    assert label.label_document(content(*GOOD)).title == "certificate of"


def test_what_a_verdict_rests_on_stands_beside_it_and_keeps_the_limit() -> None:
    # Certified by an end that alone keeps the limit, while the two-sided interval reaches over it.
    for n in range(1, 40):
        found = content([True] * n + [False] * 40, [1] * n + [0] * 40)
        if found["sequential"]["verdict"] == "certified":
            break
    assert found["coverage"]["lower"] < found["min_coverage"] <= found["coverage_at_least"]
    made = label.label_document(found)
    shown = f"shown so: at least {lower_percent(found['coverage_at_least'])} caught and at most"
    assert shown in texts(found)
    # A tile shows the end that decides; what stands side by side in the table holds together, and
    # so reaches further than an interval by itself.
    least, most = lower_percent(found["coverage_at_least"]), upper_percent(found["fpr_at_most"])
    assert [tile.value for tile in made.tiles[:2]] == [f"at least {least}", f"at most {most}"]
    assert all(tile.interval.startswith("measured ") for tile in made.tiles[:2])
    for name in ("coverage", "fpr"):
        together, alone = found["region"][name], found[name]
        assert together["lower"] <= alone["lower"] and alone["upper"] <= together["upper"]
    assert "both hold together with 90% confidence" in texts(found)
    still_open = content([True, False], [1, 0])
    assert "shown so" not in texts(still_open)


def test_a_weighted_value_is_told_from_the_counts_beside_it() -> None:
    found = content(*GOOD)
    bound = found["coverage"] | {"method": "betting", "estimate": 0.888, "count": 75, "n": 94}
    made = label.label_document(found | {"region": found["region"] | {"coverage": bound}})
    table = next(block for block in all_blocks(made.blocks) if isinstance(block, Table))
    value, counts = table.rows[0][1], table.rows[0][4].text
    assert value == "88.8%" and counts.startswith("weighted; 75 of 94 labelled")


@pytest.mark.parametrize(("n", "ending"), [(1, "1st"), (12, "12th"), (22, "22nd"), (103, "103rd")])
def test_numbers_of_labels(n: int, ending: str) -> None:
    found = content(*GOOD)["sequential"] | {"decided": {"drawn": n, "labelled": n}}
    assert f"with the {ending} label" in label.reason(found, {"unsure": 0})


def test_what_cannot_be_foreseen_is_not_said() -> None:
    said = texts(content([True, False], [1, 0]))
    assert "cannot be foreseen yet: fewer than five hallucinated answers" in said
    assert label.label_document(content([], [])).verdict == "inconclusive"
    never = {"low": None, "median": None, "high": None, "certified": 0.0, "rejected": 0.0}
    never |= {"inconclusive": 1.0, "budget": 3000, "runs": 200, "unforeseeable": None}
    said = texts(content([True, False], [1, 0], expect=never))
    assert "have no verdict within 3,000 further labels" in said
    some = never | {"low": 40, "median": None, "certified": 0.3, "inconclusive": 0.7}
    said = texts(content([True, False], [1, 0], expect=some))
    assert "more than 3,000 more labels (from 40 to more than 3,000" in said


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ((1, 0, 1), "1 label does not count yet.* before it is 1 disagreement;"),
        ((2, 1, 0), "2 labels do not count yet.* before them is 1 answer without its label;"),
        ((1, 2, 1), "before it are 2 answers without their labels and 1 disagreement;"),
    ],
)
def test_what_holds_labels_up_is_said_of_one_and_of_many(
    held: tuple[int, int, int], said: str
) -> None:
    named = dict(zip(("final", "open", "disagreements"), held, strict=True))
    assert re.search(said, texts(content([True, False], [1, 0], held_up=named)))


def test_what_weakens_the_labels_is_said() -> None:
    held = {"final": 4, "open": 2, "disagreements": 1}
    kappa = {"estimate": 0.2, "lower": 0.0, "upper": 0.4, "reason": None}
    agreed = {"estimate": 0.6, "lower": 0.4, "upper": 0.8, "count": 6, "n": 10}
    both = {"n": 10, "agreed": agreed, "kappa": kappa, "unsure": 1, "open": 1, "settled": 0}
    both["settled_by_one_of_them"] = 0
    said = texts(
        content(
            [True, False] * 10,
            [1, 0] * 9 + [None, None],
            held_up=held,
            n_skipped=2,
            agreement=both,
            withheld=True,
        )
    )
    assert "2 unsure answers count against either verdict" in said
    assert "before them are 2 answers without their labels and 1 disagreement" in said
    assert "10% of the labels are unsure" in said
    assert "agree little beyond chance (kappa 0.200, 0.000 to 0.400)" in said
    assert "There will be no verdict, however labelling goes on" in said


def test_without_a_label_nothing_is_called_open() -> None:
    found = content([], [])
    labels = {"hallucinated": 0, "faithful": 0, "unsure": 0}
    assert label.reason(found["sequential"], labels) == "No answer is labelled yet."
    assert "is open" in label.reason(found["sequential"], labels | {"faithful": 1})
