"""Read(), Reading: one pass with counts; label check."""

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, suppress
from contextvars import ContextVar
from dataclasses import asdict, replace
from functools import cached_property, partial
from hashlib import blake2b, sha256
from itertools import chain, groupby
from math import sqrt
from pathlib import Path
from typing import Any, Final, TypeAlias, Unpack

from calibrail.data.aliases import Labellers, is_of_judge, listing
from calibrail.data.columns import (
    CHARACTERS,
    Needs,
    Seen,
    choose_columns,
    likely_labels,
    which_label,
)
from calibrail.data.dataset import ROWS, Block, ColumnReader, Dataset
from calibrail.data.example import (
    TEXT_FIELDS,
    Example,
    Filtered,
    ParsedItem,
    Quarantine,
    RowBatch,
    RowProblem,
    SourceIds,
    SourceRow,
)
from calibrail.data.files import count_rows
from calibrail.data.labels import LabelReader, is_of_people
from calibrail.data.outputs import Output, refuse_foreign, refuse_read
from calibrail.data.row_parser import Gatherer, RowParser, answers_of, duplicate, pairs_listed
from calibrail.data.sentences import UNMARKED
from calibrail.data.sources import (
    Opened,
    Source,
    digest_files,
    file_digests,
    open_source,
    peek,
    spoken,
)
from calibrail.data.tables import NotPlainError, batch_rows
from calibrail.data.traces._spans import ANNOTATION, SCORE
from calibrail.data.values import Named, name_of, value_at
from calibrail.errors import DataError, InputError, error_text, variable_set
from calibrail.formatting import listed
from calibrail.options import Detectors, ReadOptions
from calibrail.options.data import ReadKeywords
from calibrail.options.fields import changed, cli_or_python, flags, optional, spell_option
from calibrail.options.keywords import options_from_keywords
from calibrail.serialization import plain

_SLACK: Final = 1000
#: Rows, each with what was made of it.
_Rows: TypeAlias = Iterator[list[ParsedItem]]


class Subsample:
    """The first rows of a source, or rows drawn by lot; counts what it takes, and from how many.

    Parameters
    ----------
    reading : ReadOptions
        How many rows are wanted.
    group_of : callable
        The group of a row, None where it has none.
    """

    def __init__(self, reading: ReadOptions, group_of: Callable[[SourceRow], str | None]) -> None:
        self._reading, self._group_of = reading, group_of
        self.n_passed = self.n_taken = 0
        #: How many rows the lot has drawn; None before it is drawn.
        self.n_drawn: int | None = None
        self.grouped = self._left = False

    def __call__(self, items: Iterator[ParsedItem]) -> Iterator[ParsedItem]:
        """Yield the items of the rows that are wanted, in their order."""
        rows: _Rows = (list(row) for _, row in groupby(items, key=_place))
        if self._reading.limit is not None:
            rows = self._first(rows, self._reading.limit)
        if self._reading.sample is not None:
            rows = self._drawn(rows, self._reading.sample)
        for row in rows:
            self.n_taken += 1
            yield from row

    def of_batches(self, batches: Iterator[RowBatch]) -> Iterator[RowBatch]:
        """Return the rows that are wanted, many at a time, where none are drawn by lot."""
        limit = self._reading.limit
        for batch in batches:
            rows = batch.rows if limit is None else batch.rows.slice(0, limit - self.n_taken)
            self._left |= rows.num_rows < batch.rows.num_rows
            self.n_taken += rows.num_rows
            if rows.num_rows:
                yield replace(batch, rows=rows)
            if self._left:
                return

    def to_dict(self) -> dict[str, Any] | None:
        """Return what was asked for, what was read, and of what; None where nothing was left out.

        Final once the source has been read.
        """
        limit, sample = self._reading.limit, self._reading.sample
        drawn = sample is not None and self.n_taken < self.n_passed
        if not (drawn or self._left):
            return None
        return {
            "limit": limit if self._left else None,
            "sample": sample if drawn else None,
            "rows": self.n_taken,
            "sample_seed": self._reading.sample_seed if drawn else None,
            "drawn_from": self.n_passed if drawn else None,
            "whole_groups": self.grouped if drawn else None,
        }

    def _first(self, rows: _Rows, limit: int) -> _Rows:
        for n, row in enumerate(rows):
            if n == limit:
                self._left = True
                return
            yield row

    def _drawn(self, rows: _Rows, n: int) -> _Rows:
        """Draw rows; where rows have groups, each group by lot, whatever its size.

        Every row or group draws a number in [0, 1). A group is in where its number lies below the
        share that is wanted, so that large groups are as likely as small ones and about ``n`` rows
        come of it; without groups, the ``n`` rows with the lowest numbers are.
        """
        held: list[tuple[float, list[ParsedItem]]] = []
        allowed = 2 * n + _SLACK
        for row in rows:
            self.n_passed += 1
            groups = (self._group_of(item) for item in row if isinstance(item, SourceRow))
            group = next(groups, None)
            unit = ("row", *_place(row[0])) if group is None else ("group", group)
            self.grouped |= unit[0] == "group"
            drawn = f"sample\x1f{self._reading.sample_seed}\x1f{unit!r}".encode("utf-8", "replace")
            lot = int.from_bytes(blake2b(drawn, digest_size=8).digest(), "big") / 2.0**64
            held.append((lot, row))
            if len(held) > allowed:
                # More than can be in, but for a chance of one in a thousand million.
                edge = (n + 6.0 * sqrt(n) + 20.0) / self.n_passed
                held = [pair for pair in held if pair[0] < edge]
                allowed = 2 * len(held) + _SLACK
        if self.grouped:
            edge = n / max(1, self.n_passed)
        else:
            lots = sorted(lot for lot, _ in held)
            edge = lots[n] if n < len(lots) else 1.0
        chosen = [row for lot, row in held if lot < edge]
        self.n_drawn = len(chosen)
        yield from chosen


