"""Is the time that a run would take told before it, from a few answers that are timed?"""

from __future__ import annotations

from itertools import count

from calibrail.workflow.dry_run import PlannedTime, plan_time


def test_the_first_answers_are_timed_for_all_of_them() -> None:
    times = count(0.0, 40.0)
    planned = plan_time("example:facts", ["novelty", "fused"], clock=lambda: next(times))
    assert planned == (PlannedTime("novelty", 16, 40.0, 596),)
    assert planned[0].sentence().startswith("novelty: about 25 min for 596 answers")


def test_a_source_that_cannot_be_counted_is_told_by_the_thousand() -> None:
    rows = [{"response": "Yes.", "contexts": ["Yes."], "label": k % 2} for k in range(5)]
    (planned,) = plan_time(rows, "novelty", clock=count(0.0, 3.0).__next__)
    assert planned.n_timed == 3 and planned.n_examples is None
    assert "about 17 min for 1,000 answers" in planned.sentence()
