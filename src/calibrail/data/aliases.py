"""Names that other tools use for a field, and the column that each field has by its name."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Final

from calibrail.data.example import FIELDS, TEXT_FIELDS
from calibrail.data.values import chunks_of, nested_names, text_of, value_at
from calibrail.errors import DataError, InputError, tables_beside
from calibrail.formatting import listed
from calibrail.options import ReadOptions
from calibrail.options.fields import cli_or_python, spell_option
from calibrail.text.words import INVISIBLE

#: Names and words of other tools: see ``names.toml``.
NAMES: Final[Mapping[str, Any]] = tables_beside(__file__, "names.toml")

#: Preset name to the columns of (question, contexts, response).
PRESETS: Final[Mapping[str, Sequence[str]]] = NAMES["presets"]


def tools_named(columns: Mapping[str, str]) -> list[str]:
    """Return the tools whose own names all text fields have, none where these are calibrail's.

    >>> tools_named({"question": "input", "contexts": "context", "response": "output"})
    ['trulens', 'phoenix']
    """
    named = tuple(columns.get(field, "") for field in ("question", "contexts", "response"))
    return [name for name, own in PRESETS.items() if tuple(own) == named and name != "calibrail"]


#: Fields of what people marked in an answer: spans, its sentences, a label for each of these; and,
#: where rows are sentences, which answer a row belongs to.
MARK_FIELDS: Final = ("spans", "sentences", "sentence_labels", "answer_id")

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
    >>> aliases_of("response", ["answer", "summary"]), aliases_of("label", ["label", "Label"])
    (['answer', 'summary'], ['label', 'Label'])
    """
    by_lower: dict[str, list[str]] = {}
    for column in dict.fromkeys(columns):
        name = INVISIBLE.sub("", nested.get(column, column)).strip().lower().replace(" ", "_")
        by_lower.setdefault(name, []).append(column)
    for tier in NAMES["fields"][field]:
        if found := [column for name in tier.split() for column in by_lower.get(name, ())]:
            return found
    for together in NAMES["together"]:
        if field in together["stands_for"] and {*together["names"].split()} <= by_lower.keys():
            return by_lower[together["stands_for"][field]]
    return []


def _field_named(column: str) -> str | None:
    return next((field for field in TEXT_FIELDS if aliases_of(field, (column,))), None)


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
        field = _field_named(column)
        if field is None and column.lower() not in HOLDERS:
            continue
        keys = dict.fromkeys(key for x in objects if isinstance(x, Mapping) for key in x)
        parts = {key: inner for key in keys if (inner := _field_named(key)) is not None}
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


#: Of so many characters a prompt says more than it asks; so many of a chunk are looked for in it,
#: and fewer would stand anywhere.
_ASKS, _CHUNK, _SAYS = 1000, 60, 20
_HEADING: Final = re.compile(NAMES["templates"]["heading"])


def is_template(column: str, prompts: Sequence[object], contexts: Sequence[object]) -> bool:
    """Say whether a column of questions is a prompt that holds what is to be read, too."""
    if column not in NAMES["templates"]["names"].split():
        return False
    held = 0
    for prompt, value in zip(prompts, contexts, strict=True):
        text = text_of(prompt) or ""
        chunks = [chunk.strip()[:_CHUNK] for chunk in chunks_of(value) or ()]
        holds = any(len(chunk) >= _SAYS and chunk in text for chunk in chunks)
        held += holds or len(text) > _ASKS or _HEADING.search(text) is not None
    return 2 * held > len(prompts)


_PROGRAM, _MODEL = (re.compile(NAMES["labels"][name]) for name in ("program", "model"))
_ADDRESS: Final = re.compile(r"@[\w-]+(\.[\w-]+)*\.[a-z]{2,}")
# A longer value is a text, and nobody's name; rows that are looked at for columns, and names told.
_LONG, _LOOKED_AT, _NAMED = 80, 20, 3


@cache
def _words(kind: str) -> frozenset[str]:
    return frozenset(NAMES["labels"][kind].split())


def is_of_judge(name: str) -> bool:
    """Say whether a column's name says that a program labelled, and nothing of what it labelled.

    >>> [is_of_judge(name) for name in ("gpt4_label", "LLM as a judge", "llm_answer_label", "y")]
    [True, True, False, False]
    """
    words, judges, said = {*_letters(name)}, _words("judges"), _words("opinions")
    both = not words.isdisjoint(judges) and not words.isdisjoint(said)
    return both and words <= judges | said | {"by", "as", "a", "the"}


def _letters(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text.lower())


