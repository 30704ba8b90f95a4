"""What stands in ``status.json`` of a watch, as its document reads it."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

START = datetime(2026, 1, 1, tzinfo=UTC)
#: What a chain of a log is called.
CHAIN = "20260101T000000-7-0a0b0c0d"
LIMITS = {"coverage": 0.9, "fpr": 0.3}
FEATURES = ["score", "undefined", "question_length", "response_length", "language"]

#: What moved, as an alarm says it.
LANGUAGES: dict[str, Any] = {
    "before": {"n": 2000, "shares": {"en": 0.998, "de": 0.002}},
    "after": {"n": 300, "shares": {"en": 0.85, "de": 0.15}},
    "histogram": {
        "edges": [],
        "names": ["en", "de", "rarer", "other"],
        "before": [1996, 4, 0, 0],
        "after": [255, 45, 0, 0],
    },
}
LENGTHS: dict[str, Any] = {
    "before": {"n": 5000, "mean": 301.0, "median": 300.0},
    "after": {"n": 300, "mean": 360.0, "median": 362.0},
    "histogram": {
        "edges": [280.0, 300.0, 340.0],
        "names": [],
        "before": [1000, 1500, 2400, 100],
        "after": [10, 20, 70, 200],
    },
}


def moment(day: float) -> str:
    """Return a time as logs write it."""
    return (START + timedelta(days=day)).strftime("%Y-%m-%dT%H:%M:%SZ")


#: Since when the labels show what they show.
SINCE = {
    "kept": {"draw": 700, "batch": 20, "time": moment(140)},
    "undecided": None,
    "broken": {"draw": 1600, "batch": 45, "time": moment(315)},
}


def rate(estimate: float | None, lower: float = 0.0, upper: float = 1.0, n: int = 0) -> Any:
    """Return a rate with its bounds."""
    return {"estimate": estimate, "lower": lower, "upper": upper, "n": n, "method": "beta-mixture"}


#: What flags alone rest on, and what a judge says.
FLAGS = {"assumption": "within_class_scores"}
JUDGE = rate(0.07, 0.05, 0.09) | {"assumption": "judge", "reason": None, "saved": 1200}


def few(n: int = 10) -> dict[str, Any]:
    """Return a watch that has seen a few answers, and no labels."""
    return {
        "schema": "calibrail.watch/1",
        "guardrail": "sha256:" + "5d" * 32,
        "score": {"name": "novelty", "params": {}},
        "n": n,
        "from": moment(0.1) if n else None,
        "to": moment(0.2) if n else None,
        "traffic": traffic(n),
        "promise": promise("undecided"),
        "prevalence": {
            **rate(None),
            "method": "flags",
            "assumption": "within_class_scores",
            "flags": rate(None) | FLAGS | {"flag_rate": rate(0.3, 0.07, 0.65, n)},
            "labels": None,
            "judge": None,
            "periods": [],
        },
        "labels": None,
        "log": log(n),
        "timeline": [day(0, n, 3)] if n else [],
        "options": {"reference": 1000, "arl": 100_000, "delta": 0.05, "seed": 0, "by": None},
    }


def traffic(n: int, alarms: list[Any] | None = None) -> dict[str, Any]:
    """Return what a watch says of traffic."""
    latest = alarms[-1] if alarms else None
    return {
        "alarm": bool(alarms),
        "since": latest and latest["since"]["time"],
        "feature": latest and latest["feature"],
        "e_value": latest and latest["e_value"],
        "arl": 100_000,
        "threshold": 1_000_000.0,
        "reference": {
            "n": min(n, 1000),
            "size": 1000,
            "given": False,
            "complete": n >= 1000,
            "row": 0,
            "from": moment(0.1) if n else None,
            "to": moment(0.2) if n else None,
        },
        "watched": FEATURES if n >= 1000 else [],
        "unwatched": ["chunks"] if n >= 1000 else [],
        "n_alarms": len(alarms or []),
        "alarms": alarms or [],
        "now": dict.fromkeys(FEATURES, 1.2) if n >= 1000 else {},
    }


def log(n: int) -> dict[str, Any]:
    """Return what became of the log's lines."""
    return {
        "lines": n,
        "used": n,
        "skipped": {},
        "missing": 0,
        "found": {},
        "findings": [],
        "other_guardrails": {},
        "whole": True,
        "chains": 1 if n else 0,
        "from": moment(0.1) if n else None,
        "to": moment(0.2) if n else None,
    }


