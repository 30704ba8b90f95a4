"""What a label means; votes."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from calibrail.data.aliases import NAMES, aliases_of
from calibrail.data.example import FAITHFUL, HALLUCINATED, FieldError
from calibrail.data.spans import whole
from calibrail.data.traces._spans import ANNOTATION, SCORE
from calibrail.data.values import Named, number_in, parse_cell, same_text, spelt_out, value_at
from calibrail.errors import DataError, InputError, error_text
from calibrail.options import ReadOptions
from calibrail.options.data import SKIP
from calibrail.options.fields import spell_option

_WORDS: Final = {kind: frozenset(words.split()) for kind, words in NAMES["labels"].items()}
YES, NO, PLAIN = (_WORDS[kind] for kind in ("yes", "no", "plain"))
#: The class of each word of values, and of names.
CLASSES, NAMED = (
    dict.fromkeys(_WORDS[f"{of}faithful"], FAITHFUL)
    | dict.fromkeys(_WORDS[f"{of}hallucinated"], HALLUCINATED)
    for of in ("", "named_")
)
NAMED |= CLASSES
#: The result of a check, of whatever.
OF_CHECKS: Final = _WORDS["of_checks"]
#: What people write who cannot tell.
UNDECIDED: Final = frozenset(word.replace("_", " ") for word in _WORDS["undecided"])
#: In place of 0 or 1 where nobody gave a label.
NONE: Final = 2
#: Why a 0 or 1 is no label: its column's name may mean either.
EITHER: Final = "may mean either class"
#: A text that speaks of faithfulness, and may mean either class.
UNCLEAR: Final = -1
_ANSWERS: Final = re.compile(r"(?i)[\d?]|\b(?:true|false|to be|fail\w* to|no\s*[^\w\s-]|no\s+-)")
# A longer value is a text, and no label.
_LONG: Final = 80


def label_key(value: object) -> str:
    """Return how a label's value is compared: as `same_text`, whole numbers without a point.

    Floating-point numbers have a zero below zero, too, which is 0.

    >>> label_key(" PASS "), label_key(1.0), label_key("0.0"), label_key(True), label_key([])
    ('pass', '1', '0', 'true', '[]')
    >>> label_key(-0.0)
    '0'
    """
    text = str(value)
    return (_short_key if len(text) <= _LONG else _key)(text)


def _key(text: str) -> str:
    text = same_text(text)
    if re.fullmatch(r"[+-]?\d{1,9}(\.0*|,0)", text):
        text = re.split("[.,]", text)[0]
    return "0" if text in ("-0", "+0") else text


#: A column has few labels, in many rows.
_short_key: Final = lru_cache(maxsize=4096)(_key)


def _parts(token: str) -> list[str]:
    """Return a word with what is written together with it parted: ``notfaithful``, ``gpt4``.

    >>> _parts("nothallucinated"), _parts("isfaithful"), _parts("errorfree"), _parts("human2")
    (['not', 'hallucinated'], ['is', 'faithful'], ['error', 'free'], ['human'])
    """
    if token in NAMED:
        return [token]
    for before in ("is", "has", "not", "non", "no", "un"):
        rest = _parts(token.removeprefix(before)) if token.startswith(before) else []
        if rest and rest[-1] in NAMED:
            return [before, *rest]
    if token.endswith("free") and token[:-4] in NAMED:
        return [token[:-4], "free"]
    return [bare] if (bare := token.rstrip("0123456789")) else []


def _words(text: str) -> list[str]:
    """Return the words of a value or a name, in lower case."""
    spelt = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower()
    spelt = re.sub(r"n['\u2019]t\b", " not", spelt)
    spelt = re.sub(r"ground[\W_]*truth", "gold", spelt)
    # How a heading says what may stand below it.
    spelt = re.sub(r"\b(yes|ja|true|wahr)\s*[/|]\s*(no|nein|false|falsch)\b", "", spelt)
    # Of a label, true may also mean the real one.
    spelt = re.sub(r"\bis[\W_]+(not[\W_]+)?true(?![^\W_])", r"\1truthful", spelt)
    return [part for token in re.split(r"[\W_]+", spelt) for part in _parts(token)]


@lru_cache(maxsize=4096)
def said_by(text: str, name: bool = False) -> int | None:
    """Return the class that a value, or a true under a name, has by its words; or `UNCLEAR`.

    None where no word speaks of faithfulness.

    >>> said_by("Not hallucinated."), said_by("is_not_faithful", True), said_by("factual error")
    (0, 1, 1)
    >>> said_by("partially supported"), said_by("faithful_to_style", True), said_by("label", True)
    (-1, -1, None)
    """
    if len(text) > _LONG:
        return None
    tokens, classes = _words(text), NAMED if name else CLASSES
    # Of every word of either class: it, and whether it is denied.
    units: list[tuple[str, int, bool]] = []
    denied = strange = mixed = False
    for token in tokens:
        known = classes.get(token)
        if token in _WORDS["mistakes"] and units and not denied:
            # A factual error is no fact; what passed may be the check for it.
            mixed |= units[-1][0] in OF_CHECKS and units[-1][1] == FAITHFUL
            units[-1] = (units[-1][0], HALLUCINATED, units[-1][2])
        elif known is not None:
            units.append((token, known, denied))
            denied = False
        elif token in _WORDS["behind"] and units:
            units[-1] = (*units[-1][:2], not units[-1][2])
        elif token in _WORDS["negations"] | _WORDS["negations_elsewhere"] | _WORDS["behind"]:
            denied = not denied
            strange |= name and token in _WORDS["negations_elsewhere"]
        else:
            strange |= token not in _WORDS["fillers"] | _WORDS["some"] | _WORDS["whole"]
    # A number, a no that answers, a question, and what is to come ("to be supported", "failed to
    # answer") say something else than the words beside them.
    strange |= not name and bool(_ANSWERS.search(text))
    units = [unit for unit in units if unit[0] in OF_CHECKS] or units
    said = {kind ^ negated for _, kind, negated in units}
    if not said:
        return None
    some, whole, doubt = (bool(_WORDS[of] & {*tokens}) for of in ("some", "whole", "doubts"))
    negated = {kind for _, kind, negated in units if negated}
    # Of a name with a word more, a hallucination is one.
    strange &= not (name and said == {HALLUCINATED} and not negated)
    some &= said == {FAITHFUL} and HALLUCINATED not in negated
    whole &= HALLUCINATED in negated
    unclear = len(said) > 1 or mixed or denied or doubt or strange or some or whole
    return UNCLEAR if unclear else said.pop()


def parse_label(value: object) -> int | None:
    """Return 0 (faithful), 1 (hallucinated), or None where the value says neither.

    Accepted are 0 and 1 as numbers of any kind or texts, true and false, and the words of which
    only one class is meant, such as ``faithful`` or ``FAIL``. Nothing else is guessed: a label
    read the wrong way round turns every number of a report around.

    >>> parse_label("1"), parse_label(0.0), parse_label("PASS"), parse_label("yes")
    (1, 0, 0, None)
    """
    key = label_key(value)
    if key in PLAIN:
        return plain(key, HALLUCINATED)
    said = said_by(str(value)) if isinstance(value, str) else None
    return None if said == UNCLEAR else said


def _own_name(column: str) -> str:
    """Return the last name of a path, with the one before it where it says nothing by itself."""
    rest, _, own = column.rpartition(".")
    parent = rest.rpartition(".")[2]
    bare = all(token in _WORDS["fillers"] for token in _words(own))
    return f"{parent} {own}" if parent and bare else own


def meaning_of_one(column: str) -> int | None:
    """Return the class that a label of 1, true or yes has by its column's name, if by any.

    >>> meaning_of_one("is_faithful"), meaning_of_one("meta.hallucinated"), meaning_of_one("label")
    (0, 1, None)
    >>> meaning_of_one("sem_faithful"), meaning_of_one("não_fiel")
    (None, 1)
    """
    said = said_by(_own_name(column), True)
    return None if said == UNCLEAR else said


def is_of_people(name: str) -> bool:
    """Say whether a name says that a label is people's, as ``human_label`` does.

    >>> [is_of_people(name) for name in ("item.human_verdict", "gold_answer", "llm_vs_human_label")]
    [True, False, False]
    >>> is_of_people("evaluators.human.judgment"), is_of_people("evaluators.judge.judgment")
    (True, False)
    """
    parts = name.split(".")
    return any(_says_people(".".join(parts[at:])) for at in range(len(parts)))


def _says_people(name: str) -> bool:
    words = {*_words(name)} - {"meta", "metadata"}
    labels = _WORDS["of_labels"] | NAMED.keys()
    known = labels | _WORDS["people"] | _WORDS["fillers"] - _WORDS["programs"]
    # A tool's score of a human is that human's.
    given = name.startswith(SCORE) or bool(words & labels)
    return bool(words & _WORDS["people"]) and given and words <= known


def names_people(name: str) -> bool:
    """Say whether a column's own name speaks of people, whatever they did: ``Human review``."""
    words = {*_words(name.rpartition(".")[2])}
    people, others = _WORDS["people"] - _WORDS["not_alone"], _WORDS["fillers"] - _WORDS["programs"]
    return bool(words & people) and words <= people | others