@lru_cache(maxsize=4096)
def is_model(name: str) -> bool | None:
    """Say whether who labelled is a model, by its name; None where it may be a first name, too.

    >>> [is_model(name) for name in ("gpt-6-luna", "LLM judge", "Gemini", "Claude")]
    [True, True, True, None]
    >>> people = "alice", "Claude Dupont", "claude@firm.com", "annotator_3", "human"
    >>> any(map(is_model, people))
    False
    """
    spelt = name.strip().replace("_", " ")
    text, alone = spelt.lower(), _words("model_alone")
    if text in _words("first_names"):
        return None
    whose, *address = _ADDRESS.split(text, maxsplit=1)
    if len(text) > _LONG or address or _PROGRAM.search(whose) or _MODEL.search(text):
        return len(text) <= _LONG and bool(_PROGRAM.search(whose) or not address)
    # As one word, DeepSeek, and as several, LLMJudge.
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", spelt)
    ways, known = ({*_letters(text)}, {*_letters(apart)}), alone | _words("model_with")
    return any(known >= words and words & alone for words in ways)


def _is_plain(name: str) -> bool:
    known = _words("fillers") | _words("people") | _words("model_alone")
    return name.isalpha() and len(name) > 1 and name.lower() not in known


class Labellers:
    """Counts who gave labels, by the columns that say so, and tells models from people.

    Parameters
    ----------
    rows : iterable of mapping
        The first rows.
    table : bool
        Whether they have all columns of the source.
    parts : bool
        Whether a row's list holds a name for each part of its answer, and not for each vote.

    Attributes
    ----------
    columns : list of str
        Where names are.
    n : int
        Labels so far.
    """

    def __init__(
        self, rows: Iterable[Mapping[str, object]], table: bool = False, parts: bool = False
    ) -> None:
        inside = chain.from_iterable(map(nested_names, islice(rows, _LOOKED_AT)))
        whose = _words("whose")
        self.columns = [name for name in dict.fromkeys(inside) if _ends(name) & whose]
        # Of JSON lines a later row can have a column that the first rows lack.
        self._later = frozenset[str]() if table else whose.difference(self.columns)
        self._names, self._parts, self.n = defaultdict[str, Counter[str]](Counter), parts, 0

    def add(self, row: Mapping[str, object]) -> None:
        """Count a labelled row's."""
        self.n += 1
        for column in (*self.columns, *self._later.intersection(row)):
            value = value_at(row, column)
            if isinstance(value, list):
                names = [item for item in value if isinstance(item, str)]
                # A model's vote among those of people is no label; its label of a part is one.
                chosen = max if self._parts else min
                value = chosen(names, key=lambda name: bool(is_model(name)), default=None)
            self.count(column, value)
        # That of a folder of labels goes with them wherever they go.
        self.count("judge", row.get("judge") if "order" in row else None)

    def count(self, column: str, name: object, n: int = 1) -> None:
        """Count the labels of one name."""
        if isinstance(name, str) and name.strip():
            self._names[column][name] += n

    def found(self) -> dict[str, Any] | None:
        """Return who labelled, JSON-able; None where no column speaks of a model.

        Gives the ``column``, of ``n`` labels those of ``models``, how many are people's, and
        ``first_names`` that may be models'. These are taken as models, unless all others there, two
        or more, may be first names, too.
        """
        for column, names in self._names.items():
            told = {name: column == "judge" or is_model(name) for name in names}
            plain = [name for name, model in told.items() if model is False and _is_plain(name)]
            doubtful = [name for name, model in told.items() if model is None]
            among = len(plain) > 1 and len(plain) + len(doubtful) == len(told)
            taken = {name for name in told if told[name] or (told[name] is None and not among)}
            if taken or doubtful:
                models = {name: n for name, n in names.most_common() if name in taken}
                found = {"column": column, "n": self.n, "models": models, "first_names": doubtful}
                return found | {"n_people": names.total() - sum(models.values())}
        return None

    @property
    def judge(self) -> str | None:
        """The models that gave labels, and how many where not all; None of people alone."""
        models = (self.found() or {"models": {}})["models"]
        given, named = sum(models.values()), listed([*models][:_NAMED])
        return f"{named} ({given:,} of {self.n:,} labels)" if 0 < given < self.n else named or None


def _ends(name: str) -> set[str]:
    """Return a column's name, and its last part, as names are compared."""
    spelt = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return {re.sub(r"[\W_]+", "_", part) for part in (spelt, spelt.rpartition(".")[2])}


