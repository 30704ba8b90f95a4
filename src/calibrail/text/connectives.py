"""Which words tie a sentence to those before it?

Rules of English, over how language models write answers.
"""

import re
from typing import Final, NamedTuple

_WITH_COMMA: Final = (
    r"however|nevertheless|nonetheless|still|yet|conversely|in contrast|by contrast"
    r"|on the contrary|on the other hand|even so|that said|having said that|instead|rather"
    r"|alternatively|(?:despite|in spite of|because of|due to|following|after|before) (?:this|that)"
    r"|moreover|furthermore|additionally|also|besides|plus|again|what(?:'|\u2019| i)s more"
    r"|(?:in addition|on top of|in addition to|besides)(?: (?:this|that|these|those))?"
    r"|likewise|similarly|in the same way|at the same time|therefore|thus|hence|so|consequently"
    r"|accordingly|as a (?:result|consequence)|as such|in turn|for (?:this|that|these) reasons?"
    r"|for (?:example|instance)|in particular|specifically|in fact|indeed|in other words|namely"
    r"|that is(?: to say)?|to illustrate|more (?:specifically|precisely|generally)"
    r"|then|next|finally|last|lastly|afterwards?|subsequently|meanwhile|later|and|but|or"
    r"|at (?:this|that) point"
)
#: Those that stand without a comma, too, before a subject.
_BEFORE_SUBJECT: Final = (
    r"however|nevertheless|nonetheless|yet|instead|moreover|furthermore|additionally|besides"
    r"|likewise|similarly|therefore|thus|hence|so|consequently|accordingly|as a result|in addition"
    r"|on the other hand|in contrast|for (?:example|instance)|next|finally|lastly|afterwards?"
    r"|subsequently|meanwhile"
)
#: And those that stand before anything.
_BEFORE_ANY: Final = r"and|but|or|also|then"
_ORDINALS: Final = (
    r"(?P<first>first(?:ly| of all)?|to (?:begin|start)(?: with)?)|(?P<second>second(?:ly)?)"
    r"|(?P<third>third(?:ly)?)|(?P<fourth>fourth(?:ly)?)|(?P<fifth>fifth(?:ly)?)"
    r"|(?P<sixth>sixth(?:ly)?)|(?P<seventh>seventh(?:ly)?)|(?P<eighth>eighth(?:ly)?)"
    r"|(?P<ninth>ninth(?:ly)?)|(?P<tenth>tenth(?:ly)?)"
)
_HANDS: Final = r"(?P<one>on (?:the )?one hand)|(?P<other>on the other(?: hand)?)"
_SUBJECT: Final = (
    r"(?=(?:the|a|an|it|he|she|they|we|you|this|that|these|those|there|his|her|its|their|our|your"
    r"|my|some|many|most|all|each|every|no|one|two|in|on|at|by)\b|(?-i:[A-Z0-9]))"
)
#: Where a dropped word may be set off by itself: "**However**, it is old."
_EMPHASIS: Final = r"(?P<mark>\*\*|__|\*|_)?"


def _leading(words: str) -> str:
    return rf"{_EMPHASIS}(?:{words})(?:(?(mark)(?:,?(?P=mark),?|,(?P=mark))\s+|,\s+))"


