"""Which options would read an unknown file, and what its names say."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrail.data.aliases import NAMES, aliases_of
from calibrail.data.columns import ColumnMapping, Seen, is_of_program, is_parallel
from calibrail.data.example import FAITHFUL, HALLUCINATED, TEXT_FIELDS
from calibrail.data.labels import (
    CLASSES,
    NAMED,
    NO,
    OF_CHECKS,
    PLAIN,
    UNDECIDED,
    YES,
    LabelReader,
    label_key,
    parse_label,
    said_by,
    votes_in,
)
from calibrail.data.traces._spans import SCORE
from calibrail.data.values import chunks_of, nested_names, number_in, parse_cell, value_at
from calibrail.options import ReadOptions
from calibrail.options.data import PAIR
from calibrail.serialization import Record
from calibrail.text.words import lazily_compiled

# A label has so many different short values at most, and a text that says something is longer.
_CLASSES: Final = 6
# Rows in which a text is looked for, and names of a path that may speak of it.
_LOOKED_AT: Final = 20
_DEPTH: Final = 8
_SHORT: Final = 30

# Characters of an example.
_SHOWN: Final = 50

# Rows of a wide table that are looked at.
_CELLS: Final = 300_000

#: What names of columns speak of.
_ANNOTATOR: Final = lazily_compiled(
    r"(?<![a-z])ann(?![a-z])|annotat|rater|worker|coder|expert|review|judg|person|vote",
    re.IGNORECASE,
)
_SENTENCES: Final = lazily_compiled(r"sentence|(?<![a-z])sents?(?![a-z])", re.IGNORECASE)
_WORDS: Final = {field: words.split() for field, words in NAMES["parts_of_names"].items()}

#: Who speaks in a chat, by the names that files have for them.
_ROLES: Final[dict[str, str]] = {v: k for k, it in NAMES["roles"].items() for v in it.split()}

#: What is said of inference and of one of two answers beside the words of labels.
_INFERENCE, _PAIRS = (
    {
        word: label
        for label, kind in ((FAITHFUL, "faithful"), (HALLUCINATED, "hallucinated"))
        for word in NAMES[table][kind].split()
    }
    for table in ("inference", "pairs")
)
#: A version, as in MLflow's metrics, and a scale from its lowest grade on.
_ASIDE: Final = lazily_compiled(r"/v\d+/|[(\[]\s*[01]\s*(?:-|\u2013|to|bis|a|\u00e0)\s*\d+\s*[)\]]")
#: Words that may turn what another says of a higher number.
_TURNING: Final = frozenset(NAMES["directions"]["turning"].split()).union(
    *(NAMES["labels"][of].split() for of in ("negations", "negations_elsewhere"))
)
#: In a name, what counts or measures a run.
OF_RUNS: Final = frozenset(NAMES["directions"]["of_runs"].split())
#: Beginnings of values that more likely mean hallucinated than their one other value, and of
#: those that less likely do.
_LIKELY, _UNLIKELY = (tuple(NAMES["labels"][kind].split()) for kind in ("likely", "unlikely"))
_KINDS: Final = lazily_compiled(
    rf"(?:.*_)?(?:{'|'.join(NAMES['pairs']['kinds'].split())})s?_"
    rf"(?:{'|'.join(NAMES['pairs']['of_kinds'].split())})"
)


@dataclass(frozen=True, slots=True)
class ColumnLook(Record):
    """What a column holds in the first rows.

    Parameters
    ----------
    name : str
        The column, or the path to it.
    kind : str
        ``text``, ``number``, ``true/false``, ``list of texts``, ``list``, ``object``, ``mixed`` or
        ``empty``.
    n, missing : int
        Rows looked at with a value and without.
    examples : tuple of str
        Its most frequent values, shortened.
    values : tuple of str
        All its different values where they are few and short, else none.
    length : float
        Characters of its texts on average.
    """

    name: str
    kind: str
    n: int
    missing: int
    examples: tuple[str, ...]
    values: tuple[str, ...]
    length: float


@dataclass(frozen=True, slots=True)
class AnswerColumn(Record):
    """One of several answers that a row holds in columns of their own.

    Parameters
    ----------
    response : str
        The column of the answer.
    label : str or int
        The column of its label, or the class that its name says.
    key : str
        How a label is called without what tells it from those of other answers.
    """

    response: str
    label: str | int
    key: str = "label"


class Suggestion(NamedTuple):
    """Options that would read what is not understood, and why.

    Parameters
    ----------
    options : mapping of str to str
        By their names in `ReadOptions`.
    reason : str
        Code of what a person must check of them; empty where nothing is a guess.
    about : str
        What it speaks of: a value, a column or a data set.
    answers : tuple of AnswerColumn
        A row's answers, where no options read them: each needs a row of its own.
    """

    options: Mapping[str, str]
    reason: str = ""
    about: str = ""
    answers: tuple[AnswerColumn, ...] = ()


def words_of(name: str) -> list[str]:
    """Return the words of a column's name in lower case, numbers among them.

    >>> words_of("scores.minicheckP_supported2")
    ['scores', 'minicheck', 'p', 'supported', '2']
    """
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[^\W\d_])(?=\d)", "_", name)
    return [word for word in re.split(r"[\W_]+", parted.lower()) if word]


#: Numbers that are written where there is no score.
_STAND_INS: Final = (-999.0, -99.0, -9.0, -1.0, 99.0, 999.0, 9999.0)


#: Fewer numbers of another unit are slips.
_FEW: Final = 5


def stand_in(values: NDArray[np.float64]) -> dict[str, float] | None:
    """Return a number that comes again, apart from all others, as one for a missing score does.

    Or how many numbers seem to be per cents beside shares, and from which one on.

    >>> stand_in(np.array([-1.0, 0.2, 0.4, -1.0, 0.3, np.nan]))
    {'at': -1.0, 'n': 2}
    >>> stand_in(np.array([0.1, 0.2, 0.4, 0.6, 0.9, 12.0, 31.0, 44.0, 68.0, 85.0]))
    {'n': 5, 'n_shares': 5, 'low': 12.0}
    """
    for at in _STAND_INS:
        # Tables may have millions of rows: they are sorted only where such a number comes again.
        if (n := int(np.sum(values == at))) > 1:
            others = np.unique(values[(values != at) & ~np.isnan(values)])
            if len(others) > 2 and ((at < 0.0 <= others[0]) or at > 5.0 * others[-1] > 0.0):
                return {"at": at, "n": n}
    shares, cents = values[(values > 0.0) & (values < 1.0)], values[values > 1.0]
    least, n = max(_FEW, 0.05 * np.sum(~np.isnan(values))), len(cents)
    if min(len(shares), n) < least or np.nanmin(values) < 0.0 or not 10.0 < cents.max() <= 100.0:
        return None
    # Of numbers of one kind some lie close above 1, too.
    apart = np.sum(cents <= 2.0) <= 0.05 * n and len({*cents.tolist()}) >= _FEW
    return {"n": n, "n_shares": len(shares), "low": float(cents.min())} if apart else None


def _is_of_run(path: str) -> bool:
    """Say whether what stands in an object measures a run, whatever the object is called."""
    around, _, own = path.rpartition(".")
    words = {*words_of(own)}
    return bool(around) and not OF_RUNS.isdisjoint(words) and words.isdisjoint(CLASSES)


def direction_of(column: str) -> str | None:
    """Return the class that a higher number means by its column's name; None where it says none.

    >>> direction_of("p_supported"), direction_of("hallucination_score"), direction_of("dae")
    ('faithful', 'hallucinated', None)
    >>> [direction_of(name) for name in ("not_supported", "faithful (1-5)", "faithful (5-1)")]
    [None, 'faithful', None]
    >>> [direction_of(name) for name in ("fidèle", "pas_fidèle", "sin_alucinación")]
    ['faithful', None, None]
    >>> [direction_of(f"hallucination_score.{name}") for name in ("score", "details.seconds")]
    ['hallucinated', None]
    """
    words = words_of(_ASIDE.sub(" ", column))
    said = {CLASSES[word] for word in words if word in CLASSES and word not in OF_CHECKS}
    if len(said) != 1 or not _TURNING.isdisjoint(words) or _is_of_run(column):
        return None
    return "faithful" if said == {FAITHFUL} else "hallucinated"


def speaks_of_score(column: str) -> bool:
    """Say whether a column's name speaks of a score, whatever its direction.

    >>> speaks_of_score("judge_score"), speaks_of_score("latency")
    (True, False)
    """
    return not _is_of_run(column) and any(part in column.lower() for part in _WORDS["score"])


def names_kinds(column: str) -> bool:
    """Say whether a column tells what kind of error an answer holds, as ``edit_types`` does."""
    return bool(_KINDS.fullmatch("_".join(words_of(column.rpartition(".")[2]))))


def known_as(fields: Sequence[str]) -> Mapping[str, Any] | None:
    """Return the public data set whose columns a file has, if its labels need options."""
    names = {name.lower() for name in fields}
    return next((s for s in NAMES["public"] if names.issuperset(s["columns"].split())), None)


@dataclass(frozen=True, slots=True)
class UnreadText(Record):
    """A column of texts that is no field.

    Parameters
    ----------
    name : str
        The column.
    template : bool
        Whether it has the name of a question, and holds the contexts as well.
    """

    name: str
    template: bool


def unread_texts(layout: Sequence[ColumnLook], columns: ColumnMapping) -> tuple[UnreadText, ...]:
    """Return the columns of texts that are no field."""
    taken = {columns.by_field[field] for field in columns.present}
    taken |= {*columns.label_columns, *columns.marked.names}
    return tuple(
        UnreadText(look.name, look.name == columns.template)
        for look in layout
        if _is_text(look) and is_apart(look.name, taken)
    )


def looks(rows: Sequence[Mapping[str, object]]) -> tuple[ColumnLook, ...]:
    """Return what is in each column of some rows, paths into objects among them."""
    width = max(map(len, rows), default=1) or 1
    rows = rows[: max(5, _CELLS // width)]
    names = dict.fromkeys(name for row in rows for name in nested_names(row))
    made = {name: [value_at(row, name) for row in rows] for name in names}
    counted = dict.fromkeys(name.rpartition(".")[0] for name in names if "." in name)
    for name in counted:
        votes = [_votes(value_at(row, name), _is_named(name)) for row in rows]
        own = [known.rpartition(".")[2] for known in made if known.rpartition(".")[0] == name][:1]
        twins = [it for it in counted if it != name and own and f"{it}.{own[0]}" in made]
        if all(vote is not None for vote in votes) and name and not twins:
            # Votes are one column, not one for each of their labels.
            at = next(i for i, known in enumerate(made) if known.startswith(f"{name}."))
            items = [(k, v) for k, v in made.items() if not k.startswith(f"{name}.")]
            items.insert(at, (name, [[label for label, _ in vote or ()] for vote in votes]))
            made = dict(items)
    return tuple(_look(name, values) for name, values in made.items())


def _votes(value: object, named: bool) -> list[tuple[object, int]] | None:
    """Return counted votes, also those of each item of a list that is named after labels."""
    if not (named and isinstance(value, list) and value):
        return votes_in(value)
    each = [votes_in(item) for item in value]
    return None if None in each else [vote for votes in each for vote in votes or ()]


def _look(name: str, values: Sequence[object]) -> ColumnLook:
    there = [value for value in values if value is not None]
    kinds = {_kind(value) for value in there}
    kind = next(iter(kinds)) if len(kinds) == 1 else "mixed" if kinds else "empty"
    flat = [item for value in there for item in _items(value)]
    simple = [item for item in flat if isinstance(item, str | int | float)]
    often = [text for text, _ in Counter(str(item).strip() for item in simple).most_common()]
    few = len(simple) == len(flat) and 0 < len(often) <= _CLASSES
    # A text that spells a list or an object is no class.
    short = few and max(map(len, often)) <= _SHORT and not any(t[:1] in ("[", "{") for t in often)
    texts = [chunks_of(value) for value in there]
    sizes = [sum(map(len, text)) for text in texts if text is not None]
    return ColumnLook(
        name,
        kind,
        len(there),
        len(values) - len(there),
        tuple(_brief(text) for text in (often or list(map(str, there)))[:3]),
        tuple(often) if short else (),
        sum(sizes) / len(sizes) if sizes else 0.0,
    )


def _items(value: object) -> Iterator[object]:
    """Yield what a value holds, however deep its lists are."""
    if not isinstance(value, list):
        yield value
        return
    for item in value:
        yield from _items(item)


def _brief(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}..."


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "list of texts" if chunks_of(value) is not None else "list"
    return next((name for kind, name in _SIMPLE if isinstance(value, kind)), "object")


#: How values are called that hold no others, a truth value being a number, too.
_SIMPLE: Final[tuple[tuple[Any, str], ...]] = (
    *((bool, "true/false"), (int | float, "number"), (str, "text")),
)


def suggest(
    rows: Sequence[Mapping[str, object]],
    layout: Sequence[ColumnLook],
    columns: ColumnMapping,
    readable: bool,
    exported: bool = False,
) -> Suggestion:
    """Return what would read what is not understood.

    Parameters
    ----------
    rows : sequence of mapping
        The first rows.
    layout : sequence of ColumnLook
        All columns.
    columns : Columns
        What was understood.
    readable : bool
        Whether labels could be read.
    exported : bool
        Whether it is a tool's export, of which only a column whose name speaks of labels, and that
        is no program's score, may hold some.
    """
    options: dict[str, str] = {}
    lengths = {look.name: look.length for look in layout}
    # A column that has a field's name, but no text, is none.
    read = {
        field: name
        for field, name in columns.by_field.items()
        if field in columns.present and (field not in TEXT_FIELDS or _holds_text(rows, name))
    }
    taken = set(read.values())
    if not (readable and "response" in read) and not exported:
        answers = _several_answers(layout, columns)
        if answers:
            used = taken | {item.response for item in answers}
            free = (k.name for k in layout if _is_text(k) and is_apart(k.name, used))
            named = [k for k in free if "contexts" not in read and _speaks_of(k, "contexts", 1)]
            options |= {"mapping": f"contexts={named[0]}"} if named else {}
            pair = {item.label: item.response for item in answers}
            if len(answers) == len(pair) and pair.keys() == {FAITHFUL, HALLUCINATED}:
                sides = zip(PAIR, (pair[FAITHFUL], pair[HALLUCINATED]), strict=True)
                return Suggestion(options | {"pair": ",".join(map("=".join, sides))})
            return Suggestion(options, answers=answers)
    mapping = {field: path for field, path in _by_role(rows, layout).items() if field not in read}
    # Of a chat that is read nothing else is a text.
    paths = (*taken, *mapping.values())
    taken |= {path.partition(f".{word}.")[0] for path in paths for word in _ROLES}
    unlabelled = not readable and "label" not in columns.present
    judged = _judged_sentences(rows, layout, columns) if unlabelled else None
    if judged is not None:
        mapping["sentences"], names = judged[0], _with_others(judged[1], layout)
        if "," in names:
            options["label_column"] = names
        else:
            mapping["sentence_labels"] = names
    # Sentences are the answer where there is no other.
    apart = {"response"} if judged is not None or "sentences" in columns.present else set[str]()
    for field in TEXT_FIELDS:
        if field in read or field in mapping or (field == "question" and columns.template):
            continue
        taken |= {*mapping.values()}
        texts = [look.name for look in layout if _is_text(look) and is_apart(look.name, taken)]
        named_so = (name for name in aliases_of(field, lengths) if is_apart(name, taken))
        rivals = [name for name in named_so if _holds_text(rows, name)]
        # A column's own name goes before those of the objects around it.
        for depth in (1, 2, _DEPTH) if field not in apart else ():
            rivals = rivals or [name for name in texts if _speaks_of(name, field, depth)]
        if rivals:
            # Of an original and what was made of it the labels speak of the latter.
            rivals.sort(key=lambda name: field == "response" and _class_named(name) == FAITHFUL)
            mapping[field] = rivals[0]
    taken |= {*mapping.values()}
    mapping |= _by_length(layout, {*read, *mapping, *apart}, taken, lengths)
    # A question is asked for only where there is more to say.
    if mapping.keys() - {"question"}:
        options["mapping"] = ",".join(f"{field}={column}" for field, column in mapping.items())
    if judged is not None:
        return _meanings(judged[1], options)
    if exported:
        layout = [it for it in layout if _is_named(it.name) and not it.name.startswith(SCORE)]
    if readable:
        return Suggestion(options)
    # What names labels and says what their values mean, beside others.
    there = [look for look in layout if look.name in columns.label_columns]
    if "label" in columns.present and there:
        return _meanings(there[0], options)
    used = {columns.by_field[field] for field in columns.present}
    return _labels_among([look for look in layout if look.name not in used], options)


def _by_role(rows: Sequence[Mapping[str, object]], layout: Sequence[ColumnLook]) -> dict[str, str]:
    """Return where the last answer of a chat is, the turn before it, and what tools returned.

    Instructions that are the same in all rows are no contexts. Without any, a long turn before the
    answer holds them.
    """
    last: dict[str, str] = {}
    every: dict[str, tuple[str, float]] = {}
    for look in layout:
        path, _, what = look.name.rpartition(".")
        chat, _, speaker = path.rpartition(".")
        role = _ROLES.get(speaker) if chat and what in ("content", "value") else None
        if role and (role != "assistant" or _is_answered(rows, chat)):
            every.setdefault(role, (look.name, look.length))
            last.setdefault(role, f"{path}.-1.{what}")
        elif what == "role" and len(look.values) == 1:
            # A message by itself.
            last.setdefault(_ROLES.get(look.values[0], ""), f"{path}.content")
    turns = (("question", "user"), ("response", "assistant"))
    found = {field: last[role] for field, role in turns if role in last}
    system, _ = every.get("system", ("", 0.0))
    if "tool" in every:
        found["contexts"] = every["tool"][0]
    elif system and len({str(value_at(row, system)) for row in rows}) > 1:
        found["contexts"] = last["system"]
    elif "assistant" in last and every.get("user", ("", 0.0))[1] > _TEMPLATE:
        found["contexts"] = found.pop("question")
    return found


def _is_answered(rows: Sequence[Mapping[str, object]], chat: str) -> bool:
    """Say whether an answer is what most chats end with."""
    ends = [value_at(row, f"{chat}.-1.{who}") for row in rows for who in ("role", "from")]
    return 2 * sum(_ROLES.get(str(who)) == "assistant" for who in ends) > len(rows)


#: Characters from which on a turn of a chat holds more than a question.
_TEMPLATE: Final = 500


def _judged_sentences(
    rows: Sequence[Mapping[str, object]], layout: Sequence[ColumnLook], columns: ColumnMapping
) -> tuple[str, ColumnLook] | None:
    """Return the column of an answer's sentences, and where each has its labels or votes."""
    seen, named = Seen(rows), [columns.marked.sentences] if columns.marked.sentences else []
    lists = [look for look in layout if look.kind.startswith("list")]
    # What stands within objects of a list is no list by itself.
    parts = tuple(f"{look.name}." for look in lists)
    free = (look.name for look in lists if not look.name.startswith(parts))
    named += [name for name in free if _SENTENCES.search(name.rpartition(".")[2])]
    for name in named:
        # Labels within the objects, or in a list beside the texts.
        within = [look for look in layout if look.name.startswith(f"{name}.")]
        beside = [look for look in lists if is_parallel(seen, look.name, name)]
        for looked in (within, beside):
            likely = [look for look in looked if look.name != name and _is_of_labels(look)]
            likely.sort(key=lambda look: (not _is_named(look.name), -len(look.values)))
            if likely:
                return name, likely[0]
    return None