def _place(item: ParsedItem) -> tuple[str, int]:
    return item.file, item.number if isinstance(item, SourceRow) else item.row


class Reading:
    """The examples of one source: a single pass, in constant memory, counting as it goes.

    Made by `calibrail.data.reading.read`. The counters are live during the pass and final after it.

    Attributes
    ----------
    source : str
        What was read.
    format : str
        Name of the format.
    fields : tuple of str
        The column names seen in the first rows.
    head : tuple of mapping
        The first rows as they were read.
    columns : Columns
        Which column holds which field, and what its labels mean.
    n_rows : int
        Rows of the source so far; one row of a benchmark may make two examples.
    n_examples, n_quarantined, n_filtered : int
        Examples, problems, and answers left out on request, so far.
    reasons : Counter of (str, str)
        Problems by field and reason.
    filtered : Counter of str
        What was left out, by reason.
    begun : bool
        Whether rows have been counted.
    files : tuple of Path
        The files that are read.
    has_ids : bool
        Whether there is a column of ids.
    origin, export : Origin or None, ExportNotes or None
        How labels came about, where the source says so; what became of a tool's export.
    """

    def __init__(self, source: str, opened: Opened, reading: ReadOptions, needs: Needs) -> None:
        if opened.origin is not None and opened.origin.judge is not None:
            reading = replace(reading, labelled_by=opened.origin.judge)
        # Few of the answers that a tool traced have a person's label.
        until = "" if opened.export is None else ANNOTATION
        head, fields = peek(opened.items, rectangular=opened.rectangular, until=until)
        self.source, self.format, self.fields = source, opened.format, tuple(fields)
        self.head = tuple(item.values for item in head if isinstance(item, SourceRow))
        self.columns = choose_columns(self.head, opened, reading.of_answers(), needs, source)
        if needs.labelled and reading.labelled_by is None:
            # The name of a column of labels may say that a program gave them.
            given = [it for it in self.columns.label_columns if not is_of_people(it)]
            scores = () if opened.export is None else (SCORE,)
            said = (it for it in given if it.startswith(scores) or is_of_judge(it))
            reading = replace(reading, labelled_by=next(said, None))
        self.n_rows = self.n_examples = self.n_quarantined = self.n_filtered = 0
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.filtered: Counter[str] = Counter()
        self._codes: set[str] = set()
        self.origin, self.export = opened.origin, opened.export
        self.class_names, self.files = opened.class_names, opened.files
        self.has_ids = "id" in self.columns.present
        self._digest = opened.digest or partial(digest_files, opened.files)
        self._opened, self._reading = opened, reading
        needs = needs.keeping(fields, self.columns)
        # Rows with neither answers nor ids are known by all that they hold.
        named = bool({"response", "id"} & self.columns.present)
        narrow = opened.batches if named and not opened.cells else None
        # Without a column of ids the rows of a table are called by their numbers: no two alike.
        self._numbered = opened.rectangular and not self.has_ids
        self._interpreter = RowParser(self.columns, needs, opened.cells, whole=narrow is None)
        parts = self.columns.marked.answer_id is not None
        asked = self.head if reading.labelled_by is None else ()
        #: Who gave the labels, where nobody says whose they are.
        self.labellers = Labellers(asked, opened.rectangular or not asked, parts)
        self._needs = needs
        self._names: set[str] | None = None
        items: Iterator[ParsedItem] = chain(head, opened.items)
        if narrow is not None:
            twins = (twin.reader.column for twin in self.columns.rivals)
            labels = (*self.columns.label_columns, *twins)
            names = (*self.columns.by_field.values(), *labels, *needs.keep, *self.labellers.columns)
            self._names = {*names} - {CHARACTERS}
            # Rows of scores with one id are told apart by all that they hold.
            whole = needs.distinct and "response" not in self.columns.present
            items = batch_rows(narrow(columns=None if whole else self._names))
        self._gatherer: Gatherer | None = None
        if parts:
            self._gatherer = Gatherer(self.columns.by_field, self.columns.label_columns)
            items = self._gatherer(items)
        self._part = Subsample(reading, self._group_of)
        self._ids = SourceIds()
        self._items = self._part(items) if {reading.limit, reading.sample} != {None} else items
        self._stream = self._run(self._items)
        #: File and row of the example that was given last, and what that holds; who is told of
        #: each row that is none.
        self.place: tuple[str, int] = ("", 0)
        self._row: Mapping[str, object] = {}
        self.told: Callable[[RowProblem], object] | None = None
        #: What reads columns of scores in which a yes means hallucinated.
        self.verdicts: list[LabelReader] = []
        self._done = self.begun = False
        self._first: RowProblem | None = None

    def __iter__(self) -> Iterator[Example]:
        """Return itself; refuse a second pass, which would silently hold nothing."""
        if self._done:
            raise InputError(f"{self.source} has been read to its end; call read() again")
        return self

    def __next__(self) -> Example:
        """Return the next usable example."""
        return next(self._stream)

    def about_in_all(self) -> int | None:
        """Return about how many examples there will be; None where counting costs too much.

        Rows are not read: as many of them are taken to be examples as were so far.
        """
        if self._done:
            return self.n_examples
        of_several = self.format in ("ragtruth", "faithbench") or self._gatherer is not None
        if not self.n_rows or of_several or self.export:
            return None
        n_rows = self._part.n_drawn
        if n_rows is None:
            wanted = (self._stored_rows, self._reading.limit, self._reading.sample)
            known = [n for n in wanted if n is not None]
            if not known:
                return None
            n_rows = min(known)
        return round(max(n_rows, self.n_rows) * self.n_examples / self.n_rows)

    @cached_property
    def _stored_rows(self) -> int | None:
        # Once: it costs a look at the files.
        return count_rows(self._opened.files) if self._opened.files else self._opened.n_rows

    def digest(self) -> str | None:
        """Return the SHA-256 of the file, or of the names and digests of several files.

        Where a list or a sheet of a file is named, it is of that name, too: another one of the same
        file is other data. Available before and after the examples are read. That of data in
        memory is the digest of its rows, and is None until they are read.
        """
        options = self._reading.options or {}
        digest, name = self._digest(), options.get("list") or options.get("sheet")
        if digest is None or name is None or not self._opened.files:
            return digest
        return sha256(f"{digest}\0{name}".encode()).hexdigest()

    def part(self) -> dict[str, Any] | None:
        """Return which part of the source was read, JSON-able; None where none was left out."""
        return self._part.to_dict()

    def repeated_ids(self) -> dict[str, int] | None:
        """Return how many ids stand for several answers, and these; None where none does."""
        sizes = self._ids.repeated.values()
        return {"n_ids": len(sizes), "n_answers": sum(sizes)} if sizes else None

    def to_dict(self) -> dict[str, object]:
        """Return source, format, digest and counts, JSON-able."""
        return {
            "source": self.source,
            "format": self.format,
            "sha256": self.digest(),
            "rows": self.n_rows,
            "examples": self.n_examples,
            "quarantined": self.n_quarantined,
            "filtered": self.n_filtered,
            "reasons": [
                {"field": field, "reason": reason, "count": count}
                for (field, reason), count in self.reasons.most_common()
            ],
        }

    def how(self) -> dict[str, object]:
        """Return how the source was read, JSON-able; what labels meant is final after the pass."""
        files = file_digests(self._opened.files) if len(self._opened.files) > 1 else []
        said, marks = replace(self._reading, strict=False), self.columns.decimals
        said = replace(said, labelled_by=said.labelled_by or self.labellers.judge)
        decimals = {name: marks[name] for name in self._needs.keep if name in marks}
        return {
            "columns": {
                field: self.columns.by_field[field] for field in sorted(self.columns.present)
            },
            "named_as": self.columns.named_as(),
            "settings": plain(changed(said)),
            **({"decimals": decimals} if decimals else {}),
            "options": list(flags(said)),
            "labels": self.columns.labels.described() if self.columns.labels.seen else None,
            "turned": [] if said.pair else list(self.columns.labels.turned()),
            "part": self.part(),
            "repeated_ids": self.repeated_ids(),
            "labellers": self.labellers.found(),
            "origin": None if self.origin is None else asdict(self.origin),
            "export": None if self.export is None else self.export.to_dict(is_of_people),
            "files": [{"name": name, "sha256": digest} for name, digest in files],
        }

    def _run(self, items: Iterator[ParsedItem]) -> Iterator[Example]:
        distinct = self._needs.distinct and self.has_ids
        yield from (self._told_apart if distinct else self._given)(items)

    def _given(
        self, items: Iterator[ParsedItem], note: Callable[[int], object] = bool
    ) -> Iterator[Example]:
        with closing(Quarantine(self._reading.quarantine)) as quarantine:
            for example, content in self._usable(items, quarantine):
                note(content)
                yield example
        self.end()

    def held(self) -> Dataset:
        """Return all answers, read now: iterating would hold them twice."""
        if not (self._needs.distinct and self.has_ids):
            return Dataset(self)
        answers = self._told_apart(self._items)
        return answers if isinstance(answers, Dataset) else Dataset(answers)

    def _told_apart(self, items: Iterator[ParsedItem]) -> Iterable[Example]:
        """Read all answers; return them, several of one id with ids of their own and a group.

        Their ids are made of what they hold, in whichever order they come.
        """
        contents = array("Q")
        answers = Dataset(self._given(items, contents.append))
        repeated = self._ids.repeated
        if not repeated:
            return answers
        pairs = zip(answers, contents, strict=True)
        texts = Counter((example.id, said) for example, said in pairs if example.id in repeated)
        grouped = any(example.group is not None for example in answers)

        def renamed() -> Iterator[Example]:
            for example, said in zip(answers, contents, strict=True):
                if (id := example.id) not in repeated:
                    yield example
                    continue
                name = f"{id}/{said >> 32:08x}"
                if texts[id, said] > 1:
                    # The same answer with another label or score.
                    held = repr((example.label, sorted(example.columns.items()))).encode()
                    name += blake2b(held, digest_size=4).hexdigest()
                yield replace(example, id=name, group=example.group if grouped else id)

        return renamed()

    def _usable(
        self, items: Iterator[ParsedItem], quarantine: Quarantine
    ) -> Iterator[tuple[Example, int]]:
        """Yield the usable answers, each with what tells it from others of its id."""
        for row in chain.from_iterable(answers_of(item, self.columns) for item in items):
            self.begun = True
            before, self.place = self.place, _place(row)
            self.n_rows += self.place != before
            if self._gatherer is not None:
                self.n_rows = self._gatherer.n_rows
            result = self._interpreter(row) if isinstance(row, SourceRow) else row
            if isinstance(result, Example):
                for verdict in self.verdicts:
                    if isinstance(cell := result.columns.get(verdict.column), str | Named):
                        verdict.of_many([(cell, 1)])
                known = self._needs.repeats or (self._numbered and not row.file)
                content = 0 if known else self._held(result, row)
                said = content
                if self._needs.labelled:
                    said = hash((content, result.label, *result.columns.items()))
                unique = result.id if known else self._ids.name(result.id, row.file, said)
                if unique is not None:
                    self.n_examples += 1
                    self._row = row.values if isinstance(row, SourceRow) else {}
                    if self._needs.labelled:
                        self.count_label()
                    yield result if unique == result.id else replace(result, id=unique), content
                    continue
                result = duplicate(self.place[1], result.id, row.file)
            self._leave_out(result, quarantine)

    def count_label(self) -> None:
        """Count who gave the label of the example that was given last."""
        self.labellers.add(self._row)

    def _held(self, example: Example, row: Any) -> int:
        """Return a number for what an answer says; without one, for all that its row holds."""
        if not self._needs.distinct:
            columns = tuple(example.columns.items())
            return hash((example.question, example.contexts, example.response, columns))
        if example.response:
            return int(example.digest(), 16)
        held = self._interpreter.content(row.values)
        digest = blake2b(held.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "big")

    def _group_of(self, row: SourceRow) -> str | None:
        with suppress(ValueError):
            return name_of(value_at(row.values, self.columns.by_field["group"]))
        return None

    def problems(self) -> list[str]:
        """Return what is wrong with the rows left out, the most frequent first, with their numbers.

        Final once the source has been read.
        """
        return [f"{field}: {reason} ({n})" for (field, reason), n in self.reasons.most_common(5)]

    def blocks(self, scores: Collection[str]) -> Iterator[Block]:
        """Yield the examples many at a time, as columns; `end` is to be called after the last.

        Ids are taken to be unique: whoever meets one twice reads again, row by row.

        Parameters
        ----------
        scores : collection of str
            Which of the columns that are kept are scores.

        Raises
        ------
        NotPlainError
            Rows must be read one by one, from the beginning.
        """
        strict = self._reading.strict and self.has_ids
        if self._opened.batches is None or self._reading.sample is not None or strict:
            raise NotPlainError
        whose = self.labellers.columns if self._needs.labelled else []
        needs = replace(self._needs, keep=(*self._needs.keep, *whose))
        reader = ColumnReader(self.columns, needs, self._interpreter, scores)
        with closing(Quarantine(self._reading.quarantine)) as quarantine:
            batches = self._opened.batches(columns=self._names, rows=ROWS)
            for batch in self._part.of_batches(batches):
                reader.check(batch.rows.schema)
                self.begun = True
                block, left_out = reader(batch)
                self.n_rows += batch.rows.num_rows
                for result in left_out:
                    self._leave_out(result, quarantine)
                self.n_examples += len(block)
                self.labellers.n += len(block)
                for name in whose:
                    for value, n in Counter(block.kept[name].tolist()).items():
                        self.labellers.count(name, value, n)
                yield block

    def _leave_out(self, result: RowProblem | Filtered, quarantine: Quarantine) -> None:
        """Count a row that is of no use, or not wanted."""
        if isinstance(result, Filtered):
            self.n_filtered += 1
            self.filtered[result.reason] += 1
            return
        if self._reading.strict:
            raise DataError(describe(result, self.source))
        self.n_quarantined += 1
        # What a cell holds says more than that others hold nothing.
        if self._first is None or self._first.reason == "missing" != result.reason:
            self._first = result
        self.reasons[result.field, result.reason] += 1
        self._codes.add(result.code)
        quarantine.add(result)
        if self.told is not None:
            self.told(result)

    def end(self) -> None:
        """Refuse a source whose rows are all read, and of no use."""
        self._done = True
        if self._needs.allow_none:
            return
        marks = self.columns.marks if self._needs.by_sentence and self._needs.labelled else None
        only = self._codes == {UNMARKED}
        if marks is not None and not marks.n_marked and (self.n_examples or only):
            raise DataError(nobody_marked(self))
        if not self.n_examples:
            raise DataError(nothing_usable(self, self._first, self._reading.quarantine))
        if self._needs.labelled:
            self.columns.labels.refuse_others(self.source, self.n_examples + self.n_filtered)
        higher = spell_option(Detectors, "higher", "faithful")
        for verdict in self.verdicts:
            verdict.refuse_others(
                self.source, by=lambda: error_text("verdict_mixed", higher=higher)
            )
        self.columns.refuse_mirrors(self.source)


