"""Natural Questions with answers swapped, as in the conformal RAG guardrails paper.

Every question gives its own first answer (faithful) and the answer to another question
(hallucinated). The other answer is of the same kind (a person for a person, a date for a date), is
none of the question's own answers and does not occur in its passage, nor does it contain one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from calibrail.data import Example

_WORDS: Final = re.compile(r"\w+")
_MONTHS: Final = (
    "january february march april may june july august september october november december"
)
_MONTH: Final = re.compile(rf"\b(?:{_MONTHS.replace(' ', '|')})\b", re.IGNORECASE)
_YEAR: Final = re.compile(r"\b(?:1\d|20)\d\d(?:s|\b)")
_NUMBER: Final = re.compile(
    r"\W*(?:\d|(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|hundred|"
    r"thousand|million|billion|zero|half|once|twice)\b)",
    re.IGNORECASE,
)
_ASKS: Final = (
    ("person", re.compile(r"\b(?:who|whose|whom|who's)\b", re.IGNORECASE)),
    ("place", re.compile(r"\b(?:where|which (?:country|city|state|place))\b", re.IGNORECASE)),
)


def answer_kind(question: str, answer: str) -> str:
    """Return ``date``, ``number``, ``person``, ``place`` or ``other``.

    What the answer looks like decides first (a month or a year, a leading number), then what the
    question asks for.

    >>> answer_kind("when did it open", "May 18, 2018"), answer_kind("who wrote it", "Cyrus")
    ('date', 'person')
    """
    if _MONTH.search(answer) and re.search(r"\d", answer):
        return "date"
    if _YEAR.fullmatch(answer.strip()) or (
        _YEAR.search(answer) and re.search(r"\b(?:when|year|date)\b", question, re.IGNORECASE)
    ):
        return "date"
    if _NUMBER.match(answer):
        return "number"
    for kind, asks in _ASKS:
        if asks.search(question):
            return kind
    return "other"


def swapped_answers(path: Path, seed: int = 0) -> list[Example]:
    """Return the right and a swapped answer to each question, whose lines count from 1.

    A question without another answer of its kind to swap in gives its own alone.
    """
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    pools: dict[str, list[str]] = {}
    for row in rows:
        pools.setdefault(_kind(row), []).append(row["answers"][0])
    made = []
    for number, row in enumerate(rows, start=1):
        made.append(_example(number, row, row["answers"][0], 0, "own"))
        pool = pools[_kind(row)]
        start = int(np.random.default_rng((seed, number)).integers(len(pool)))
        taken = [f" {_plain(answer)} " for answer in row["answers"]]
        passage = f" {_plain(row['passage']['text'])} "
        for offset in range(len(pool)):
            candidate = pool[(start + offset) % len(pool)]
            plain = f" {_plain(candidate)} "
            if plain not in passage and not any(a in plain or plain in a for a in taken):
                made.append(_example(number, row, candidate, 1, "swapped"))
                break
    return made


def _kind(row: Mapping[str, Any]) -> str:
    return answer_kind(row["question"], row["answers"][0])


def _plain(text: str) -> str:
    return " ".join(_WORDS.findall(text.casefold()))


def _example(number: int, row: Mapping[str, Any], response: str, label: int, name: str) -> Example:
    asked = row["question"]
    contexts, known = (row["passage"]["text"],), f"nq-{number}-{name}"
    return Example(asked, contexts, response, label=label, group=asked, id=known)
