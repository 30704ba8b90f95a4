"""How are HaluEval's four files read (qa, dialogue, summarization, general)?

Li et al., "HaluEval: A Large-Scale Hallucination Evaluation Benchmark", 2023. The first three
hold a right and a hallucinated text a row, so that a row makes two examples of one group; the
last holds one ChatGPT answer a row with a yes/no judgement and no context.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from calibrail.data.benchmarks.native import (
    Convert,
    Native,
    NativeItem,
    missing_field,
    whole_number,
)
from calibrail.data.example import FAITHFUL, HALLUCINATED
from calibrail.data.rows import Filtered, OpenTable, Problem, Row, shorten


@dataclass(frozen=True, slots=True)
class _Paired:
    """The columns of a file whose rows hold a right and a hallucinated text."""

    subset: str
    context: str
    question: str | None
    right: str
    hallucinated: str


_PAIRED: Final = (
    _Paired("qa", "knowledge", "question", "right_answer", "hallucinated_answer"),
    _Paired("dialogue", "knowledge", "dialogue_history", "right_response", "hallucinated_response"),
    _Paired("summarization", "document", None, "right_summary", "hallucinated_summary"),
)
_GENERAL: Final = ("user_query", "chatgpt_response", "hallucination")
_JUDGED: Final = {"yes": HALLUCINATED, "no": FAITHFUL}


def _converter(_: OpenTable, options: Mapping[str, object]) -> Convert:
    least = whole_number(options, "min_chars", 0)

    def convert(row: Row) -> Iterator[NativeItem]:
        for made in _examples(row):
            response = made.values.get("response") if isinstance(made, Row) else None
            if isinstance(response, str) and 0 < len(response) < least:
                yield Filtered(row.number, f"answer shorter than {least} characters")
            else:
                yield made

    return convert


def _examples(row: Row) -> Iterator[Row | Problem]:
    for layout in _PAIRED:
        if layout.right in row.values or layout.hallucinated in row.values:
            yield from _pair(row, layout)
            return
    if "chatgpt_response" in row.values:
        yield _general(row)
    else:
        yield missing_field(row, "response", "right_answer")


def _pair(row: Row, layout: _Paired) -> Iterator[Row | Problem]:
    group = f"{layout.subset}-{row.number}"
    sides = ((layout.right, FAITHFUL, "right"), (layout.hallucinated, HALLUCINATED, "hallucinated"))
    for column, label, name in sides:
        values: dict[str, object] = {
            "contexts": row.values.get(layout.context),
            "response": row.values.get(column),
            "label": label,
            "group": group,
            "id": f"{group}-{name}",
            "subset": layout.subset,
        }
        if layout.question is not None:
            values["question"] = row.values.get(layout.question)
        yield Row(row.number, values)


def _general(row: Row) -> Row | Problem:
    judged = row.values.get("hallucination")
    label = _JUDGED.get(judged.strip().lower()) if isinstance(judged, str) else None
    if label is None:
        return Problem(
            row.number, "label", "not yes or no", shorten(judged), "", "take the original file"
        )
    number = row.values.get("ID", row.number)
    values = {
        "question": row.values.get("user_query"),
        "response": row.values.get("chatgpt_response"),
        "label": label,
        "group": f"general-{number}",
        "id": f"general-{number}",
        "subset": "general",
    }
    return Row(row.number, values)


HALUEVAL: Final = Native(
    name="halueval",
    signatures=(
        *(frozenset({layout.context, layout.right, layout.hallucinated}) for layout in _PAIRED),
        frozenset(_GENERAL),
    ),
    options=("min_chars",),
    converter=_converter,
)