_OF_SCORES: Final = ("ness", "ity", "cy", "nce", "treue", "té", "tà", "dad", "dade")


def is_plain_name(name: str) -> bool:
    """Say whether a name says no more than what a label means, as ``no_hallucination`` does.

    What is called faithfulness is as likely a detector's score.

    >>> [is_plain_name(name) for name in ("is_unfaithful", "judge_faithful", "passed", "adherence")]
    [True, False, False, False]
    """
    words = {*_words(name)} - _WORDS["negations"] - _WORDS["behind"] - {"is", "has", "fully"}
    labels = CLASSES.keys() - _WORDS["of_anything"]
    return bool(words) and all(w in labels and not w.endswith(_OF_SCORES) for w in words)


def spells_label(name: str) -> bool:
    """Say whether a column writes out what its twin ``label`` says, as ``label_name`` does.

    >>> [spells_label(name) for name in ("label_name", "labelText", "judge_label", "name")]
    [True, True, False, False]
    """
    words = {*_words(name)}
    return "label" in words and words <= {"label", "name", "text", "str", "string", "word", "words"}


_TRUTHS: Final = frozenset(("true", "false"))
_SPOKEN_TRUTHS: Final = _TRUTHS | {"wahr", "falsch", "t", "f"}


def unsaid_by(column: str, of_many: bool = False) -> frozenset[str]:
    """Return which of 0, 1, true and false mean either class, by a column's name.

    By convention 1 is hallucinated under the name of a label, or of one of many annotators or
    models, whatever it is. What is true is said by a name alone: in a column ``verdict`` it is that
    a label is there.

    >>> sorted(unsaid_by("resolved")), sorted(unsaid_by("reply_7")), sorted(unsaid_by("y_true"))
    (['0', '1', 'false', 'true'], ['false', 'true'], [])
    """
    name = _own_name(column)
    words = _words(name)
    said, tokens = said_by(name, True), set(words)
    if said in (FAITHFUL, HALLUCINATED):
        return frozenset()
    # What people were asked may be whether an answer is good: of a thumb up 1 says nothing.
    own = column.rpartition(".")[2]
    unknown = column.startswith(ANNOTATION) and not aliases_of("label", (own,))
    # What is asked of an answer, as in is_gold, may be good or bad.
    asked = bool(words[1:]) and words[0] in _WORDS["asking"]
    if said == UNCLEAR or unknown or asked or tokens & _WORDS["of_others"]:
        return PLAIN
    if any("label" in word for word in words) or tokens & _WORDS["of_labels"]:
        return _TRUTHS if tokens - _WORDS["fillers"] else frozenset()
    if tokens <= _WORDS["fillers"]:
        known = of_many or not tokens or tokens & _WORDS["of_labelling"]
        return frozenset() if known else PLAIN
    return _TRUTHS if of_many or re.search(r"\d", name) else PLAIN


