"""Do words add sentences to a report, and nothing else?"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calibrail import evaluation
from calibrail.evaluation import Report, Sample
from calibrail.report.documents.calibrate_sections import add_messages
from calibrail.report.messages import spell_reasons
from tests.catalogue import catalogue
from tests.measured import evaluated

RNG = np.random.default_rng(0)
LABELS = np.tile([0, 1], 800).astype(np.int8)
CODES = np.repeat(np.tile([1, 2], 400), 2).astype(np.int8)
VALUES = RNG.normal(size=1600) + 3.0 * LABELS


#: Eight answers a group, one of each class and group counts.
GROUPED = Sample(VALUES, LABELS, CODES, np.arange(1600) // 8)
SHARING = GROUPED.thinned(CODES > 0, RNG.permutation(1600), LABELS)


def report(**options: Any) -> Report:
    return evaluated(SHARING, **options)


def numbers(report: Report) -> dict[str, Any]:
    """Return a report without its sentences."""
    content = report.to_dict()
    for item in content["warnings"]:
        del item["message"]
    for part in (content, content["certificate"]):
        del part["reason"]
    content["confounds"].pop("finding", None)
    return content


def test_words_add_sentences_and_change_no_number() -> None:
    codes = report(max_fpr=0.2, baselines={"same": VALUES, "length": RNG.normal(size=1600)})
    words = add_messages(codes)
    assert codes.reason_code == "aims_at_the_requirement"
    warned = ["not_shown_to_beat_baseline", "clustered"]
    assert [item.code for item in codes.warnings] == warned
    assert not any(item.message for item in codes.warnings)
    assert numbers(words) == spell_reasons(numbers(codes))
    assert words.reason == words.certificate["reason"] and not codes.reason
    sentences = (words.reason, *(item.message for item in words.warnings))
    assert all(text.endswith((".", ".)")) for text in (*sentences, words.confounds["finding"]))
    assert add_messages(report()).confounds is None


def test_answers_that_share_a_group_are_named_counted_or_not() -> None:
    def warnings(sample: Sample, **options: Any) -> dict[str, str]:
        found = add_messages(evaluated(sample, **options)).warnings
        return {item.code: item.message for item in found}

    counted = warnings(SHARING)
    assert "assumed_independent" not in counted
    assert "one answer of each group and class counts: 400 of 1,600" in counted["clustered"]
    # All hallucinated answers that set a threshold of groups take part, however many a group has.
    tests = GROUPED.thinned((CODES > 1) | (LABELS == 0), RNG.permutation(1600), LABELS)
    assert (
        "the threshold counts each group once, and of the other answers one of each group and "
        f"class counts: {tests.n_set_aside:,} of 1,600 are set aside"
    ) in warnings(tests, clustered=True)["clustered"]
    assumed = warnings(replace(GROUPED, independent=True))
    assert "clustered" not in assumed
    assert assumed["assumed_independent"].startswith("1,200 of 1,200 answers share a group")


def test_why_a_measure_is_missing_is_put_into_words() -> None:
    """However deep it stands, as in the test part of a report without faithful answers."""
    codes = evaluated(Sample(VALUES, np.ones_like(LABELS), CODES, np.arange(1600)))
    assert codes.to_dict()["test"]["auroc"]["reason"] == "no_faithful"
    words = add_messages(codes)
    assert words.to_dict()["test"]["auroc"]["reason"] == "there is no faithful answer"
    content = {"rows": ({"reason": "few_strata:10", "n": 3}, {"reason": None}), "n": codes}
    assert spell_reasons(content)["rows"] == (
        {"reason": "fewer than two strata hold 10 answers of each class", "n": 3},
        {"reason": None},
    )
    assert spell_reasons(words) is words


def test_every_code_of_a_missing_measure_has_words() -> None:
    """The codes that ``missing`` is called with, and those that are handed on to it."""
    room = Path(evaluation.__file__).parent
    agree = room.parent / "pipelines" / "agree.py"
    text = "\n".join(path.read_text(encoding="utf-8") for path in (*room.rglob("*.py"), agree))
    codes = set(re.findall(r'missing\([^()]*?, f?"([^"]+)"', text))
    codes |= set(re.findall(r'(?:without_test|reason or)[ (]f?"([^"]+)"', text))
    codes = {code.split(":")[0] for code in codes}
    named = {
        code.replace("{name}", name) for code in codes for name in ("faithful", "hallucinated")
    }
    known = {key.removeprefix("measure.") for key in catalogue() if key.startswith("measure.")}
    assert len(named) >= 10 and named <= known
    stems = {re.sub("(faithful|hallucinated)$", "{name}", code) for code in known}
    # Of a kind of row there may be none, whatever it is called.
    of_rows = {f"no_{kind}" for kind in re.findall(r'"(others|human_labelled)"', text)}
    assert all(re.search(f'"{re.escape(stem)}[":]', text) for stem in stems - of_rows)


def test_a_name_that_may_stand_for_no_group_is_pointed_out() -> None:
    alone = np.arange(1600)
    for n, odd in (
        (0, ""),
        (100, ""),
        (300, "One group holds 300 answers, most others one. That is "),
    ):
        groups = np.where(alone < n, 0, alone)
        sample = Sample(VALUES, LABELS, CODES, groups)
        sample = sample.thinned(np.full(1600, True), RNG.permutation(1600), LABELS)
        found = add_messages(evaluated(sample)).warnings
        (said,) = [item.message for item in found if item.code == "clustered"] or [""]
        assert (odd in said) if odd else "One group holds" not in said