_CONNECTIVE = re.compile(
    rf"{_leading(_WITH_COMMA)}|(?:{_BEFORE_SUBJECT})\s+{_SUBJECT}|(?:{_BEFORE_ANY})\s+(?=[\w`*])",
    re.IGNORECASE,
)
_NUMBERED = re.compile(
    rf"{_leading(f'{_ORDINALS}|{_HANDS}')}|(?:{_ORDINALS.replace('?P<', '?P<bare_')})\s+{_SUBJECT}",
    re.IGNORECASE,
)
#: "The second reason": it cannot be taken out of its sentence. In small letters: no "Second World".
_NUMBERED_NOUN = re.compile(
    r"(?:[Tt]he|[Aa]|[Aa]nother)\s+(?:(?P<first>first)|(?P<second>second)|(?P<third>third)"
    r"|(?P<fourth>fourth)|(?P<fifth>fifth)|(?P<sixth>sixth)|(?P<seventh>seventh)"
    r"|(?P<eighth>eighth)|(?P<ninth>ninth)|(?P<tenth>tenth))\b"
)
_PLACES: Final = {
    "first": 1,
    "second": 2,
    "third": 3,
    "fourth": 4,
    "fifth": 5,
    "sixth": 6,
    "seventh": 7,
    "eighth": 8,
    "ninth": 9,
    "tenth": 10,
}
#: Words of an introduction that take back, or doubt, what it introduces.
_DENIES = re.compile(
    r"\b(?:not|no|none|nobody|never|neither|nor|without|cannot|\w+n['\u2019]t|avoid\w*|except\w*"
    r"|myths?|misconceptions?|misunderstandings?|errors?|mistakes?|mistaken\w*|lies|hoax\w*|fake"
    r"|false\w*|untrue|incorrect\w*|inaccura\w+|wrong\w*|unproven|unlikely|unsupported"
    r"|contrary|contradict\w*|debunk\w*|disput\w+|doubt\w*|refut\w+|den(?:y|ies|ied)|reject\w*"
    r"|alleg\w+|supposed\w*|claim\w*|rumou?r\w*|believ\w+|beliefs?|pretend\w*)\b",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r",\s+(?:however|therefore|moreover|furthermore|consequently|nevertheless|nonetheless|thus"
    r"|though|in turn|in contrast|by contrast|on the other hand|for (?:example|instance)),(?=\s)"
    r"|,\s+(?:however|though|nevertheless|nonetheless)(?=[.!]\W*$)",
    re.IGNORECASE,
)
#: Behind one of these an aside ties clauses of one sentence.
_CLAUSE: Final = re.compile(r";|:\s|,\s+(?:and|but|while|whereas|although|which)\b", re.IGNORECASE)

_VERB: Final = (
    r"(?:is|are|was|were|has|have|had|can|could|will|would|may|might|must|should|does|do|did)\b"
)
#: "That same year", "Two days later": a time that is counted from the sentence before.
_TIME: Final = (
    r"(?:year|month|week|weekend|day|night|morning|afternoon|evening|spring|summer|autumn|winter"
    r"|season|decade|century|period)\b"
)
_THEN: Final = (
    rf"(?:(?:later|earlier) )?(?:(?:in|on|by|during|from|since|until|before|after) )?"
    rf"(?:that|the same|that same|this same|the (?:following|next|previous|preceding)) {_TIME}"
    rf"|during this (?:time\b|{_TIME})|(?:at|by|during|since|until) that time\b"
    r"|(?:a|an|one|two|three|four|five|six|seven|eight|nine|ten|several|some|many|(?:a|just a) few"
    r"|\d+) (?:year|month|week|day|hour|minute|decade)s? (?:later|earlier|afterwards?)\b"
    r"|(?:ever since|since then|by then|until then|before then|from then on|thereafter)\b"
)
#: A verb behind "This", by its ending, and what else ends so: "This lowers it", "This species".
_THIRD_PERSON: Final = (
    r"(?-i:(?!(?:series|species|news|lens|gas|sales|sports)\b)[a-z]*[a-hj-rtv-z]s)\b"
)
_LEANS = re.compile(
    rf"(?:(?:in|for|of|from|to|with|by|as for|unlike) )?the (?:latter|former)"
    rf"(?: (?:{_VERB}|case|one|two)|[,.;:'\u2019])"
    r"|both\b(?!.*\band\b)|neither\b(?!.*\bnor\b)|either\b(?!.*\bor\b)"
    r"|(?:each|all|some|most|many|none|one|two|three|several|few|both|neither|either|any)"
    r" of (?:them|these|those)\b|of (?:these|those)\b"
    rf"|the (?:two|three|four|others?|first(?: one)?) {_VERB}|the first(?: one)?,"
    r"|the (?:other|remaining) (?:one|two|three|four|five|six)\b"
    r"|otherwise\b|nor\b|vice versa\b|if (?:so|not)\b|in (?:this|that|such|either|these) cases?\b"
    r"|to do (?:this|that|so)\b|(?:in|by) doing (?:this|that|so)\b"
    r"|(?:once|when|after|if) (?:this|that) (?:is|has|was|happens|occurs)\b"
    rf"|the same (?:is|goes|applies|holds|was|can|may)\b|so {_VERB}"
    rf"|{_THEN}|(?:this|that) (?:also |then |in turn )?{_THIRD_PERSON}"
    rf"|(?:this|that|these|those) (?:{_VERB}|(?:also )?(?:means?|makes?|includes?|helps?|leads?"
    r"|causes?|allows?|ensures?|suggests?|indicates?|explains?|refers?|shows?|depends?|involves?"
    r"|results?|requires?|happens?|occurs?|provides?|creates?|gives?|led|made|meant|caused"
    r"|allowed|resulted)\b)",
    re.IGNORECASE | re.DOTALL,
)
_ANSWERS = re.compile(
    r"(?:yes|no|because|it|they|he|she|that|this|these|those|not|none|both|neither)\b(?!-)",
    re.IGNORECASE,
)
_QUOTE = re.compile("[\"'\u201c\u2018\u00ab\u201e]")


