"""Do words add sentences to a report, and nothing else?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrail.evaluation import Report, Sample
from calibrail.workflow.wording import worded
from tests.measured import evaluated

RNG = np.random.default_rng(0)
LABELS = np.tile([0, 1], 200).astype(np.int8)
CODES = np.repeat(np.tile([1, 2], 100), 2).astype(np.int8)
VALUES = RNG.normal(size=400) + 3.0 * LABELS


def report(**options: Any) -> Report:
    return evaluated(Sample(VALUES, LABELS, CODES, np.arange(400) // 8), **options)


def numbers(report: Report) -> dict[str, Any]:
    """Return a report without its sentences."""
    content = report.to_dict()
    content["warnings"] = [item["code"] for item in content["warnings"]]
    for part in (content, content["certificate"]):
        del part["reason"]
    content["confounds"].pop("finding", None)
    return content


def test_words_add_sentences_and_change_no_number() -> None:
    codes = report(max_fpr=0.2, baselines={"same": VALUES, "length": RNG.normal(size=400)})
    words = worded(codes)
    assert codes.reason == "aims_at_the_requirement"
    assert [item.code for item in codes.warnings] == ["not_shown_to_beat_baseline", "clustered"]
    assert not any(item.message for item in codes.warnings)
    assert numbers(words) == numbers(codes)
    assert words.reason == words.certificate["reason"] != codes.reason
    sentences = (words.reason, *(item.message for item in words.warnings))
    assert all(text.endswith(".") for text in (*sentences, words.confounds["finding"]))
    assert worded(report()).confounds is None


@pytest.mark.parametrize("clustered", [False, True])
def test_the_remedy_for_shared_groups_is_named_where_it_was_not_taken(clustered: bool) -> None:
    warnings = {item.code: item.message for item in worded(report(clustered=clustered)).warnings}
    assert ("--clustered" in warnings["clustered"]) is not clustered
    assert warnings["clustered"].startswith("300 of 300 examples share a group")