def _is_of_labels(look: ColumnLook) -> bool:
    """Say whether a column's values are classes by their words, or by its name."""
    keys = {label_key(value) for value in look.values} - PLAIN
    if not 0 < len(look.values) <= _CLASSES or words_of(look.name)[-1:] == ["id"]:
        return False
    return _is_named(look.name) or any(
        key in YES | NO or parse_label(key) is not None or _inferred(key) is not None
        for key in keys
    )


def _several_answers(
    layout: Sequence[ColumnLook], columns: ColumnMapping
) -> tuple[AnswerColumn, ...]:
    """Return the answers of a row whose columns go by pairs, or by what their names say of them.

    That is an answer and a label of each of several models; a right answer and a wrong one; or
    what follows from a text and what contradicts it.
    """
    taken = {columns.by_field[field] for field in columns.present & {"question", "contexts"}}
    free = [look for look in layout if is_apart(look.name, taken)]
    texts = {look.name: _apart(look.name) for look in free if _is_text(look)}
    labels = [look.name for look in free if look.values and not _is_text(look)]
    by_model = {rest: name for name, rest in texts.items() if rest}
    found = [
        AnswerColumn(by_model[rest], name, _key(name, rest))
        for name in labels
        if (rest := _apart(name)) in by_model and _speaks_of(name, "label", _DEPTH)
    ]
    by_answer = {item.response for item in found}
    if len(by_answer) > 1 and len(found) == len(by_answer):
        return tuple(found)
    judged = (k for k in free if _is_named(k.name) and {*map(parse_label, k.values)} == {0, 1})
    meant = right_and_wrong(free)
    # A column that is called hallucinated may be a text that is.
    if any(judged) or ("label" in columns.present and not {*meant} & {*columns.label_columns}):
        return ()
    return tuple(AnswerColumn(name, label) for name, label in meant.items())


