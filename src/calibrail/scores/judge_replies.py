"""Replies of a judge: verdicts, probabilities, grades, ratings.

A reply counts only where nothing but its verdict can have been meant. What a key, a question, a
negation, a number or the other verdict stands beside is undefined.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final, Self

from calibrail.errors import InputError
from calibrail.models.llm.chat import ChatAnswer, Position
from calibrail.scores.base import DetectorFailure
from calibrail.text.words import by_edition, edition, lazily_compiled, patterns

FAITHFUL: Final = "faithful"
HALLUCINATION: Final = "hallucination"

REFUSED: Final = "the judge refused to answer"
CUT: Final = "the judge's reply ended before its verdict; allow more with max_tokens"
UNREADABLE: Final = "the judge's reply is neither faithful nor hallucination"
NO_GRADE: Final = (
    f'the judge\'s reply is no JSON object with a number from 0 to 1 under "{HALLUCINATION}"'
)
NO_RATING: Final = "the judge's reply is no grade of its scale"
NO_LOGPROBS: Final = DetectorFailure(
    "the endpoint gave no log-probabilities; use mode=votes or mode=graded"
)
BAD_LOGPROBS: Final = "the endpoint's log-probabilities are wrong"
NEITHER: Final = f"{BAD_LOGPROBS}: neither verdict is among the tokens at its place"

#: How far log-probabilities may be from those of a distribution, by rounding.
_SLACK: Final = 1e-3

#: Least probability that tokens which are not listed are taken to have: a sum's rounding.
_LEAST_LEFT: Final = 1e-6

#: Letters from which on a word may be more than one token.
_SHORT: Final = 4

#: Characters of a reply that are quoted.
_QUOTED: Final = 80


class UnreadReply(str):
    """Why a reply has no value, with the reply; ``kind`` is why without it, by which one counts."""

    kind: str


def unread(kind: str, text: str) -> UnreadReply:
    r"""Return why a reply has no value: of what kind it is, and how it begins.

    >>> unread("no verdict", "Let me see.\n\x1b[2JIt")
    'no verdict: "Let me see. [2JIt"'
    """
    why = UnreadReply(by_edition(kind, f"{kind}: {quoted(text)}"))
    why.kind = kind
    return why


def quoted(text: str) -> str:
    """Return how a reply begins, between quotation marks, without line breaks and controls."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text[:1_000]).split())
    return f'"{plain if len(plain) <= _QUOTED else f"{plain[:_QUOTED]}..."}"'


_WORDING: Final = patterns("replies")
_SAYS: Final = {name: lazily_compiled(text, re.IGNORECASE) for name, text in _WORDING.items()}
_MARKUP: Final = lazily_compiled(r"</\w{1,20}>|<\|\w{1,20}\|>")
_SENTENCE_END: Final = lazily_compiled(r"[!?\uff01\uff1f]+|[\n\u3002]|\.(?!\d)")
_CLAUSE_END: Final = lazily_compiled(r"[.,;:!?\n]")
_OBJECT: Final = lazily_compiled(r"[\s`\[]*(?:json\s*)?\{", re.IGNORECASE)
#: Characters before a mention in which it may be denied.
_BEFORE: Final = 100
_AGAIN: Final = lazily_compiled(r"[\W_]*((?:or|and|to)\W+)?", re.IGNORECASE)
#: Words behind a colon that are a value and explain nothing.
_FEW_WORDS: Final = 2


