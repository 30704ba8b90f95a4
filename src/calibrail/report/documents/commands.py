"""How does the command of a run read again, as the command of the next step?"""

import shlex
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from calibrail.report.blocks import Json

#: Options that name detectors.
_DETECTORS: Final = ("--score", "--score-column", "--higher")
#: Options of calibrate that compare does not take: with a value, and without one.
_VALUED: Final = ("--by", "--min-n", "--beta", "--risk", "--target")
_FLAGS: Final = ("--clustered", "--no-clustered", "--allow-flag-all")


def for_one(content: Json, name: str) -> str:
    """Return the command that calibrates one detector of a comparison, as it was compared.

    Its folder stands beside that of the comparison, ``RUN``. Nothing is returned for a comparison
    that no command made, or that did not name the detector.
    """
    words = _words(content)
    if words[1:2] != ["compare"]:
        return ""
    values = {option: _values(words, option) for option in _DETECTORS}
    if name in values["--score-column"]:
        chosen = ["--score-column", name, "--higher", *values["--higher"][-1:]]
    elif name in values["--score"]:
        chosen = ["--score", name]
    else:
        return ""
    rest = shlex.join([*_without(words, _DETECTORS)[2:], *chosen])
    folder = "".join(letter if letter.isalnum() else "-" for letter in name)[:40].strip("-")
    return f"calibrail calibrate {rest} -o RUN-{folder}"


def for_several(content: Json) -> str:
    """Return the command that compares a run's detector with others, on the same data and split.

    NAME stands for these others; DATA where no command made the run.
    """
    words = _words(content)
    if words[1:2] != ["calibrate"]:
        return "calibrail compare DATA --score NAME --score NAME"
    kept = _without(words, _VALUED, _FLAGS)[2:]
    return f"calibrail compare {shlex.join(kept)} --score NAME -o RUN-compared"


def turned(content: Json) -> str:
    """Return a run's command with the other direction of its column; nothing without one."""
    words = _words(content)
    other = {"hallucinated": "faithful", "faithful": "hallucinated"}
    given = _values(words, "--higher")
    if words[1:2] != ["calibrate"] or not given or given[-1] not in other:
        return ""
    kept = _without(words, ("--higher",))
    return f"{shlex.join([*kept, '--higher', other[given[-1]]])} -o RUN"


def _words(content: Json) -> list[str]:
    """Return the command that made a result, word by word."""
    return shlex.split(content["reproduce"].get("command") or "")


def _options(words: Sequence[str], names: Collection[str]) -> Iterator[tuple[int, int, str]]:
    """Yield where each option with a value starts and how many words it takes, and its value."""
    for place, word in enumerate(words):
        name, given, value = word.partition("=")
        if name in names:
            yield place, 1 if given else 2, value if given else "".join(words[place + 1 :][:1])


def _values(words: Sequence[str], option: str) -> list[str]:
    return [value for _, _, value in _options(words, (option,))]


def _without(
    words: Sequence[str], valued: Collection[str], flags: Collection[str] = ()
) -> list[str]:
    """Return the words without some options and their values."""
    gone = {place + i for place, length, _ in _options(words, valued) for i in range(length)} | {
        place for place, word in enumerate(words) if word in flags
    }
    return [word for place, word in enumerate(words) if place not in gone]