def right_and_wrong(layout: Sequence[ColumnLook]) -> dict[str, int]:
    """Return the texts that are right answers or wrong ones, by name; empty without both."""
    texts = [k for k in layout if k.kind == "text" and _is_text(k, 0.0) and not _explains_label(k)]
    # What is far longer is what the answers were made from, as an ``original`` may be.
    lengths = {k.name: k.length for k in texts if _class_named(k.name) is not None}
    most = 4 * min(lengths.values(), default=0.0)
    names = [k.name for k in texts if lengths.get(k.name, 0.0) <= most]
    meant = {name: label for name in names if (label := _class_named(name)) is not None}
    alone = [name for name in aliases_of("response", names) if name not in meant]
    if {*meant.values()} == {HALLUCINATED} and len(alone) == 1:
        meant[alone[0]] = FAITHFUL
    return meant if len({*meant.values()}) > 1 else {}


def _explains_label(look: ColumnLook) -> bool:
    """Say whether a column that goes by the name of a label begins with one: "No, it is not"."""
    firsts = {label_key(re.split(r"\W", text, maxsplit=1)[0]) for text in look.examples}
    begins = any(key in YES | NO or said_by(key) is not None for key in firsts)
    return begins and bool(aliases_of("label", [look.name]))


def _key(name: str, rest: Sequence[str]) -> str:
    return "_".join(w for w in words_of(name.rpartition(".")[2]) if w not in rest) or "label"


