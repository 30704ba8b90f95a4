"""HaluEval, TruthfulQA, Natural Questions.

Li et al., "HaluEval: A Large-Scale Hallucination Evaluation Benchmark", 2023. The first three
hold a right and a hallucinated text a row, so that a row makes two examples of one group; the
last holds one ChatGPT answer a row with a yes/no judgement and no context.

Lin et al., "TruthfulQA: Measuring How Models Mimic Human Falsehoods", 2022. Each question gives
its best answer (faithful) and its best incorrect answer (hallucinated); there is no context.
Releases before 2025 have no column for the best incorrect answer: the first of the list is taken.

Every question gives its own first answer (faithful) and, as in the answer-swap construction of the
conformal RAG guardrails paper, the answer to another question (hallucinated). The other answer is
of the same kind (a person for a person, a date for a date), is none of the question's own answers
and does not occur in its passage, nor does it contain one of them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from calibrail.data.benchmarks._base import Convert, Made, Native, missing_field, whole_number
from calibrail.data.example import (
    FAITHFUL,
    HALLUCINATED,
    Filtered,
    OpenTable,
    RowProblem,
    SourceRow,
    shorten,
)

#: Columns of the context, the question, the right and the hallucinated text, by subset.
_PAIRED: Final = {
    "qa": ("knowledge", "question", "right_answer", "hallucinated_answer"),
    "dialogue": ("knowledge", "dialogue_history", "right_response", "hallucinated_response"),
    "summarization": ("document", None, "right_summary", "hallucinated_summary"),
}
_GENERAL: Final = ("user_query", "chatgpt_response", "hallucination")
_JUDGED: Final = {"yes": HALLUCINATED, "no": FAITHFUL}


def _converter(_: OpenTable, options: Mapping[str, object]) -> Convert:
    least = whole_number(options, "min_chars", 0)

    def convert(row: SourceRow) -> Iterator[Made]:
        for made in _examples(row):
            response = made.get("response") if isinstance(made, Mapping) else None
            if isinstance(response, str) and 0 < len(response) < least:
                yield Filtered(row.number, f"answer shorter than {least} characters")
            else:
                yield made

    return convert


def _examples(row: SourceRow) -> Iterator[Made]:
    for subset, (context, question, right, wrong) in _PAIRED.items():
        if right in row.values or wrong in row.values:
            group = f"{subset}-{row.number}"
            asked = {} if question is None else {"question": row.values.get(question)}
            sides = (right, FAITHFUL, "right"), (wrong, HALLUCINATED, "hallucinated")
            for column, label, name in sides:
                yield {
                    "contexts": row.values.get(context),
                    "response": row.values.get(column),
                    "label": label,
                    "group": group,
                    "id": f"{group}-{name}",
                    "subset": subset,
                    **asked,
                }
            return
    if "chatgpt_response" in row.values:
        yield _general(row)
    else:
        yield missing_field(row, "response", "right_answer")


def _general(row: SourceRow) -> Made:
    judged = row.values.get("hallucination")
    label = _JUDGED.get(judged.strip().lower()) if isinstance(judged, str) else None
    if label is None:
        remedy = "take the original file"
        return RowProblem(row.number, "label", "not yes or no", shorten(judged), "", remedy)
    number = row.values.get("ID", row.number)
    return {
        "question": row.values.get("user_query"),
        "response": row.values.get("chatgpt_response"),
        "label": label,
        "group": f"general-{number}",
        "id": f"general-{number}",
        "subset": "general",
    }


HALUEVAL: Final = Native(
    name="halueval",
    signatures=(
        *(frozenset({context, right, wrong}) for context, _, right, wrong in _PAIRED.values()),
        frozenset(_GENERAL),
    ),
    options=("min_chars",),
    converter=_converter,
)


def _truthfulqa_examples(row: SourceRow) -> Iterator[Made]:
    incorrect = row.values.get("Best Incorrect Answer")
    if incorrect is None:
        listed = str(row.values.get("Incorrect Answers") or "")
        incorrect = listed.split(";")[0].strip() or None
    best = row.values.get("Best Answer")
    for response, label, name in ((best, FAITHFUL, "best"), (incorrect, HALLUCINATED, "incorrect")):
        yield {
            "question": row.values.get("Question"),
            "response": response,
            "label": label,
            "group": row.values.get("Question"),
            "id": f"truthfulqa-{row.number}-{name}",
            "type": row.values.get("Type"),
            "category": row.values.get("Category"),
        }


TRUTHFULQA: Final = Native(
    name="truthfulqa",
    signatures=(
        frozenset({"Question", "Best Answer", "Best Incorrect Answer"}),
        frozenset({"Question", "Best Answer", "Incorrect Answers"}),
    ),
    options=(),
    converter=lambda *_: _truthfulqa_examples,
)


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


def _natural_questions_converter(open_table: OpenTable, options: Mapping[str, object]) -> Convert:
    """Return what makes two examples of a question, once the answers to swap in are collected."""
    seed = whole_number(options, "seed", 0)
    pools: dict[str, list[str]] = {}
    for item in open_table():
        if isinstance(item, SourceRow) and (answers := _answers(item)):
            pools.setdefault(_kind(item, answers), []).append(answers[0])

    def convert(row: SourceRow) -> Iterator[Made]:
        answers = _answers(row)
        if not answers:
            remedy = "answers must be a list of texts"
            yield RowProblem(row.number, "response", "missing", "", "no answers", remedy)
            return
        yield _example(row, answers[0], FAITHFUL, "own")
        kind = _kind(row, answers)
        pool = pools[kind]
        start = int(np.random.default_rng((seed, row.number)).integers(len(pool)))
        taken = [f" {_plain(answer)} " for answer in answers]
        passage = f" {_plain(_passage(row)[0])} "
        for offset in range(len(pool)):
            candidate = pool[(start + offset) % len(pool)]
            plain = f" {_plain(candidate)} "
            if plain not in passage and not any(a in plain or plain in a for a in taken):
                yield _example(row, candidate, HALLUCINATED, "swapped")
                return
        yield Filtered(row.number, f"no other answer of the kind {kind} to swap in")

    return convert


def _kind(row: SourceRow, answers: list[str]) -> str:
    return answer_kind(str(row.values.get("question")), answers[0])


def _plain(text: str) -> str:
    return " ".join(_WORDS.findall(text.casefold()))


def _answers(row: SourceRow) -> list[str]:
    answers = row.values.get("answers")
    listed = [answers] if isinstance(answers, str) else answers
    if not isinstance(listed, list):
        return []
    return [answer for answer in listed if isinstance(answer, str) and _plain(answer)]


def _passage(row: SourceRow) -> tuple[str, object]:
    """Return the passage's text and title; the passage is an object or a plain text."""
    passage = row.values.get("passage")
    if isinstance(passage, dict):
        text = passage.get("text")
        return (text if isinstance(text, str) else ""), passage.get("title")
    return (passage if isinstance(passage, str) else ""), None


def _example(row: SourceRow, response: str, label: int, name: str) -> Made:
    text, title = _passage(row)
    question = row.values.get("question")
    return {
        "question": question,
        "contexts": text or None,
        "response": response,
        "label": label,
        "group": question if isinstance(question, str) else None,
        "id": f"nq-{row.number}-{name}",
        "title": title,
    }


NATURAL_QUESTIONS: Final = Native(
    name="natural_questions",
    signatures=(frozenset({"question", "answers", "passage"}),),
    options=("seed",),
    converter=_natural_questions_converter,
)
