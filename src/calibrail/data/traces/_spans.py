"""Exports of tools: how they are known and counted, and spans that become answers.

The question is what went into the root, the contexts are what retrievers found, the answer is what
came out of the root; where the root does not say, the model's own messages do.

Frameworks log what goes in and out as they have it: a text, an object of fields, chat messages of
any provider, LangChain's serialised objects, or JSON that spells one of these.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from calibrail.data.aliases import NAMES
from calibrail.data.example import Filtered, ParsedItem, RowProblem, SourceRow, TableItem
from calibrail.data.values import chunks_of, load_json, text_of
from calibrail.errors import tables_beside

#: Columns of what people said of an answer, and of what programs did, each with a name behind it.
#: Only the former are labels unless a user names another column.
ANNOTATION: Final = "annotation."
SCORE: Final = "score."
#: Columns of what anybody said of a step on the way to an answer; never a label by themselves.
STEP: Final = "step."

#: A verdict on an answer, by its column.
Verdict: TypeAlias = tuple[str, object]

_NAMED: Final = 50


@dataclass(slots=True)
class ExportNotes:
    """What became of the parts of an export; counts as they are read.

    Parameters
    ----------
    tool : str
        Whose export it is.
    part : str
        What its parts are called, in the plural: ``spans``, ``observations``, ``records``.
    n_parts, n_answers : int
        Parts read, and answers that they made.
    left_out : Counter of str
        Why what made no answer did not.
    annotations, scores : Counter of str
        Answers with what people said of them, and with what programs did, by its column.
    """

    tool: str
    part: str
    n_parts: int = 0
    n_answers: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    annotations: Counter[str] = field(default_factory=Counter)
    scores: Counter[str] = field(default_factory=Counter)

    def made(self, row: SourceRow) -> SourceRow:
        """Count an answer and the verdicts on it; return it."""
        self.n_answers += 1
        for name in (name for name, value in row.values.items() if value is not None):
            for prefix, counts in ((ANNOTATION, self.annotations), (SCORE, self.scores)):
                if name.startswith(prefix) and (name in counts or len(counts) < _NAMED):
                    counts[name] += 1
        return row

    def without(self, number: int, reason: str, file: str = "") -> Filtered:
        """Count what made no answer; return it as left out."""
        self.left_out[reason] += 1
        return Filtered(number, reason, file)

    def to_dict(self, of_people: Callable[[str], bool]) -> dict[str, object]:
        """Return the counts, JSON-able; a score that is people's by its name as an annotation."""
        people = self.annotations + Counter({k: n for k, n in self.scores.items() if of_people(k)})
        return {
            "tool": self.tool,
            "part": self.part,
            "n_parts": self.n_parts,
            "n_answers": self.n_answers,
            "left_out": dict(self.left_out.most_common()),
            "annotations": dict(people.most_common()),
            "scores": {k: n for k, n in self.scores.most_common() if k not in people},
        }


#: Turns the rows of a file into answers under calibrail's field names.
Convert: TypeAlias = Callable[[Iterable[TableItem], ExportNotes], Iterator[ParsedItem]]


class Export(NamedTuple):
    """A tool's export: how it is recognised and how it is read.

    Parameters
    ----------
    name : str
        The format's name, as ``--format`` takes it.
    part : str
        What its parts are called, in the plural.
    signatures : tuple of frozenset of str
        A file whose rows have all the fields of one of these sets is of this format.
    convert : callable
        Yields rows with ``question``, ``contexts`` and ``response`` where the tool has them, and
        verdicts under `ANNOTATION` and `SCORE`.
    lists : frozenset of str
        Names of lists in an object of this format whose elements are rows of it, too. Any other
        object of the format is one row.
    """

    name: str
    part: str
    signatures: tuple[frozenset[str], ...]
    convert: Convert
    lists: frozenset[str] = frozenset()

    def recognises(self, names: Iterable[str]) -> bool:
        """Say whether rows with these fields are of this format."""
        there = frozenset(names)
        return any(signature <= there for signature in self.signatures)


#: What is known of every tool's export, by the name of its format: see ``exports.toml``.
TOOLS: Final[Mapping[str, Any]] = tables_beside(__file__, "exports.toml")


def kind_of(tool: str, word: object) -> Any:
    """Return what a tool's word for a step stands for.

    >>> kind_of("langfuse", "GENERATION"), kind_of("langfuse", None)
    ('llm', 'other')
    """
    kinds = TOOLS[tool]["kinds"].items()
    return next((kind for kind, words in kinds if str(word).lower() in words.split()), "other")


