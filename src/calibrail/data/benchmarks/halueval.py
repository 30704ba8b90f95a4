"""How are HaluEval's four files read (qa, dialogue, summarization, general)?

Li et al., "HaluEval: A Large-Scale Hallucination Evaluation Benchmark", 2023. The first three
hold a right and a hallucinated text a row, so that a row makes two examples of one group; the
last holds one ChatGPT answer a row with a yes/no judgement and no context.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from calibrail.data.benchmarks.native import Convert, Made, Native, missing_field, whole_number
from calibrail.data.example import FAITHFUL, HALLUCINATED
from calibrail.data.rows import Filtered, OpenTable, Problem, Row, shorten

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

    def convert(row: Row) -> Iterator[Made]:
        for made in _examples(row):
            response = made.get("response") if isinstance(made, Mapping) else None
            if isinstance(response, str) and 0 < len(response) < least:
                yield Filtered(row.number, f"answer shorter than {least} characters")
            else:
                yield made

    return convert


def _examples(row: Row) -> Iterator[Made]:
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


def _general(row: Row) -> Made:
    judged = row.values.get("hallucination")
    label = _JUDGED.get(judged.strip().lower()) if isinstance(judged, str) else None
    if label is None:
        remedy = "take the original file"
        return Problem(row.number, "label", "not yes or no", shorten(judged), "", remedy)
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
