"""Benchmarks: question answering and marked spans.

Each is one table, or two files of a folder. Every reader yields rows under calibrail's own field
names, which then pass the same checks as any other row.

Li et al., "HaluEval: A Large-Scale Hallucination Evaluation Benchmark", 2023. The first three
hold a right and a hallucinated text a row, so that a row makes two examples of one group; the
last holds one ChatGPT answer a row with a yes/no judgement and no context.

Lin et al., "TruthfulQA: Measuring How Models Mimic Human Falsehoods", 2022. Each question gives
its best answer (faithful) and its best incorrect answer (hallucinated); there is no context.
Releases before 2025 have no column for the best incorrect answer: the first of the list is taken.

Niu et al., "RAGTruth: A Hallucination Corpus for Developing Trustworthy Retrieval-Augmented
Language Models", 2024. ``response.jsonl`` holds the answers with the spans that humans marked;
``source_info.jsonl`` holds what the models were given. A response is hallucinated when it has any
span. All responses to one source share a group.

Bao et al., "FaithBench: A Diverse Hallucination Benchmark for Summarization by Modern LLMs", 2025.
``summaries.csv`` holds a summary a row with what published detectors gave it, ``spans.csv`` what
each annotator marked: unwanted, questionable or benign. A summary's label is that of its worst mark
by anybody; benign marks, and those that say nothing, make no hallucination. All summaries of one
source share a group.

Manakul et al., "SelfCheckGPT", 2023: passages that GPT-3 wrote about people, each sentence judged
``accurate``, ``minor_inaccurate`` or ``major_inaccurate`` by humans. A passage is hallucinated
when any sentence is inaccurate; its context is the person's Wikipedia text; there is no question.
``gpt3_sentences`` are the sentences that were judged.

One file each. Every reader yields rows under calibrail's own field names, which then pass the same
checks as any other row.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from calibrail.data.example import (
    FAITHFUL,
    HALLUCINATED,
    Filtered,
    OpenTable,
    ParsedItem,
    RowProblem,
    SourceRow,
    shorten,
)
from calibrail.data.files import json_rows
from calibrail.data.spans import Span, merged
from calibrail.data.spreadsheets import csv_rows
from calibrail.errors import DataError, InputError
from calibrail.options import ReadOptions

#: What becomes of a row: an example's values under calibrail's field names, or why there are none.
Made: TypeAlias = Mapping[str, object] | RowProblem | Filtered
Convert: TypeAlias = Callable[[SourceRow], Iterable[Made]]


class Native(NamedTuple):
    """A benchmark's name, how it is recognised and how it is read.

    Parameters
    ----------
    name : str
        The format's name, as ``--format`` takes it.
    signatures : tuple of frozenset of str
        A file whose rows have all the fields of one of these sets is of this format.
    options : tuple of str
        The reader options that it knows.
    converter : callable
        ``converter(options)`` returns a function from a row of the file to examples.
    """

    name: str
    signatures: tuple[frozenset[str], ...]
    options: tuple[str, ...]
    converter: Callable[[Mapping[str, object]], Convert]

    def rows(self, open_table: OpenTable, options: Mapping[str, object]) -> Iterator[ParsedItem]:
        """Yield rows under calibrail's field names; what cannot be parsed stays a problem."""
        convert = self.converter(options)
        for row in open_table():
            if isinstance(row, RowProblem):
                yield row
                continue
            for it in convert(row):
                yield it if isinstance(it, RowProblem | Filtered) else SourceRow(row.number, it)


class Folder(NamedTuple):
    """A benchmark of two files: its name, how it is recognised and how it is read.

    Parameters
    ----------
    name : str
        The format's name, as ``--format`` takes it.
    holds : tuple of str
        Names of the files that belong together.
    read : callable
        From these files and how they are read to rows.
    signatures : tuple of frozenset of str
        Either file alone is of this format where its rows have all the fields of one of these.
    options : tuple of str
        The reader options that it knows.
    cells : bool
        Whether texts come from CSV cells.
    """

    name: str
    holds: tuple[str, str]
    read: Callable[[Path, Path, ReadOptions], Iterator[ParsedItem]]
    signatures: tuple[frozenset[str], ...] = ()
    options: tuple[str, ...] = ()
    cells: bool = False

    def files(self, path: Path) -> tuple[Path, Path]:
        """Return the two files, given their folder or either of them.

        Raises
        ------
        DataError
            One of the two is not there.
        """
        folder = path if path.is_dir() else path.parent
        first, second = (folder / name for name in self.holds)
        for file in (first, second):
            if not file.is_file():
                names = " and ".join(self.holds)
                raise DataError(f"{self.name} is read from {names}; {file} is missing")
        return first, second