def row_by_row(answer: Callable[[Mapping[str, object]], Iterable[Mapping[str, object]]]) -> Convert:
    """Return what reads an export whose every row is whole: none, one or several answers.

    Parameters
    ----------
    answer : callable
        From the fields of a row to the answers in it.
    """

    def convert(items: Iterable[TableItem], notes: ExportNotes) -> Iterator[ParsedItem]:
        for item in items:
            if isinstance(item, RowProblem):
                yield item
                continue
            notes.n_parts += 1
            made = [SourceRow(item.number, values, item.file) for values in answer(item.values)]
            yield from map(notes.made, made)
            if not made:
                yield notes.without(item.number, "a record without an answer", item.file)

    return convert


#: Of what columns are called that hold labels or scores.
_PARTS: Final = NAMES["parts_of_names"]
_SAYING: Final = re.compile("|".join(f"{_PARTS['label']} {_PARTS['score']}".split()))


def added(row: Mapping[str, object]) -> Iterator[Verdict]:
    """Yield the columns of labels and scores that somebody added to a tool's table.

    >>> list(added({"human_label": "ok", "latency": 2, "judge": '{"score": 1}', "scores": []}))
    [('human_label', 'ok'), ('judge', {'score': 1})]
    """
    for name in row:
        says = "." not in name and _SAYING.search(name.lower())
        if says and not isinstance(held := parsed(row[name]), list):
            yield name, None if held == "" else held


def verdict_columns(verdicts: Iterable[Verdict]) -> dict[str, object]:
    """Return verdicts by column; several under one name, as of several people, become a list.

    So does one that is a list itself: what one person chose is one element.

    >>> verdict_columns([("annotation.ok", "yes"), ("annotation.ok", "no"), ("score.f1", 0.5)])
    {'annotation.ok': ['yes', 'no'], 'score.f1': 0.5}
    >>> verdict_columns([("annotation.kind", ["invented", "contradicts"])])
    {'annotation.kind': [['invented', 'contradicts']]}
    """
    lists: dict[str, list[object]] = {}
    for name, value in verdicts:
        if value is not None:
            lists.setdefault(name, []).append(value)
    # Of a program's repeated verdicts the last one stands.
    return {
        name: values
        if name.startswith(ANNOTATION) and (len(values) > 1 or isinstance(values[-1], list))
        else values[-1]
        for name, values in lists.items()
    }


Kind: TypeAlias = Literal["retriever", "reranker", "llm", "aside", "other"]


@dataclass(slots=True)
class Span:
    """A step of a trace.

    Parameters
    ----------
    trace, id : str
        Of the trace and of the span.
    parent : str or None
        The span around it; of a root None.
    kind : str
        What it does; ``aside`` for what is no part of the answer, such as an evaluator.
    start : str
        When it began, in a form that sorts.
    question, response : str or None
        What went in and what came out.
    documents : list of str or None
        What was retrieved.
    system : str or None
        What the system's messages said.
    session : str or None
        The conversation that it belongs to.
    name : str
        Its name.
    verdicts : list of (column, value)
        What people and programs said of it.
    """

    trace: str
    id: str
    parent: str | None
    kind: Kind
    start: str = ""
    question: str | None = None
    response: str | None = None
    documents: list[str] | None = None
    system: str | None = None
    session: str | None = None
    name: str = ""
    verdicts: list[Verdict] = field(default_factory=list)


class Mark(NamedTuple):
    """A verdict that stands in a row of its own: of a trace or, where that is not said, a span.

    ``by`` says whose it is, or which record: of several under one name by one the last stands.
    """

    trace: str | None
    span: str | None
    verdict: Verdict
    by: str = ""


@dataclass(slots=True)
class _Open:
    """A trace whose spans are still met."""

    number: int
    file: str
    spans: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


def step(kind: Kind, went_in: object, came_out: object, **more: Any) -> Span:
    """Return a step of a kind, with the texts of what went in and what came out."""
    retrieves = kind in ("retriever", "reranker")
    texts = {
        "question": question_in(went_in),
        "response": None if retrieves else response_in(came_out),
        "documents": documents_in(came_out) if retrieves else contexts_in(came_out, went_in),
        "system": system_in(went_in),
    }
    return Span(kind=kind, **(texts | more))