def day(at: int, n: int, flagged: int, **more: Any) -> dict[str, Any]:
    """Return one period of the timeline."""
    return {
        "from": moment(at),
        "to": moment(at + 1),
        "n": n,
        "flagged": flagged,
        "undefined": 0,
        "failed": 0,
        "row": at * 400,
        "log_e": 0.0,
        "means": {"score": 0.3, "question_length": 80.0, "response_length": 300.0},
        "languages": {"en": n},
        **more,
    }


def promise(state: str, **more: Any) -> dict[str, Any]:
    """Return what labels say so far: nothing, unless told."""
    return {
        "state": state,
        "limits": dict(LIMITS),
        "delta": 0.05,
        "coverage": rate(None),
        "fpr": rate(None),
        "n_labels": 0,
        "n_pending": 0,
        "n_unsure": 0,
        "since": None,
        "decided": None,
        "n_drawn": 0,
        "n_disagreements": 0,
        "until": None,
        "lately": {"alarm": False, "rate": None, "since": None, "log_e": None, "arl": 1000},
        "groups": [],
        "course": {"draw": [], "time": [], "log_wealth_broken": {}, "log_e_lately": []},
        **more,
    }


def year(state: str = "broken") -> dict[str, Any]:
    """Return a year of 400 answers a day, with labels: a new language in May, a new model in fall.

    Parameters
    ----------
    state : {"kept", "undecided", "broken"}
        What the labels show in the end.
    """
    rng = np.random.default_rng(0)
    days = np.arange(365)
    n = rng.poisson(400, len(days))
    german = np.where(days >= 130, 0.15, 0.002)
    season = 0.06 + 0.03 * np.sin(2 * np.pi * days / 365)
    coverage = np.where(days >= 265, 0.7, 0.94) if state == "broken" else np.full(365, 0.94)
    flagged = rng.binomial(n, season * coverage + (1 - season) * 0.18)
    languages = rng.binomial(n, german)
    means = [
        {
            "score": 0.3 + 0.05 * math.sin(2 * math.pi * at / 365) + 0.01 * rng.normal(),
            "question_length": 80 + rng.normal(),
            "response_length": 300 + (60 if at >= 265 else 0) + 4 * rng.normal(),
        }
        for at in days
    ]
    alarm_days = {"language": 131, "response_length": 266}
    log_e = np.zeros(365)
    for at in days[3:]:
        fresh = any(at > found for found in alarm_days.values() if at < found + 4)
        log_e[at] = 0 if fresh else max(0.0, log_e[at - 1] + rng.normal(0.0, 0.5))
    log_e = np.minimum(log_e, 11.0)
    for found in alarm_days.values():
        log_e[found] = 15.0
    timeline = [
        day(
            int(at),
            int(n[at]),
            int(flagged[at]),
            log_e=float(log_e[at]),
            means=means[at],
            languages={"en": int(n[at] - languages[at]), "de": int(languages[at])},
        )
        for at in days
    ]
    alarms = [
        {
            "row": found * 400,
            "time": moment(found + 0.4),
            "feature": feature,
            "e_value": 2.1e6,
            "since": {
                "row": found * 400 - 300,
                "time": moment(found - 1),
                "lower": {"row": found * 400 - 600, "time": moment(found - 2)},
                "upper": {"row": found * 400 - 128, "time": moment(found - 0.5)},
            },
            **(LANGUAGES if feature == "language" else LENGTHS),
            "examples": [
                {"row": 52403, "chain": CHAIN, "seq": 52403, "id": "a-52403"},
                {
                    "row": 52403,
                    "chain": CHAIN,
                    "seq": 52410,
                    "id": "a-52410",
                    "text": {
                        "question": "Wie viele Monde hat der Mars?",
                        "contexts": ["Mars has two moons."],
                        "response": "Der Mars hat zwei Monde.",
                    },
                },
            ],
        }
        for feature, found in alarm_days.items()
    ]
    total = int(n.sum())
    result = few(total)
    periods = [
        {
            "from": item["from"],
            "to": item["to"],
            "flag_rate": rate(share, max(0.0, share - 0.04), share + 0.04, item["n"]),
            "flags": rate(None, max(0.0, (share - 0.26) / 0.7), (share - 0.06) / 0.74),
            "labels": rate(None, 0.03, 0.13),
        }
        for item in timeline
        for share in [item["flagged"] / item["n"]]
    ]
    return {
        **result,
        "to": moment(365),
        "traffic": traffic(total, alarms),
        "promise": _labelled(state),
        "prevalence": {
            **rate(0.07, 0.045, 0.098),
            "method": "labels",
            "assumption": "audited",
            "flags": rate(0.09, 0.01, 0.21) | FLAGS | {"flag_rate": rate(0.24, 0.23, 0.25, total)},
            "labels": rate(0.07, 0.045, 0.098) | {"assumption": "audited"},
            "judge": None,
            "periods": periods,
        },
        "labels": {"n_drawn": 1880, "n_problems": 0, "problems": []},
        "log": {
            **log(total),
            "lines": total + 400,
            "skipped": {"duplicate": 390, "changed": 10},
            "found": {"changed": 10},
            "findings": [
                {"code": "changed", "file": f"{CHAIN}.0001.jsonl", "line": 77 + at, "values": {}}
                for at in range(10)
            ],
            "whole": False,
            "to": moment(365),
        },
        "timeline": timeline,
    }


