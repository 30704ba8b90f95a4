"""Which main clauses of a sentence can stand alone?"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice, pairwise
from typing import Final

from calibrail.text.abstentions import abstains

#: A longer sentence is no prose and stays whole; it bounds the time, too.
_LONG: Final = 1000


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Where main clauses meet; the words up to the subject belong to neither of them.
_JOINT = re.compile(
    r"(?:,\s+(?P<word>and|but|although|though)|;(?:\s+(?:and|but))?)\s+"
    r"(?:(?:however|therefore|thus|moreover|furthermore|additionally|also|instead|similarly|then"
    r"|consequently|later|still|as a result|in addition|in contrast|on the other hand),?\s+)*",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"\([^()]*\)")
# A comma before a year is part of a date.
_TOKEN = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|,(?!\s\d{4}\b)|[^\w\s,]")
_MODAL = _set("can could will would may might must shall should cannot")
_FINITE = _MODAL | _set("is are was were has have had does do did")
_PAST = _set(
    "became began came found fought gave got grew held knew led left lost made met ran sang saw"
    " sold spent stood taught took went won wrote"
)
_PRONOUN = _set("i he she it we you they there")
_DETERMINER = _set(
    "the a an this these those his her its their our my your some many most all each every both"
    " another one only several no two three four five six"
)
_RELATIVE = _set("which who whom whose where that what how why")
# Under these a clause is not stated, and what follows an "and" may stand under them, too.
_SUBORDINATING = _set(
    "if unless whether when whenever because although though while whereas until once that lest"
    " either neither said says say states stated thinks think thought believes believe claims"
    " claimed argues argued suggests suggested reports reported"
)
# Where these open the sentence, what they say may hold for the second clause, too.
_OPENING = _set(
    "as since after before given in on at during for under within among throughout with"
)
_ADVERB = _set("also then still often never")
_NO_VERB = _RELATIVE | _set("and or to of in on at for with as both all")
_NO_NOUN = _PRONOUN | _RELATIVE | _SUBORDINATING | _set("to than as")
_IDIOM = re.compile(
    r"(?:for (?:example|instance)|in (?:addition|contrast|fact|summary|conclusion|short|particular)"
    r"|on the other hand|at the same time),\s*",
    re.IGNORECASE,
)


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
