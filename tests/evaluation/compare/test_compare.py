"""Does a comparison hold all its parts, say them in plain words, and always come out the same?"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrail.evaluation.compare import Comparison, compare_detectors
from calibrail.evaluation.scored_answers import Sample
from calibrail.evaluation.winner import CONFIRMING, halve
from calibrail.options import Guarantee, Promise, Requirement, Undefined
from calibrail.report.documents.compare import finding
from calibrail.report.text import share
from tests.evaluation.compare.candidates import Field

KEYS = (
    "schema leader winner detectors uncalibrated baselines paired reference partial_auroc "
    "matched_coverage alpha_sweep data reproduce"
)


def compared(
    field: Field, *, baselines: tuple[str, ...] = (), seed: int = 0, **short: Any
) -> Comparison:
    asked = {"alpha": 0.1, **short}
    promise, requirement = (
        kind(**{item.name: asked[item.name] for item in fields(kind) if item.name in asked})
        for kind in (Promise, Requirement)
    )
    return compare_detectors(
        {name: field.sample(name) for name in field.columns if name not in baselines},
        promise,
        requirement,
        baselines={name: field.sample(name) for name in baselines},
        seed=seed,
    )


def written(comparison: Comparison) -> str:
    return json.dumps(comparison.to_dict(), allow_nan=False)


def test_every_part_is_there_and_strict_json() -> None:
    field = Field(3, 300, 500, np.random.default_rng(0), better=1.5)
    found = compared(field, baselines=("d2",), max_fpr=0.4)
    content = json.loads(written(found), parse_constant=lambda name: pytest.fail(name))
    assert " ".join(content) == KEYS
    assert content["leader"] == content["winner"]["name"] == "d0"
    first = content["detectors"][0]
    assert {"name", "test", "verdict", "threshold", "warnings", "partial_auroc"} <= set(first)
    assert content["baselines"][0]["partial_auroc"]["estimate"] is not None
    assert content["baselines"][0]["overlap"]["estimate"] is not None
    assert {test["against"] for test in content["paired"]["against_best"]} == {"d0"}
    assert {test["name"] for test in content["paired"]["confirming"]} == {"d1", "d2"}
    # Of a winner all is said by the answers that did not choose it; the tables show the others.
    said = finding(content)
    assert said.startswith("d0 wins, not yet certified: on the half of the test set that had no ")
    alarms = content["winner"]["certificate"]["fpr"]
    assert f"flags {share(alarms)} of faithful answers; d" in said
    assert "That confirms that it wins. Against your requirement it is inconclusive there" in said


def test_no_winner_names_whom_the_data_does_not_separate() -> None:
    field = Field(3, 88, 200, np.random.default_rng(2))
    found = compared(field, baselines=("d2",))
    assert found.winner.name is None
    assert finding(found.to_dict()).startswith("No winner: d0 raises the fewest false alarms ")
    assert "the baseline d2" in finding(found.to_dict())
    assert found.winner.certificate is None


def test_nothing_shown_depends_on_the_half_that_confirms_but_the_winner() -> None:
    for better in (0.0, 1.5):
        field = Field(3, 300, 500, np.random.default_rng(0), better=better)
        contents = []
        for _ in range(2):
            contents.append(compared(field, baselines=("d2",), max_fpr=0.4).to_dict())
            half = halve(field.labels, field.codes, field.groups) == CONFIRMING
            for column in field.columns.values():
                column[half] = -column[half]
        names = [content["winner"]["name"] for content in contents]
        assert names == ([None, None] if better == 0.0 else ["d0", "d0"])
        for content in contents if better else ():
            content["leader"] = content["winner"] = content["paired"]["confirming"] = None
        differ = [key for key in contents[0] if contents[0][key] != contents[1][key]]
        assert differ == []
        assert contents[0]["detectors"][0]["test"]["n_faithful"] == 125


def test_a_baseline_that_is_better_is_said_to_be() -> None:
    field = Field(3, 300, 500, np.random.default_rng(3))
    field.columns["d2"] = field.columns["d2"] + 3.0 * field.labels
    text = finding(compared(field, baselines=("d2",)).to_dict())
    assert text.startswith("No winner: the baseline d2 raises fewer false alarms")


def test_scores_that_cannot_take_part_have_a_reason() -> None:
    field = Field(2, 120, 200, np.random.default_rng(4))
    field.columns["never"] = np.full(320, np.nan)
    found = compared(field)
    assert set(found.uncalibrated) == {"never"}
    assert {name for name, _ in found.detectors} == {"d0", "d1"}
    assert "never" not in {test.name for test in found.winner.choosing}
    alone = compared(field, baselines=("never",))
    assert [row.name for row in alone.baselines] == ["never"]
    assert alone.baselines[0].reason
    nobody = compare_detectors({"never": field.sample("never")}, Promise(0.1))
    assert finding(nobody.to_dict()) == "No detector could be calibrated to this target."
    json.dumps(nobody.to_dict(), allow_nan=False)
    few = compared(field, alpha=0.001)
    assert few.detectors == ()
    assert [bool(entry["rank"]) for entry in few.sweep][-1]  # 80 % could be promised


def test_one_detector_is_no_comparison() -> None:
    found = compared(Field(1, 120, 200, np.random.default_rng(5)))
    assert found.winner.name is None
    assert finding(found.to_dict()).endswith("There is nothing to compare it with.")


@settings(max_examples=25, deadline=None)
@given(
    cells=st.lists(
        st.tuples(
            st.one_of(st.none(), st.sampled_from([0.0, 1.0, 1e308, -1e308]), st.floats(-9, 9)),
            st.integers(0, 1),
            st.integers(0, 2),
            st.integers(0, 6),
        ),
        max_size=40,
    ),
    undefined=st.sampled_from(["flag", "review", "pass"]),
    guarantee=st.sampled_from(["marginal", "pac", "paper"]),
)
def test_no_input_lets_nan_escape(
    cells: list[tuple[float | None, int, int, int]], undefined: Undefined, guarantee: Guarantee
) -> None:
    values = np.array([np.nan if v is None else v for v, _, _, _ in cells], dtype=np.float64)
    labels, codes = (np.array([cell[i] for cell in cells], dtype=np.int8) for i in (1, 2))
    # A group lies on one side of the split.
    groups = np.array([10 * cell[2] + cell[3] for cell in cells], dtype=np.int64)
    sample = Sample(values, labels, codes, groups)
    found = compare_detectors(
        {
            "one": sample,
            "two": sample.with_scores(values[::-1].copy()),
            "three": sample.with_scores(np.zeros(len(values))),
        },
        Promise(0.4, guarantee, 0.4, undefined),
        baselines={"trivial": sample.with_scores(-values)},
    )
    json.dumps(found.to_dict(), allow_nan=False)
    assert finding(found.to_dict())