def _labelled(state: str) -> dict[str, Any]:
    """Return what 35 labels a week say over a year."""
    weeks = np.arange(1, 53)
    labels = weeks * 35
    hallucinated = labels * 0.07
    width = 1.6 * np.sqrt(0.06 / np.maximum(hallucinated, 1.0))
    caught = np.where(weeks < 38, 0.94, 0.94 - 0.005 * (weeks - 38))
    if state != "broken":
        caught = np.full(52, 0.94)
    won = np.where(weeks < 38, -0.4, -0.4 + 0.6 * (weeks - 38)) if state == "broken" else -0.1
    course = {
        "time": [moment(7.0 * week) for week in weeks],
        "draw": labels.tolist(),
        "coverage": {
            "estimate": caught.tolist(),
            "lower": np.clip(caught - width, 0, 1).tolist(),
            "upper": np.clip(caught + width / 2, 0, 1).tolist(),
        },
        "fpr": {
            "estimate": [0.18] * 52,
            "lower": np.clip(0.18 - 1.2 / np.sqrt(labels), 0, 1).tolist(),
            "upper": np.clip(0.18 + 1.2 / np.sqrt(labels), 0, 1).tolist(),
        },
        "log_wealth_broken": {
            "coverage": (np.zeros(52) + won).tolist(),
            "fpr": (-0.02 * weeks).tolist(),
        },
        "log_e_lately": (np.zeros(52) + won).tolist(),
    }
    decided = None
    if state == "broken":
        decided = {
            "draw": 1600,
            "batch": 45,
            "time": moment(45 * 7.0),
            "rate": "coverage",
            "log_wealth": 4.5,
            "at": math.log(40.0),
            "restart": {"draw": 1331, "batch": 38, "time": moment(38 * 7.0)},
            "group": None,
            "shown": True,
        }
    return promise(
        state,
        coverage=rate(0.88, 0.8, 0.93, 127) | {"wanted": math.log(40.0)},
        fpr=rate(0.18, 0.15, 0.21, 1693) | {"wanted": math.log(40.0)},
        n_labels=1820,
        n_pending=60,
        n_unsure=4,
        n_drawn=1880,
        since=SINCE[state],
        until={"draw": 1820, "batch": 52, "time": moment(362)},
        decided=decided,
        lately={
            "alarm": state == "broken",
            "rate": "coverage" if state == "broken" else None,
            "since": {"draw": 1350, "batch": 39, "time": moment(270)},
            "log_e": 9.0,
            "arl": 1000,
        },
        course=course,
    )