def answer_of(spans: Iterable[Span], verdicts: Iterable[Verdict] = ()) -> dict[str, object] | None:
    """Return the answer that the spans of one trace make, or None where none gave any.

    Parameters
    ----------
    spans : iterable of Span
        All of them, in any order.
    verdicts : iterable of (column, value)
        On the trace as a whole.
    """
    ordered = sorted(spans, key=lambda span: span.start)
    depths = _depths(ordered)
    found = [span for span in ordered if span.kind == "retriever"]
    # What a reranker leaves of the documents is what the model is given.
    ranked = [span for span in ordered if span.kind == "reranker" and span.documents]
    steps = [span for span in ordered if span.kind in ("llm", "other")]
    # From the outermost step inwards; of those side by side a model speaks, and the last one.
    tops = sorted(steps, key=lambda span: depths[id(span)])
    last = sorted(reversed(steps), key=lambda span: (depths[id(span)], span.kind != "llm"))
    response = _first(span.response for span in last)
    if response is None:
        return None
    values: dict[str, object] = {
        "id": ordered[0].trace,
        "question": _first(span.question for span in (*tops, *found)),
        "contexts": None,
        "response": response,
    }
    sources = ranked[-1:] or found or [span for span in tops if span.documents]
    if sources:
        documents = (text for span in sources for text in span.documents or ())
        values["contexts"] = list(dict.fromkeys(documents))
    for name in ("session", "system", "name"):
        if (value := _first(getattr(span, name) for span in (*tops, *ordered))) is not None:
            values["group" if name == "session" else name] = value
    said = (*verdicts, *(verdict for span in ordered for verdict in span.verdicts))
    return values | verdict_columns(said)


def _depths(spans: list[Span]) -> dict[int, int]:
    """Return how many spans are around each one, by its identity; a circle has no end."""
    by_id = {span.id: span for span in spans if span.id}
    depths: dict[int, int] = {}
    for span in spans:
        path: dict[int, None] = {}
        at: Span | None = span
        while at is not None and id(at) not in depths and id(at) not in path:
            path[id(at)] = None
            at = by_id.get(at.parent or "")
        outer = 1 + depths.get(id(at), -1)
        depths |= {inner: depth for depth, inner in enumerate(reversed(path), outer)}
    return depths


def _first(texts: Iterable[str | None]) -> str | None:
    return next((text for text in texts if text and text.strip()), None)


def by_trace(parts: Callable[[Mapping[str, object]], Iterable[Span | Mark]]) -> Convert:
    """Return what reads spans in any order and joins those of one trace into one answer.

    All spans are held until the last row is read. A verdict on what is not there is set aside.

    Parameters
    ----------
    parts : callable
        From the fields of a row to the spans and verdicts in it.
    """

    def convert(items: Iterable[TableItem], notes: ExportNotes) -> Iterator[ParsedItem]:
        traces: dict[str, _Open] = {}
        marks: list[tuple[Mark, SourceRow]] = []
        for item in items:
            if isinstance(item, RowProblem):
                yield item
                continue
            found = list(parts(item.values))
            for part in found:
                if isinstance(part, Mark):
                    marks.append((part, item))
                    continue
                notes.n_parts += 1
                if part.kind in ("llm", "other"):
                    part.verdicts.extend(added(item.values))
                # They stand in the order in which they were last met.
                trace = traces.pop(part.trace, None) or _Open(item.number, item.file)
                traces[part.trace] = trace
                trace.spans.append(part)
            if not found:
                yield notes.without(item.number, "a row without a span", item.file)
        if not traces:
            # Verdicts by themselves are scores and labels of what is not there.
            notes.n_parts = len(marks)
            for mark, row in marks:
                if mark.trace:
                    traces.setdefault(mark.trace, _Open(row.number, row.file))
        trace_of = {span.id: trace for trace in traces.values() for span in trace.spans}
        lost = []
        for mark, row in marks:
            about = traces.get(mark.trace) if mark.trace else trace_of.get(mark.span or "")
            if about is None:
                seen = f"{mark.verdict[0]} of {mark.trace or mark.span}"
                lost.append(RowProblem(row.number, "row", _NO_SPAN, seen, "", _TOGETHER, row.file))
            else:
                about.marks.append(mark)
        for name, trace in traces.items():
            yield from _answers_of(name, trace, notes)
        yield from lost

    return convert