def _apart(name: str) -> tuple[str, ...]:
    """Return what tells a column from others that hold the same: a model's name, or a number."""
    parts = (*_WORDS["response"], *_WORDS["no_model"])
    return tuple(word for word in words_of(name) if not word.startswith(parts))


def _class_named(name: str) -> int | None:
    """Return the class of an answer by the name of its column."""
    own = "_".join(words_of(name.rpartition(".")[2]))
    if own not in PLAIN and (label := parse_label(own)) is not None:
        return label
    if len(own) > 1 and own in _INFERENCE:
        return _INFERENCE[own]
    parts = (*_WORDS["response"], "hyp", "statement", "text")
    words = [word for word in words_of(name) if not word.startswith(parts)]
    meant = {_PAIRS.get(word, NAMED.get(word, _INFERENCE.get(word))) for word in words}
    return meant.pop() if len(meant) == 1 else None


def _by_length(
    layout: Sequence[ColumnLook], fields: set[str], taken: set[str], lengths: Mapping[str, float]
) -> dict[str, str]:
    """Return the longest texts for the answer and its contexts, where no name says which."""
    texts = [look for look in layout if _is_text(look) and is_apart(look.name, taken)]
    texts.sort(key=lambda look: -look.length)
    mapping: dict[str, str] = {}
    for field in ("response", "contexts"):
        if field in fields:
            continue
        # Of two texts the longer one is what the shorter one was made from.
        least = lengths.get(mapping.get("response", ""), 0.0) if field == "contexts" else 0.0
        rest = [look for look in texts if look.name not in mapping.values() and look.length > least]
        if rest:
            both = field == "response" and "contexts" not in fields and len(rest) > 1
            rest.sort(key=lambda k: field == "response" and _class_named(k.name) == FAITHFUL)
            mapping[field] = rest[1 if both else 0].name
    return mapping


