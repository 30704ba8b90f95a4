"""Column resolution: texts, labels, spans."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from calibrail.data.aliases import (
    MARK_FIELDS,
    NAMES,
    SENTENCE_TABLES,
    aliases_of,
    is_template,
    listing,
    mapped_by,
    nested_fields,
    resolve_columns,
    tools_named,
)
from calibrail.data.example import FIELDS, TEXT_FIELDS, SourceRow
from calibrail.data.labels import (
    PLAIN,
    LabelReader,
    beside_labels,
    is_of_people,
    is_of_truth,
    is_plain_name,
    label_key,
    meaning_of_one,
    names_people,
    parse_label,
    side_of,
    spells_label,
    unsaid_by,
)
from calibrail.data.sentences import MarkReader, given_in, label_key_of
from calibrail.data.sources import PEEKED, Opened
from calibrail.data.spans import MarkColumns, is_spans, looks_marked
from calibrail.data.traces._spans import ANNOTATION, SCORE
from calibrail.data.values import (
    column_value,
    decimal_mark_in,
    nested_names,
    number_in,
    spelt_out,
    value_at,
)
from calibrail.errors import DataError, InputError, error_text
from calibrail.options import ReadOptions
from calibrail.options.fields import cli_or_python, spell_option


class Seen:
    """The columns of the first rows, paths into their objects among them."""

    def __init__(self, rows: Sequence[Mapping[str, object]]) -> None:
        self.rows = rows
        self.names = dict.fromkeys(name for row in rows for name in row)

    def __contains__(self, column: object) -> bool:
        if column in self.names or "." not in str(column):
            return column in self.names
        return any(value not in (None, []) for value in self.values(str(column)))

    def values(self, column: str) -> list[object]:
        """Return what every row holds under a column."""
        return [value_at(row, column) for row in self.rows]


def label_columns_of(
    seen: Seen, opened: Opened, reading: ReadOptions, source: str, *, needed: bool
) -> tuple[str, ...]:
    """Return the columns of labels that were named, or the one that is there by its name.

    Of a tool's export these are what people said of an answer; what its own judges said is a label
    for nobody who does not name it.

    Parameters
    ----------
    seen : Seen
        The first rows.
    opened : Opened
        The source.
    reading : ReadOptions
        What the user named.
    source : str
        How messages call the data.
    needed : bool
        Whether every row needs a label.

    Raises
    ------
    DataError
        Labels are needed, and an export holds several of people, or none.
    """
    named = reading.label_column or (reading.mapping or {}).get("label")
    if isinstance(named, tuple | list):
        return tuple(named)
    if named is not None:
        return (named,) if named in seen else tuple(name.strip() for name in named.split(","))
    if opened.export is not None:
        return _of_people(seen, opened.format, source, needed)
    if not opened.table:
        return ("label",)
    found = aliases_of("label", seen.names)
    if len(found) == 1:
        # Numbers that are no class may be a program's scores of what its name says.
        numbers = list(map(number_in, map(label_key, seen.values(found[0]))))
        graded = 2 * sum(item not in (None, 0.0, 1.0) for item in numbers) > len(numbers)
        others = likely_labels(seen.rows) if graded and is_plain_name(found[0]) else []
        named_so = [it for it in others if _LABELLED.search(it.lower()) and not is_of_program(it)]
        people = _labels_of_people(seen) if graded else []
        found = people if people or named_so else found
    if not found:
        found = [
            path
            for path in nested_names(seen.rows[0] if seen.rows else {})
            if (own := path.rpartition(".")[2]) != path
            and aliases_of("label", (own,))
            and not is_of_program(path)
            and not any(isinstance(value, list | Mapping) for value in seen.values(path))
        ]
    found = found or _labels_of_people(seen)
    found = found or list(filter(is_plain_name, likely_labels(seen.rows)))
    if not found:
        # An answer in which something is marked is hallucinated.
        marked = (reading.mapping or {}).get("spans")
        spans = [marked] if marked in seen else aliases_of("spans", seen.names)
        found = [name for name in spans if name and any(map(looks_marked, seen.values(name)))]
    if len(found) > 1 and needed:
        option = spell_option(ReadOptions, "label_column", found[0])
        every = spell_option(ReadOptions, "label_column", ",".join(found))
        held = listing(found)
        raise DataError.on("labels_found", source=source, found=held, by=option, every=every)
    return (found[0],) if len(found) == 1 else ("label",)


def _labels_of_people(seen: Seen) -> list[str]:
    def says(name: str) -> bool:
        held = [value for value in seen.values(name) if value not in (None, "")]
        return names_people(name) and all(parse_label(value) in (0, 1) for value in held)

    return [name for name in likely_labels(seen.rows) if is_of_people(name) or says(name)]


#: Different values that a label may have, characters of each, and rows that are looked at for it.
_CLASSES, _SHORT, _READ_FOR_LABELS = 6, 30, 1000
PROGRAMS: Final = frozenset(NAMES["labels"]["programs"].split())
_ANSWERS: Final = frozenset(NAMES["parts_of_names"]["response"].split())
#: In the names of columns that hold labels.
_LABELLED: Final = re.compile("|".join(("review", *NAMES["parts_of_names"]["label"].split())))


_REASONS: Final = re.compile(NAMES["judges"]["reasons"])


def likely_labels(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the columns that may hold labels by name or words: people's first, programs' last.

    What gives its reasons in a column beside it is more likely a judge's verdict than a label.

    >>> rows = [("yes", 0.5, 1), ("no", 0.2, 0)]
    >>> likely_labels([dict(zip(("gpt_verdict", "score", "is_right"), row)) for row in rows])
    ['is_right', 'gpt_verdict']
    """
    seen, found = Seen(rows[:_READ_FOR_LABELS]), list[tuple[bool, bool, bool, str]]()
    reasoned = tuple(m[1].lower() for name in seen.names if (m := _REASONS.fullmatch(name)))
    inside = (name for row in seen.rows[:_LOOKED_AT] for name in nested_names(row))
    for name in dict.fromkeys((*seen.names, *inside)):
        values = [value for value in seen.values(name) if value not in (None, "")]
        if name.startswith(SCORE) or any(isinstance(v, list | Mapping) for v in values):
            continue
        keys, own = set(map(label_key, values)), name.rpartition(".")[2].lower()
        if not 1 < len(keys) <= _CLASSES or max(map(len, keys)) > _SHORT:
            continue
        # Of numbers 0 and 1 alone are classes; of words those that say one, or stand under a name.
        numbers = any(number_in(key) is not None for key in keys - PLAIN)
        named = any(part in own for part in NAMES["parts_of_names"]["label"].split())
        named |= meaning_of_one(own) is not None
        sides = {side_of(key) for key in keys}
        # Of two words one that says its class says the other's.
        said = None not in sides or (len(keys) == 2 and not sides.isdisjoint((0, 1)))
        words = said and keys.isdisjoint(PLAIN)
        # People may rate in more than two.
        if is_of_people(name) if numbers else named or words:
            people = is_of_people(name) or names_people(name)
            judged = name.lower() in reasoned
            found.append((is_of_program(name), not people, judged, name))
    return [name for *_, name in sorted(found, key=lambda item: item[:3])]


