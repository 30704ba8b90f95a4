"""Does a statement say that the sources do not hold the answer?"""

import re
from typing import Final

#: A longer text is taken for no abstention; it bounds the time of the pattern.
_LONG: Final = 1000

_SOURCE = (
    r"(?:passages?|texts?|contexts?|documents?|sources?|articles?|excerpts?|snippets?"
    r"|(?:provided|given|available) information)"
)
#: How a statement names its sources ("Based on the given passages"), as a pattern.
SOURCES_NAMED: Final = (
    rf"(?:based (?:up)?on|according to|as per) (?:(?:all|the|these|this|those|given|provided"
    rf"|above|retrieved|following|available) )*{_SOURCE}(?: (?:\d+|and|provided|given|above))*"
)
_IN_SOURCE = rf"(?:in|by|from) (?:\w+ ){{0,3}}?{_SOURCE}\b"
_NOT = (
    r"(?:do|does|did)(?: not|n't)"
    r"(?: (?:also|actually|directly|explicitly|specifically|clearly|seem to|appear to))*"
)
_HOLD = (
    r"(?:provide|contain|mention|include|give|specify|state|address|discuss|offer|describe|indicate"
    r"|say|answer|explain|cover|list|have)"
)
_FACTS = (
    r"(?:information|details?|instructions?|guidance|guidelines|answers?|mention|explanations?"
    r"|clarification|clarity|recommendations?|issues?|questions?|specifics)"
)
_FIND = r"(?:answer|determine|provide|find|locate|confirm|verify|say|tell)"
_HELD = (
    r"(?:mentioned|stated|specified|provided|given|discussed|addressed|described|listed|included"
    r"|found|available|covered|answered|indicated)"
)
_NONE = r"\bthere(?:'s| is| are| was| were) no"
_HARD = r"(?:not possible|impossible|difficult|unclear|not clear)"
_ABSTAINS = re.compile(
    "|".join(
        [
            r"\bunable to answer\b",
            rf"\bi(?:'m| am) (?:unable|not able) to {_FIND}\b",
            rf"\bi (?:cannot|can't|could not) {_FIND}\b",
            r"^(?:(?:i'm )?sorry,? )?(?:but )?i (?:do not|don't) know\b",
            r"^(?:(?:i'm )?sorry,? )?(?:but )?i (?:do not|don't) have (?:\w+ ){0,2}information\b",
            rf"\b{_SOURCE}(?: \d+(?: (?:and|or|&) \d+)?)?(?: (?:provided|given|above))?"
            rf" {_NOT} {_HOLD}\b",
            # Without its subject, as the second half of a sentence about a passage.
            rf"^(?:(?:but|and|however|additionally|also|unfortunately),? )*(?:it |they )?"
            rf"{_NOT} {_HOLD} (?:\w+ ){{0,3}}?{_FACTS}\b",
            rf"\bno (?:\w+ )?{_SOURCE} (?:\w+ )?{_HOLD}s?\b",
            rf"\bnone of the (?:\w+ )?{_SOURCE}\b",
            rf"{_NONE} (?:\w+ ){{0,2}}?(?:information|mention|details)\b",
            rf"{_NONE} (?:\w+ ){{1,6}}?{_IN_SOURCE}",
            r"\b(?:not (?:\w+ )?enough|insufficient) information\b",
            rf"\bnot (?:\w+ly )?{_HELD} (?:\w+ ){{0,3}}?{_IN_SOURCE}",
            r"\b(?:is|are|was|were)(?: not|n't) (?:\w+ly )?(?:mentioned|specified)\W*$",
            r"\bquestion (?:cannot|can't|could not) be answered\b",
            rf"\b(?:cannot|can't|{_HARD})\b(?: \w+){{0,12}}? {_IN_SOURCE}",
            rf"{SOURCES_NAMED},? it is {_HARD}\b",
        ]
    ),
    re.IGNORECASE,
)
# Every way to say it holds one of these: a quick look first.
_NEGATION = re.compile(
    r"\bno|n't|unable|cannot|insufficient|impossible|difficult|unclear", re.IGNORECASE
)
_ASIDE = re.compile(r"\([^()]*\)")
# "Although the passages do not mention its height, it has three arches" states something.
_CONCESSION = re.compile(r"(?:even though|while|although|though)\b[^,]*,\s*", re.IGNORECASE)


def abstains(statement: str) -> bool:
    """Return whether a statement says that the sources do not hold the answer.

    Rules of English, over how language models put it. What stands in brackets does not count.

    >>> abstains("The passages do not mention its height.")
    True
    >>> abstains("The Constitution does not mention its height.")
    False
    """
    if len(statement) > _LONG:
        return False
    plain = statement.replace("\u2019", "'")
    if not _NEGATION.search(plain):
        return False
    plain = " ".join(_ASIDE.sub(" ", plain).split())
    return _ABSTAINS.search(_CONCESSION.sub("", plain, count=1)) is not None