@lru_cache(maxsize=16)
def _patterns(choice: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what matches a choice that opens a reply, and one that is a value of a JSON object."""
    opening = f"{_WORDING['lead']}(?P<noun>{_WORDING['noun']})?+(?:an?\\s+)?(?P<word>{choice})"
    key = f"{_WORDING['key']}\\s*+:\\s*+[\"']?+[\\s*]*+"
    value = f"{key}(?P<word>{choice})[\\s*.!]*+(?=[\"',}}\\n]|$)"
    return re.compile(opening, re.IGNORECASE), re.compile(value, re.IGNORECASE)


_VERDICT: Final = r"(?:faithful|hallucinations?|hallucinated|hallucinating)(?![^\W_])"


def spoken(text: str) -> str:
    """Return a reply of the same length without what the model thought aloud: spaces stand there.

    They do for signs, too, that say the same as the verdict beside them.

    Some models close their thoughts and never open them; then all up to there is one.

    >>> spoken("Faithful? No.</think> hallucination").strip()
    'hallucination'
    """
    if edition() == 1:
        thoughts = _SAYS["first_thought"].match(text)
        return " " * len(thoughts[0]) + text[thoughts.end() :] if thoughts else text
    # How many characters from the first on are thoughts, what was said since, and up to where.
    thought, said, done = 0, list[str](), 0
    begun: int | None = None
    for tag in _SAYS["thought"].finditer(text):
        if tag["open"]:
            begun = tag.start() if begun is None else begun
        elif begun is None:
            thought, said, done = tag.end(), [], tag.end()
        else:
            said += [text[done:begun], " " * (tag.end() - begun)]
            done, begun = tag.end(), None
    plain = "".join((" " * thought, *said, text[done:]))
    return _SAYS["agreeing"].sub(lambda sign: " " * len(sign[0]), plain)


def read_verdict(answer: ChatAnswer) -> bool | str:
    """Return whether the judge said "hallucination"; a string says why it said nothing.

    The verdict is the reply's first word, alone or before plain punctuation, or the value of a
    "verdict" in JSON.
    """
    match = _verdict(answer)
    return match if isinstance(match, str) else _is_hallucination(match["word"])


def read_probability(answer: ChatAnswer) -> float | str:
    """Return P(hallucination) / (P(hallucination) + P(faithful)); a string says why not.

    The probabilities are those of the tokens that begin the two words at the place where the
    verdict begins, summed over spellings (" faithful", "Faith", ...). A verdict that is not among
    the tokens listed there is at most as likely as the least of them, and as what they leave, and
    counts as that.
    """
    match = _verdict(answer)
    if isinstance(match, str):
        return match
    return _share(answer, match.start("word"), HALLUCINATION, FAITHFUL)


def read_choice(answer: ChatAnswer, yes: str, no: str) -> float | str:
    """Return P(yes) / (P(yes) + P(no)) of two words, one of which opens the reply, as a verdict.

    A string says why there is none; what counts is what `read_probability` says of a verdict.
    """
    kind = f"the model's reply is neither {yes} nor {no}"
    match = _chosen(answer, rf"(?:{yes}|{no})(?![^\W_])", kind)
    return match if isinstance(match, str) else _share(answer, match.start("word"), yes, no)


def _share(answer: ChatAnswer, start: int, word: str, other: str) -> float | str:
    """Return P(word) / (P(word) + P(other)) of the token at a character of the reply."""
    if answer.positions is None:
        return NO_LOGPROBS
    place = _place(answer.text, start, answer.positions)
    if place is None:
        return DetectorFailure(f"{BAD_LOGPROBS}: their tokens do not spell the reply")
    if max([place.logprob, *(logprob for _, logprob in place.top)]) > _SLACK:
        return DetectorFailure(f"{BAD_LOGPROBS}: one is above 0")
    if math.fsum(math.exp(logprob) for _, logprob in place.top) > 1.0 + _SLACK:
        return DetectorFailure(f"{BAD_LOGPROBS}: they add up to more than 1")
    listed = dict(place.top)
    listed.setdefault(place.token, place.logprob)
    likely = [_mass(listed, choice.lower()) for choice in (word, other)]
    if max(likely) == -math.inf:
        return NEITHER
    # Nor is it likelier than all that is left for tokens that are not listed.
    left = max(1.0 - math.fsum(map(math.exp, listed.values())), _LEAST_LEFT)
    floor = min(*listed.values(), math.log(left))
    log_odds = max(likely[1], floor) - max(likely[0], floor)
    return 1.0 / (1.0 + math.exp(min(log_odds, 700.0)))


def read_grade(answer: ChatAnswer) -> float | str:
    """Return the number from 0 to 1 in the reply's JSON object; a string says why there is none."""
    if answer.refusal:
        return REFUSED
    text = spoken(answer.text).strip()
    if text.startswith("```") and text.endswith("```"):
        text = text[3:-3].removeprefix("json")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return CUT if answer.finish == "length" else unread(NO_GRADE, text)
    grade = value.get(HALLUCINATION) if isinstance(value, dict) else None
    if isinstance(grade, bool) or not isinstance(grade, int | float) or not 0.0 <= grade <= 1.0:
        return unread(NO_GRADE, text)
    # The key may stand there twice, and a verdict beside it may say the opposite.
    verdicts = {_is_hallucination(other["word"]) for other in _patterns(_VERDICT)[1].finditer(text)}
    doubtful = text.count(f'"{HALLUCINATION}":') > 1 or bool(verdicts - {grade >= 0.5})
    return unread(NO_GRADE, text) if doubtful and edition() > 1 else float(grade)


@dataclass(frozen=True, slots=True)
class RatingScale:
    """The grades from which a judge chooses, and which end of them means faithful.

    Attributes
    ----------
    grades : tuple of str
        In order; of a range of numbers its ends.
    faithful : str
        The first or the last of them.
    numeric : bool
        Whether every number from the first to the last is a grade.
    """

    grades: tuple[str, ...]
    faithful: str
    numeric: bool

    @classmethod
    def parse(cls, scale: object, higher: object) -> Self:
        """Return the scale that is written ``1-5``, ``A-E`` or ``no/yes``, and its faithful end.

        Raises
        ------
        InputError
            If it is none, or ``higher`` does not say what its last grade means.
        """
        text = str(scale).strip()
        first, dash, last = text.partition("-")
        numeric = bool(dash and first.isdecimal() and last.isdecimal() and int(first) < int(last))
        grades: tuple[str, ...] = (first, last)
        if dash and len(first) == len(last) == 1 and (first + last).isalpha() and first < last:
            grades = tuple(map(chr, range(ord(first), ord(last) + 1)))
        elif not numeric:
            grades = tuple(text.split("/"))
        folded = [grade.lower() for grade in grades]
        named = all(re.fullmatch(r"[^\W_]+", grade) for grade in grades)
        if not named or not 2 <= len(set(folded)) == len(folded) <= 26:
            raise InputError(f"scale must be a range or a list, 1-5, A-E or yes/no; got {scale!r}")
        if higher not in ("faithful", "hallucinated"):
            raise InputError.on("scale_direction", value=grades[-1], text=text, higher=higher)
        return cls(grades, grades[-1 if higher == "faithful" else 0], numeric)

    @property
    def hallucination(self) -> str:
        """The end that means a hallucination."""
        return self.grades[0] if self.faithful == self.grades[-1] else self.grades[-1]

    @property
    def choice(self) -> str:
        """What matches a grade."""
        if not self.numeric:
            names = "|".join(sorted(map(re.escape, self.grades), key=len, reverse=True))
            return rf"(?:{names})(?![^\W_])"
        # Of 0 to 100 a fraction below 1 is likelier one of 0 to 1; none is below or above "4".
        percent, low = (r"(?:\s*%)?", r"(?!0\.)") if self.grades == ("0", "100") else ("", "")
        signed = r"(?<![-+\u2010-\u2015\u2212.,])(?<!\A>)(?<!\s>)(?:(?<!<)|(?=\d{1,9}>))"
        whole = rf"(?:\s*(?:/|out of|of)\s*{self.grades[1]}\b|{percent})"
        return rf"{signed}{low}\d{{1,9}}(?:\.\d{{1,9}})?(?![^\W_]|[.,]\d){whole}"

    def value(self, grade: str) -> float | None:
        """Return where from 0, faithful, to 1 a grade stands; None where it is none."""
        if self.numeric:
            low, high = map(float, self.grades)
            share = (float(re.split(r"[^\d.]", grade)[0]) - low) / (high - low)
            if not 0.0 <= share <= 1.0:
                return None
        else:
            places = {name.lower(): place for place, name in enumerate(self.grades)}
            share = places[grade.lower()] / (len(self.grades) - 1)
        return 1.0 - share if self.faithful == self.grades[-1] else share


def read_rating(answer: ChatAnswer, scale: RatingScale) -> float | str:
    """Return a grade of the scale as a number, 0 for its faithful end; a string says why not."""
    in_words = not scale.numeric and max(map(len, scale.grades)) > 1
    match = _chosen(answer, scale.choice, NO_RATING, in_words=in_words)
    if isinstance(match, str):
        return match
    opening, pairs = _patterns(scale.choice)
    rest = spoken(answer.text)[match.end() :]
    values = {scale.value(match["word"])}
    if "noun" in match.re.groupindex:
        # "1. The answer states" numbers a list.
        numbering = scale.numeric and not match["noun"] and re.match(r"\.[ \t]+\S", rest)
        again = _AGAIN.match(rest)
        beside = opening.match(rest, again.end()) if again else None
        if numbering or (
            again and beside and (again[1] or _SAYS["followed"].match(rest, beside.end()))
        ):
            return unread(NO_RATING, answer.text.strip())
        later = map(opening.match, re.split(r"\n|[.!]\s", rest)[1:])
        values |= {scale.value(other["word"]) for other in later if other and other["noun"]}
    else:
        values |= {scale.value(other["word"]) for other in pairs.finditer(rest)}
    value = values.pop()
    return unread(NO_RATING, answer.text.strip()) if values or value is None else value


def _verdict(answer: ChatAnswer) -> re.Match[str] | str:
    """Return the first word of the reply, or a value in JSON, where it is a verdict."""
    if edition() == 1:
        return _first_verdict(answer)
    match = _chosen(answer, _VERDICT, UNREADABLE)
    if isinstance(match, str):
        return match
    text, verdict = spoken(answer.text), _is_hallucination(match["word"])
    rest = text[match.end() :]
    against = _SAYS["against_hallucination" if verdict else "against_faithful"]
    mark = _SAYS["followed"].match(rest)
    if "noun" not in match.re.groupindex:
        _, pairs = _patterns(_VERDICT)
        others = {_is_hallucination(other["word"]) for other in pairs.finditer(rest)}
        contradicted = bool(others - {verdict}) or _SAYS["verdict_key"].search(text) is not None
        contradicted |= verdict and _SAYS["absent"].search(text) is not None
        explained = _SAYS["explained"].finditer(text)
        contradicted |= any(against.match(text, found.end()) for found in explained)
    else:
        tail = rest[mark.end() :] if mark else ""
        contradicted = against.match(tail) is not None
        if verdict and mark and mark["mark"] in (":", "\uff1a", "|"):
            contradicted |= _SAYS["fault"].search(tail) is None
    last = 0
    for mention in _SAYS["mention"].finditer(rest):
        before = _CLAUSE_END.split(rest[max(last, mention.start() - _BEFORE) : mention.start()])[-1]
        denied = bool(_SAYS["denied"].search(before)) ^ bool(mention["un"] or mention["free"])
        contradicted |= (_is_hallucination(mention["word"]) ^ denied) != verdict
        last = mention.end()
    return unread(UNREADABLE, answer.text.strip()) if contradicted else match


def _first_verdict(answer: ChatAnswer) -> re.Match[str] | str:
    """Return the first word of the reply where the first edition takes it for a verdict."""
    if answer.refusal:
        return REFUSED
    match = _SAYS["first_verdict"].match(text := spoken(answer.text))
    if match is None:
        return CUT if answer.finish == "length" or not answer.text.strip() else UNREADABLE
    rest = text[match.end() :]
    other = FAITHFUL if _is_hallucination(match["word"]) else HALLUCINATION
    both = re.match(rf"\W*(?:(?:or|and)\W+)?{other}", rest, re.IGNORECASE)
    return UNREADABLE if both or _SAYS["first_value"].match(rest) else match


def _chosen(
    answer: ChatAnswer, choice: str, kind: str, *, in_words: bool = True
) -> re.Match[str] | str:
    """Return the choice that opens a reply, or that its JSON object holds under a known key.

    One ``in_words`` is taken back by a hedge, which explains a number.
    """
    if answer.refusal:
        return REFUSED
    text = spoken(answer.text)
    opening, value = _patterns(choice)
    if _OBJECT.match(text):
        match = value.search(text)
        stands = match is not None
    else:
        match = opening.match(text)
        stands = match is not None and _stands_alone(text[match.end() :], in_words)
    if match is not None and stands:
        return match
    is_cut = (match is None and answer.finish == "length") or not text.strip()
    return CUT if is_cut else unread(kind, answer.text.strip())


def _stands_alone(rest: str, in_words: bool) -> bool:
    """Return whether nothing stands behind a choice but plain punctuation and an explanation."""
    rest = _MARKUP.sub(" ", rest)
    mark = _SAYS["followed"].match(rest)
    end = _SENTENCE_END.search(rest)
    if mark is None or (end is not None and {*end[0]} & {*"?\uff1f"}):
        return False
    tail = rest[mark.end() :]
    if mark["mark"] == "|" and not tail.strip():
        return True
    if mark["mark"] in (":", "\uff1a", "|"):
        few = len(_SENTENCE_END.split(tail.strip(), maxsplit=1)[0].split()) <= _FEW_WORDS
        return not (few or _SAYS["keyed"].match(tail))
    hedged = in_words and mark["mark"] in (",", "(", "[", "-", "\u2013", "\u2014")
    return not ((hedged and _SAYS["hedged"].match(tail)) or _SAYS["valued"].match(tail))


def _is_hallucination(word: str) -> bool:
    return word.lower().startswith("halluc")


def _place(text: str, start: int, positions: tuple[Position, ...]) -> Position | None:
    """Return the token in which the character ``start`` of the reply lies."""
    spelled = [_plain(position.token) for position in positions]
    joined = "".join(spelled)
    # Servers strip white space from the text, and keep only the first tokens of a long one.
    lead = len(text) - len(text.lstrip())
    offset = len(joined) - len(joined.lstrip()) - lead
    kept, wanted = joined.strip(), text.strip()
    if kept and wanted and kept.endswith(wanted):
        # Also where a server keeps what was thought aloud out of the text.
        offset = joined.rindex(wanted) - lead
    elif not kept or not (wanted.startswith(kept) or kept.startswith(wanted)):
        return None
    ends = zip(positions, accumulate(map(len, spelled)), strict=True)
    return next((position for position, end in ends if start + offset < end), None)


def _plain(token: str) -> str:
    """Return a token as text, where a server gives the vocabulary's own spelling of spaces."""
    return token.replace("\u0120", " ").replace("\u2581", " ").replace("\u010a", "\n")


def _mass(listed: dict[str, float], word: str) -> float:
    """Return the log of the summed probability of the tokens that begin a word.

    A word of three letters or less is one token: what begins with it is another word.
    """
    pieces = {token: re.sub(r"[\W_]+", "", _plain(token)).lower() for token in listed}
    if len(word) < _SHORT:
        pieces = {token: piece for token, piece in pieces.items() if piece == word}
    logprobs = [
        listed[token]
        for token, piece in pieces.items()
        if piece and (word.startswith(piece) or piece.startswith(word[:9]))
    ]
    top = max(logprobs, default=-math.inf)
    total = sum(math.exp(logprob - top) for logprob in logprobs)
    return top + math.log(total) if logprobs else top
