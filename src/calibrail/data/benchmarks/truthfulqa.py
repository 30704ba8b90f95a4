"""How is TruthfulQA read?

Lin et al., "TruthfulQA: Measuring How Models Mimic Human Falsehoods", 2022. Each question gives
its best answer (faithful) and its best incorrect answer (hallucinated); there is no context.
Releases before 2025 have no column for the best incorrect answer: the first of the list is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from calibrail.data.benchmarks.native import Native, NativeItem
from calibrail.data.example import FAITHFUL, HALLUCINATED
from calibrail.data.rows import OpenTable, Problem, Row


def _convert(open_table: OpenTable, options: Mapping[str, object]) -> Iterator[NativeItem]:
    for item in open_table():
        if isinstance(item, Problem):
            yield item
            continue
        incorrect = item.values.get("Best Incorrect Answer")
        if incorrect is None:
            listed = str(item.values.get("Incorrect Answers") or "")
            incorrect = listed.split(";")[0].strip() or None
        answers = (
            (item.values.get("Best Answer"), FAITHFUL, "best"),
            (incorrect, HALLUCINATED, "incorrect"),
        )
        for response, label, name in answers:
            values = {
                "question": item.values.get("Question"),
                "response": response,
                "label": label,
                "group": item.values.get("Question"),
                "id": f"truthfulqa-{item.number}-{name}",
                "type": item.values.get("Type"),
                "category": item.values.get("Category"),
            }
            yield Row(item.number, values)


TRUTHFULQA: Final = Native(
    name="truthfulqa",
    signatures=(
        frozenset({"Question", "Best Answer", "Best Incorrect Answer"}),
        frozenset({"Question", "Best Answer", "Incorrect Answers"}),
    ),
    options=(),
    convert=_convert,
)
