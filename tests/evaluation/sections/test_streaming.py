"""Is what a stream has shown at its stop counted as by hand?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.conformal.bounds import mean_bound
from calibrail.evaluation.sentence_removal import stopped_streams
from calibrail.evaluation.stats.intervals import wilson
from calibrail.scores.table import SentenceTable

Answer = list[tuple[int, bool, int]]

answers = st.lists(
    st.lists(st.tuples(st.integers(0, 1), st.booleans(), st.integers(1, 9)), max_size=6),
    max_size=8,
)


def measured(given: list[Answer], seed: int = 0) -> dict[str, Any]:
    """Measure answers whose sentences are (label, whether it is reached, words)."""
    rows = [item for answer in given for item in answer]
    labels = np.array([label for label, _, _ in rows], np.int8)
    table = SentenceTable.of([len(answer) for answer in given], labels)
    table = replace(table, words=np.array([words for _, _, words in rows], np.int32))
    wrong = [any(label for label, _, _ in answer) for answer in given]
    return stopped_streams(
        table,
        np.array([reached for _, reached, _ in rows], np.bool_),
        hallucinated=np.flatnonzero(wrong),
        faithful=np.flatnonzero(~np.array(wrong, np.bool_)),
        seed=seed,
    )


@given(answers)
def test_it_is_what_reading_along_gives(given: list[Answer]) -> None:
    found = measured(given)
    stopped = dict.fromkeys(("before", "at", "after", "never"), 0)
    delays, shown, total, cut = [], [], [], 0
    for answer in given:
        wrong = next((i for i, item in enumerate(answer) if item[0]), None)
        stop = next((i for i, item in enumerate(answer) if item[1]), None)
        if wrong is None:
            cut += stop is not None
            continue
        if stop is None:
            stopped["never"] += 1
        else:
            stopped["before" if stop < wrong else "at" if stop == wrong else "after"] += 1
            delays += [stop - wrong] if stop >= wrong else []
        total.append(sum(words for label, _, words in answer if label))
        shown.append(sum(words for label, _, words in answer[:stop] if label))
    assert {name: found["stopped"][name]["count"] for name in stopped} == stopped
    assert {found["stopped"][name]["n"] for name in stopped} == {len(total)}
    assert found["cut"]["count"] == cut
    assert found["cut"]["n"] == len(given) - len(total)
    # What costs has the interval of false alarms: a page gives one count one interval.
    assert found["cut"] == wilson(cut, len(given) - len(total)).to_dict()
    for name, values in (("delay", delays), ("words_shown", shown), ("words", total)):
        expected = float(np.mean(values)) if values else None
        assert found[name]["estimate"] == expected
    counts = {int(delay): n for delay, n in found["delay"]["counts"].items()}
    assert counts == {delay: delays.count(delay) for delay in set(delays)}
    shares = np.array(shown) / np.array(total)
    assert found["share_shown"]["estimate"] == pytest.approx(mean_bound(shares, 0.95).estimate)


def test_intervals_are_those_of_answers_and_repeat_themselves() -> None:
    rng = np.random.default_rng(0)
    given = [
        [(1, bool(rng.random() < 0.5), int(words)) for words in rng.poisson(8, 4) + 1]
        for _ in range(200)
    ]
    found = measured(given)
    assert found == measured(given)
    for name in ("delay", "words_shown", "words"):
        measure = found[name]
        assert measure["lower"] < measure["estimate"] < measure["upper"]
        assert measure != measured(given, seed=1)[name]
    # The interval of a mean of independent answers is near the normal one.
    total = np.array([sum(words for _, _, words in answer) for answer in given])
    half = 1.96 * total.std(ddof=1) / np.sqrt(len(total))
    assert found["words"]["upper"] - total.mean() == pytest.approx(half, rel=0.15)


def test_nothing_is_measured_of_no_answers() -> None:
    found = measured([])
    assert found["stopped"]["at"]["estimate"] is None
    assert found["delay"]["reason"] == found["words"]["reason"] == "no_such_answer"
    assert (found["share_shown"]["lower"], found["share_shown"]["upper"]) == (0.0, 1.0)