def is_turned(name: str) -> bool:
    """Say whether a 1 under a name is faithful, or may be either.

    >>> [is_turned(name) for name in ("is_faithful", "thumbs_up", "bad", "reply_7")]
    [True, True, False, False]
    """
    return meaning_of_one(name) == FAITHFUL or "1" in unsaid_by(name)


def is_unsaid(column: str, values: Iterable[object]) -> bool:
    """Say whether neither a column's name nor what it holds says which class its values are.

    That 1 in ``label`` is hallucinated is calibrail's own convention.

    >>> is_unsaid("human_label", ["True"]), is_unsaid("hallucinated", [1]), is_unsaid("label", [1])
    (True, False, False)
    """
    keys = set(map(label_key, values))
    own = column == "label" and keys.isdisjoint(_TRUTHS)
    return bool(keys) and keys <= PLAIN and meaning_of_one(column) is None and not own


def is_of_truth(column: str, values: Iterable[object]) -> bool:
    """Say whether a label that people gave is about faithfulness, by its name or its words.

    >>> is_of_truth("annotation.tone", ["pass"]), is_of_truth("annotation.tone", ["unsupported"])
    (False, True)
    >>> is_of_truth("annotation.verdict", ["pass"])
    True
    """
    spoken = _WORDS["any_label"].intersection(_words(column.rpartition(".")[2]))
    if spoken or meaning_of_one(column) is not None:
        return True
    words = (v for given in values for v in (given if isinstance(given, list | tuple) else [given]))
    return any(
        label_key(word) not in PLAIN
        and parse_label(word) is not None
        and _WORDS["of_anything"].isdisjoint(_words(str(word)))
        for word in words
    )