def _speaks_of(column: str, field: str, depth: int) -> bool:
    """Say whether the last so many names of a path speak of a field."""
    path = ".".join(column.lower().split(".")[-depth:])
    return any(word in path for word in _WORDS[field])


def is_apart(column: str, taken: Set[str]) -> bool:
    """Say whether a column is in none of others, and none of them is in it."""
    pairs = ((f"{column}.", f"{name}.") for name in taken)
    return not any(one.startswith(other) or other.startswith(one) for one, other in pairs)


def _holds_text(rows: Sequence[Mapping[str, object]], column: str) -> bool:
    """Say whether a column is read as texts, and not as JSON that spells an object of others."""
    values = [value for row in rows if (value := value_at(row, column)) is not None]
    spelt = [parse_cell(value) if isinstance(value, str) else None for value in values[:_LOOKED_AT]]
    return any(
        chunks_of(cell if isinstance(cell, Mapping) else value) is not None
        for cell, value in zip(spelt, values, strict=False)
    )


def _is_text(look: ColumnLook, least: float = 15.0) -> bool:
    # Numbers of many digits, as CSV spells them, and dates are no texts.
    digits = all(2 * sum(map(str.isdigit, example)) > len(example) for example in look.examples)
    texts = look.kind in ("text", "list of texts") and not look.values
    return texts and look.length >= least and not digits


