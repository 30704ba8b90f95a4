"""How does a source become examples, with every one of its rows accounted for?"""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.data.answers import answers_of
from calibrail.data.columnar import ROWS, Block, ColumnReader, NotPlainError
from calibrail.data.columns import CHARACTERS, Needs, choose_columns
from calibrail.data.example import Example
from calibrail.data.files import count_rows
from calibrail.data.gathering import Gatherer
from calibrail.data.ids import SourceIds
from calibrail.data.label_check import refuse_others
from calibrail.data.marks import UNMARKED
from calibrail.data.opened import Opened, peek
from calibrail.data.part import Part
from calibrail.data.paths import value_at
from calibrail.data.quarantine import Quarantine
from calibrail.data.refused import describe, duplicate, nobody_marked, nothing_usable
from calibrail.data.row_parser import Interpreter
from calibrail.data.rows import Filtered, ParsedItem, Problem, Row
from calibrail.data.sources import digest_files, file_digests
from calibrail.data.traces.export import ANNOTATION
from calibrail.errors import DataError, InputError
from calibrail.record import plain
from calibrail.settings import ReadOptions
from calibrail.settings.option import changed, flags


class Reading:
    """The examples of one source: a single pass, in constant memory, counting as it goes.

    Made by `calibrail.data.reader.read`. The counters are live during the pass and final after it.

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
    origin, export : Origin or None, ExportNotes or None
        How labels came about, where the source says so; what became of a tool's export.
    """

    def __init__(self, source: str, opened: Opened, reading: ReadOptions, needs: Needs) -> None:
        # Few of the answers that a tool traced have a person's label.
        until = "" if opened.export is None else ANNOTATION
        head, fields = peek(opened.items, rectangular=opened.rectangular, until=until)
        self.source, self.format, self.fields = source, opened.format, tuple(fields)
        self.head = tuple(item.values for item in head if isinstance(item, Row))
        self.columns = choose_columns(self.head, opened, reading, needs, source)
        self.n_rows = self.n_examples = self.n_quarantined = self.n_filtered = 0
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.filtered: Counter[str] = Counter()
        self.origin, self.export = opened.origin, opened.export
        self._digest = opened.digest or partial(digest_files, opened.files)
        self._strict, self._allow_none = reading.strict, needs.allow_none
        self._repeats = needs.repeats
        self._files, self._in_memory = opened.files, opened.n_rows
        self._n_stored: int | None = None
        self._reading, self._quarantine = reading, reading.quarantine
        needs = needs.keeping(fields, self.columns)
        # Rows with neither answers nor ids are known by all that they hold.
        named = bool({"response", "id"} & self.columns.present)
        narrow = opened.only if named else None
        # Without a column of ids the rows of a table are called by their numbers: no two alike.
        self._numbered = opened.rectangular and "id" not in self.columns.present
        interpreter = Interpreter(self.columns, needs, opened.cells, whole=narrow is None)
        self._needs, self._interpreter, self._batches = needs, interpreter, opened.batches
        self._names: set[str] | None = None
        items: Iterator[ParsedItem] = chain(head, opened.items)
        if narrow is not None:
            names = (*self.columns.by_field.values(), *self.columns.label_columns, *needs.keep)
            self._names = {*names} - {CHARACTERS}
            items = narrow(columns=self._names)
        self._gatherer: Gatherer | None = None
        if self.columns.marked.answer_id is not None:
            self._gatherer = Gatherer(self.columns.by_field, self.columns.label_columns)
            items = self._gatherer(items)
        self._part = Part(reading, lambda row: value_at(row.values, self.columns.by_field["group"]))
        answers = (
            answer
            for item in self._part(items)
            for answer in (
                answers_of(item, self.columns, opened.cells) if isinstance(item, Row) else (item,)
            )
        )
        self._stream = self._run(answers, interpreter)
        self._done = self.begun = False
        self._first: Problem | None = None

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
            if self._n_stored is None:
                # Once: it costs a look at the files.
                stored = count_rows(self._files) if self._files else self._in_memory
                self._n_stored = -1 if stored is None else stored
            wanted = (self._reading.limit, self._reading.sample)
            known = [n for n in (self._n_stored, *wanted) if n is not None and n >= 0]
            if not known:
                return None
            n_rows = min(known)
        return round(max(n_rows, self.n_rows) * self.n_examples / self.n_rows)

    def digest(self) -> str | None:
        """Return the SHA-256 of the file, or of the names and digests of several files.

        Where one of several lists in a file is named, it is of that name, too: another list of the
        same file is other data. Available before and after the examples are read. That of data in
        memory is the digest of its rows, and is None until they are read.
        """
        digest, name = self._digest(), (self._reading.options or {}).get("list")
        if digest is None or name is None or not self._files:
            return digest
        return sha256(f"{digest}\0{name}".encode()).hexdigest()

    def part(self) -> dict[str, Any] | None:
        """Return which part of the source was read, JSON-able; None where none was left out."""
        return self._part.to_dict()

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
        files = file_digests(self._files) if len(self._files) > 1 else []
        said = replace(self._reading, strict=False)
        return {
            "columns": {
                field: self.columns.by_field[field] for field in sorted(self.columns.present)
            },
            "named_as": self.columns.named_as(),
            "settings": plain(changed(said)),
            "options": list(flags(said)),
            "labels": self.columns.labels.described() if self.columns.labels.seen else None,
            "turned": list(self.columns.labels.turned()),
            "part": self.part(),
            "origin": None if self.origin is None else asdict(self.origin),
            "export": None if self.export is None else self.export.to_dict(),
            "files": [{"name": name, "sha256": digest} for name, digest in files],
        }

    def _run(self, rows: Iterator[ParsedItem], interpreter: Interpreter) -> Iterator[Example]:
        seen, last = SourceIds(), ("", 0)
        with closing(Quarantine(self._quarantine)) as quarantine:
            for row in rows:
                self.begun = True
                number = row.number if isinstance(row, Row) else row.row
                self.n_rows += (row.file, number) != last
                last = (row.file, number)
                if self._gatherer is not None:
                    self.n_rows = self._gatherer.n_rows
                result = interpreter(row) if isinstance(row, Row) else row
                if isinstance(result, Example):
                    known = self._repeats or (self._numbered and not row.file)
                    unique = result.id if known else seen.unique(result.id, row.file)
                    if unique is not None:
                        self.n_examples += 1
                        yield result if unique == result.id else replace(result, id=unique)
                        continue
                    result = duplicate(number, result.id, row.file)
                self._leave_out(result, quarantine)
        self.end()

    def blocks(
        self, scores: Collection[str], repeated: NDArray[np.uint64] | None = None
    ) -> Iterator[Block]:
        """Yield the examples many at a time, as columns; `end` is to be called after the last.

        Parameters
        ----------
        scores : collection of str
            Which of the columns that are kept are scores.
        repeated : ndarray of uint64, optional
            The digests, rising, that several rows have where rows have ids. Without it ids are
            taken to be unique: whoever meets a digest twice reads again.

        Raises
        ------
        NotPlainError
            Rows must be read one by one, from the beginning.
        """
        strict = self._strict and self.has_ids
        if self._batches is None or self._reading.sample is not None or strict:
            raise NotPlainError
        reader = ColumnReader(self.columns, self._needs, self._interpreter, scores, repeated)
        with closing(Quarantine(self._quarantine)) as quarantine:
            batches = self._batches(columns=self._names, rows=ROWS)
            for batch in self._part.of_batches(batches):
                reader.check(batch.rows.schema)
                self.begun = True
                block, left_out = reader(batch)
                self.n_rows += batch.rows.num_rows
                for result in left_out:
                    self._leave_out(result, quarantine)
                self.n_examples += len(block)
                yield block

    @property
    def has_ids(self) -> bool:
        """Whether there is a column of ids."""
        return "id" in self.columns.present

    def _leave_out(self, result: Problem | Filtered, quarantine: Quarantine) -> None:
        """Count a row that is of no use, or not wanted."""
        if isinstance(result, Filtered):
            self.n_filtered += 1
            self.filtered[result.reason] += 1
            return
        if self._strict:
            raise DataError(describe(result, self.source))
        self.n_quarantined += 1
        self._first = self._first or result
        self.reasons[result.field, result.reason] += 1
        quarantine.add(result)

    def end(self) -> None:
        """Refuse a source whose rows are all read, and of no use."""
        self._done = True
        if self._allow_none:
            return
        marks = self.columns.marks if self._needs.by_sentence and self._needs.labelled else None
        only = {reason for _, reason in self.reasons} == {UNMARKED}
        if marks is not None and not marks.n_marked and (self.n_examples or only):
            raise DataError(nobody_marked(self))
        if not self.n_examples:
            raise DataError(nothing_usable(self, self._first, self._quarantine))
        refuse_others(self.source, self.columns.labels, self.n_examples + self.n_filtered)
