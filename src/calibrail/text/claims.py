"""Claims, clauses, abstentions."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice, pairwise
from typing import Final, NamedTuple

from calibrail.text.sentences import TextLine, line_sentences, lines, sentences_version
from calibrail.text.words import by_edition, patterns, remembered, rules_version

#: A longer sentence is no prose: it stays whole, and is taken for no abstention and no courtesy. It
#: bounds the time of every pattern below.
_LONG: Final = 1000

_WORDING: Final = patterns("claims")
_ABSTAINS = re.compile(_WORDING["abstains"], re.IGNORECASE)
# Every way to say it holds one of these: a quick look first.
_NEGATION = re.compile(_WORDING["negation"], re.IGNORECASE)
_ASIDE = re.compile(r"\([^()]*\)")
# "Although the passages do not mention its height, it has three arches" states something.
_CONCESSION = re.compile(_WORDING["concession"], re.IGNORECASE)


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


# Where main clauses meet; the words up to the subject belong to neither of them.
_JOINT = re.compile(_WORDING["joint"], re.IGNORECASE)
# A comma before a year is part of a date.
_TOKEN = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|,(?!\s\d{4}\b)|[^\w\s,]")
_WORDS: Final = {name: frozenset(text.split()) for name, text in patterns("clauses").items()}
_MODAL, _PAST, _PRONOUN = _WORDS["modal"], _WORDS["past"], _WORDS["pronoun"]
_DETERMINER, _RELATIVE, _ADVERB = _WORDS["determiner"], _WORDS["relative"], _WORDS["adverb"]
_FINITE = _MODAL | _WORDS["finite"]
# Under these a clause is not stated, and what follows an "and" may stand under them, too.
_SUBORDINATING = _WORDS["subordinating"]
# Where these open the sentence, what they say may hold for the second clause, too.
_OPENING = _WORDS["opening"]
_NO_VERB = _RELATIVE | _WORDS["no_verb"]
_NO_NOUN = _PRONOUN | _RELATIVE | _SUBORDINATING | _WORDS["no_noun"]
_IDIOM = re.compile(_WORDING["idiom"], re.IGNORECASE)


def clauses(sentence: str) -> Iterator[tuple[int, int]]:
    """Yield the places of the main clauses of a sentence, itself where it has just one.

    A sentence is split at a semicolon, ", and" or ", but" only where a subject with a finite verb
    follows and another precedes, outside of brackets and quotes, and neither can be part of an
    enumeration or stand under an "if", "that" or "said". An abstention is cut off at an "although",
    too, and needs no subject ("It names the river, but does not mention its length").

    >>> text = "It was built in 1853, and its tower is 90 m high."
    >>> [text[start:end] for start, end in clauses(text)]
    ['It was built in 1853', 'its tower is 90 m high.']
    """
    joints = _open_joints(sentence) if len(sentence) <= _LONG else []
    borders = [*(joint.start() for joint in joints), len(sentence)]
    first = 0
    for joint, (_, following) in zip(joints, pairwise(borders), strict=True):
        left = sentence[first : joint.start()].rstrip()
        if abstains(sentence[joint.end() : following]):
            before = _before(left)
            stands = len(before) > 2 and before[0].lower() not in _SUBORDINATING
        elif joint["word"] and joint["word"].lower().endswith("though"):
            stands = False
        else:
            stands = _both_stand(left, sentence[joint.end() :], semicolon=not joint["word"])
        if stands:
            yield first, first + len(left)
            first = joint.end()
    yield first, len(sentence)


def _open_joints(sentence: str) -> list[re.Match[str]]:
    """Return the joints outside of brackets and quotes."""
    depth, quoted, at = 0, False, 0
    result = []
    for joint in _JOINT.finditer(sentence):
        for letter in sentence[at : joint.start()]:
            quoted ^= letter == '"'
            depth += (letter in "([{\u201c\u00ab") - (letter in ")]}\u201d\u00bb")
        at = joint.start()
        if not quoted and not depth:
            result.append(joint)
    return result


def _tokens(clause: str) -> Iterator[str]:
    matches = _TOKEN.finditer(_ASIDE.sub(" ", clause.replace("\u2019", "'")))
    return (match[0] for match in matches)


def _before(left: str) -> list[str]:
    return list(_tokens(_IDIOM.sub("", left, count=1)))


def _both_stand(left: str, after: str, *, semicolon: bool) -> bool:
    # The first words of what follows decide most often: a sentence full of semicolons would be read
    # once for each of them.
    rest = _tokens(after)
    right = list(islice(rest, 8))
    pronoun = _starts_with_pronoun(right)
    if not pronoun and not _starts_with_noun(right, rest, bare=semicolon):
        return False
    before = [token.lower() for token in _before(left)]
    if _SUBORDINATING.intersection(before) or ("not", "only") in pairwise(before):
        return False
    if pronoun:
        weak = not _MODAL.intersection(token.lower() for token in right[1:3]) and any(
            token in _PAST or token.endswith("ed") for token in before[1:]
        )
        return weak or _has_main_verb(before)
    openers = {*before[:1], *(token for comma, token in pairwise(before) if comma == ",")}
    if _OPENING & openers:
        return False
    # Nouns may be the rest of an enumeration ("lakes, rivers, and the sea are"): the words since
    # the last comma must hold a verb themselves.
    since = len(before) - before[::-1].index(",") if "," in before else 0
    return _has_main_verb(before[since:])


def _has_main_verb(tokens: list[str]) -> bool:
    if tokens and tokens[0] in _PRONOUN:
        return len(tokens) > 1
    relative, previous = False, ""
    for token in tokens:
        if token in _RELATIVE:
            relative = True
        elif token == ",":
            relative = False
        elif not relative and previous != "to" and (_is_finite(token) or _contracted(token)):
            return True
        previous = token
    return False


def _starts_with_pronoun(tokens: list[str]) -> bool:
    words = [token.lower() for token in tokens[:4] if not token.lower().endswith("ly")]
    if len(words) < 2:
        return False
    if _contracted(words[0]):
        return True
    verb = words[2] if len(words) > 2 and words[1] in _ADVERB else words[1]
    if words[0] == "there":
        return _is_finite(verb)
    return words[0] in _PRONOUN and verb[0].isalpha() and verb not in _NO_VERB


def _starts_with_noun(tokens: list[str], rest: Iterable[str], *, bare: bool) -> bool:
    if not tokens or not (bare or tokens[0].lower() in _DETERMINER or tokens[0][0].isupper()):
        return False
    for index, token in enumerate(tokens):
        word = token.lower()
        if index and _is_finite(word):
            return any(word[0].isalnum() for word in chain(tokens[index + 1 :], rest))
        if not word[0].isalnum() or word in _NO_NOUN:
            return False
    return False


def _is_finite(word: str) -> bool:
    if word.endswith("n't"):
        return word[:-3] in _FINITE or word in ("can't", "won't")
    return word in _FINITE


def _contracted(word: str) -> bool:
    subject, _, verb = word.partition("'")
    return (subject in _PRONOUN or subject == "that") and verb in ("s", "re", "ve", "d", "ll", "m")


#: A longer lead-in is left out.
_LEAD_LONG: Final = 300

_CLOSING = "*_\"'\u201d\u2019)] \t"
_BOLD = re.compile(r"(\*\*|__)[^*_]+\1")

# What opens a statement without being part of it.
_LEAD_IN = re.compile(_WORDING["lead_in"], re.IGNORECASE)
# "Passage 2:" says where what follows was found and introduces nothing.
_SOURCE = re.compile(_WORDING["passage"], re.IGNORECASE)
# Sentences that are said to the reader and state nothing about the world.
_COURTESY = re.compile(_WORDING["courtesy"], re.IGNORECASE)


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


@remembered(None)
def claims_version() -> str:
    """Return what pins the result of `claims`: its own version and that of the sentences."""
    return f"{rules_version('claims')} {sentences_version()}"


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
        # Drop the lead-ins that the line no longer stands under.
        if line.kind == "item":
            while leads and leads[-1].indent >= line.indent:
                leads.pop()
        elif not line.indent:
            leads.clear()
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


def _open(leads: list[_Lead], line: TextLine, text: str, *, abstaining: bool) -> None:
    """Add a lead-in; one inside a list is read after that of the list."""
    outer = leads[-1] if leads else _NO_LEAD
    if len(text) > _LEAD_LONG:
        text = ""
    elif outer.text and len(outer.text) + len(text) < _LEAD_LONG:
        text = f"{outer.text} {text}"
    indent = line.indent if line.kind == "item" else -1
    leads.append(_Lead(indent, text, abstaining or outer.abstains))


def _introduces(text: str, line: TextLine, below: TextLine | None) -> bool:
    """Return whether a line ends in a colon or is the heading of what is below it."""
    whole = text[line.start : line.end]
    if whole.rstrip(_CLOSING).endswith((":", "\uff1a")):
        return True
    bold = below and below.kind == "item" and line.kind == "plain" and _BOLD.fullmatch(whole)
    return bool(bold) or (below is not None and line.kind == "heading")


def _states_nothing(sentence: str) -> bool:
    bare = sentence.rstrip(by_edition("*_) \t", "*_) \t\uff09\u300d\u300f"))
    asks = bare.endswith(("?", "?!", "\uff1f", "\u061f", "\u037e"))
    asks |= bare[:1] in ('"', "\u201c") and bare.endswith(('?"', "?\u201d"))
    return asks or (len(sentence) <= _LONG and _COURTESY.fullmatch(sentence) is not None)


def _without_lead_in(text: str, start: int, end: int) -> int:
    """Return where a statement starts behind what only introduces it."""
    while match := _LEAD_IN.match(text, start, end):
        rest = text[match.end() : min(end, match.end() + _LONG)]
        if not any(letter.isalnum() for letter in rest):
            break
        start = match.end()
    return start
