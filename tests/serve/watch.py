"""What a watch says, as far as the metrics read it."""

from __future__ import annotations

from typing import Any

STATUS: dict[str, Any] = {
    "schema": "calibrail.watch/1",
    "n": 1200,
    "traffic": {
        "alarm": True,
        "threshold": 1_000_000.0,
        "alarms": [{"feature": "language"}],
        "now": {"score": 1.5, "language": -2.0},
    },
    "promise": {
        "state": "broken",
        "coverage": {"estimate": 0.6, "lower": 0.5, "upper": 0.7},
        "fpr": {"estimate": None, "lower": None, "upper": 1.0},
        "n_labels": 80,
        "n_pending": 4,
        "lately": {"alarm": False},
    },
    "prevalence": {"lower": 0.02, "upper": 0.2},
    "log": {"whole": False},
}
