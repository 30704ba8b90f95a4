"""Does a judge's word save labels in a watch, and can a bad one raise a false alarm?

``python benchmarks/watch_judge.py`` writes ``results/watch_judge.md``: public labelled sets as a
service's log, whose answers are drawn and labelled day by day as `label --from-log` and
`monitor --labels` do. About five minutes on one core.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from results import write

import calibrail
from calibrail import Example, Guardrail
from calibrail.guardrail.decision_log import DecisionLog, Entry
from calibrail.options import Drawing

Bools = NDArray[np.bool_]

DATA = Path(os.environ.get("CALIBRAIL_DATA", Path(__file__).parents[2] / "shared" / "data"))
#: Answers logged and labels asked for a day; the day from which on the promise is broken.
ROWS, PER_DAY, BROKEN = 400, 60, 2
BEGIN = datetime(2026, 3, 2, 8, tzinfo=UTC)
#: File, score, sign (1: higher = more likely hallucinated), tolerated miss rate; and the number
#: from which the streams of the set are seeded.
SETS: dict[str, tuple[str, str, int, float, int]] = {
    "FRANK": ("frank/metric_scores.csv", "bertscore_p_article", -1, 0.15, 5),
    "LLM-AggreFact": ("aggrefact/scores.csv", "factcg_base", -1, 0.1, 9),
    "RAGTruth, Llama-2-7B": ("ragtruth/llama2_7b_redeep.csv", "redeep_out_of_fold", 1, 0.1, 8),
}
#: How a judge labels: right in 85 %, wrong in 85 %, or as often hallucinated as it is so, by lot.
JUDGES = {"judge right 85 %": 0.85, "judge useless": None, "judge wrong 85 %": -0.85}
WAYS = ("uniform", "score alone", *JUDGES)


@dataclass(frozen=True)
class Kind:
    """What is promised: how far off the true rates the limits lie, for how many days, and where."""

    slack: float
    days: int
    streams: Mapping[str, range]


KINDS = {
    "Just kept": Kind(
        0.0,
        3,
        {
            "FRANK": range(100, 112),
            "LLM-AggreFact": range(200, 212),
            "RAGTruth, Llama-2-7B": range(300, 310),
        },
    ),
    "Well kept": Kind(0.15, 6, {"FRANK": range(600, 605)}),
    "Broken": Kind(0.05, 6, {"FRANK": range(400, 405)}),
}
ABOUT = {
    "Just kept": "The limits are the rates of all answers that are drawn from, so that the promise "
    "is just kept: whatever is called broken is a false alarm (at most 5% of the streams stated).",
    "Well kept": "The limits lie 0.15 off these rates. Labels until the promise is kept, those of "
    "streams in which it stayed open counting as infinitely many.",
    "Broken": "The limits lie 0.05 off these rates, until on the third day four in ten of the "
    "hallucinated answers score like faithful ones. Labels until the promise is called broken, of "
    "which about 120 come before the change.",
}


def judge_of(truth: Bools, right: float | None, rate: float, rng: np.random.Generator) -> Bools:
    """Return what a judge calls hallucinated."""
    lots = rng.random(len(truth))
    return lots < rate if right is None else truth == ((lots < abs(right)) == (right > 0.0))


def own_text(name: str) -> str:
    """Return ten words that no other answer has."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    return " ".join(digest[i : i + 6] for i in range(0, 60, 6))


