"""How often does ``calibrail monitor`` raise a false alarm about a log that grows, or a promise?"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

import calibrail
from calibrail import Example, Guardrail
from calibrail.guardrail.decision_log import DecisionLog, Entry
from calibrail.validity.check import Check, Setting
from calibrail.validity.from_files.certificates import frozen
from calibrail.validity.from_files.commands import command, folder
from calibrail.validity.from_files.population import ALONE, Answers

#: Answers that are compared with, and how often the log is looked at while it grows.
_REFERENCE, _LOOKS = 200, 2
#: By so little is a promise kept.
_LITTLE: Final = 1e-6
#: Texts are made of the first ones of these.
_WORDS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight")


def false_alarms(at: Setting) -> Iterator[Check]:
    """Raise a false alarm within n answers of a log: at most alpha = n / (2 ARL)."""
    rng, failed = at.rng("false alarms"), []
    with folder() as place:
        guardrail = frozen(place, ALONE, rng)
        guardrail.save(place / "guardrail.json")
        for run in range(at.runs):
            log, watch = place / f"log {run}", place / f"watch {run}"
            answers = ALONE.draw(rng, _REFERENCE + at.n)
            parts = np.array_split(np.arange(len(answers)), _LOOKS)
            seen = []
            for part in parts:
                write_log(log, guardrail, answers, part, rng)
                said = command(
                    *("monitor", "guardrail.json", log, "-o", watch, "--seed", run),
                    *("--reference", _REFERENCE, "--arl", round(at.n / (2.0 * at.alpha))),
                )
                seen.append(bool(said["traffic"]["alarm"]))
            assert said["n"] == len(answers) and said["log"]["whole"]
            failed.append(any(seen))
    what = f"monitor, false alarm within {at.n:,} answers"
    yield at.check(what, failed, at.alpha, design=f"log of independent answers, {_LOOKS} looks")


def write_log(
    log: Path,
    guardrail: Guardrail,
    answers: Answers,
    rows: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Write what a guardrail decides about some answers of a population, as a service does.

    Texts have different lengths and are in one language.
    """
    counts = rng.integers(1, 1 + len(_WORDS), (len(answers), 3))
    words = [[" ".join(_WORDS[:count]) for count in row] for row in counts.tolist()]
    examples = [
        Example(
            question=f"How many of {words[row][0]}?",
            contexts=tuple(words[row][2].split()),
            response=f"There are {words[row][1]} of them, as it says there.",
            id=answers.names[row],
            columns={"s0": float(answers.scores[0, row])},
        )
        for row in rows.tolist()
    ]
    decisions = guardrail.decide(examples)
    with DecisionLog(log) as chain:
        chain.write(
            [
                Entry.of(guardrail, example, decision)
                for example, decision in zip(examples, decisions, strict=True)
            ]
        )


def kept_promises(at: Setting) -> Iterator[Check]:
    """Say that a promise is broken which is just kept: at most alpha = delta.

    Half of the answers are drawn from the log, labelled in parts, and looked at after each.
    """
    rng, failed = at.rng("kept promises"), []
    with folder() as place:
        guardrail = frozen(place, ALONE, rng)
        guardrail.save(place / "guardrail.json")
        threshold = guardrail.calibration.threshold
        limits = ALONE.coverage(threshold) - _LITTLE, ALONE.fpr(threshold) + _LITTLE
        for run in range(at.runs):
            log, watch = place / f"log {run}", place / f"watch {run}"
            audit = place / f"audit {run}"
            answers = ALONE.draw(rng, 2 * at.n)
            truth = dict(zip(answers.names.tolist(), answers.labels.tolist(), strict=True))
            seen = []
            write_log(log, guardrail, answers, np.arange(len(answers)), rng)
            command("audit-sample", "guardrail.json", log, "-o", audit, "--per-day", at.n)
            for look in range(1, _LOOKS + 1):
                with calibrail.label(None, audit) as session:
                    for _ in range(at.n * look // _LOOKS - at.n * (look - 1) // _LOOKS):
                        if (task := session.next("one")) is not None:
                            session.put("one", task.order, int(truth[task.id]))
                said = command(
                    *("monitor", "guardrail.json", log, "-o", watch, "--labels", audit),
                    *("--min-coverage", limits[0], "--max-fpr", limits[1], "--delta", at.alpha),
                )
                seen.append(said["promise"]["state"] == "broken")
            failed.append(any(seen))
    what = "monitor, kept promise called broken"
    yield at.check(what, failed, at.alpha, design=f"labels by one person, {_LOOKS} looks")
