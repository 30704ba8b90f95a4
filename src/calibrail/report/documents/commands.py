"""How does the command of a run read again, as the command of the next step?"""

import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from calibrail.report.blocks import Json
from calibrail.settings import Beyond, Detectors, Promise, Requirement, ShiftSplit
from calibrail.settings.option import spellings
from calibrail.settings.promise import OF_ONE_THRESHOLD
from calibrail.settings.requirement import OF_ONE_DETECTOR

#: Options that name detectors.
_DETECTORS: Final = spellings(Detectors, without=("baselines",))
#: Options of calibrate that compare does not take.
ONE_ONLY: Final = (
    spellings(Promise, without=OF_ONE_THRESHOLD)
    | spellings(Requirement, only=OF_ONE_DETECTOR)
    | spellings(Beyond)
)
#: Options of shift that calibrate does not take.
SIDES: Final = spellings(ShiftSplit, without=("by",))


def for_one(content: Json, name: str) -> str:
    """Return the command that calibrates one detector of a comparison, as it was compared.

    Its folder stands beside that of the comparison, ``RUN``. Nothing is returned for a comparison
    that no command made, or that did not name the detector.
    """
    words = _words(content, "compare")
    # A column that bears a score's name is known by its kind, too.
    column = name.removeprefix("column:")
    if column in _values(words, "--score-column"):
        chosen = ["--score-column", column, "--higher", *_values(words, "--higher")[-1:]]
    elif name in _values(words, "--score"):
        chosen = ["--score", name]
    else:
        return ""
    rest = shlex.join([*_without(words, _DETECTORS)[2:], *chosen])
    return f"calibrail calibrate {rest} -o RUN-{_in_a_path(name)}"


def for_several(content: Json) -> str:
    """Return the command that compares a run's detector with others, on the same data and split.

    NAME stands for these others; DATA where no command made the run.
    """
    if not (words := _words(content, "calibrate")):
        return "calibrail compare DATA --score NAME --score NAME"
    without_texts = (content["data"].get("baselines") or {}).get("none") == "no texts"
    other = "--score-column COL" if without_texts else "--score NAME"
    return f"calibrail compare {shlex.join(_without(words, ONE_ONLY)[2:])} {other} -o RUN-compared"


def for_groups(content: Json) -> str:
    """Return the command that gives each group of a drift audit a threshold of its own."""
    words = _words(content, "shift")
    if not (by := _values(words, "--by")):
        return ""
    kept = shlex.join(_without(words, SIDES)[2:])
    return f"calibrail calibrate {kept} -o RUN-by-{_in_a_path(by[-1])}"


def turned(content: Json) -> str:
    """Return a run's command with the other direction of its column; nothing without one."""
    words = _words(content, "calibrate")
    other = {"hallucinated": "faithful", "faithful": "hallucinated"}
    given = _values(words, "--higher")
    if not given or given[-1] not in other:
        return ""
    kept = _without(words, {"--higher="})
    return f"{shlex.join([*kept, '--higher', other[given[-1]]])} -o RUN"


def _words(content: Json, command: str) -> list[str]:
    """Return the words of the command that made a result; none where another one did."""
    words = shlex.split(content["reproduce"].get("command") or "")
    return words if words[1:2] == [command] else []


def _in_a_path(name: str) -> str:
    return re.sub(r"[\W_]", "-", name)[:40].strip("-")


def _options(words: Sequence[str], names: Collection[str]) -> Iterator[tuple[int, int, str]]:
    """Yield where each of some options stands, how many words it takes, and its value."""
    for place, word in enumerate(words):
        name, given, value = word.partition("=")
        if f"{name}=" in names:
            yield place, 1 if given else 2, value if given else "".join(words[place + 1 :][:1])
        elif word in names:
            yield place, 1, ""


def _values(words: Sequence[str], option: str) -> list[str]:
    return [value for _, _, value in _options(words, {f"{option}="})]


def _without(words: Sequence[str], names: Collection[str]) -> list[str]:
    """Return the words without some options and their values."""
    gone = {place + i for place, length, _ in _options(words, names) for i in range(length)}
    return [word for place, word in enumerate(words) if place not in gone]