def plain(key: str, meaning_of_one: int) -> int:
    """Return the class of a yes or no, by what a yes means."""
    return meaning_of_one if key in YES else 1 - meaning_of_one


#: How a map names a cell in which nothing stands, beside those that are ticked.
_BLANK: Final = "blank"
_TICKS: Final = frozenset(_WORDS["ticks"])

#: A class, the mark of a label that is left out on request, or None where a value says neither.
Meaning: TypeAlias = int | str | None

_OTHER = {"yes": "no", "y": "n", "t": "f", "true": "false", "1": "0"}
_OTHER |= {no: yes for yes, no in _OTHER.items()}

#: How numbers are spelt that are true and false elsewhere.
_SAME: Final = {"true": "1", "1": "true", "false": "0", "0": "false"}


def is_same(one: str, other: str) -> bool:
    """Say whether two keys of labels are one value, be it a number or true and false."""
    return one in (other, _SAME.get(other))


# So many different values are counted; a column with more is no column of labels.
_COUNTED: Final = 50
#: Labels that are one value each, known by it as it is written: 0 and -0 are two.
_SINGLE: Final = frozenset((str, int, float, bool, Named))


class LabelReader:
    """Reads the labels of one source as its user, or else its column's name, says.

    Parameters
    ----------
    reading : ReadOptions
        Its ``label_map``, ``positive`` and ``annotators`` are used.
    column : str
        Where the labels are; its name may say what a 1 means.
    spans : bool
        Whether a label is a list of marked spans: hallucinated when there is any.
    names : sequence of str
        What the file calls the classes that it numbers from 0 on.
    beside : collection, optional
        The first values of this column where the options were given for another: they count here
        only if these hold the value that is named, and the column's name says nothing.

    Attributes
    ----------
    seen : Counter of (str, int)
        How often each value was read as which class.
    others : Counter of str
        How often each value was met that is no label.
    n_others : int
        Rows with such a value.
    n_several, n_divided : int
        Rows with labels of several annotators, and those on which these disagree.
    n_own : int
        Values that options of another column did not read.
    """

    def __init__(
        self,
        reading: ReadOptions,
        column: str,
        spans: bool = False,
        names: Sequence[str] = (),
        beside: Collection[object] | None = None,
    ) -> None:
        self.column, self.spans = column, spans
        self.annotators = reading.annotators or "majority"
        self.named = meaning_of_one(column)
        # A judge, or one of several annotators, may have any name.
        many = beside is not None or "," in str(reading.label_column)
        self._shown = str(reading.label_column) if many and beside is None else column
        self._names, self._unsaid = names, unsaid_by(column, many)
        self.seen: Counter[tuple[str, Any]] = Counter()
        self.others: Counter[str] = Counter()
        self.n_several = self.n_divided = self.n_others = self.n_own = 0
        self.is_explicit = reading.label_map is not None or reading.positive is not None
        #: The key of the one value that means hallucinated.
        self.positive = None if reading.positive is None else label_key(reading.positive)
        if self.positive is not None and (not self.positive or self.positive in _WORDS["missing"]):
            named = spell_option(ReadOptions, "label_map", {self.positive: 1, "VALUE": 0})
            raise InputError.on("positive_stands_for_no_label", reading=reading, named=named)
        self._map: Mapping[str, Meaning] = {}
        if reading.label_map is not None:
            classes = reading.label_classes()
            self._map = {label_key(k): v for k, v in classes.items()}
            if odd := [k for k, v in classes.items() if self._map[label_key(k)] != v]:
                raise InputError(f"label_map gives {odd[0]!r} two classes: its case does not count")
        self._ticked = _BLANK in self._map and not _TICKS.isdisjoint(self._map)
        self._apart = beside is not None
        self._known: dict[tuple[type, str], tuple[str, int]] = {}
        first = {label_key(self.spelt(value)) for value in beside or ()}
        self._shared = self.positive in first
        # What is said of words of this column is said of its true and false beside them, too.
        self._mixed = self.named != FAITHFUL and not first.isdisjoint(self._map.keys() - YES - NO)

    def __call__(self, value: object) -> Meaning:
        """Return a class, `SKIP`, or None where the value says neither; lists are combined.

        Raises
        ------
        TieError
            Annotators disagree, half against half.
        """
        if type(value) in _SINGLE and (known := self._known.get((type(value), str(value)))):
            self.seen[known] += 1
            return known[1]
        if isinstance(value, (list, tuple)) and self.spans and not self.is_explicit:
            return self._count(f"{'some' if value else 'no'} marked spans", int(bool(value)))
        if (votes := votes_in(value)) is not None:
            return self._combine(votes)
        if isinstance(value, (list, tuple)) and (value or "[]" not in self._map):
            return self._combine([(self._of_one_person(item), 1) for item in value])
        label = None if value != [] and self.is_missing(value) else self._one(value)
        return self._count(value, label) if isinstance(label, int) else label

    def of_many(self, values: Sequence[tuple[object, int]]) -> list[Meaning] | None:
        """Return what single values mean that so many rows hold each, in their order.

        None, and nothing is counted, where one holds several people's labels. Rows whose value is
        no class are left for a call each.
        """
        if any(votes_in(value) is not None for value, _ in values):
            return None
        meanings = [None if self.is_missing(value) else self._one(value) for value, _ in values]
        for (value, n), label in zip(values, meanings, strict=True):
            if isinstance(label, int) and n:
                self._count(value, label, n)
        return meanings

    def _of_one_person(self, value: object) -> object:
        """Return the label that counts of all that one person chose: one that is hallucinated."""
        if not isinstance(value, (list, tuple)):
            return value
        # Of a kind with its finer kinds, the kind alone.
        chosen = [item for item in value if "." not in str(item)] or value
        meant = {self._one(item): item for item in reversed(chosen) if not self.is_missing(item)}
        # What cannot be read may be either.
        return meant.get(HALLUCINATED, meant.get(None, next(iter(meant.values()), None)))

    def is_missing(self, value: object) -> bool:
        """Return whether there is no label at all, or a spelling of that which nobody explained."""
        if isinstance(value, (list, tuple)):
            return all(map(self.is_missing, value))
        if (value := self.spelt(value)) is None or value != value:
            return True
        key = label_key(value)
        return (not key or key in _WORDS["missing"]) and key not in self._map

    def spelt(self, value: object) -> object:
        """Return the name of a class that the file numbers; any other value as it is.

        Nothing is *blank*, where a map says what that means.
        """
        if self._ticked and (value is None or (isinstance(value, str) and not value.strip())):
            return _BLANK
        numbered = bool(self._names) and isinstance(value, int | float) and type(value) is not bool
        place = label_key(value) if numbered else ""
        if place == "-1" and place not in self._map:
            return None
        by_number = place in self._map or (self.positive or "").isdecimal()
        if by_number or not place.isdecimal():
            return value
        return dict(enumerate(self._names)).get(int(place), value)

    def set_aside(self, value: object) -> None:
        """Count the label of a row that says neither class."""
        self.n_others += 1
        given = value if isinstance(value, (list, tuple)) and not self.spans else (value,)
        for item in given:
            # Of one person's several choices each.
            for one in item if isinstance(item, (list, tuple)) else (item,):
                key = label_key(self.spelt(one))[:40]
                if self.is_missing(one) or self._one(one) is not None:
                    continue
                if key in self.others or len(self.others) < _COUNTED:
                    self.others[key] += 1

    def described(self) -> dict[str, Any]:
        """Return how labels were read: values with their class and number, and who decided."""
        doubled = self._doubled()
        values = [
            {"value": value, "class": label, "n": n}
            for (value, label), n in self.seen.most_common()
            if value not in doubled
        ]
        others = [{"value": value, "n": n} for value, n in (self.others + doubled).most_common()]
        n_doubled = doubled.total()
        beside = {"n": self.n_others + n_doubled, "n_doubled": n_doubled, "values": others}
        several = {"annotators": self.annotators, "n": self.n_several, "n_divided": self.n_divided}
        return {
            "column": self._shown,
            "values": values,
            "others": beside if others else None,
            "by_user": self.is_explicit,
            "by_name": not self.is_explicit and self.named == FAITHFUL,
            "several": several if self.n_several else None,
        }

    def refuse_others(
        self, source: str, n: int | None = None, by: Callable[[], str] | None = None
    ) -> None:
        """Refuse a column that holds values that are no labels, more than are slips.

        Parameters
        ----------
        source : str
            How the message calls the data.
        n : int, optional
            Rows whose label was read; as many as there are labels where that is not said.
        by : callable, optional
            Returns what reads it rightly, where other options do than those of labels.

        Raises
        ------
        DataError
            Its values are named.
        """
        described, n = self.described(), self.seen.total() if n is None else n
        if holds_others(described, n):
            # Of a judge's column no other one holds the labels.
            said = _remedy(described).removesuffix(another_column() if self._apart else "")
            raise DataError(f"{source}: {what_is_held(described, n, by() if by else said)}")

    def _doubled(self) -> Counter[str]:
        """Count what is true or false where a word beside it says the same class.

        Who writes accurate beside false may say of either what the answer is, not what its name is.
        """
        if self.spans or self.named == FAITHFUL:
            return Counter()
        words = {pair: n for pair, n in self.seen.items() if label_key(pair[0]) not in YES | NO}
        said, truths = {label for _, label in words}, Counter[str]()
        for (value, label), n in self.seen.items():
            key = label_key(value)
            if label in said and key in _SPOKEN_TRUTHS and self._is_unexplained(key):
                truths[value] += n
        both = truths.total(), sum(words.values())
        # A few of either are slips.
        return truths if min(both) >= max(_FEW, _SHARE * sum(both)) else Counter()

    def turned(self) -> tuple[str, ...]:
        """Return the options that would read the labels seen the other way round."""
        classes = {label_key(value): label for value, label in self.seen}
        faithful = [value for value, label in classes.items() if label == FAITHFUL]
        if self.spans or not classes:
            return ()
        if len(faithful) == 1:
            return "--positive", faithful[0]
        turned = (f"{value}={1 - label}" for value, label in classes.items())
        return "--label-map", ",".join(turned)

    def of_one(self, value: object) -> int | None:
        """Return the class of a single value, which is not counted; None of what is no such."""
        if isinstance(value, (list, tuple, Mapping)) or self.is_missing(value):
            return None
        return label if isinstance(label := self._one(value), int) else None

    def _one(self, value: object) -> Meaning:
        value = self.spelt(value)
        key = label_key(value)
        if self._is_unexplained(key):
            self.n_own += self.is_explicit
            # By the column's name, or by its words.
            if self.named is not None and key in YES | NO:
                return plain(key, self.named)
            return None if key in self._unsaid else parse_label(value)
        if self.positive is not None:
            return self._by_positive(key, value)
        # Of a finer kind, such as Unwanted.Intrinsic, the kind is known.
        keys = (key, _SAME.get(key, key), key.partition(".")[0])
        return next((self._map[key] for key in keys if key in self._map), None)

    def _is_unexplained(self, key: str) -> bool:
        """Return whether no options say what a value means here: none, or another column's."""
        if not (self.is_explicit and self._apart):
            return not self.is_explicit
        mixed = self._mixed and key in _SPOKEN_TRUTHS
        if self.named is not None and key in YES | NO and not mixed:
            return True
        alike = {key, _OTHER.get(key, key), _SAME.get(key, key)}
        return not (self._shared or self.positive in alike) and self._map.keys().isdisjoint(alike)

    def _by_positive(self, key: str, value: object) -> int | None:
        """Return the class beside the one value that means hallucinated.

        None of what means the same as that by its words, or hallucinated, or nothing.
        """
        chosen = self.positive or ""
        if is_same(chosen, key):
            return HALLUCINATED
        side, of_chosen = side_of(key), side_of(chosen)
        alike = side is not None and side == (HALLUCINATED if of_chosen is None else of_chosen)
        return None if alike or key in UNDECIDED else FAITHFUL

    def _combine(self, values: Sequence[tuple[object, int]]) -> Meaning:
        """Return the class that labels come to, each with its number; those missing do not count.

        Those that annotators left out on request do not count, either.
        """
        given = [(item, self._one(item), n) for item, n in values if not self.is_missing(item)]
        if not given or any(label is None for _, label, _ in given):
            return None
        votes = Counter[int]()
        for item, label, n in given:
            if isinstance(label, int):
                votes[label] += n
                self._count(item, label, n)
        total, hallucinated = votes.total(), votes[HALLUCINATED]
        if not total:
            return SKIP
        self.n_several += total > 1
        self.n_divided += 0 < hallucinated < total
        if self.annotators in ("any", "all"):
            return int(hallucinated >= (1 if self.annotators == "any" else total))
        if 2 * hallucinated == total:
            raise TieError(f"{hallucinated} of {total} say hallucinated")
        return int(2 * hallucinated > total)

    def _count(self, value: object, label: int, n: int = 1) -> int:
        key = (str(self.spelt(value)).strip()[:40], label)
        if key in self.seen or len(self.seen) < _COUNTED:
            self.seen[key] += n
            # Each is looked up once, unless those that another column's options leave are counted.
            if type(value) in _SINGLE and not (self._apart and self.is_explicit):
                self._known[type(value), str(value)] = key
        return label


