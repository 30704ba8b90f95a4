"""Is a value of the wrong type an error of ours that names it, wherever it is given?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import calibrail as c
from calibrail import Example, Guardrail
from calibrail.errors import InputError

F = "example:facts"
WRONG: dict[str, Any] = {
    "number": 5,
    "object": object(),
    "dict": {"a": 1},
    "list": [None],
    "array": np.zeros((2, 2)),
    "series": pd.Series([1, 2]),
    "nan": float("nan"),
    "function": len,
}


@pytest.fixture(scope="module")
def guardrail() -> Guardrail:
    return c.calibrate(F, "novelty", alpha=0.2).freeze()


#: A call for every argument that takes more than a number, refused before anything is scored.
CALLS: dict[str, Callable[[Guardrail, Any], object]] = {
    "calibrate source": lambda g, bad: c.calibrate(bad, "novelty"),
    "calibrate score": lambda g, bad: c.calibrate(F, [bad]),
    "promise": lambda g, bad: c.calibrate(F, "novelty", bad),
    "requirement": lambda g, bad: c.calibrate(F, "novelty", None, bad),
    "reading": lambda g, bad: c.calibrate(F, "novelty", reading=bad, alpha=0.2),
    "splitting": lambda g, bad: c.calibrate(F, "novelty", splitting=bad, alpha=0.2),
    "context": lambda g, bad: c.calibrate(F, "novelty", context=bad, alpha=0.2),
    "by": lambda g, bad: c.Promise(by=bad),
    "clustered": lambda g, bad: c.Promise(clustered=bad),
    "guarantee": lambda g, bad: c.Promise(guarantee=bad),
    "max_fpr": lambda g, bad: c.Requirement(max_fpr=bad),
    "label_column": lambda g, bad: list(c.read(F, label_column=bad)),
    "id_column": lambda g, bad: list(c.read(F, id_column=bad)),
    "compare": lambda g, bad: c.compare(bad, "novelty"),
    "certify guardrail": lambda g, bad: c.certify(bad, F, max_fpr=0.5),
    "certify source": lambda g, bad: c.certify(g, bad, max_fpr=0.5),
    "certify by": lambda g, bad: c.certify(g, F, max_fpr=0.5, by=bad),
    "audit source": lambda g, bad: c.audit(bad, "novelty", geometry=False),
    "audit by": lambda g, bad: c.audit(F, "novelty", geometry=False, by=bad),
    "shift source": lambda g, bad: c.shift(bad, "novelty", by="kind"),
    "shift by": lambda g, bad: c.shift(F, "novelty", by=bad),
    "select guardrail": lambda g, bad: c.select(bad, F, fdr=0.1),
    "agree source": lambda g, bad: c.agree(bad, label_column="a", judge_column="b"),
    "agree human": lambda g, bad: c.agree(F, label_column=bad, judge_column="b"),
    "diagnose": lambda g, bad: c.diagnose(bad),
    "check response": lambda g, bad: g.check(response=bad),
    "check contexts": lambda g, bad: g.check(response="a", contexts=bad),
    "load": lambda g, bad: Guardrail.load(bad),
    "load a run": lambda g, bad: c.Run.load(bad),
}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_type_is_refused_by_name(call: str, kind: str, guardrail: Guardrail) -> None:
    with pytest.raises(c.CalibrailError):
        CALLS[call](guardrail, WRONG[kind])


def test_a_run_is_no_guardrail_and_says_what_to_do() -> None:
    run = c.calibrate(F, "novelty", alpha=0.2)
    with pytest.raises(InputError, match=r"got Run; freeze the run: run.freeze\(\)"):
        c.certify(run, F, max_fpr=0.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="on_failure must be one of"):
        run.freeze(on_failure="pass")  # type: ignore[arg-type]


def test_a_guardrail_decides_about_a_frame_as_about_its_examples(guardrail: Guardrail) -> None:
    examples = list(c.read(F))[:20]
    columns = ("id", "question", "contexts", "response")
    rows = [{name: getattr(item, name) for name in columns} for item in examples]
    expected = guardrail.decide(examples)
    assert guardrail.decide(pd.DataFrame(rows)) == expected
    assert list(guardrail.stream(rows, block=7)) == expected
    assert list(guardrail.stream(iter(examples))) == expected

    def wrong() -> Iterator[Any]:
        yield from ["text"]

    with pytest.raises(InputError, match="is an Example; got 'text'"):
        list(guardrail.stream(wrong()))
    with pytest.raises(c.DataError, match="row 2, field response: wrong type"):
        guardrail.decide([rows[0], {**rows[1], "response": 7}])
    assert guardrail.decide([]) == []
    assert guardrail.decide([Example(response="x", contexts=("x",))] * 2)