def missing_field(row: SourceRow, field: str, column: str) -> RowProblem:
    """Return the problem of a row that lacks an original column."""
    remedy = "take the benchmark's original file"
    return RowProblem(row.number, field, "missing", "", f"no {column!r}", remedy)


#: Columns of the context, the question, the right and the hallucinated text, by subset.
_PAIRED: Final = {
    "qa": ("knowledge", "question", "right_answer", "hallucinated_answer"),
    "dialogue": ("knowledge", "dialogue_history", "right_response", "hallucinated_response"),
    "summarization": ("document", None, "right_summary", "hallucinated_summary"),
}
_GENERAL: Final = ("user_query", "chatgpt_response", "hallucination")
_JUDGED: Final = {"yes": HALLUCINATED, "no": FAITHFUL}


def _converter(options: Mapping[str, object]) -> Convert:
    value, least = options.get("min_chars", 0), -1
    with suppress(ValueError):
        least = int(str(value))
    if least < 0:
        raise InputError(f"reader option min_chars must be a whole number >= 0; got {value!r}")

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
        incorrect = str(row.values.get("Incorrect Answers") or "").split(";")[0].strip() or None
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
    converter=lambda _: _truthfulqa_examples,
)


_RESPONSES: Final = "response.jsonl"
_SOURCES: Final = "source_info.jsonl"
_PASSAGE: Final = re.compile(r"(?:\A|\n)\s*passage \d+:", re.IGNORECASE)


def _ragtruth_rows(
    sources_file: Path, responses_file: Path, reading: ReadOptions
) -> Iterator[ParsedItem]:
    """Yield one row a response, joined with its source, of one task or split where named.

    The sources are held in memory (about 3,000 texts in the full corpus). Columns that can be
    kept: ``task``, ``model``, ``temperature``, ``split``, ``quality``. Every span counts, those
    with ``implicit_true`` (true, and not in the source) and ``due_to_null`` (a misread empty value)
    among them: neither is supported by the source, and the corpus calls such answers hallucinated.
    """
    task, split = map((reading.options or {}).get, ("task", "split"))
    sources: dict[str, Mapping[str, object]] = {}
    for item in json_rows(sources_file):
        if isinstance(item, RowProblem):
            yield RowProblem(item.row, "source_info", item.reason, item.value, f"in {_SOURCES}")
        elif item.values.get("source_id") is None or item.values.get("source_info") is None:
            yield RowProblem(item.number, "source_info", "missing", "", f"in {_SOURCES}")
        else:
            sources[str(item.values["source_id"])] = item.values
    for item in json_rows(responses_file):
        if isinstance(item, RowProblem):
            yield item
            continue
        source = sources.get(str(item.values.get("source_id")))
        if source is None:
            value = shorten(item.values.get("source_id"))
            remedy = f"take both of the benchmark's files; {_SOURCES} has no such source_id"
            yield RowProblem(item.number, "source_id", "no such source", value, "", remedy)
        elif task is not None and source.get("task_type") != task:
            yield Filtered(item.number, f"task is not {task}")
        elif split is not None and item.values.get("split") != split:
            yield Filtered(item.number, f"split is not {split}")
        else:
            yield _joined(item, source)


def split_passages(text: str) -> list[str]:
    r"""Return the chunks of a ``passages`` text, cut at every line that starts ``passage N:``.

    >>> split_passages("passage 1:First.\n\npassage 2:Second, see passage 1: above.")
    ['First.', 'Second, see passage 1: above.']
    """
    return [chunk.strip() for chunk in _PASSAGE.split(text) if chunk.strip()]