def _answers_of(name: str, trace: _Open, notes: ExportNotes) -> Iterator[ParsedItem]:
    turns = _turns(trace.spans)
    for number, spans in enumerate(turns, 1):
        verdicts = list(_verdicts(trace, spans if len(turns) > 1 else None))
        values = answer_of(spans, verdicts) if spans else {"id": name, **verdict_columns(verdicts)}
        if values is None:
            yield notes.without(trace.number, "a trace without an answer", trace.file)
            continue
        if len(turns) > 1:
            # Answers of one conversation depend on one another.
            values = {"group": name, **values, "id": f"{name}#{number}"}
        yield notes.made(SourceRow(trace.number, values, trace.file))


def _turns(spans: list[Span]) -> list[list[Span]]:
    """Return the spans of each turn of a trace: of every root that asks and answers by itself.

    What stands beside such roots belongs to the next one. Of a trace with one, or none, all spans
    are one turn.
    """
    by_id = {span.id: span for span in spans if span.id}
    roots = {id(span): span for span in spans}
    for span in spans:
        at, met = span, {id(span)}
        while (above := by_id.get(at.parent or "")) is not None and id(above) not in met:
            met.add(id(above))
            at = above
        roots[id(span)] = at
    whole = {id(root): root for root in roots.values() if _answers(root)}
    if len(whole) < 2:
        return [spans]
    order = sorted(whole.values(), key=lambda root: root.start)
    turns: dict[int, list[Span]] = {id(root): [] for root in order}
    for span in spans:
        root = roots[id(span)]
        after = (one for one in order if one.start >= root.start)
        turns[id(root if id(root) in whole else next(after, order[-1]))].append(span)
    return list(turns.values())


def _answers(root: Span) -> bool:
    """Say whether a step holds both a question and the answer to it."""
    there = _first([root.question]) is not None and _first([root.response]) is not None
    return there and root.kind in ("llm", "other")


def _verdicts(trace: _Open, turn: list[Span] | None) -> Iterator[Verdict]:
    """Yield the verdicts on a trace, each person's last; what is about a step says so.

    Of one turn among several, those that name one of its spans.
    """
    kinds = {span.id: span.kind for span in trace.spans}
    last = {(mark.verdict[0], mark.by or number): mark for number, mark in enumerate(trace.marks)}
    here = None if turn is None else {span.id for span in turn}
    for mark in last.values():
        if here is not None and mark.span not in here:
            continue
        name, value = mark.verdict
        kind = kinds.get(mark.span or "", "other")
        # What is said of a retriever's work is said of no answer.
        yield (name if kind in ("llm", "other") else f"{STEP}{kind}.{name}"), value


_NO_SPAN: Final = "a verdict on no answer"
_TOGETHER: Final = "read it together with the file that holds what it is about"


#: How OTLP in JSON says of which type a value is.
_SIMPLE: Final = ("stringValue", "boolValue", "doubleValue", "bytesValue")


def attributes_of(value: object) -> dict[str, object]:
    """Return attributes by name: from an object, or OTLP's list of keys and typed values.

    >>> attributes_of([{"key": "n", "value": {"intValue": "3"}}]), attributes_of({"a.b": 1})
    ({'n': 3}, {'a.b': 1})
    """
    if isinstance(value, dict):
        return {str(key): item for key, item in value.items()}
    if not isinstance(value, list):
        return {}
    return {
        str(item["key"]): _typed(item.get("value"))
        for item in value
        if isinstance(item, dict) and "key" in item
    }


def _typed(value: object) -> object:
    if not isinstance(value, dict):
        return value
    for name in _SIMPLE:
        if name in value:
            return value[name]
    if "intValue" in value:
        text = str(value["intValue"])
        return int(text) if text.lstrip("-").isdecimal() and len(text) < 20 else text
    if "arrayValue" in value:
        items = down(value, "arrayValue", "values")
        return [_typed(item) for item in items] if isinstance(items, list) else []
    if "kvlistValue" in value:
        return attributes_of(down(value, "kvlistValue", "values"))
    return None


