"""What number does a judge's reply stand for, if it stands for any?"""

import json
import math
import re
from itertools import accumulate
from typing import Final

from calibrail.models.chat import ChatAnswer, Position
from calibrail.scores.base import DetectorFailure
from calibrail.scores.judge_prompts import FAITHFUL, HALLUCINATION

REFUSED: Final = "the judge refused to answer"
CUT: Final = "the judge's reply ended before its verdict; allow more with max_tokens"
UNREADABLE: Final = "the judge's reply is neither faithful nor hallucination"
NO_GRADE: Final = (
    f'the judge\'s reply is no JSON object with a number from 0 to 1 under "{HALLUCINATION}"'
)
NO_LOGPROBS: Final = DetectorFailure(
    "the endpoint gave no log-probabilities; use mode=votes or mode=graded"
)
BAD_LOGPROBS: Final = "the endpoint's log-probabilities are wrong"
NEITHER: Final = f"{BAD_LOGPROBS}: neither verdict is among the tokens at its place"

#: How far log-probabilities may be from those of a distribution, by rounding.
_SLACK: Final = 1e-3

#: Least probability that tokens which are not listed are taken to have: a sum's rounding.
_LEAST_LEFT: Final = 1e-6

_VERDICT: Final = re.compile(
    r"[\W_]*(?:boxed\W+)?"
    r"(?:(?:the\s+)?(?:final\s+)?(?:answer|verdict|response)\s*(?:is|[:>])[\W_]*)?"
    r"(?:an?\s+)?(?P<word>faithful|hallucinations?|hallucinated|hallucinating)(?![^\W_])",
    re.IGNORECASE,
)
# "hallucination-free", "hallucination: false", {"faithful": 0.2}: the word names what is judged.
_VALUE: Final = re.compile(
    r"[\s\-]*free\b|[^\w:=?]*[:=?][^\w.]*(?:(?:true|false|yes|no|none|null)\b(?!\s+\w)|\.?\d)",
    re.IGNORECASE,
)
_THOUGHT: Final = re.compile(r"\s*<think>.*?</think>", re.DOTALL)


def read_verdict(answer: ChatAnswer) -> bool | str:
    """Return whether the judge said "hallucination"; a string says why it said nothing.

    The verdict is the reply's first word, and what follows explains it; a reply that names both
    ("faithful or hallucination") holds none.
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
    if answer.positions is None:
        return NO_LOGPROBS
    place = _place(answer.text, match.start("word"), answer.positions)
    if place is None:
        return DetectorFailure(f"{BAD_LOGPROBS}: their tokens do not spell the reply")
    if why := _not_a_distribution(place):
        return why
    listed = dict(place.top)
    listed.setdefault(place.token, place.logprob)
    likely = {word: _mass(listed, word) for word in (HALLUCINATION, FAITHFUL)}
    if max(likely.values()) == -math.inf:
        return NEITHER
    # Nor is it likelier than all that is left for tokens that are not listed.
    left = max(1.0 - math.fsum(map(math.exp, listed.values())), _LEAST_LEFT)
    floor = min(*listed.values(), math.log(left))
    log_odds = max(likely[FAITHFUL], floor) - max(likely[HALLUCINATION], floor)
    return 1.0 / (1.0 + math.exp(min(log_odds, 700.0)))


def read_grade(answer: ChatAnswer) -> float | str:
    """Return the number from 0 to 1 in the reply's JSON object; a string says why there is none."""
    if answer.refusal:
        return REFUSED
    thought = _THOUGHT.match(answer.text)
    text = answer.text[thought.end() if thought else 0 :].strip()
    if text.startswith("```") and text.endswith("```"):
        text = text[3:-3].removeprefix("json")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return CUT if answer.finish == "length" else NO_GRADE
    grade = value.get(HALLUCINATION) if isinstance(value, dict) else None
    if isinstance(grade, bool) or not isinstance(grade, int | float) or not 0.0 <= grade <= 1.0:
        return NO_GRADE
    return float(grade)


def _verdict(answer: ChatAnswer) -> re.Match[str] | str:
    """Return the first word of the reply where it is a verdict."""
    if answer.refusal:
        return REFUSED
    thought = _THOUGHT.match(answer.text)
    match = _VERDICT.match(answer.text, thought.end() if thought else 0)
    if match is None:
        is_cut = answer.finish == "length" or not answer.text.strip()
        return CUT if is_cut else UNREADABLE
    other = FAITHFUL if _is_hallucination(match["word"]) else HALLUCINATION
    rest = answer.text[match.end() :]
    if re.match(rf"\W*(?:(?:or|and)\W+)?{other}", rest, re.IGNORECASE) or _VALUE.match(rest):
        return UNREADABLE
    return match


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


def _not_a_distribution(place: Position) -> str | None:
    listed = [logprob for _, logprob in place.top] or [place.logprob]
    if max(*listed, place.logprob) > _SLACK:
        return DetectorFailure(f"{BAD_LOGPROBS}: one is above 0")
    total = sum(math.exp(logprob) for _, logprob in place.top)
    if total > 1.0 + _SLACK:
        return DetectorFailure(f"{BAD_LOGPROBS}: they add up to more than 1")
    return None


def _mass(listed: dict[str, float], word: str) -> float:
    """Return the log of the summed probability of the tokens that begin a word."""
    pieces = {token: re.sub(r"[\W_]+", "", _plain(token)).lower() for token in listed}
    logprobs = [
        listed[token]
        for token, piece in pieces.items()
        if piece and (word.startswith(piece) or piece.startswith(word[:9]))
    ]
    if not logprobs:
        return -math.inf
    top = max(logprobs)
    return top + math.log(sum(math.exp(logprob - top) for logprob in logprobs))