def suggest_labels(rows: Sequence[Mapping[str, object]], names: Sequence[str] = ()) -> Suggestion:
    """Return what reads the labels in the first rows: of the columns named, or of any."""
    layout = looks(rows)
    return _labels_among([look for look in layout if look.name in names] or layout, {})


def _labels_among(layout: Sequence[ColumnLook], options: dict[str, str]) -> Suggestion:
    # What a program says is no label.
    few = [look for look in layout if look.values and not is_of_program(look.name)]
    # Two languages, or two models, are no classes.
    apart = [k for k in few if {*_WORDS["no_label"]}.isdisjoint(words_of(k.name)[-1:])]
    candidates = [look for look in apart if len(look.values) > 1]
    # Words of a class go before grades, and before numbers that may count anything.
    grades = [k for k in candidates if any(number_in(v) not in (None, 0.0, 1.0) for v in k.values)]
    candidates.sort(key=lambda look: (not _is_of_labels(look), look in grades))
    named = [look for look in candidates if _is_named(look.name)]
    # The first rows of a sorted file may be of one class.
    of_one = [k for k in few if _is_named(k.name) and parse_label(k.values[0]) is not None]
    if not (named or of_one or candidates):
        return Suggestion(options)
    chosen = (named or of_one or candidates)[0]
    return _meanings(chosen, options | {"label_column": _with_others(chosen, few)})


