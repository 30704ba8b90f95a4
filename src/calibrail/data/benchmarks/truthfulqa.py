"""How is TruthfulQA read?

Lin et al., "TruthfulQA: Measuring How Models Mimic Human Falsehoods", 2022. Each question gives
its best answer (faithful) and its best incorrect answer (hallucinated); there is no context.
Releases before 2025 have no column for the best incorrect answer: the first of the list is taken.
"""

from collections.abc import Iterator
from typing import Final

from calibrail.data.benchmarks.native import Made, Native
from calibrail.data.example import FAITHFUL, HALLUCINATED
from calibrail.data.rows import Row


def _examples(row: Row) -> Iterator[Made]:
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
    converter=lambda *_: _examples,
)
