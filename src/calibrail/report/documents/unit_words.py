"""What becomes of answers, in words, where they are flagged, and where sentences are removed?"""

from dataclasses import dataclass
from typing import Final

from calibrail.report.blocks import Json


@dataclass(frozen=True, slots=True)
class UnitWords:
    """How a report names its classes, and what a threshold does to them.

    Attributes
    ----------
    classes : pair of str
        What the score is to tell apart: those to be caught first.
    caught, catch, catches : str
        What is wanted of hallucinated answers.
    by_score : str
        The same of the score alone, before answers are trimmed or sent to review.
    alarms, harm, flags, wrongly : str
        What faithful ones suffer, and the same in one word.
    acts, acted : str
        What is done from the threshold on.
    """

    classes: tuple[str, str]
    caught: str
    catch: str
    catches: str
    by_score: str
    alarms: str
    harm: str
    flags: str
    wrongly: str
    acts: str
    acted: str


_ANSWERS: Final = UnitWords(
    classes=("hallucinated", "faithful"),
    caught="caught",
    catch="catch",
    catches="catches",
    by_score="caught",
    alarms="false alarms",
    harm="alarms",
    flags="flags",
    wrongly="wrongly flagged",
    acts="flags",
    acted="flagged",
)
_SENTENCES: Final = UnitWords(
    classes=("unsupported", "supported"),
    caught="freed",
    catch="free",
    catches="frees",
    by_score="freed by the score alone",
    alarms="touched",
    harm="touched",
    flags="touches",
    wrongly="touched though it is faithful",
    acts="removes",
    acted="removed",
)


def by_sentence(content: Json) -> bool:
    """Return whether a report, a certificate or a guardrail is about removing sentences."""
    return "sentence" in (content.get("unit"), (content.get("promise") or {}).get("unit"))


def unit_words(content: Json) -> UnitWords:
    """Return the words for a report, a certificate or a guardrail."""
    return _SENTENCES if by_sentence(content) else _ANSWERS