def _with_others(chosen: ColumnLook, looks: Sequence[ColumnLook]) -> str:
    """Return a column of labels, with those of the other annotators where it is one's."""
    stem = _annotator(chosen.name)
    alike = [k.name for k in looks if k.kind == chosen.kind and _annotator(k.name) == stem]
    return chosen.name if stem is None else ",".join(alike)


def _annotator(column: str) -> str | None:
    """Return a column's name without what tells one annotator from another; None for any other.

    >>> _annotator("ann_2"), _annotator("label_of_rater_B"), _annotator("label_2")
    ('ann_', 'label_of_rater_', None)
    """
    bare = re.sub(r"\d+|(?<=_)[A-Za-z]$", "", column)
    return bare if bare != column and _ANNOTATOR.search(column) else None


def _meanings(chosen: ColumnLook, options: dict[str, str]) -> Suggestion:
    """Return options with those that say what a label's values mean, where they do not say it."""
    reader = LabelReader(ReadOptions(), chosen.name)
    classes = {value: reader.of_one(value) for value in chosen.values}
    if any(number_in(value) not in (None, 0.0, 1.0) for value in classes):
        # Of a rating, its 0 and 1 are no labels.
        classes = {k: label if number_in(k) is None else None for k, label in classes.items()}
    unknown = [value for value, label in classes.items() if label is None]
    if not unknown or not chosen.values or {*classes.values()} == {FAITHFUL, HALLUCINATED}:
        return Suggestion(options)
    if (inferred := inferred_classes(list(classes))) is not None:
        return Suggestion(options | {"label_map": inferred}, "inference")
    if len(classes) == 2 and len(unknown) == 2 and PLAIN.isdisjoint(map(label_key, unknown)):
        value = max(unknown, key=likelihood)
        other = next(known for known in unknown if known != value)
        if label_key(other) in UNDECIDED | {"null"}:
            # Without a kind of error there is none.
            return Suggestion(options | {"label_map": f"{value}=1,{other}=0"}, "classes")
        return Suggestion(options | {"positive": value}, "positive", value)
    if len(classes) == 2 and len(unknown) == 1:
        # One of two is known, so the other one is the other class.
        known = next(label for label in classes.values() if label is not None)
        classes[unknown[0]] = 1 - known
    guessed = "" if None not in classes.values() else "classes"
    return Suggestion(options | {"label_map": _spelt(classes)}, guessed)


