"""Which statements does a string make, and where?"""

import re
from functools import cache
from typing import Final, NamedTuple

from calibrail.text.abstentions import SOURCES_NAMED, abstains
from calibrail.text.clauses import clauses
from calibrail.text.sentences import Line, line_sentences, lines, sentences_version

#: A longer sentence is no prose and stays whole; it bounds the time of every pattern below.
_LONG: Final = 1000
_LEAD_LONG: Final = 300

_CLOSING = "*_\"'\u201d\u2019)] \t"
_BOLD = re.compile(r"(\*\*|__)[^*_]+\1")

# What opens a statement without being part of it.
_LEAD_IN = re.compile(
    rf"(?:(?:therefore|so|thus|overall|in summary),?\s+)?{SOURCES_NAMED}\s*[,:]\s*"
    r"|(?:sure|certainly|of course|absolutely)(?:,\s*|!\s+)"
    r"|(?:(?:the )?answer|a|response)\s*:\s*"
    r"|here(?:['\u2019]s| is| are)\b[^:.;!?]{0,150}:\s*(?=\S)",
    re.IGNORECASE,
)
# "Passage 2:" says where what follows was found and introduces nothing.
_SOURCE = re.compile(
    r"\W*(?:passage|source|document|context|article) \d+\b[^:]{0,40}:\W*", re.IGNORECASE
)
# Sentences that are said to the reader and state nothing about the world.
_COURTESY = re.compile(
    r"(?:sure(?: thing)?|certainly|of course|absolutely|ok(?:ay)?|alright|great"
    r"|(?:great|good) question|hello|hi|hey|thanks|thank you|you['\u2019]re welcome|good luck|enjoy"
    r"|that['\u2019]s (?:it|all))(?: (?:there|everyone|again))?\s*[!.]+"
    r"|thank(?:s| you) for\b[^:;]*"
    r"|(?:i )?hope (?:this|that|it|these|my)\b[^:;]*\b(?:help\w*|useful|clear)\b[^:;]*"
    r"|(?:please )?(?:let me know|feel free to)\b[^:;]*"
    r"|if you (?:have|need|would like|want)\b[^:;]*"
    r"\b(?:let me know|feel free|(?:happy|glad) to (?:help|assist))\b[^:;]*"
    r"|(?:i['\u2019]?(?:m| am| would be|d be) )?(?:happy|glad) to (?:help|assist)\b[^:;]*"
    r"|i(?:['\u2019]ll| will| can)(?: \w+ly)? (?:help|try|do my best)\b[^:;]*"
    r"|here(?:['\u2019]s| is| are) (?:the|my|your|an?) (?:\w+ )?"
    r"(?:answers?|response|summary|list|explanation|overview)\b[^:;]*",
    re.IGNORECASE,
)


class Claim(NamedTuple):
    """A statement that can be judged by itself, with its place.

    Attributes
    ----------
    text : str
        The characters ``[start:end]`` of the original string, unchanged.
    start, end : int
        Character offsets into the original string, end exclusive.
    lead : str
        For a list item what introduces the list ("The benefits are:"), empty otherwise.
    abstains : bool
        Whether it states that the sources do not hold the answer: nothing they could support.
    """

    text: str
    start: int
    end: int
    lead: str
    abstains: bool


@cache
def claims_version() -> str:
    """Return what pins the result of `claims`: its own version and that of the sentences."""
    return f"calibrail-claims/1 {sentences_version()}"


def claims(text: str) -> list[Claim]:
    r"""Return the statements of a string in order, the smallest that can be judged by themselves.

    Rules of English, and careful ones. Every sentence is a claim, except questions, courtesies
    ("I hope this helps") and lead-ins that end in a colon. A sentence is split at a semicolon or at
    ", and" and ", but" only where a subject with a finite verb follows and another one precedes,
    outside of brackets and quotes, and under no "if", "that" or "said". "Based on the given
    passages," is cut off. Other languages give one claim a sentence.

    >>> [c.text for c in claims("Sure! It was built in 1853, and its tower is 90 m high. Why?")]
    ['It was built in 1853', 'its tower is 90 m high.']
    >>> [(c.lead, c.text) for c in claims("The colours are:\n* Red\n* Blue")]
    [('The colours are:', 'Red'), ('The colours are:', 'Blue')]
    """
    result: list[Claim] = []
    leads: list[_Lead] = []
    all_lines = lines(text)
    for line, below in zip(all_lines, [*all_lines[1:], None], strict=False):
        if _SOURCE.fullmatch(text, line.start, line.end):
            continue
        _close(leads, line)
        lead = leads[-1] if leads and line.kind == "item" else _NO_LEAD
        parts = list(line_sentences(text, line))
        opener = parts.pop() if _introduces(text, line, below) else None
        for part in parts:
            if not _states_nothing(part.text):
                start = _without_lead_in(text, part.start, part.end)
                for first, last in clauses(text[start : part.end]):
                    piece = text[start + first : start + last]
                    abstaining = lead.abstains or abstains(piece)
                    result.append(Claim(piece, start + first, start + last, lead.text, abstaining))
        if opener:
            start = _without_lead_in(text, opener.start, line.end)
            piece = text[start : line.end]
            if abstaining := abstains(piece):
                result.append(Claim(piece, start, line.end, lead.text, abstaining))
            _open(leads, line, piece, abstaining=abstaining)
    return result


class _Lead(NamedTuple):
    indent: int
    text: str
    abstains: bool


_NO_LEAD: Final = _Lead(-1, "", False)


def _close(leads: list[_Lead], line: Line) -> None:
    """Drop the lead-ins that a line no longer stands under."""
    if line.kind == "item":
        while leads and leads[-1].indent >= line.indent:
            leads.pop()
    elif not line.indent:
        leads.clear()


def _open(leads: list[_Lead], line: Line, text: str, *, abstaining: bool) -> None:
    """Add a lead-in; one inside a list is read after that of the list."""
    outer = leads[-1] if leads else _NO_LEAD
    if len(text) > _LEAD_LONG:
        text = ""
    elif outer.text and len(outer.text) + len(text) < _LEAD_LONG:
        text = f"{outer.text} {text}"
    indent = line.indent if line.kind == "item" else -1
    leads.append(_Lead(indent, text, abstaining or outer.abstains))


def _introduces(text: str, line: Line, below: Line | None) -> bool:
    """Return whether a line ends in a colon or is the heading of what is below it."""
    whole = text[line.start : line.end]
    if whole.rstrip(_CLOSING).endswith((":", "\uff1a")):
        return True
    bold = below and below.kind == "item" and line.kind == "plain" and _BOLD.fullmatch(whole)
    return bool(bold) or (below is not None and line.kind == "heading")


def _states_nothing(sentence: str) -> bool:
    bare = sentence.rstrip("*_) \t")
    if bare.endswith(("?", "?!", "!?", "\uff1f", "\u061f", "\u037e")):
        return True
    if bare[0] in '"\u201c' and bare.endswith(('?"', "?\u201d")):
        return True
    return len(sentence) <= _LONG and _COURTESY.fullmatch(sentence) is not None


def _without_lead_in(text: str, start: int, end: int) -> int:
    """Return where a statement starts behind what only introduces it."""
    while match := _LEAD_IN.match(text, start, end):
        rest = text[match.end() : min(end, match.end() + _LONG)]
        if not any(letter.isalnum() for letter in rest):
            break
        start = match.end()
    return start