def describe(problem: RowProblem, source: str) -> str:
    """Say what is wrong with a row, and what to do about it."""
    seen = f", got {problem.value}" if problem.value else ""
    remedy = f". {problem.remedy[0].upper()}{problem.remedy[1:]}" if problem.remedy else ""
    reason = problem.entry()["reason"]
    where = problem.file or source
    return f"{where}, row {problem.row}, field {problem.field}: {reason}{seen}{remedy}"


def nothing_usable(read: Reading, first: RowProblem | None, quarantine: Path | None) -> str:
    """Say why no row of a source is of use, and how its columns are named."""
    if not read.n_rows:
        return f"{read.source} is empty: it holds no row"
    kinds = read.problems()
    left_out = sorted(read.filtered.items(), key=lambda item: -item[1])[:3]
    kinds += [f"left out: {reason} ({n})" for reason, n in left_out]
    seen = f" Columns seen: {', '.join(read.fields[:30])}." if read.fields else ""
    example = f" For example: {describe(first, read.source)}." if first else ""
    where = f" Every problem is in {quarantine}." if quarantine else ""
    named = ("mapping", "label_column", "group_column", "id_column")
    columns = listed([spell_option(ReadOptions, name) for name in named])
    unnamed = "label" not in read.columns.present or likely_labels(read.head)
    if first is not None and first.field == "label" and unnamed:
        which = which_label(read.head)
        seen += f" {which[0].upper()}{which[1:]}."
    why = f"{'; '.join(kinds)}.{example}{seen}{where}"
    doctor = cli_or_python("`calibrail doctor`", "calibrail.diagnose(...)")
    return error_text("nothing_usable", read=read, why=why, columns=columns, doctor=doctor)