def likelihood(value: str) -> int:
    """Return how likely a value means hallucinated that may mean either class."""
    key = label_key(value).replace(" ", "_")
    said = said_by(key, True)
    likely = said == HALLUCINATED or key in NO or key.startswith(_LIKELY)
    return int(likely) - int(said == FAITHFUL or key in YES or key.startswith(_UNLIKELY))


def _inferred(value: str) -> int | None:
    """Return the class of a word of inference."""
    key = re.sub(r"[\s_-]+", "_", label_key(value))
    return _INFERENCE.get(key, CLASSES.get(key))


def inferred_classes(values: Sequence[str]) -> str | None:
    """Return a label map of the words of inference; None where values are others, or of one class.

    >>> inferred_classes(["e", "n", "c"]), inferred_classes(["Supports", "NOT ENOUGH INFO"])
    ('e=0,n=1,c=1', 'Supports=0,NOT ENOUGH INFO=1')
    >>> inferred_classes(["y", "n"]) is None
    True
    """
    classes = {value: _inferred(value) for value in values}
    # SNLI writes a dash where people did not agree.
    meant = {value: label for value, label in classes.items() if value.strip() != "-"}
    if {*meant.values()} != {FAITHFUL, HALLUCINATED}:
        return None
    return ",".join([_spelt(meant), *(f"{value}=skip" for value in classes if value not in meant)])


def _spelt(classes: Mapping[str, int | None]) -> str:
    return ",".join(f"{value}={_OF[label]}" for value, label in classes.items())


def _is_named(column: str) -> bool:
    """Say whether a column's own name, not that of the object around it, speaks of labels."""
    own = column.rpartition(".")[2].lower()
    return any(word in own for word in _WORDS["label"])


_OF: Final = {FAITHFUL: "0", HALLUCINATED: "1", None: "?"}