def log_day(folder: Path, guardrail: Guardrail, answers: Sequence[Example], day: int) -> None:
    """Log what a guardrail decides on a day, as a process of a known name would."""
    now, begin = "calibrail.guardrail.decision_log.writer.now", BEGIN + timedelta(days=day)
    begin_chain, step = DecisionLog._begin_chain, timedelta(hours=15) / len(answers)

    def begin_named_chain(log: DecisionLog) -> None:
        # Which answers are drawn follows from it.
        begin_chain(log)
        log.chain = f"{begin:%Y%m%dT%H%M%S}-1-{len(answers):08x}"

    moments = [begin + place * step for place in range(len(answers) + 1)]
    stamps = [f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z" for moment in moments]
    named = mock.patch.object(DecisionLog, "_begin_chain", begin_named_chain)
    with mock.patch(now, return_value=stamps[0]), named:
        log = DecisionLog(folder, texts=True)
        decisions = guardrail.decide(list(answers))
        for stamp, answer, decision in zip(stamps, answers, decisions, strict=False):
            with mock.patch(now, return_value=stamp):
                log.write([Entry.of(guardrail, answer, decision)])
        with mock.patch(now, return_value=stamps[-1]):
            log.close()


def stream(name: str, kind: Kind, broken: bool, seed: int) -> dict[str, dict[str, Any]]:
    """Return by each way what a watch of a stream says, and with which label it began."""
    file, column, sign, alpha, number = SETS[name]
    with (DATA / file).open(encoding="utf-8", newline="") as handle:
        rows = [row for row in csv.DictReader(handle) if row[column].strip()]
    truth = np.array([row.get("label") == "1" or row.get("label_supported") == "0" for row in rows])
    score = np.array([float(row[column]) for row in rows]) * sign
    # Neighbours share documents where none are named.
    groups = [row.get("group", f"b{place // 20}") for place, row in enumerate(rows)]
    rng, named = np.random.default_rng([seed, number]), sorted(set(groups))
    first = {*rng.permutation(named)[: len(named) // 5].tolist()}
    calibrating = np.array([group in first for group in groups])
    answers = [
        Example(
            id=f"c{i}",
            response=own_text(f"c{i}"),
            label=int(truth[i]),
            group=groups[i],
            columns={"s": float(score[i])},
        )
        for i in np.flatnonzero(calibrating)
    ]
    spec = "column:column=s,higher=hallucinated"
    guardrail = calibrail.calibrate(answers, spec, alpha=alpha, baselines=False).freeze()
    pool = np.flatnonzero(~calibrating)
    flag = score >= guardrail.rule.calibration.threshold
    caught, alarms = flag[pool][truth[pool]].mean(), flag[pool][~truth[pool]].mean()
    limits = {
        "min_caught": round(float(caught) - kind.slack, 4),
        "max_false_alarms": min(0.98, round(float(alarms) + kind.slack, 4)),
    }
    n = kind.days * ROWS
    drawn = rng.choice(pool, n)
    said, values = truth[drawn], score[drawn].copy()
    if broken:
        hit = (np.arange(n) >= BROKEN * ROWS) & said & (rng.random(n) < 0.4)
        values[hit] = score[rng.choice(pool[~truth[pool] & ~flag[pool]], hit.sum())]
    logged = [
        Example(id=f"r{i}", response=own_text(f"{seed}-{i}"), columns={"s": float(values[i])})
        for i in range(n)
    ]
    calls = {way: judge_of(said, right, truth.mean(), rng) for way, right in JUDGES.items()}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for way, judge in calls.items():
            lines = [f"r{i},-,{int(call)}" for i, call in enumerate(judge)]
            (folder / f"{way}.csv").write_text("\n".join(["id,response,judge", *lines]) + "\n")
        for day in range(kind.days):
            log_day(folder / "log", guardrail, logged[day * ROWS : (day + 1) * ROWS], day)
            for way in WAYS:
                how: dict[str, Any] = {} if day else {"per_day": PER_DAY, "seed": seed}
                if way in calls:
                    how |= {"traces": folder / f"{way}.csv"}
                    how |= {} if day else {"judge_column": "judge"}
                elif way != "uniform" and not day:
                    how["drawing"] = Drawing("active", 0.2)
                labels = folder / f"labels of {way}"
                calibrail.audit_sample(guardrail, folder / "log", labels, **how)
                with calibrail.label(None, labels) as session:
                    while (task := session.next("ada")) is not None:
                        session.put("ada", task.order, int(said[int(task.id[1:])]))
        return {way: _watched(guardrail, folder, way, limits) for way in WAYS}


def _watched(
    guardrail: Guardrail, folder: Path, way: str, limits: Mapping[str, float]
) -> dict[str, Any]:
    """Return the state, the labels until it began, and the alarms about traffic."""
    labels = folder / f"labels of {way}"
    found = calibrail.monitor(guardrail, folder / "log", labels=labels, **limits).to_dict()
    draws = [json.loads(line) for line in (labels / "draws.jsonl").read_text().splitlines()]
    since = found["promise"]["since"]
    handed = [draw.get("handed_out", True) for draw in draws]
    return {
        "state": found["promise"]["state"],
        "labels": sum(handed[: since["draw"]]) if since else None,
        "alarms": found["traffic"]["n_alarms"],
    }


def lines_of(title: str, found: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Return a section: of each set and way how many streams ended how, and with which label."""
    heads = "set | streams | way | kept / open / broken | labels: half | alarms of the traffic"
    lines = ["", f"## {title}", "", ABOUT[title], "", f"| {heads} |", "|---" * 6 + "|"]
    wanted = "broken" if title == "Broken" else "kept"
    for name, streams in found.items():
        for way in WAYS:
            ways = [item[way] for item in streams]
            states = Counter(item["state"] for item in ways)
            spent = [item["labels"] if item["state"] == wanted else np.inf for item in ways]
            half = np.quantile(spent, 0.5, method="higher")
            shown = f"{half:.0f}" if np.isfinite(half) else "-"
            ended = " / ".join(str(states[state]) for state in ("kept", "undecided", "broken"))
            alarms = sum(item["alarms"] for item in ways)
            lines.append(f"| {name} | {len(ways)} | {way} | {ended} | {shown} | {alarms} |")
    return lines


HEAD = (
    f"A guardrail from one group in 5 of a labelled set watches answers drawn from the others with "
    f"replacement, {ROWS} a day. Each day {PER_DAY} labels are drawn from what is new in the log, "
    "told at once, and read by the watch: uniformly, as the score tells (`--design active --floor "
    "0.2`), and with a judge's column (`--judge-column`). The same streams each way, a few: they "
    "show whether a judge does harm, and roughly what it saves."
)


def main() -> None:
    lines = [HEAD]
    for title, kind in KINDS.items():
        found: dict[str, list[dict[str, dict[str, Any]]]] = {}
        for name, seeds in kind.streams.items():
            if (DATA / SETS[name][0]).exists():
                for seed in seeds:
                    streams = found.setdefault(name, [])
                    streams.append(stream(name, kind, title == "Broken", seed))
                    print(title, name, seed, streams[-1], flush=True)
        lines += lines_of(title, found)
    write("watch_judge", "A judge's word in a watch", lines, ("numpy",))


if __name__ == "__main__":
    main()