def is_of_program(name: str) -> bool:
    """Say whether a column's name says that a program wrote it.

    >>> is_of_program("gpt_verdict"), is_of_program("scores.human_verdict")
    (True, False)
    >>> [is_of_program(name) for name in ("AI verdict", "Correct? (AI)", "fedele ai documenti")]
    [True, True, False]
    >>> is_of_program("AI answer correct?"), is_of_program("hallucination_score.label")
    (False, True)
    """
    people, words = is_of_people(name) or names_people(name), re.findall("[a-z]+", name.lower())
    # In the midst of an Italian name it is a preposition; of its answer people may say something.
    ends = words[-1:] if _ANSWERS.intersection(words) else words[:1] + words[-1:]
    # What stands in the object of a score is the label of who gave that.
    by_name = "score." in name.lower() or not {"ai", "ki"}.isdisjoint(ends)
    return not people and (by_name or not PROGRAMS.isdisjoint(words))


def _to_label(program: str) -> str:
    """Return how people's labels are made, and what measures against a program's words instead."""
    options = (spell_option(ReadOptions, name, program) for name in ("label_column", "labelled_by"))
    return error_text("have_people_label", label=_labelling(), options=" ".join(options))


def _labelling() -> str:
    return cli_or_python("`calibrail label DATA -o labels`", "calibrail.label(data, 'labels')")