def _joined(row: SourceRow, source: Mapping[str, object]) -> SourceRow | RowProblem:
    spans = row.values.get("labels")
    if not isinstance(spans, list):
        reason = "missing" if spans is None else "wrong type"
        remedy = "labels must be a list of the spans that humans marked, empty where there is none"
        return RowProblem(row.number, "label", reason, shorten(spans), "", remedy)
    info, question = source.get("source_info"), None
    # Passages of question answering; the other tasks have a text, or JSON.
    contexts = info
    if isinstance(info, dict) and "passages" in info:
        passages, question = info["passages"], info.get("question")
        contexts = split_passages(passages) if isinstance(passages, str) else passages
    elif isinstance(info, dict):
        contexts = json.dumps(info, ensure_ascii=False)
    values = {
        "contexts": contexts,
        "response": row.values.get("response"),
        "label": HALLUCINATED if spans else FAITHFUL,
        "group": row.values.get("source_id"),
        "id": row.values.get("id"),
        "task": source.get("task_type"),
        **{name: row.values.get(name) for name in ("model", "temperature", "split", "quality")},
        "spans": spans,
    }
    if question is not None:
        values["question"] = question
    return SourceRow(row.number, values)


RAGTRUTH: Final = Folder(
    "ragtruth",
    (_SOURCES, _RESPONSES),
    _ragtruth_rows,
    (
        frozenset({"source_id", "labels", "model", "response"}),
        frozenset({"source_id", "source_info", "task_type"}),
    ),
    ("task", "split"),
)

_SPANS: Final = "spans.csv"
#: Columns of the spans.
_SPAN: Final = ("id", "start", "end", "annotator", "label")

#: What a mark may say, from the mildest on.
LEVELS: Final = ("benign", "questionable", "unwanted")