def judge_of_row(row: Mapping[str, object], by: str | None = None) -> str | None:
    """Return which judge gave a row's label: who did is said of all rows (``by``), or by the row.

    >>> judge_of_row({"annotator": "gpt-6-luna"}), judge_of_row({"annotator": "Claude Dupont"})
    ('gpt-6-luna', None)
    """
    if by not in (None, "people"):
        return by
    labellers = Labellers([row] if by is None else [], table=True)
    labellers.add(row)
    return labellers.judge


def resolve_columns(
    fields: Collection[str],
    *,
    preset: str | None = None,
    mapping: Mapping[str, str] | None = None,
    require: Collection[str] = TEXT_FIELDS,
    source: str = "the data",
    nested: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the column of each text field, e.g. ``{"question": "user_input", ...}``.

    Parameters
    ----------
    fields : collection of str
        The column names seen.
    preset : str or None
        One of `PRESETS`; None guesses it from the names.
    mapping : mapping of str to str
        Field to column, for single fields; wins over the preset.
    require : collection of str
        The text fields that must have a column.
    source : str
        How messages call the data.
    nested : mapping of str to str
        From `nested_fields`.

    Raises
    ------
    InputError
        An unknown preset or an unknown field in ``mapping``.
    DataError
        A required field has no column, a mapped column is not there, or several presets fit.

    Examples
    --------
    >>> resolve_columns(["query", "contexts", "response", "label"])["question"]
    'query'
    """
    mapping, seen = mapping or {}, listing(fields)
    for field, column in mapping.items():
        if field not in (*FIELDS, *MARK_FIELDS):
            names = ", ".join((*FIELDS, *MARK_FIELDS))
            raise InputError(f"mapping can name {names}; got {field!r}")
        if fields and column not in fields:
            it = f"{column!r} to map to {field}"
            raise DataError.on("no_column_to_map", source=source, it=it, seen=seen)
    if preset is not None and preset not in PRESETS:
        raise InputError(f"preset must be one of {', '.join(PRESETS)}; got {preset!r}")
    named = {field: mapping[field] for field in TEXT_FIELDS if field in mapping}
    options = {k: dict(zip(TEXT_FIELDS, it, strict=True)) | named for k, it in PRESETS.items()}
    if preset is not None:
        return options[preset]
    complete = [name for name, held in options.items() if {*held.values()} <= {*fields}]
    if complete[:1] != ["calibrail"] and len({tuple(options[n].values()) for n in complete}) > 1:
        by, one = (spell_option(ReadOptions, name) for name in ("preset", "mapping"))
        names = ", ".join(complete)
        raise DataError.on("presets_fit", source=source, seen=seen, names=names, by=by, one=one)
    if complete:
        return options[complete[0]]
    # What holds marks, or names answers, is no text, whatever it is called.
    free = [name for name in fields if name not in {mapping.get(field) for field in MARK_FIELDS}]
    likely = {
        field: [named[field]] if field in named else aliases_of(field, free, nested)
        for field in TEXT_FIELDS
    }
    chosen = {field: names[0] if len(names) == 1 else field for field, names in likely.items()}
    if unclear := [field for field in require if len(likely[field]) > 1]:
        field, rivals = unclear[0], likely[unclear[0]]
        names, by = ", ".join(rivals), mapped_by(field, rivals[0])
        raise DataError.on("field_in_several", source=source, field=field, names=names, by=by)
    if missing := [field for field in require if chosen[field] not in fields]:
        there = [f"{field} in {chosen[field]!r}" for field in require if field not in missing]
        found = f" (found: {', '.join(there)})" if there else ""
        lost = f"column{' holds' if len(missing) == 1 else 's hold'} {', '.join(missing)}{found}"
        by, names = mapped_by(missing[0], "my_column"), ", ".join(list(PRESETS)[1:])
        preset = f"{spell_option(ReadOptions, 'preset')} takes the names of {names}"
        doctor = cli_or_python("`calibrail doctor`", "calibrail.diagnose(...)")
        raise DataError.on(
            "no_fields", source=source, lost=lost, seen=seen, by=by, doctor=doctor, preset=preset
        )
    return chosen


def mapped_by(field: str, column: str) -> str:
    """Return the option that maps a field to a column, with an example."""
    option = partial(spell_option, ReadOptions, "mapping")
    return f"{option()}, e.g. {option({field: column})}"


def listing(fields: Collection[str], most: int = 30) -> str:
    """Return column names as messages list them."""
    rest = f" and {len(fields) - most} more" if len(fields) > most else ""
    names = (name if len(name) <= 80 else f"{name[:80]}..." for name in list(fields)[:most])
    return (", ".join(names) or "none") + rest