# Fewer rows than this, or a smaller share of those labelled, are mistakes of writing.
_FEW: Final = 5
_SHARE: Final = 0.05
# A number that comes back is a class, not a slip.
_OFTEN: Final = 0.01

# A map of more values is nothing to type.
_CLASSES, _LISTED = 12, 8


def holds_others(labels: Mapping[str, Any] | None, n_read: int) -> bool:
    """Say whether a column holds values that are no labels, more than are slips.

    Parameters
    ----------
    labels : mapping or None
        From `LabelReader.described`.
    n_read : int
        Rows whose label was read.

    Examples
    --------
    >>> others = {"n": 4, "values": [{"value": "2", "n": 4}]}
    >>> holds_others({"others": others}, 20), holds_others({"others": {**others, "n": 5}}, 20)
    (False, True)
    """
    others = labels and labels["others"]
    if others and others.get("n_doubled"):
        return True
    if not others or not n_read or others["n"] < _FEW:
        return False
    n_labelled = n_read + others["n"]
    return others["n"] > _SHARE * n_labelled or any(
        item["n"] >= max(_FEW, _OFTEN * n_labelled)
        for item in others["values"]
        if number_in(item["value"]) is not None
    )


def what_is_held(labels: Mapping[str, Any], n_read: int, by: str = "") -> str:
    """Return which values a column holds beside labels, how often, and what reads them."""
    others = labels["others"]
    n, of = others["n"], n_read + others["n"] - others["n_doubled"]
    both = others["values"], labels["values"]
    if labels["several"]:
        # Of several annotators each label counts, as it does behind each value.
        n, of = (sum(item["n"] for item in items) for items in both)
        of += n
    held, known = ([f"{item['value']} ({item['n']:,})" for item in items] for items in both)
    rest = f" and {len(held) - _LISTED} more values" if len(held) > _LISTED else ""
    beside = f", beside {', '.join(known[:_LISTED])}" if known else ""
    seen = f"{', '.join(held[:_LISTED])}{rest}{beside}"
    unit = "labels" if labels["several"] else "labelled rows"
    column, by = labels["column"], by or _remedy(labels)
    return error_text("not_0_and_1", column=column, n=n, of=of, unit=unit, seen=seen, by=by)