def which_label(rows: Sequence[Mapping[str, object]], named: Sequence[str] = ()) -> str:
    """Return the options that read the column of labels, one that is named or looked for; others.

    What programs said is no label: where nothing else is there, people are to label.
    """
    # It reads columns itself.
    from calibrail.data.suggested_options import suggest_labels

    likely = [*named] or likely_labels(rows)
    programs = list(filter(is_of_program, likely))
    others = [name for name in likely if name not in programs]
    advice = suggest_labels(rows, others[:1])
    first = advice.options.get("label_column")
    if first is None and programs:
        return f"what programs said is no label ({listing(programs, 5)}): {_to_label(programs[0])}"
    if first is None:
        option = spell_option(ReadOptions, "label_column")
        return error_text("name_labels", option=option, label=_labelling())
    more = f" (or {listing(others[1:], 5)})" if others[1:] else ""
    words = " ".join(spell_option(ReadOptions, *item) for item in advice.options.items())
    check = ""
    if advice.reason:
        check = " (with 1 for hallucinated, 0 for faithful or skip in place of each ?)"
    if advice.reason == "positive":
        check = f" (if {advice.about} is what means hallucinated; else name the other one)"
    return f"labels may stand in {first!r}{more}; add {words}{check}"


#: A column mirrors the labels if at least so many rows have both, and such a share contradict.
_LEAST_MIRRORED: Final = 6
_MIRRORED: Final = 0.9


class LabelTwin:
    """Counts how a further column agrees with the labels.

    Parameters
    ----------
    reader : LabelReader
        Reads it.
    strict : bool
        Whether its name says no more than what a label means, so that a single row may not
        contradict. Another, such as ``passed``, may be about something else, and contradicts only
        as a mirror does.
    """

    def __init__(self, reader: LabelReader, strict: bool) -> None:
        self.reader, self.strict = reader, strict
        self.counts = Counter[tuple[int, int]]()

    def contradicts(self, label: int, value: object) -> bool:
        """Take in a row; return whether it may not be."""
        if (said := self.reader.of_one(value)) is not None:
            self.counts[label, said] += 1
        return self.strict and said == 1 - label

    @property
    def is_mirror(self) -> bool:
        """Whether it says the other class of nearly all rows, hallucinated and faithful ones."""
        against, n = (self.counts[0, 1], self.counts[1, 0]), self.counts.total()
        return min(against) > 0 and n >= _LEAST_MIRRORED and sum(against) >= _MIRRORED * n


def _rivals(
    seen: Seen, opened: Opened, reading: ReadOptions, needs: "Needs", label_columns: Sequence[str]
) -> tuple[LabelTwin, ...]:
    """Return what reads the other columns of single values that by name or words are labels.

    None where the user chose a column, of scores, and of a tool's export, where a person's counts.
    """
    chosen = reading.label_column or (reading.mapping or {}).get("label")
    unnamed = opened.table and opened.export is None and label_columns[0] in seen
    if chosen or not (needs.labelled and unnamed):
        return ()
    inside = (name for row in seen.rows[:_LOOKED_AT] for name in nested_names(row))
    twins = []
    # What one person said is the label, where it is not what another column says.
    people = () if is_of_people(label_columns[0]) else _labels_of_people(seen)
    for name in dict.fromkeys((*seen.names, *inside)):
        own = name.rpartition(".")[2]
        spells = spells_label(own)
        strict = is_plain_name(own) or spells or bool(own == name and aliases_of("label", (own,)))
        # What a program says may differ from what people do.
        strict = (strict or [name] == people) and not is_of_program(name)
        if name in (*label_columns, *needs.keep):
            continue
        reader = LabelReader(ReadOptions(), name, names=opened.class_names.get(name, ()))
        held = [value for value in seen.values(name) if not reader.is_missing(value)]
        numbers = not PLAIN.isdisjoint(map(label_key, held))
        named = held and (not numbers or reader.named is not None or not unsaid_by(name))
        usable = not (spells and numbers) if strict else named
        if usable and all(reader.of_one(value) is not None for value in held):
            twins.append(LabelTwin(reader, strict))
    return tuple(twins)