def nested(flat: Mapping[str, object]) -> dict[str, Any]:
    """Return attributes with dots in their names as objects within objects, numbers as lists.

    A name that is another one's beginning (``input`` beside ``input.value``) yields to it.

    >>> nested({"docs.0.doc.text": "One.", "docs.1.doc.text": "Two.", "kind": "x"})
    {'docs': [{'doc': {'text': 'One.'}}, {'doc': {'text': 'Two.'}}], 'kind': 'x'}
    """
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        inner = tree
        for part in path:
            below = inner.get(part)
            if type(below) is not dict:
                below = inner[part] = {}
            inner = below
        if type(value) is not str:
            value = _opened(value)
        there = inner.get(last)
        if isinstance(there, dict) and isinstance(value, dict):
            there.update(value)
        elif not isinstance(there, dict):
            inner[last] = value
    return {name: _listed(value) for name, value in tree.items()}


def _opened(value: object) -> object:
    """Return a value whose own names with dots are taken apart, too."""
    if isinstance(value, dict):
        return nested({str(key): item for key, item in value.items()})
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [_opened(item) for item in value]
    return value


def _listed(value: object) -> object:
    if type(value) is not dict or not value:
        return value
    if next(iter(value)).isdecimal() and all(n.isdecimal() and len(n) < 10 for n in value):
        return [_listed(value[name]) for name in sorted(value, key=int)]
    return {name: _listed(item) for name, item in value.items()}


def down(tree: object, *names: str) -> Any:
    """Return what stands at a path of names, or None.

    >>> down({"input": {"value": "q"}}, "input", "value"), down({"input": "q"}, "input", "value")
    ('q', None)
    """
    for name in names:
        if type(tree) is not dict:
            return None
        tree = tree.get(name)
    return tree


def walked(value: object, *names: str) -> Iterator[Mapping[str, object]]:
    """Yield the objects in lists within lists, as OTLP keeps its spans."""
    if not isinstance(value, dict):
        return
    if not names:
        yield value
        return
    for item in value.get(names[0]) or () if isinstance(value.get(names[0]), list) else ():
        yield from walked(item, *names[1:])


#: Where an object holds its question, its answer or its documents: the first name that it has.
_QUESTION, _RESPONSE, _DOCUMENTS = (
    tuple(NAMES["inside"][field].split()) for field in ("question", "response", "documents")
)
_USER: Final = ("user", "human", "humanmessage")
_ASSISTANT: Final = ("assistant", "ai", "model", "aimessage", "aimessagechunk")
_DEPTH: Final = 8


def parsed(value: object) -> object:
    """Return what JSON text spells if it is an object, a list or a quoted text; else the value.

    >>> parsed('{"a": 1}'), parsed('"a"'), parsed("[1] says so")
    ({'a': 1}, 'a', '[1] says so')
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text[:1] + text[-1:] not in ("{}", "[]", '""') or len(text) < 2:
        return value
    try:
        return load_json(text)
    except ValueError:
        return value


def mapping(value: object, *names: str) -> Mapping[str, Any]:
    """Return the object at a path of names, parsed where it is spelt as text; else an empty one.

    >>> mapping({"test": '{"vars": {"q": 1}}'}, "test", "vars"), mapping([1])
    ({'q': 1}, {})
    """
    value = parsed(value)
    for name in names:
        value = parsed(value.get(name)) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def objects(value: object) -> list[Mapping[str, Any]]:
    """Return the objects in a list, parsed where it is spelt as text; none of anything else."""
    value = parsed(value)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def first_of(row: Mapping[str, Any], *names: str) -> Any:
    """Return what a row holds under the first of some names that it has, parsed."""
    return parsed(next((row[name] for name in names if row.get(name) is not None), None))


def text_under(row: Mapping[str, object], *names: str) -> str | None:
    """Return what stands under the first of some names, if not nothing, as text."""
    return next((str(row[name]) for name in names if row.get(name)), None)


def question_in(value: object) -> str | None:
    """Return the question in what went into a step: of messages, the user's last one.

    >>> question_in({"messages": [{"role": "user", "content": "Who?"}]}), question_in({"k": 4})
    ('Who?', None)
    """
    return _text(value, _QUESTION, _USER, _DEPTH)


def response_in(value: object) -> str | None:
    """Return the answer in what came out of a step: of messages, the assistant's last one.

    >>> response_in({"choices": [{"message": {"role": "assistant", "content": "Ada."}}]})
    'Ada.'
    """
    return _text(value, _RESPONSE, _ASSISTANT, _DEPTH)


def system_in(value: object) -> str | None:
    """Return the text of the system's messages, or None where there is none."""
    value = parsed(value)
    value = value.get("messages") if isinstance(value, dict) else value
    texts = [
        text
        for item in (value if isinstance(value, list) else ())
        if _role(item) in ("system", "developer", "systemmessage")
        and (text := _text(_message(item), ("content", "parts"), (), _DEPTH))
    ]
    return "\n".join(texts) or None


