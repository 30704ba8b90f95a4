"""Which reports do the tests of this room show?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.evaluation import Sample
from calibrail.report import render_page
from calibrail.report.documents.calibrate import document as calibrate_says
from tests.measured import compare, measure

HOSTILE = "<script>alert(1)</script>[bold]\x1b[31m"

_RNG = np.random.default_rng(0)
LABELS = np.tile([0, 1], 200).astype(np.int8)
CODES = np.repeat(np.tile([1, 2], 100), 2).astype(np.int8)
VALUES = _RNG.normal(size=400) + 2.0 * LABELS
NOISE = _RNG.normal(size=400)


def classes(values: NDArray[np.float64] = VALUES) -> tuple[NDArray[np.float64], ...]:
    """Return the test scores of the hallucinated and of the faithful examples."""
    return values[(CODES == 2) & (LABELS == 1)], values[(CODES == 2) & (LABELS == 0)]


def report(values: NDArray[np.float64] = VALUES, **options: Any) -> dict[str, Any]:
    """Return a report's dictionary; the options are those of ``calibrate`` and ``evaluate``."""
    return measure(Sample(values, LABELS, CODES, options.pop("groups", None)), **options).to_dict()


def hostile() -> dict[str, Any]:
    """Return a report in which every name that a file can choose is an attack."""
    return report(
        score={"name": HOSTILE, "params": {HOSTILE: HOSTILE}},
        baselines={HOSTILE: VALUES + 5.0 * LABELS},
        others={f"{HOSTILE}2": NOISE},
        data={"source": HOSTILE, HOSTILE: 1},
        reproduce={"command": HOSTILE},
        notes=[HOSTILE],
    )


def comparison(**options: Any) -> dict[str, Any]:
    """Return a comparison's dictionary with a detector that cannot be calibrated."""
    columns = {"toy": VALUES, "noise": NOISE, "never": np.full(400, np.nan)}
    settings = {"labels": LABELS, "codes": CODES, "alpha": 0.1, "undefined": "pass", **options}
    return compare(columns, **settings).to_dict()


def error(**changes: Any) -> dict[str, Any]:
    """Return one wrongly decided answer as ``page_examples`` gives it."""
    return {
        "id": "a-1",
        "outcome": "pass",
        "score": 0.25,
        "threshold": 0.5,
        "p_value": 0.0312,
        "group": None,
        "question": "How high is it?",
        "contexts": ["It is 100 metres high.", "It is white."],
        "response": "It is 107 metres high. It is red.",
        "evidence": {
            "kind": "sentences",
            "items": [
                {
                    "text": "It is red.",
                    "start": 23,
                    "end": 33,
                    "support": 0.01,
                    "contradiction": 0.9,
                    "verdict": "contradicted",
                    "chunk": 1,
                    "chunk_start": 0,
                    "chunk_end": 12,
                    "quote": "It is white.",
                }
            ],
        },
        "note": "",
        **changes,
    }


def errors(**changes: Any) -> dict[str, Any]:
    """Return the worst errors as ``page_examples`` gives them."""
    return {
        "misses": [error()],
        "alarms": [error(id="b-2", outcome="flag")],
        "n_misses": 1,
        "n_alarms": 9,
        "note": "",
        **changes,
    }


#: Texts that would run, break the page, or turn it round.
ATTACKS = (
    "</script><script>document.title = 'hit'</script>",
    "<img src=x onerror=\"document.title = 'hit'\">",
    "<svg onload=\"document.title = 'hit'\"><style>*{display:none}</style></svg>",
    "</blockquote></article></main></body></html><h1>hit</h1>",
    "{{ 7 * 7 }}{% raw %}<!-- <script>",
    "\u202eegap eht snrut\u2066\u200f \u0591 \u05e9\u05dc\u05d5\u05dd",
    "a\x00b\x1b[31mc\x07d\ud800e\uffff",
    "A" * 1_000_000,
    "z\u0335\u0322\u0354" * 2000,
    "\n" * 5000 + "end",
)


def attacked() -> dict[str, Any]:
    """Return errors whose every text is an attack."""
    made = []
    for attack in ATTACKS:
        item = {
            "text": attack,
            "start": 0,
            "end": len(attack),
            "verdict": attack,
            "quote": attack,
            "chunk": 0,
            "chunk_start": 0,
            "chunk_end": 5,
            "support": 0.5,
            "reason": attack,
        }
        nested = {"score": attack, "value": 0.5, "evidence": {"kind": attack, "items": [item]}}
        made.append(
            error(
                id=attack,
                group=attack,
                question=attack,
                contexts=[attack] * 5,
                response=attack,
                evidence={"kind": "scores", "items": [nested, item, attack, None]},
                note=attack,
            )
        )
    return errors(misses=made, alarms=made[::-1], n_misses=10, n_alarms=10, note=ATTACKS[0])


def render(content: dict[str, Any], *scores: NDArray[np.float64], **parts: Any) -> str:
    """Return the page of a report, with figures of these scores of both classes."""
    return render_page(calibrate_says(content, scores or classes(), **parts))