def map_to_fill(labels: Mapping[str, Any]) -> dict[str, str] | None:
    """Return a label map with a ``?`` for every value that only a person can read.

    None where there are too many. Beside further numbers, 0 and 1 mean nothing by themselves.

    >>> read = [{"value": "1", "class": 1}, {"value": "FAIL", "class": 1}]
    >>> map_to_fill({"values": read, "by_user": False, "others": {"values": [{"value": "2"}]}})
    {'1': '?', '2': '?', 'FAIL': '1'}
    """
    others = [item["value"] for item in labels["others"]["values"]]
    numbers = any(number_in(item) is not None for item in others) and not labels["by_user"]
    classes = {
        item["value"]: "?"
        if numbers and number_in(item["value"]) is not None
        else _OF[item["class"]]
        for item in labels["values"]
    } | dict.fromkeys(others, "?")
    if sorted(classes.values()) in (["0", "?"], ["1", "?"]):
        # One of two is known.
        (other,) = {"0", "1"} - {*classes.values()}
        classes = {value: known.replace("?", other) for value, known in classes.items()}
    return dict(sorted(classes.items())) if len(classes) <= _CLASSES else None


def _remedy(labels: Mapping[str, Any]) -> str:
    classes = map_to_fill(labels)
    if classes is None:
        return error_text("labels_graded", other=another_column())
    by = spell_option(ReadOptions, "label_map", classes)
    if "?" not in classes.values():
        return f"If that is what they mean, add {by}"
    positive = spell_option(ReadOptions, "positive", "VALUE")
    return error_text("label_map_to_fill", by=by, positive=positive, other=another_column())