class Numbered(NamedTuple):
    """A place in an enumeration, as the first words of a sentence have it.

    Attributes
    ----------
    place : int
        1 for "First", 2 for "Second" and so on.
    kind : str
        "hand" for "on the one hand", "ordinal" otherwise.
    length : int
        Characters that can be dropped; 0 where the number is a part of the sentence ("The second
        reason is").
    """

    place: int
    kind: str
    length: int


def connective(sentence: str) -> int:
    """Return how many characters at the beginning tie it to what precedes, and can be dropped.

    >>> sentence = "However, in addition, the bridge is old."
    >>> sentence[connective(sentence):]
    'the bridge is old.'
    """
    length = 0
    while (match := _CONNECTIVE.match(sentence, length)) and match.end() < len(sentence):
        length = match.end()
    return length


def numbered(sentence: str) -> Numbered | None:
    """Return its place in an enumeration; None where it names none.

    >>> numbered("Second, wait."), numbered("The second reason is cost.")
    (Numbered(place=2, kind='ordinal', length=8), Numbered(place=2, kind='ordinal', length=0))
    """
    for pattern in (_NUMBERED, _NUMBERED_NOUN):
        match = pattern.match(sentence)
        if match is None or match.end() == len(sentence):
            continue
        names = {name.removeprefix("bare_") for name, text in match.groupdict().items() if text}
        length = match.end() if pattern is _NUMBERED else 0
        if names & {"one", "other"}:
            return Numbered(1 if "one" in names else 2, "hand", length)
        return Numbered(next(_PLACES[name] for name in names if name in _PLACES), "ordinal", length)
    return None


def aside(sentence: str) -> tuple[int, int] | None:
    """Return the place of an "however" within or behind it; None where there is none.

    >>> sentence = "The bridge, however, is old."
    >>> start, end = aside(sentence)
    >>> sentence[:start] + sentence[end:]
    'The bridge is old.'
    """
    match = _ASIDE.search(sentence)
    if match is None or _CLAUSE.search(sentence, 0, match.start()):
        return None
    return match.span()


def leans(sentence: str, before: str) -> bool:
    """Return whether a sentence does not stand without the one before it.

    It refers to it by its first words ("The latter", "Otherwise", "This means"), answers its
    question, or is a quotation that begins with a connective.

    Parameters
    ----------
    sentence, before : str
        The sentence and the one before it.

    >>> leans("Both are old.", "There are two bridges."), leans("Both A and B are old.", "Yes.")
    (True, False)
    """
    if _LEANS.match(sentence, connective(sentence)):
        return True
    if before.rstrip().endswith("?") and _ANSWERS.match(sentence):
        return True
    quote = _QUOTE.match(sentence)
    return quote is not None and connective(sentence[quote.end() :]) > 0


def denies(sentence: str) -> bool:
    """Return whether a sentence takes back or doubts something, so that what it introduces may not.

    >>> denies("The following statements are myths:"), denies("Three reasons:")
    (True, False)
    """
    return _DENIES.search(sentence) is not None