def nobody_marked(read: Reading) -> str:
    """Say that a source says of no sentence whether it is supported, and how it could."""
    by = partial(spell_option, ReadOptions, "mapping")
    spans, answer_id = by({"spans": "COLUMN"}), by({"answer_id": "COLUMN"})
    seen = f" Columns seen: {', '.join(read.fields[:30])}." if read.fields else ""
    doctor = cli_or_python("`calibrail doctor`", "calibrail.diagnose(...)")
    return error_text(
        "nobody_marked", read=read, spans=spans, answer_id=answer_id, seen=seen, doctor=doctor
    )


#: Who is told of everything that is read; see `telling_readings`.
_told: ContextVar[Callable[[Reading], None] | None] = ContextVar("told", default=None)


@options_from_keywords(reading=ReadOptions, override=True)
def read(
    source: Source,
    reading: ReadOptions | None = None,
    *,
    keep: Collection[str] = (),
    require: Collection[str] = TEXT_FIELDS,
    labelled: bool = True,
    allow_none: bool = False,
    expect: Collection[str] = (),
    repeats: bool = False,
    by_sentence: bool = False,
    distinct: bool = False,
    decimals: Mapping[str, str] | None = None,
    **how: Unpack[ReadKeywords],
) -> Reading:
    """Open a source of RAG answers; iterate over the result to read it.

    Parameters
    ----------
    source : path, str, sequence of them, DataFrame, Arrow table, mapping or iterable
        A file, plain or compressed with gzip or zstd; a pattern, such as ``runs/*.jsonl``; a folder
        of files or of a benchmark; ``-`` for standard input; ``example:NAME`` for data shipped with
        the package; or ``hf:NAME[:SPLIT]``. Several are read one after the other, as one source. Or
        data in memory: a pandas or polars frame, an Arrow table, a dict of columns, dicts or
        `Example` objects. The same rows are read alike from each of them.
    reading : ReadOptions or None
        How to read it; what is left out is guessed.
    keep : collection of str
        Further columns to copy to ``Example.columns``.
    require : collection of str
        The text fields without which a row cannot be used: what the scores read.
    labelled : bool
        Whether every row needs a label.
    allow_none : bool
        Whether a source without a usable row is fine.
    expect : collection of str
        Text fields that single rows may lack, but whose column must be there.
    repeats : bool
        Whether rows whose id stood there before are given, too.
    by_sentence : bool
        Whether `Example.spans` and `Example.sentences` are read. Of labelled answers every sentence
        then needs a label, and the answer's is that of its sentences: 1 where one is unsupported.
        Rows that are sentences are gathered to their answers.
    distinct : bool
        Whether several answers of one id get ids of their own, made of what they hold, and the id
        as their group where no answer has one. All rows are read before the first is given.
    decimals : mapping of str to str or None
        What parts decimals (``","``) in columns where no text shows another mark.
    format, preset, mapping, ...
        The fields of `ReadOptions`, one by one; they win over ``reading``:

        - ``format``: ``jsonl``, ``csv``, ``xlsx``, ``parquet``, ``arrow``, a benchmark's name or a
          plug-in's; None guesses.
        - ``preset``: whose column names the file has (see `PRESETS`); None guesses.
        - ``mapping``: field to column, for single fields.
        - ``label_column``, ``group_column``, ``id_column``: default ``label``, ``group`` and
          ``id``. Without an id a row is called ``row-<number>``. Every column may be a path.
        - ``label_map``, ``positive``, ``annotators``: what labels mean, and several of one row.
        - ``pair``: the columns of two answers a row, ``faithful`` and ``hallucinated``.
        - ``options``: options of the format's reader, e.g. ``min_chars`` for HaluEval.
        - ``limit``, ``sample``, ``sample_seed``: the first rows, or rows drawn by lot.
        - ``span_share``: what of a sentence must be marked for it to be unsupported.
        - ``strict``: stop at the first row that cannot be used.
        - ``quarantine``: file that gets one JSON line for every row that cannot be used; made when
          there is one, replaced when it exists.

    Returns
    -------
    Reading
        Iterable once. Raises `DataError` at its end if no row was usable.

    Raises
    ------
    DataError
        No such file, a format or columns that cannot be guessed, a named column that is not there.
    InputError
        An unknown format, preset, option or field name.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "answers.jsonl"
    >>> _ = path.write_text('{"query": "q", "contexts": ["c"], "response": "r", "label": 1}')
    >>> [(example.id, example.question, example.label) for example in read(path)]
    [('row-1', 'q', 1)]
    """
    asked = labelled, allow_none, tuple(expect), repeats, by_sentence, distinct
    needs = Needs(tuple(keep), tuple(require), *asked, decimals=decimals)
    reading = optional(reading, ReadOptions, "reading")
    return read_needed(source, reading, needs)