def documents_in(value: object) -> list[str] | None:
    """Return the texts of retrieved documents, or None where there is no list of them.

    >>> documents_in({"documents": [{"page_content": "One.", "type": "Document"}, "Two."]})
    ['One.', 'Two.']
    """
    value = parsed(value)
    for _ in range(_DEPTH):
        if not isinstance(value, dict):
            break
        inner = next((value[key] for key in _DOCUMENTS if value.get(key) is not None), None)
        if inner is None:
            text = _document(value)
            return None if text is None else [text]
        value = parsed(inner)
    if isinstance(value, str):
        return [value] if value.strip() else []
    if not isinstance(value, list):
        return None
    texts = [_document(parsed(item)) for item in value]
    return [text for text in texts if text and text.strip()]


#: What objects call the documents that stand beside a question or an answer.
_CONTEXTS: Final = (" ".join(NAMES["fields"]["contexts"][:3]) + " source_documents").split()


def contexts_in(*values: object) -> list[str] | None:
    """Return the documents beside a question or an answer, of the first object that has some.

    >>> contexts_in("text", {"kwargs": {"question": "q", "context": ["One."]}})
    ['One.']
    """
    around = [mapping(value) for value in values]
    held = [item for outer in around for item in (outer, *map(mapping, outer.values()))]
    given = (item[name] for item in held for name in _CONTEXTS if item.get(name) is not None)
    return next(filter(None, map(documents_in, given)), None)


def _document(item: object) -> str | None:
    for _ in range(_DEPTH):
        if not isinstance(item, dict):
            break
        inner = next((item[key] for key in ("kwargs", "document", "node") if item.get(key)), None)
        if inner is None:
            break
        item = parsed(inner)
    if isinstance(item, list):
        return " ".join(chunks_of(item) or ()) or None
    return text_of(item)


def _text(value: object, keys: Sequence[str], roles: Sequence[str], depth: int) -> str | None:
    value = parsed(value)
    if isinstance(value, str) or not depth:
        return value if isinstance(value, str) and value.strip() else None
    if isinstance(value, dict):
        value = _message(value)
        if isinstance(parts := value.get("parts"), list):
            return _parts(parts)
        for key in keys:
            if (text := _text(value.get(key), keys, roles, depth - 1)) is not None:
                return text
        rest = [item for item in value.values() if item is not None]
        return _text(rest[0], keys, roles, depth - 1) if len(rest) == 1 else None
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(item, str) for item in value):
        return value[-1] if len(value) == 1 else " ".join(value)
    if any(_role(item) for item in value):
        spoken = [item for item in value if _role(item) in roles]
        texts = (_text(item, ("content",), roles, depth - 1) for item in reversed(spoken))
        return next((text for text in texts if text), None)
    if all(isinstance(item, dict) and "type" in item for item in value):
        return _parts(value)
    return _text(value[-1 if roles is _USER else 0], keys, roles, depth - 1)


#: What parts of a message say that they are which hold text.
_OF_TEXTS: Final = ("text", "output_text", "input_text")


def _parts(parts: Iterable[object]) -> str | None:
    """Return the text of a message's parts; calls of tools, pictures and thoughts hold none."""
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and part.get("type", "text") in _OF_TEXTS:
            text = part.get("text", part.get("content"))
            texts.append(text if isinstance(text, str) else "")
    return "".join(texts) if any(text.strip() for text in texts) else None


def _message(item: object) -> Mapping[str, object]:
    """Return a message's own fields: LangChain keeps them in ``kwargs``, OpenInference apart."""
    if not isinstance(item, dict):
        return {}
    within = (item.get(key) for key in ("kwargs", "message"))
    return next((inner for inner in within if isinstance(inner, dict)), item)


def _role(item: object) -> str:
    """Return who speaks in a message, in lower case, or an empty text where it is none."""
    if not isinstance(item, dict):
        return ""
    path = item.get("id")
    if isinstance(item.get("kwargs"), dict) and isinstance(path, list) and path:
        return str(path[-1]).lower()
    message = _message(item)
    for key in ("role", "type"):
        role = message.get(key)
        if isinstance(role, str) and (
            key == "role" or role in ("human", "ai", "system", "tool") or "Message" in role
        ):
            return role.lower()
    return ""
