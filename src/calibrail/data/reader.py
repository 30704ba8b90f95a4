"""How do rows become examples, with every one of them accounted for?"""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import Final

from calibrail.data.columns import Needs, choose_columns
from calibrail.data.example import Example
from calibrail.data.formats import Opened, peek
from calibrail.data.ids import SeenIds
from calibrail.data.presets import MAPPABLE
from calibrail.data.quarantine import Quarantine
from calibrail.data.row_parser import Interpreter
from calibrail.data.rows import Filtered, Item, Problem, Row
from calibrail.data.sources import digest_files
from calibrail.errors import DataError, InputError
from calibrail.settings import ReadOptions

_DUPLICATE: Final = "give every row its own id, or name another id column"


class Reading:
    """The examples of one source: a single pass, in constant memory, counting as it goes.

    Made by `read`. The counters are live during the pass and final after it.

    Attributes
    ----------
    source : str
        What was read.
    format : str
        Name of the format.
    fields : tuple of str
        The column names seen in the first rows.
    columns : Columns
        Which column holds which field.
    n_rows : int
        Rows of the source so far; one row of a benchmark may make two examples.
    n_examples, n_quarantined, n_filtered : int
        Examples, problems, and answers left out on request, so far.
    reasons : Counter of (str, str)
        Problems by field and reason.
    filtered : Counter of str
        What was left out, by reason.
    """

    def __init__(self, source: str, opened: Opened, reading: ReadOptions, needs: Needs) -> None:
        items = iter(opened.items)
        head, fields = peek(items)
        self.source, self.format, self.fields = source, opened.format, tuple(fields)
        self.columns = choose_columns(fields, opened, reading, needs, source)
        self.n_rows = self.n_examples = self.n_quarantined = self.n_filtered = 0
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.filtered: Counter[str] = Counter()
        self._files, self._strict, self._allow_none = opened.files, reading.strict, needs.allow_none
        self._quarantine = reading.quarantine
        interpreter = Interpreter(self.columns.by_field, needs, opened.cells)
        self._stream = self._run(chain(head, items), interpreter)
        self._done = False

    def __iter__(self) -> Iterator[Example]:
        """Return itself; refuse a second pass, which would silently hold nothing."""
        if self._done:
            raise InputError(f"{self.source} has been read to its end; call read() again")
        return self

    def __next__(self) -> Example:
        """Return the next usable example."""
        return next(self._stream)

    def digest(self) -> str:
        """Return the SHA-256 of the file, or of the names and digests of several files.

        Available before and after the examples are read.
        """
        return digest_files(self._files)

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

    def _run(self, items: Iterator[Item], interpreter: Interpreter) -> Iterator[Example]:
        seen = SeenIds()
        last = 0
        with closing(Quarantine(self._quarantine)) as quarantine:
            for position, item in enumerate(items, start=1):
                row = _as_row(item, position)
                number = row.number if isinstance(row, Row) else row.row
                self.n_rows += number != last
                last = number
                if isinstance(row, Filtered):
                    self.n_filtered += 1
                    self.filtered[row.reason] += 1
                    continue
                result = interpreter(row) if isinstance(row, Row) else row
                if isinstance(result, Example):
                    if seen.add(result.id):
                        self.n_examples += 1
                        yield result
                        continue
                    result = Problem(number, "id", "duplicate", repr(result.id), "", _DUPLICATE)
                if self._strict:
                    raise DataError(self._describe(result))
                self.n_quarantined += 1
                self.reasons[result.field, result.reason] += 1
                quarantine.add(result)
        self._done = True
        if not self.n_examples and not self._allow_none:
            raise DataError(self._nothing_usable())

    def _describe(self, problem: Problem) -> str:
        entry = problem.entry()
        seen = f", got {problem.value}" if problem.value else ""
        remedy = f". {problem.remedy[0].upper()}{problem.remedy[1:]}" if problem.remedy else ""
        return (
            f"{self.source}, row {problem.row}, field {problem.field}: {entry['reason']}{seen}"
            f"{remedy}"
        )

    def _nothing_usable(self) -> str:
        if not self.n_rows:
            return f"{self.source} is empty: it holds no row"
        kinds = [f"{field}: {reason} ({n})" for (field, reason), n in self.reasons.most_common(5)]
        kinds += [f"left out: {reason} ({n})" for reason, n in self.filtered.most_common(3)]
        seen = f" Columns seen: {', '.join(self.fields[:30])}." if self.fields else ""
        where = f" Every problem is in {self._quarantine}." if self._quarantine else ""
        return (
            f"{self.source}, read as {self.format}, has no usable row among {self.n_rows}: "
            f"{'; '.join(kinds)}.{seen}{where} Columns are named with --map, --label-column, "
            "--group-column and --id-column"
        )


def _as_row(item: Item, position: int) -> Row | Problem | Filtered:
    if isinstance(item, (Row, Problem, Filtered)):
        return item
    if isinstance(item, Example):
        values = {name: getattr(item, name) for name in MAPPABLE}
        return Row(position, {**item.columns, **values})
    return Row(position, item)
