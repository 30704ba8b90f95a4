"""Do labels that are not there yet only ever make a bet worth less?"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from calibrail.errors import InputError
from calibrail.monitoring import promise
from calibrail.monitoring.promise import RATES
from calibrail.options import Drawing
from tests.monitoring.drawn import drawn

LIMITS = {"coverage": 0.9, "fpr": 0.2}


@pytest.mark.parametrize("design", ["uniform", "active"])
def test_whatever_a_waiting_answer_is_no_factor_is_larger_than_with_its_label(design: str) -> None:
    full = drawn(40, 0.8, 0.3, design=design, seed=3)
    places = np.flatnonzero(full.handed_out)[[1, 4, 9, 17]]
    settled, label = full.settled.copy(), full.label.copy()
    settled[places], label[places] = False, np.nan
    held_back = replace(full, settled=settled, label=label)
    for rate, claim in itertools.product(RATES, ("kept", "broken")):
        shown = promise.bets_on(held_back, rate, claim, LIMITS[rate])
        for truth in itertools.product((0.0, 1.0), repeat=len(places)):
            label = full.label.copy()
            label[places] = truth
            known = promise.bets_on(replace(full, label=label), rate, claim, LIMITS[rate])
            assert np.all(shown.changes <= known.changes + 1e-12)
            assert np.all(shown.from_start <= known.from_start + 1e-9)
        assert np.any(shown.changes < known.changes) or np.any(shown.changes[places] < 0.0)


def test_answers_that_nobody_can_tell_count_as_those_that_wait() -> None:
    full = drawn(30)
    at = np.array([3, 11])
    label, settled, unsure = full.label.copy(), full.settled.copy(), full.unsure.copy()
    label[at], settled[at[0]], unsure[at[1]] = np.nan, False, True
    mixed = replace(full, label=label, settled=settled, unsure=unsure)
    assert np.flatnonzero(promise.is_unresolved(mixed)).tolist() == at.tolist()
    for claim, sign in (("broken", 1.0), ("kept", -1.0)):
        expected = np.where(full.flagged[at], sign, -sign) > 0.0
        assert promise.hardest_labels(mixed, claim)[at].tolist() == expected.tolist()


def test_batches_that_are_hardly_labelled_yet_are_left_out_at_the_end() -> None:
    full = drawn(50)
    assert promise.labelled_until(full) == 50
    assert promise.batch_starts(full).tolist() == [0, 10, 20, 30, 40]
    for n_waiting, until in ((1, 50), (6, 40), (11, 40), (16, 30), (46, 0), (50, 0)):
        settled = np.arange(50) < 50 - n_waiting
        held_back = replace(full, settled=settled, label=np.where(settled, full.label, np.nan))
        assert promise.labelled_until(held_back) == until
    # A batch in the middle does not hold up those after it for ever.
    full = drawn(200)
    settled = np.arange(200) // 10 != 2
    held_back = replace(full, settled=settled, label=np.where(settled, full.label, np.nan))
    assert promise.labelled_until(held_back) == 200
    assert promise.labelled_until(promise.watchable(None)) == 0


def test_the_first_draw_of_a_question_is_told_by_its_question_or_its_id() -> None:
    full = drawn(6)
    ids, questions = full.id.copy(), np.empty(6, object)
    ids[[0, 4, 5]], questions[:] = "same", ["q", "q", "r", None, None, None]
    shared = promise.is_first_asked(replace(full, id=ids, question=questions))
    assert shared.tolist() == [True, False, True, True, True, False]
    # One id for all says nothing where the questions are known.
    ids[:], questions[:] = "same", list("abcdef")
    assert promise.is_first_asked(replace(full, id=ids, question=questions)).all()
    assert promise.is_first_asked(full).all()


def test_where_labels_come_weeks_late_intervals_are_read_where_few_wait() -> None:
    full = drawn(1000, 0.97, 0.05, per_batch=35)
    late = np.random.default_rng(1).exponential(3.0, 1000)
    waits = full.batch + late > full.batch[-1]
    now = replace(full, settled=~waits, label=np.where(waits, np.nan, full.label))
    until = promise.labelled_until(now)
    assert 0.6 < until / 1000 < 0.95
    assert until in {*promise.batch_starts(full).tolist(), 1000}
    # The choice sees who waits, and not what is flagged among those labelled.
    missed = replace(now, flagged=np.where(waits, now.flagged, ~now.flagged))
    assert promise.labelled_until(missed) == until


def test_whole_groups_are_refused() -> None:
    with pytest.raises(InputError, match="draw single answers"):
        promise.watchable(replace(drawn(5), drawing=Drawing(whole_groups=True)))