def _faithbench_rows(summaries: Path, spans: Path, reading: ReadOptions) -> Iterator[ParsedItem]:
    """Yield one row a summary, with what is marked in it; spans are held in memory.

    The option ``worst`` is the mildest mark that counts; by default what the benchmark's own label
    counts. ``annotators`` says who must have marked a character for it to count: anybody, as for
    the benchmark's own label; more than half of those who annotated the batch (what stands before
    the "-" of an id), of whom somebody who marked nothing in a summary found nothing there; or all.

    Raises
    ------
    InputError
        Another level.
    """
    worst = (reading.options or {}).get("worst", "questionable")
    annotators = reading.annotators or "any"
    if worst not in LEVELS:
        raise InputError(f"reader option worst must be one of {', '.join(LEVELS)}; got {worst!r}")
    least = LEVELS.index(str(worst))
    people: dict[str, set[str]] = defaultdict(set)
    marks: dict[str, dict[str, list[Span]]] = defaultdict(lambda: defaultdict(list))
    odd: dict[str, str] = {}
    rows: dict[str, int] = {}
    for item in csv_rows(spans):
        if isinstance(item, RowProblem):
            where = f"in {_SPANS}"
            yield RowProblem(item.row, "spans", item.reason, item.value, where, file=item.file)
            continue
        name, start, end, person, kind = (str(item.values.get(key) or "") for key in _SPAN)
        people[_batch(name)].add(person)
        rows.setdefault(name, item.number)
        if not (start.isdecimal() and end.isdecimal() and int(start) <= int(end)):
            odd[name] = f"{start!r} to {end!r} in row {item.number} of {_SPANS}"
        elif _level(kind) >= least:
            marks[name][person].append((int(start), int(end)))
    for item in csv_rows(summaries):
        if isinstance(item, RowProblem):
            yield item
            continue
        name = str(item.values.get("id"))
        rows.pop(name, None)
        if name in odd:
            remedy = "take the benchmark's original files"
            yield RowProblem(item.number, "spans", "wrong type", odd[name], "", remedy)
            continue
        n = len(people[_batch(name)])
        needed = {"any": 1, "majority": n // 2 + 1, "all": n}[annotators]
        text = str(item.values.get("response") or "")
        counted = [
            span
            for span in agreed(list(marks.get(name, {}).values()), needed)
            if text[slice(*span)].strip() or span[1] > len(text)
        ]
        label, said = (HALLUCINATED if counted else FAITHFUL), item.values.get("label")
        if (worst, annotators) == ("questionable", "any") and said not in (None, str(label)):
            remedy = f"take the benchmark's original files: {_SPANS} says otherwise"
            seen = shorten(said)
            yield RowProblem(item.number, "label", "differs from the marks", seen, "", remedy)
            continue
        yield SourceRow(item.number, {**item.values, "label": label, "spans": counted})
    for name, number in rows.items():
        remedy = "take both of the benchmark's original files"
        yield RowProblem(number, "spans", "no such summary", repr(name), "", remedy, _SPANS)


def agreed(marked: Sequence[Sequence[Span]], needed: int) -> tuple[Span, ...]:
    """Return the characters that so many people marked, each by spans of theirs.

    >>> agreed([[(0, 4), (2, 6)], [(3, 9)]], 2)
    ((3, 6),)
    """
    each = [merged(spans) for spans in marked]
    edges = sorted({edge for spans in each for span in spans for edge in span})
    return merged(
        [
            (start, end)
            for start, end in pairwise(edges)
            if sum(any(a <= start < b for a, b in spans) for spans in each) >= needed
        ]
    )


def _batch(name: str) -> str:
    return name.partition("-")[0]


def _level(label: str) -> int:
    """Return the worst that a mark says, as a place in `LEVELS`; -1 where it says nothing.

    >>> _level("Questionable|Unwanted.Intrinsic"), _level("")
    (2, -1)
    """
    kinds = (part.partition(".")[0].strip().lower() for part in label.split("|"))
    return max((LEVELS.index(kind) for kind in kinds if kind in LEVELS), default=-1)


FAITHBENCH: Final = Folder(
    "faithbench", ("summaries.csv", _SPANS), _faithbench_rows, options=("worst",), cells=True
)

_VERDICTS: Final = frozenset({"accurate", "minor_inaccurate", "major_inaccurate"})


def _passage_spans(row: SourceRow) -> Made:
    annotation = row.values.get("annotation")
    if annotation is None:
        return missing_field(row, "label", "annotation")
    verdicts = annotation if isinstance(annotation, list) else [annotation]
    # Verdicts may be other JSON values in a broken row, which cannot be put into a set.
    unknown = [v for v in verdicts if not (isinstance(v, str) and v in _VERDICTS)]
    if unknown or not verdicts:
        remedy = f"annotation must be a list of {', '.join(sorted(_VERDICTS))}"
        seen = shorten(annotation)
        return RowProblem(row.number, "label", "unknown annotation", seen, "", remedy)
    wrong = sum(verdict != "accurate" for verdict in verdicts)
    index = row.values.get("wiki_bio_test_idx", row.number)
    texts = row.values.get("gpt3_sentences")
    # A text or a verdict too many is set aside where sentences are asked for.
    pairs = zip_longest(texts, verdicts) if isinstance(texts, list | tuple) else ()
    return {
        "contexts": row.values.get("wiki_bio_text"),
        "response": row.values.get("gpt3_text"),
        "label": HALLUCINATED if wrong else FAITHFUL,
        "group": f"wikibio-{index}",
        "id": f"wikibio-{index}",
        "samples": row.values.get("gpt3_text_samples"),
        "inaccurate_share": wrong / len(verdicts),
        "major_share": verdicts.count("major_inaccurate") / len(verdicts),
        "sentences": [{"text": text, "label": verdict} for text, verdict in pairs],
    }


WIKIBIO: Final = Native(
    name="wikibio",
    signatures=(frozenset({"gpt3_text", "wiki_bio_text", "annotation"}),),
    options=(),
    converter=lambda _: lambda row: [_passage_spans(row)],
)


#: The benchmarks that are one table, and those that are two files of a folder.
NATIVES: Final[tuple[Native, ...]] = (HALUEVAL, TRUTHFULQA, WIKIBIO)
FOLDERS: Final[tuple[Folder, ...]] = (RAGTRUTH, FAITHBENCH)


def folder_of(format: str | None, names: Collection[str]) -> Folder | None:
    """Return the benchmark that was named, or the one whose files a folder holds.

    >>> folder = folder_of(None, {"summaries.csv", "spans.csv", "README.md"})
    >>> folder.name, folder_of("csv", {"summaries.csv", "spans.csv"})
    ('faithbench', None)
    """
    for folder in FOLDERS:
        if folder.name == format or (format is None and {*folder.holds} <= set(names)):
            return folder
    return None