def _of_people(seen: Seen, format: str, source: str, needed: bool) -> tuple[str, ...]:
    """Return the column of what people said of an export's answers."""
    given = [
        name
        for name in seen.names
        if name.startswith(ANNOTATION) or (name.startswith(SCORE) and is_of_people(name))
    ]
    plain = [name for name in seen.names if "." not in name]
    own = aliases_of("label", plain) or list(filter(is_of_people, plain))
    # A name that speaks of faithfulness goes before others, such as a rating of style.
    likely = [
        name
        for name in given
        if meaning_of_one(name) is not None or aliases_of("label", (name.rpartition(".")[2],))
    ]
    telling = [name for name in given if is_of_truth(name, seen.values(name))]
    for found in (likely, telling if len(given) == 1 else [], own):
        if len(found) == 1:
            return (found[0],)
    several = likely or given or own
    scores = [name for name in seen.names if name.startswith(SCORE)]
    if not (needed and (several or scores)):
        return ("label",)
    option = spell_option(ReadOptions, "label_column", (several or scores)[0])
    if len(several) == 1:
        why = error_text("one_label_of_people", name=several[0], option=option)
    elif several:
        why = f"holds several labels: {listing(several, 20)}; choose one with {option}"
    else:
        remedy = which_label(seen.rows) if likely_labels(seen.rows) else _to_label(scores[0])
        why = error_text("no_label_of_people", scores=listing(scores, 20), remedy=remedy)
    raise DataError(f"{source}, read as {format}, {why}")


#: Rows that are looked at.
_LOOKED_AT: Final = 20


def mark_columns_of(
    seen: Seen, opened: Opened, reading: ReadOptions, needs: "Needs", label_columns: Sequence[str]
) -> MarkColumns:
    """Return the columns of marks that were named, or those that are there by name and looks.

    Parameters
    ----------
    seen, opened, reading
        See ``label_columns_of``.
    needs : Needs
        Only where sentences are asked for, rows of a table that is known to hold sentences are
        taken as such.
    label_columns : sequence of str
        Where labels are: a list of spans, or of as many labels as there are sentences, is no
        answer's label.
    """
    named = {k: v for k, v in (reading.mapping or {}).items() if k in MARK_FIELDS}
    if not opened.table:
        own = {name: name for name in ("spans", "sentences") if name in seen}
        return MarkColumns(**(own | named))
    if "answer_id" in named:
        return MarkColumns(answer_id=named["answer_id"])
    for columns, answer in SENTENCE_TABLES:
        if needs.by_sentence and columns <= seen.names.keys() and not named:
            return MarkColumns(answer_id=answer)
    found: dict[str, str] = {}
    names = list(seen.names)
    spans = [name for name in aliases_of("spans", names) if _looks(seen, name, looks_marked)]
    if len(label_columns) == 1 and any(map(is_spans, seen.values(label_columns[0]))):
        spans = spans or [label_columns[0]]
    if spans:
        found["spans"] = spans[0]
    listed = partial(given_in, labels=None)
    sentences = [name for name in aliases_of("sentences", names) if _looks(seen, name, listed)]
    if sentences:
        found["sentences"] = sentences[0]
    found |= named
    if "sentences" in found and "sentence_labels" not in found:
        each = [name for name in label_columns if is_parallel(seen, name, found["sentences"])]
        others = [name for name in label_columns if not all(map(_may_list, seen.values(name)))]
        if each and others:
            one, other = map(listing, (each, others))
            by = spell_option(ReadOptions, "label_column")
            raise DataError.on("sentence_labels_in_some", one=one, other=other, by=by)
        # Several are several annotators', who may judge sentences as they judge answers.
        joined = [",".join(label_columns)] if each else [""]
        parallel = aliases_of("sentence_labels", names) or joined
        found |= {"sentence_labels": parallel[0]} if parallel[0] else {}
    # Of JSON lines a later row can have a column that the first rows lack.
    if needs.by_sentence and not found and not opened.rectangular:
        found["spans"] = "spans"
    return MarkColumns(**found)