def read_needed(source: Source, reading: ReadOptions, needs: Needs) -> Reading:
    """Open a source as `read` does, for what is needed of its rows."""
    opened = open_source(source, reading)
    if reading.pair is not None:
        opened = _of_pairs(opened, reading.pair, spoken(source))
    if reading.quarantine is not None:
        rows = Output("quarantine", reading.quarantine, kind="quarantine")
        refuse_read([rows], opened.files)
        refuse_foreign([rows], force=None)
    made = Reading(spoken(source), opened, reading, needs)
    if (told := _told.get()) is not None:
        told(made)
    return made


def _of_pairs(opened: Opened, pair: Mapping[str, str], source: str) -> Opened:
    """Return a source of rows with two answers each as one of rows that list them."""
    head, fields = peek(opened.items, rectangular=opened.rectangular)
    seen = Seen([item.values for item in head if isinstance(item, SourceRow)])
    for label, column in pair.items():
        if fields and column not in seen:
            about = f"{column!r} of {label} answers"
            raise DataError.on("no_column_of", of=source, it=about, seen=listing(fields))
    return replace(opened, items=pairs_listed(chain(head, opened.items), pair), batches=None)


def observe_readings(told: Callable[[Reading], None]) -> AbstractContextManager[object]:
    """Tell a callable, within the block, of everything that is read."""
    return variable_set(_told, told)


def read_all(
    source: Source, reading: ReadOptions | None = None, **fields: Any
) -> tuple[tuple[Example, ...], Reading]:
    """Read every example of a source into memory; the parameters are those of `read`.

    Returns
    -------
    (tuple of Example, Reading)
        The examples, and the reading with its final counts.
    """
    opened = read(source, reading, **fields)
    return tuple(opened), opened
