"""Does the command line say what the call in Python says, so that both keep what one keeps?

The other simulations call Python, on files, since a command also renders a page each time.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

import calibrail
from calibrail.settings import Promise, Requirement
from calibrail.validity.check import Check, Setting
from calibrail.validity.from_files.commands import COLUMNS, SCORE, command, folder, options
from calibrail.validity.from_files.population import ALONE, LARGE_ARE_HARD, QUESTIONS, Population
from calibrail.validity.from_files.texts import Texts
from calibrail.validity.from_files.thresholds import BY_TOPIC
from calibrail.validity.sentences import ALIKE

_LIMIT: Final = Requirement(max_fpr=0.4)
#: What is asked of which population.
CASES: Final[dict[str, tuple[Population | Texts, Promise, Requirement]]] = {
    "marginal": (ALONE, Promise(0.2), _LIMIT),
    "pac": (LARGE_ARE_HARD, Promise(0.2, "pac"), _LIMIT),
    "by topic": (BY_TOPIC[-1], Promise(0.2, by="topic"), _LIMIT),
    "three-way": (QUESTIONS, Promise(0.2, beta=0.1), _LIMIT),
    "by sentence": (Texts(ALIKE), Promise(0.2, unit="sentence"), Requirement(min_kept=0.3)),
    "several risks": (ALONE, Promise(0.2), Requirement(risks=("recall>=0.5", "fpr<=0.4"))),
}


def commands_and_calls(at: Setting) -> Iterator[Check]:
    """Say something else by the command line than by the call: never."""
    for design, (population, _, _) in CASES.items():
        rng = at.rng(f"commands, {design}")
        differs: dict[str, list[bool]] = {}
        for _ in range(at.runs):
            with folder() as place:
                labelled, fresh = (
                    _file(population, place, name, rng, at.n) for name in ("labelled", "fresh")
                )
                for name, (said, called) in _pairs(design, labelled, fresh):
                    differs.setdefault(name, []).append(_plain(said) != _plain(called))
        for name, items in differs.items():
            what = f"{name}, command and call differ"
            yield at.check(what, items, 0.0, design=f"{design}, {population.name}")


def _file(
    population: Population | Texts, place: Path, name: str, rng: np.random.Generator, n: int
) -> Path:
    if isinstance(population, Texts):
        return population.write(place, name, population.draw(rng, n))
    return population.write(place, name, population.draw(rng, n))


def _pairs(design: str, labelled: Path, fresh: Path) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yield for each command what it prints and what the call gives."""
    population, promise, requirement = CASES[design]
    asked = options(promise, requirement)
    said = command("calibrate", labelled, "-o", "run", *COLUMNS, *asked)
    run = calibrail.calibrate(labelled, SCORE, promise, requirement)
    yield "calibrate", (said, run.report.to_dict())
    guardrail = run.freeze()
    said = command("export", "run", "-o", "guardrail.json")
    yield "export", (said["digest"], guardrail.config.digest)
    if requirement.risks:
        # They are frozen in the guardrail.
        requirement = Requirement()
    limits = options(requirement)
    said = command("certify", "guardrail.json", fresh, *limits)
    yield "certify", (said, calibrail.certify(guardrail, fresh, requirement).to_dict())
    if design not in ("marginal", "pac"):
        return
    words = *COLUMNS, *options(promise)
    said = command("compare", labelled, "-o", "compared", *words, *limits)
    compared = calibrail.compare(labelled, [SCORE], promise, requirement)
    yield "compare", (said, compared.to_dict())
    said = command("shift", labelled, "--test", fresh, "-o", "shifted", *words)
    yield "shift", (said, calibrail.shift(labelled, SCORE, test=fresh, promise=promise).to_dict())
    if population is ALONE:
        said = command("select", "guardrail.json", fresh, "--fdr", "0.1")
        yield "select", (said, calibrail.select(guardrail, fresh, fdr=0.1).to_dict())


def _plain(content: Any) -> Any:
    """Return content as JSON holds it, without the command that a reader would run."""
    content = json.loads(json.dumps(content))
    if isinstance(content, dict):
        content.get("reproduce", {}).pop("command", None)
        for detector in content.get("detectors", ()):
            detector.get("reproduce", {}).pop("command", None)
    return content