def _holds_cell(seen: Seen, marked: MarkColumns, column: str) -> bool:
    """Say whether a column is one of the cells of the sentences that rows list."""
    rows = seen.values(marked.sentences)[:_LOOKED_AT] if marked.sentences else []
    return any(column in item.columns for row in rows for item in given_in(row, None) or ())


def _looks(seen: Seen, name: str, like: Callable[[object], object]) -> bool:
    """Say whether anything in a column looks like marks, if it holds something at all."""
    held = [value for value in seen.values(name)[:_LOOKED_AT] if value not in (None, "")]
    return not held or any(map(like, held))


def _may_list(value: object) -> bool:
    held = spelt_out(value)
    return held is None or isinstance(held, list | tuple)


def is_parallel(seen: Seen, name: str, sentences: str) -> bool:
    """Say whether half of the rows or more list as many labels as sentences."""
    rows = [row for row in seen.rows[:_LOOKED_AT] if value_at(row, sentences) is not None]
    fitting = 0
    for row in rows:
        labels = spelt_out(value_at(row, name))
        if not isinstance(labels, list) or any(isinstance(item, Mapping) for item in labels):
            continue
        fitting += given_in(value_at(row, sentences), labels) is not None
    return 2 * fitting >= max(1, len(rows))


#: Among the columns to keep: all that are neither a field nor a label.
ALL_COLUMNS: Final = "*"
#: Among the columns to keep: how many characters the answer has, which no column holds.
CHARACTERS: Final = "#characters"


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be there for a row, and a source, to be of use.

    Parameters
    ----------
    keep : tuple of str
        Further columns to copy to ``Example.columns``; `ALL_COLUMNS` stands for all others.
    require : tuple of str
        The text fields that must be there and not blank.
    expect : tuple of str
        Text fields that single rows may lack, and the source may not.
    labelled : bool
        Whether a row needs a label. Without, a label that cannot be read is passed over.
    allow_none : bool
        Whether a source without a usable row is fine.
    repeats : bool
        Whether a row whose id stood there before is of use, too.
    by_sentence : bool
        Whether marks are read; and, of labelled answers, whether every sentence needs a label.
    distinct : bool
        Whether several answers of one id get ids of their own, for which all are read first.
    any_length : bool
        Whether a column that is kept may list more or fewer numbers than an answer has sentences.
    decimals : mapping of str to str or None
        What parted the decimals of columns in other data of this kind.

    Raises
    ------
    InputError
        ``require`` names something other than a text field.
    """

    keep: tuple[str, ...] = ()
    require: tuple[str, ...] = TEXT_FIELDS
    labelled: bool = True
    allow_none: bool = False
    expect: tuple[str, ...] = ()
    repeats: bool = False
    by_sentence: bool = False
    distinct: bool = False
    any_length: bool = False
    decimals: Mapping[str, str] | None = None

    def keeping(self, names: Collection[str], columns: "ColumnMapping") -> "Needs":
        """Return the needs with every column that is neither a field nor a label by its name."""
        if ALL_COLUMNS not in self.keep:
            return self
        used = {*columns.by_field.values(), *columns.label_columns, *columns.marked.names}
        others = (name for name in names if name not in used)
        named = (name for name in self.keep if name != ALL_COLUMNS)
        return replace(self, keep=tuple(dict.fromkeys((*named, *others))))

    def expected(self, opened: Opened, n_rows: int) -> tuple[str, ...]:
        """Return the text fields that need a column.

        A few rows may well lack what a score reads beside the answer, such as contexts; a header,
        or as many rows as are looked at, may not.
        """
        settled = opened.rectangular or n_rows >= PEEKED
        sure = [name for name in self.expect if settled or name == "response"]
        return tuple(dict.fromkeys((*self.require, *sure)))

    def __post_init__(self) -> None:
        if unknown := [field for field in self.require if field not in TEXT_FIELDS]:
            raise InputError(f"require can name {', '.join(TEXT_FIELDS)}; got {unknown[0]!r}")


#: Names of columns that only number the rows, as pandas writes them.
_NUMBERING: Final = frozenset(("", "index", "Unnamed: 0", "__index_level_0__"))
#: The first column of a table, where its heading is empty.
_UNNAMED: Final = "column_1"


def _numbering(seen: Seen) -> frozenset[str]:
    """Return the columns that only number the rows, shuffled or not; the first may have no name."""
    numbers = [number_in(cell) for cell in seen.values(_UNNAMED)]
    whole = all(number is not None and number >= 0 and number % 1 == 0 for number in numbers)
    counts = whole and next(iter(seen.names), "") == _UNNAMED and len(numbers) < 2 * len({*numbers})
    return _NUMBERING | {_UNNAMED} if counts else _NUMBERING


def decimal_marks(
    seen: Seen, reading: ReadOptions, taken: Collection[str], known: Mapping[str, str]
) -> dict[str, str]:
    """Return what parts decimals, for the columns in which that is no point.

    Parameters
    ----------
    seen : Seen
        The first rows.
    reading : ReadOptions
        Its option ``decimal`` says it for all columns.
    taken : collection of str
        The columns that are no further ones.
    known : mapping of str to str
        What did in other data of this kind. As the option, it counts where no text shows another.
    """
    stated, marks = (reading.options or {}).get("decimal"), dict[str, str]()
    for name in (name for name in seen.names if name not in taken):
        said = stated or known.get(name)
        shown = decimal_mark_in(seen.values(name), partly=said is not None)
        mark = said if shown in ("", "?") else shown
        if mark == "," or mark == said == ".":
            marks[name] = str(mark)
    return marks


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """Where each field is stored, and what its labels mean.

    Parameters
    ----------
    by_field : mapping of str to str
        Field to column, for every field of an example.
    present : frozenset of str
        The fields whose column was seen in the first rows.
    label_columns : tuple of str
        Where labels are; several columns are several annotators'.
    labels : LabelReader
        Reads them, and counts what it has read.
    beside : tuple of str
        Columns that are no field and list a value for every label of a row.
    marked : MarkColumns
        Where marks are.
    marks : MarkReader or None
        Reads them, where they are needed.
    numbering : frozenset of str
        Columns that only number the rows.
    decimals : mapping of str to str or None
        Further columns whose texts are numbers that are parted by another mark than a point.
    rivals : tuple of LabelTwin
        Further columns that say what the label is, which may not contradict it.
    template : str
        A column by whose name a question may be in it, and that holds the contexts as well; or
        nothing.
    """

    by_field: Mapping[str, str]
    present: frozenset[str]
    label_columns: tuple[str, ...]
    labels: LabelReader
    beside: tuple[str, ...]
    marked: MarkColumns
    marks: MarkReader | None
    numbering: frozenset[str]
    decimals: Mapping[str, str]
    rivals: tuple[LabelTwin, ...] = ()
    template: str = ""

    @property
    def holds_answers(self) -> bool:
        """Whether rows have answers: as a text, or spelt by their sentences."""
        return not self.present.isdisjoint({"response", "sentences", "answer_id"})

    def named_as(self) -> list[str]:
        """Return the tools whose own names all text fields have, if they are all there."""
        return tools_named(self.by_field) if self.present >= set(TEXT_FIELDS) else []

    def label_of(self, values: Mapping[str, object]) -> object:
        """Return a row's label as it is stored, or the list of its annotators' labels."""
        if len(self.label_columns) == 1:
            return value_at(values, self.label_columns[0])
        return [value_at(values, column) for column in self.label_columns]

    def require_agreement(self, label: int, row: SourceRow) -> None:
        """Refuse a source in which another column of labels contradicts the one that is read.

        Raises
        ------
        DataError
            It says the other class.
        """
        for rival in self.rivals:
            value = value_at(row.values, rival.reader.column)
            if rival.contradicts(label, value):
                said, by = ("faithful", "hallucinated"), self._choice(rival)
                held = f"{rival.reader.spelt(value)!r}, {said[1 - label]}"
                raise DataError.on(
                    "opposed", row=row, of=self, rival=rival, said=said[label], held=held, by=by
                )

    def refuse_mirrors(self, source: str) -> None:
        """Refuse a source, all read, in which another column says the other class of nearly all."""
        for rival in self.rivals:
            if rival.is_mirror:
                counts, by = rival.counts, self._choice(rival)
                seen = f"{counts[0, 1] + counts[1, 0]:,} of {counts.total():,} rows"
                raise DataError.on("mirror", source=source, seen=seen, of=self, rival=rival, by=by)

    def _choice(self, rival: LabelTwin) -> str:
        option = partial(spell_option, ReadOptions, "label_column")
        return f"Choose one: {option(self.label_columns[0])} or {option(rival.reader.column)}"


def choose_columns(
    rows: Sequence[Mapping[str, object]],
    opened: Opened,
    reading: ReadOptions,
    needs: Needs,
    source: str,
) -> ColumnMapping:
    """Return the column of every field.

    Parameters
    ----------
    rows : sequence of mapping
        The first rows.
    opened : Opened
        The source; only a table has column names of the user's own.
    reading : ReadOptions
        What the user named.
    needs : Needs
        Which text fields, and whether a label, every row needs.
    source : str
        How messages call the data.

    Raises
    ------
    DataError
        A column that the user named is not there, or the text columns cannot be guessed.
    """
    seen = Seen(rows)
    by_user = {"group": reading.group_column, "id": reading.id_column}
    named = {field: column for field, column in by_user.items() if column is not None}
    label_columns = label_columns_of(seen, opened, reading, source, needed=needs.labelled)
    marked = mark_columns_of(seen, opened, reading, needs, label_columns)
    named_labels = any(name in seen for name in label_columns)
    labelled = marked.sentences is not None or named_labels
    by_field = {field: field for field in FIELDS}
    listed: list[str] = []
    template = ""
    # Answers to be checked need no marks, though a guardrail's own data had some.
    given = (reading.mapping or {}).items()
    needless = () if needs.labelled else MARK_FIELDS
    mapping = {field: name for field, name in given if field not in needless or name in seen}
    if opened.table:
        # With nothing parsed there are no names to judge by: the rows tell what is wrong.
        guessed = seen.names and reading.preset is None
        required = needs.expected(opened, len(rows)) if guessed else ()
        if marked.sentences in seen:
            # Sentences are the answer where the row has no other.
            required = tuple(field for field in required if field != "response")
        nested = nested_fields(rows, seen.names)
        if opened.export is None:
            likely = beside_labels(rows, label_columns)
            listed = [name for name in likely if name not in marked.names]
        answers = [name for name in listed if name.lower() in NAMES["lists"]["answers"].split()]
        if len(answers) == 1 and not aliases_of("response", seen.names, nested):
            nested[answers[0]] = "response"
        fields = (
            *(name for name in seen.names if nested.get(name, name)),
            *(path for path, name in nested.items() if name),
            *(column for column in mapping.values() if column in seen),
        )
        by_field |= resolve_columns(
            fields,
            preset=reading.preset,
            mapping=mapping,
            require=required,
            source=source,
            nested=nested,
        )
        by_field |= mapping
        if "response" not in mapping and reading.preset is None:
            _require_no_prediction(seen, by_field["response"], source, labelled)
        asked, contexts = by_field["question"], seen.values(by_field["contexts"])
        unnamed = "question" not in mapping and asked in seen.names
        if unnamed and is_template(asked, seen.values(asked), contexts):
            template, by_field["question"] = asked, "question"
    by_field |= {"label": ",".join(label_columns)} | named
    if seen.names:
        roles = [("label column", column) for column in label_columns if reading.label_column]
        roles += [(f"{field} column", column) for field, column in named.items()]
        kept = (name for name in needs.keep if name not in (ALL_COLUMNS, CHARACTERS))
        roles += [("column", name) for name in kept if not _holds_cell(seen, marked, name)]
        remedy = "name one of these, or read a file that has it"
        # Of JSON lines a later row can have a column that the first rows lack.
        sparse = opened.export is not None or opened.format in ("jsonl", "json")
        lost = next(((role, column) for role, column in roles if column not in seen), None)
        if lost is None and needs.labelled and opened.table and not sparse and not labelled:
            lost = ("label column", by_field["label"])
            remedy = which_label(rows)
        if lost is not None:
            held = f"{listing(seen.names)}; {remedy}"
            raise DataError(f"{source} has no {lost[0]} {lost[1]!r}; columns seen: {held}")
    present = {field for field, column in by_field.items() if column in seen}
    present |= {"label"} if named_labels else set()
    spans = len(label_columns) == 1 and (
        label_columns[0] == marked.spans or any(map(is_spans, seen.values(label_columns[0])))
    )
    numbered = [opened.class_names.get(name, ()) for name in label_columns]
    if any(names != numbered[0] for names in numbered):
        held = "; ".join(map(str, zip(label_columns, numbered, strict=True)))
        raise DataError(f"{source}: the columns of labels number classes differently: {held}")
    labels = LabelReader(reading, label_columns[0], spans, numbered[0])
    joins = marked.sentences is not None and "response" not in present
    of_rows = marked.answer_id is not None
    theirs = marked.sentence_labels == by_field["label"] or not named_labels
    gives_labels = of_rows or (marked.sentences is not None and theirs)
    marks = None
    # Marks are read where they are needed, be it for the labels of answers alone.
    if joins or needs.by_sentence or gives_labels:
        reader = labels if of_rows else _labels_of_sentences(seen, opened, reading, marked)
        asks = needs.labelled, needs.by_sentence, needs.any_length
        marks = MarkReader(marked, reader, gives_labels, needs.keep, *asks, reading.span_share)
        by_field |= marked.by_field
        present |= {field for field, column in marked.by_field.items() if column in seen}
        labels = marks.labels if marks.gives_labels else labels
    used = {*by_field.values()}
    beside = tuple(name for name in listed if name not in used)
    taken = {*used, *label_columns, *marked.names}
    decimals = decimal_marks(seen, reading, taken, needs.decimals or {})
    rivals = _rivals(seen, opened, reading, needs, label_columns)
    parts = by_field, frozenset(present), label_columns, labels, beside, marked, marks
    return ColumnMapping(*parts, _numbering(seen), decimals, rivals, template)


def _require_no_prediction(seen: Seen, response: str, source: str, labelled: bool) -> None:
    """Refuse to take what may be the right answer beside a model's, or beside its labelled edit."""
    lists = {kind: set(words.split()) for kind, words in NAMES["lists"].items()}
    own, edits = response.strip().lower(), NAMES["pairs"]["hallucinated"].split()
    for name in seen.names:
        words = set(re.findall("[a-z]+", name.lower()))
        predicted = len(words) == 1 and words <= lists["predicted"]
        predicted |= bool(words & lists["predicting"] and words & lists["predicted_text"])
        edited = labelled and words.difference(edits) == {own} < words
        if not edited and not (predicted and own in lists["right"]):
            continue
        texts = (value for value in seen.values(name)[:_LOOKED_AT] if isinstance(value, str))
        if any(isinstance(column_value(t), str) and side_of(label_key(t)) is None for t in texts):
            both = {"faithful": response, "hallucinated": name}
            by = mapped_by("response", name)
            by += f"; {spell_option(ReadOptions, 'pair', both)} reads both" if edited else ""
            raise DataError.on("two_responses", source=source, name=name, right=response, by=by)


def _labels_of_sentences(
    seen: Seen, opened: Opened, reading: ReadOptions, marked: MarkColumns
) -> LabelReader:
    """Return what reads the labels of sentences, beside them or within."""
    keys = map(label_key_of, seen.values(marked.sentences or ""))
    key = next((key for key in keys if key is not None), "label")
    column = marked.sentence_labels or f"{marked.sentences}.{key}"
    return LabelReader(reading, column, names=opened.class_names.get(column, ()))
