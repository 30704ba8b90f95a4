"""Names that other tools use for a field."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from calibrail.data.example import TEXT_FIELDS
from calibrail.data.values import text_of

#: Preset name to the columns of (question, contexts, response), as the tool of that name writes
#: them. Phoenix and TruLens share theirs.
PRESETS: Final[Mapping[str, tuple[str, str, str]]] = {
    "calibrail": ("question", "contexts", "response"),
    "ragas": ("user_input", "retrieved_contexts", "response"),
    "deepeval": ("input", "retrieval_context", "actual_output"),
    "llamaindex": ("query", "contexts", "response"),
    "trulens": ("input", "context", "output"),
    "phoenix": ("input", "context", "output"),
}


def tools_named(columns: Mapping[str, str]) -> list[str]:
    """Return the tools whose own names all text fields have, none where these are calibrail's.

    >>> tools_named({"question": "input", "contexts": "context", "response": "output"})
    ['trulens', 'phoenix']
    """
    named = tuple(columns.get(field, "") for field in ("question", "contexts", "response"))
    return [name for name, names in PRESETS.items() if names == named and name != "calibrail"]


#: Names by field, in tiers: one of a tier counts only where none of an earlier tier is there.
_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "question": ("question", "user_input query user_question user_query", "input instruction"),
    "contexts": (
        "contexts",
        "retrieved_contexts retrieval_context context passages passage documents document docs doc",
        "source_document source_text source article knowledge evidence grounding",
    ),
    "response": (
        "response",
        "actual_output generated_answer model_answer model_output generated_text generated_summary",
        "answer summary output completion generation",
        "claim hypothesis statement summ_sent",
    ),
    "label": (
        "label",
        "labels",
        "hallucination hallucinated is_hallucination is_hallucinated has_hallucination"
        " hallucination_label faithful is_faithful consistent is_consistent factual is_factual"
        " grounded is_grounded supported is_supported sent_label adherence_score",
    ),
}

#: Names that stand for a field only beside others.
_TOGETHER: Final[tuple[tuple[frozenset[str], Mapping[str, str]], ...]] = (
    # FactCC and what follows it.
    (frozenset({"text", "claim"}), {"contexts": "text"}),
    # LettuceDetect: the prompt holds question and passages.
    (frozenset({"prompt", "answer", "labels"}), {"contexts": "prompt"}),
    (frozenset({"prompt", "response", "context"}), {"question": "prompt"}),
    (frozenset({"prompt", "response", "contexts"}), {"question": "prompt"}),
)


#: Names of a list of answers, which stand for it only beside a list of as many labels: without,
#: such a list may as well hold the right answers.
ANSWER_LISTS: Final = (
    *("responses", "answers", "outputs", "candidates"),
    *("completions", "generations", "predictions", "summaries"),
)

#: Fields of what people marked in an answer: spans, its sentences, a label for each of these; and,
#: where rows are sentences, which answer a row belongs to.
MARK_FIELDS: Final = ("spans", "sentences", "sentence_labels", "answer_id")

_MARKS: Final[Mapping[str, tuple[str, ...]]] = {
    "spans": (
        "spans",
        "unsupported_spans hallucinated_spans hallucination_spans marked_spans annotated_spans"
        " hallucination_labels",
    ),
    "sentences": ("sentences", "response_sentences answer_sentences summary_sentences"),
    # RAGBench lists the keys of the sentences that are not supported.
    "sentence_labels": ("sentence_labels", "unsupported_response_sentence_keys"),
}

#: Tables that are known to have a row a sentence, by their columns, and the one of its answer.
SENTENCE_TABLES: Final = ((frozenset({"id", "group", "response", "label", "grade"}), "group"),)

#: Further names of objects that hold fields.
HOLDERS: Final = ("inputs", "outputs")


def aliases_of(
    field: str, columns: Collection[str], nested: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Return the columns that stand for a field by their name: none, the one, or equal rivals.

    Those that are paths into objects go by the names in ``nested``.

    >>> aliases_of("response", ["doc", "summary"]), aliases_of("contexts", ["doc", "article"])
    (['summary'], ['doc'])
    >>> aliases_of("response", ["answer", "summary"])
    ['answer', 'summary']
    """
    by_lower = {
        nested.get(column, column).strip().lower().replace(" ", "_"): column for column in columns
    }
    for tier in _ALIASES.get(field) or _MARKS[field]:
        if found := [by_lower[name] for name in tier.split() if name in by_lower]:
            return found
    for names, stands_for in _TOGETHER:
        if field in stands_for and names <= by_lower.keys():
            return [by_lower[stands_for[field]]]
    return []


def nested_fields(rows: Sequence[Mapping[str, object]], columns: Collection[str]) -> dict[str, str]:
    """Return the paths to fields in objects, with the names that they go by.

    An object that is itself the text of its field, as in ``{"response": {"text": ...}}``, is read
    as such; one of whose parts another is the field, or that holds no text, goes by the name "".
    Names that the row has outside of objects, or in several, are left alone.

    Parameters
    ----------
    rows : sequence of mapping
        The first rows.
    columns : collection of str
        Their columns.

    Examples
    --------
    >>> nested_fields([{"input": {"question": "q", "context": "c"}, "output": "a"}], ["input"])
    {'input': '', 'input.question': 'question', 'input.context': 'context'}
    >>> nested_fields([{"context": {"source": "url", "text": "c"}}], ["context"])
    {}
    """
    found: dict[str, str] = {}
    for column in columns:
        objects = [value for row in rows if (value := row.get(column)) is not None]
        if not objects or not all(isinstance(value, Mapping) for value in objects):
            continue
        field = next((name for name in TEXT_FIELDS if aliases_of(name, (column,))), None)
        if field is None and column.lower() not in HOLDERS:
            continue
        keys = dict.fromkeys(
            key for value in objects if isinstance(value, Mapping) for key in value
        )
        parts = {
            key: inner
            for key in keys
            if (inner := next((f for f in TEXT_FIELDS if aliases_of(f, (key,))), None)) is not None
        }
        is_text = all(text_of(value) is not None for value in objects)
        if not parts or (is_text and set(parts.values()) == {field}):
            continue
        if field in parts.values() or not is_text or field is None:
            found[column] = ""
        found |= {f"{column}.{key}": key for key in parts}
    names = [name for name in found.values() if name]
    return {
        path: name
        for path, name in found.items()
        if not name or (names.count(name) == 1 and (name not in columns or found.get(name) == ""))
    }
