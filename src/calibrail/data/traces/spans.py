"""Which spans of a trace make one answer?

The question is what went into the root, the contexts are what retrievers found, the answer is what
came out of the root; where the root does not say, the model's own messages do.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from calibrail.data.ids import SeenIds
from calibrail.data.rows import ParsedItem, Problem, Row, TableItem
from calibrail.data.traces.export import STEP, Convert, ExportNotes, Verdict, verdict_columns

Kind: TypeAlias = Literal["retriever", "reranker", "llm", "aside", "other"]

#: Traces that are open at a time, and characters of their texts; the one that was met longest ago
#: is closed where there are more.
TRACES: Final = 10_000
CHARACTERS: Final = 1 << 27


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

    def size(self) -> int:
        """Return how many characters its texts hold."""
        texts = (self.question, self.response, self.system, *(self.documents or ()))
        return sum(len(text) for text in texts if text)


@dataclass(frozen=True, slots=True)
class Mark:
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
    size: int = 0


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
        path: list[Span] = []
        at: Span | None = span
        on_path: set[int] = set()
        while at is not None and id(at) not in depths and id(at) not in on_path:
            path.append(at)
            on_path.add(id(at))
            at = by_id.get(at.parent or "")
        depth = depths.get(id(at), -1)
        for inner in reversed(path):
            depth += 1
            depths[id(inner)] = depth
    return depths


def _first(texts: Iterable[str | None]) -> str | None:
    return next((text for text in texts if text and text.strip()), None)


def by_trace(parts: Callable[[Mapping[str, object]], Iterable[Span | Mark]]) -> Convert:
    """Return what reads spans in any order and joins those of one trace into one answer.

    At most `TRACES` traces are open at a time. What comes after its trace was closed is set aside,
    with the remedy; so is a verdict on what is not there.

    Parameters
    ----------
    parts : callable
        From the fields of a row to the spans and verdicts in it.
    """

    def convert(items: Iterable[TableItem], notes: ExportNotes) -> Iterator[ParsedItem]:
        traces = _Traces(notes)
        for item in items:
            if isinstance(item, Problem):
                yield item
                continue
            n = 0
            for part in parts(item.values):
                n += 1
                yield from traces.add(part, item)
            if not n:
                yield notes.without(item.number, "a row without a span", item.file)
        yield from traces.close()

    return convert


class _Traces:
    """The traces that are open, in the order in which they were last met."""

    def __init__(self, notes: ExportNotes) -> None:
        self._notes = notes
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._trace_of: dict[str, str] = {}
        self._waiting: dict[str, list[tuple[Mark, Row]]] = {}
        self._met = SeenIds()
        self._size = 0

    def add(self, part: Span | Mark, row: Row) -> Iterator[ParsedItem]:
        """Take in a part; yield what it is too late for, or what is closed to make room."""
        if isinstance(part, Mark):
            self._mark(part, row)
            return
        self._notes.n_parts += 1
        trace = self._open.get(part.trace)
        if trace is None:
            if not self._met.add(part.trace):
                yield _late(row)
                return
            trace = self._open[part.trace] = _Open(row.number, row.file)
        self._open.move_to_end(part.trace)
        trace.spans.append(part)
        self._trace_of[part.id] = part.trace
        size = part.size()
        trace.size, self._size = trace.size + size, self._size + size
        while len(self._open) > 1 and (len(self._open) > TRACES or self._size > CHARACTERS):
            yield from self._ended(*self._open.popitem(last=False))

    def close(self) -> Iterator[ParsedItem]:
        """Yield what is still open, and the verdicts on what never came."""
        while self._open:
            yield from self._ended(*self._open.popitem(last=False))
        for marks in self._waiting.values():
            for mark, row in marks:
                seen = f"{mark.verdict[0]} of {mark.trace or mark.span}"
                yield Problem(row.number, "row", _NO_SPAN, seen, "", _TOGETHER, row.file)

    def _mark(self, mark: Mark, row: Row) -> None:
        trace = mark.trace or self._trace_of.get(mark.span or "")
        if trace is not None and trace in self._open:
            self._open[trace].marks.append(mark)
        else:
            self._waiting.setdefault(trace or mark.span or "", []).append((mark, row))

    def _ended(self, name: str, trace: _Open) -> Iterator[ParsedItem]:
        self._size -= trace.size
        for key in (name, *(span.id for span in trace.spans)):
            self._trace_of.pop(key, None)
            trace.marks += [mark for mark, _ in self._waiting.pop(key, ())]
        turns = _turns(trace.spans)
        for number, spans in enumerate(turns, 1):
            values = answer_of(spans, _verdicts(trace, spans if len(turns) > 1 else None))
            if values is None:
                yield self._notes.without(trace.number, "a trace without an answer", trace.file)
                continue
            if len(turns) > 1:
                # Answers of one conversation depend on one another.
                values = {"group": name, **values, "id": f"{name}#{number}"}
            yield self._notes.made(Row(trace.number, values, trace.file))


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


def _late(row: Row) -> Problem:
    remedy = "sort the file by trace, or read it in parts"
    return Problem(row.number, "row", "too far from its trace", "", "", remedy, row.file)