_OF: Final = {FAITHFUL: "0", HALLUCINATED: "1"}


def side_of(key: str) -> int | str | None:
    """Return the class of a word, or which of yes and no it is; None of any other."""
    said = said_by(key)
    if said is not None and said != UNCLEAR:
        return said
    return "yes" if key in YES else "no" if key in NO else None


class TieError(Exception):
    """Annotators disagree, half against half; says how many there are."""


def votes_in(value: object) -> list[tuple[object, int]] | None:
    """Return labels with the number of those who gave each, or None where a value counts none.

    >>> votes_in({"yes": 2, "no": 1, "other": None}), votes_in({"yes": 0.6}), votes_in([1, 0])
    ([('yes', 2), ('no', 1)], None, None)
    """
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        value = parse_cell(value)
    if not isinstance(value, Mapping) or not value:
        return None
    counts = {label: n for label, n in value.items() if n is not None}
    if any(whole(n) is None or n < 0 for n in counts.values()):
        return None
    return [(label, int(n)) for label, n in counts.items() if n]


def label_remedy(value: object, reader: LabelReader | None = None) -> str:
    """Say how a value that is not read as a label can be turned into one.

    >>> label_remedy("yes")
    "'yes' can mean either class: positive='yes' if it means hallucinated, else positive='no'"
    """
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    key, start = label_key(value), value[:40] if isinstance(value, str) else value
    if reader is not None and reader.positive is not None:
        classes = spell_option(ReadOptions, "label_map", {reader.positive: 1, key[:40]: "?"})
        return error_text("label_not_positive", start=start, reader=reader, classes=classes)
    if reader is not None and reader.is_explicit:
        class_of = spell_option(ReadOptions, "label_map", {key: 1})
        return f"also give {start!r} a class: {class_of} (hallucinated), 0, or skip"
    if key in _OTHER:
        yes, no = (spell_option(ReadOptions, "positive", word) for word in (key, _OTHER[key]))
        where = f" in a column {reader.column!r}" if reader and key in PLAIN else ""
        return f"{start!r}{where} can mean either class: {yes} if it means hallucinated, else {no}"
    if isinstance(value, (int, float)) and 0 < value < 1:
        return "a graded label needs a cut-off: write 1 where it counts as hallucinated, else 0"
    if isinstance(value, Mapping) and reader is not None:
        told = [part for part, item in value.items() if parse_label(item) is not None]
        parts = (spell_option(ReadOptions, "label_column", f"{reader.column}.{k}") for k in told)
        return error_text("label_in_object", parts=" or ".join(parts) or another_column()[2:])
    if reader is not None and key in _TICKS:
        ticked, blank = ("?", "?") if reader.named is None else (reader.named, 1 - reader.named)
        classes = spell_option(ReadOptions, "label_map", {key: ticked, _BLANK: blank})
        return error_text("label_ticked", start=start, classes=classes)
    if isinstance(value, (int, str)) and key and len(key) < 40:
        meaning = spell_option(ReadOptions, "label_map", {key: 1})
        positive = spell_option(ReadOptions, "positive", "VALUE")
        return error_text("label_to_explain", meaning=meaning, positive=positive)
    return f"write 1 for hallucinated and 0 for faithful{another_column()}"


def another_column() -> str:
    """Return the end of a remedy that says how another column of labels is named."""
    return f", or name another column ({spell_option(ReadOptions, 'label_column')})"


def read_label(
    labels: LabelReader, value: object, column: str, *, needed: bool, row: int | None = None
) -> Meaning:
    """Return a class, the mark of what is left out on request, or None without a label.

    Parameters
    ----------
    labels : LabelReader
        Reads it, and counts.
    value : object
        The label as it is stored, or the list of several people's.
    column : str
        Where it is.
    needed : bool
        Whether there must be one; without, one that cannot be read is passed over.
    row : int, optional
        Which row it is in, where an answer is made of several.

    Raises
    ------
    FieldError
        A label is needed, and there is none, or none that says either class.
    """
    try:
        label = labels(value)
    except TieError as tie:
        if not needed:
            return None
        remedy = f"decide ties with {spell_option(ReadOptions, 'annotators', 'any')} or all ({tie})"
        raise FieldError("label", "annotators tie", value, remedy, row) from tie
    if label is None and needed:
        value = labels.spelt(value)
        reason = EITHER if label_key(value) in PLAIN else "not 0 or 1"
        remedy = label_remedy(value, labels)
        if labels.is_missing(value):
            reason, remedy = "missing", f"give every row a {column!r} of 0 or 1"
        else:
            labels.set_aside(value)
        raise FieldError("label", reason, value, remedy, row)
    return label


# Whose labels they are is no thing that is labelled.
_OF_PEOPLE: Final = re.compile(r"annotat|worker|rater|judge|people|author|user", re.IGNORECASE)


def beside_labels(rows: Sequence[Mapping[str, object]], label_columns: Sequence[str]) -> list[str]:
    """Return the columns with a list as long as that of the labels, in most rows that list labels.

    Parameters
    ----------
    rows : sequence of mapping
        The first rows.
    label_columns : sequence of str
        Where labels are; several columns list nothing.

    Examples
    --------
    >>> row = {"replies": ["a", "b"], "annotators": ["x", "y"], "docs": ["c"], "labels": [1, 0]}
    >>> beside_labels([row], ["labels"])
    ['replies']
    """
    fitting, n = Counter[str](), 0
    for row in rows if len(label_columns) == 1 else ():
        labels = _list(value_at(row, label_columns[0]))
        if not labels or any(isinstance(label, Mapping) for label in labels):
            continue
        n += 1
        for name, value in row.items():
            items = None if name == label_columns[0] else _list(value)
            fitting[name] += items is not None and len(items) == len(labels)
    return [name for name, k in fitting.items() if 2 * k > n and not _OF_PEOPLE.search(name)]


def _list(value: object) -> list[object] | None:
    held = spelt_out(value)
    return held if isinstance(held, list) else None
