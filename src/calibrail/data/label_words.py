"""Which class does the word of a label, or the name of its column, stand for?"""

import re
from collections.abc import Iterable
from typing import Final, TypeGuard

from calibrail.data.example import FAITHFUL, HALLUCINATED

YES: Final = frozenset({"1", "true", "yes", "y", "t"})
NO: Final = frozenset({"0", "false", "no", "n", "f"})
#: Those of them that a column need not explain by its name.
PLAIN: Final = frozenset({"0", "1", "true", "false"})


def _words(words: str) -> frozenset[str]:
    return frozenset(word.replace("_", " ") for word in words.split())


_HALLUCINATED: Final = _words(
    "hallucinated hallucination hallucinations hallucinatory unfaithful not_faithful ungrounded"
    " not_grounded unsupported not_supported inconsistent not_consistent contradiction contradicted"
    " contradictory refuted refutes incorrect not_correct wrong nonfactual non_factual not_factual"
    " unfactual fail failed inaccurate not_accurate minor_inaccurate major_inaccurate not_entailed"
    " unattributable not_attributable contains_hallucination"
)
_FAITHFUL: Final = _words(
    "faithful grounded supported supports fully_supported consistent entailment entailed correct"
    " right factual pass passed accurate attributable not_hallucinated non_hallucinated"
    " no_hallucination no_hallucinations hallucination_free"
)

_NAME: Final = (
    r"(?:(?:is|has|label|gold|human|sent|sentence|answer|response|summary|overall)_)*(?:{})"
    r"(?:_(?:label|gold|human|score|flag))?"
)
_NAMED_FAITHFUL: Final = re.compile(
    _NAME.format(
        "faithful|faithfulness|consistent|consistency|supported|grounded|groundedness|factual|"
        "factuality|correct|correctness|entailed|entailment|attributable|adherence|adherent|"
        "accurate|hallucination_free"
    )
)
_NAMED_HALLUCINATED: Final = re.compile(
    _NAME.format(
        "hallucinated|hallucination|hallucinations|unfaithful|ungrounded|unsupported|inconsistent|"
        "nonfactual|non_factual|incorrect|inaccurate|contradicted|contradiction"
    )
)


def label_key(value: object) -> str:
    """Return how a label's value is compared: lower case, whole numbers without a point.

    Floating-point numbers have a zero below zero, too, which is 0.

    >>> label_key(" PASS "), label_key(1.0), label_key("0.0"), label_key(True), label_key([])
    ('pass', '1', '0', 'true', '[]')
    >>> label_key(-0.0)
    '0'
    """
    text = str(value).strip().lower()
    if not isinstance(value, bool) and re.fullmatch(r"[+-]?\d{1,9}\.0*", text):
        text = text.partition(".")[0]
    return "0" if text in ("-0", "+0") else text


def parse_label(value: object) -> int | None:
    """Return 0 (faithful), 1 (hallucinated), or None where the value says neither.

    Accepted are 0 and 1 as numbers of any kind or texts, true and false, and the words of which
    only one class is meant, such as ``faithful`` or ``FAIL``. Nothing else is guessed: a label
    read the wrong way round turns every number of a report around.

    >>> parse_label("1"), parse_label(0.0), parse_label("PASS"), parse_label("yes")
    (1, 0, 0, None)
    """
    key = label_key(value)
    return plain(key, HALLUCINATED) if key in PLAIN else _word(key)


def meaning_of_one(column: str) -> int | None:
    """Return the class that a label of 1, true or yes has by its column's name, if by any.

    >>> meaning_of_one("is_faithful"), meaning_of_one("meta.hallucinated"), meaning_of_one("label")
    (0, 1, None)
    """
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column.rpartition(".")[2])
    name = re.sub(r"[\W_]+", "_", name).strip("_").lower()
    if _NAMED_FAITHFUL.fullmatch(name):
        return FAITHFUL
    return HALLUCINATED if _NAMED_HALLUCINATED.fullmatch(name) else None


#: Words that are said of an answer's tone or length just as well as of its truth.
_OF_ANYTHING: Final = _words(
    "correct incorrect not_correct right wrong pass passed fail failed accurate inaccurate"
    " not_accurate consistent inconsistent not_consistent"
)
#: Names of a label that say nothing about what it is about: the one label that there is.
_ANY_LABEL: Final = re.compile(
    r"(?:.*_)?(?:verdict|truth|human|label|labels|annotation|judg[e]?ment|gold|correctness|accuracy)"
    r"(?:_.*)?"
)


def is_of_truth(column: str, values: Iterable[object]) -> bool:
    """Say whether a label that people gave is about faithfulness, by its name or its words.

    >>> is_of_truth("annotation.tone", ["pass"]), is_of_truth("annotation.tone", ["unsupported"])
    (False, True)
    >>> is_of_truth("annotation.verdict", ["pass"])
    True
    """
    name = re.sub(r"[\W_]+", "_", column.rpartition(".")[2]).lower()
    if meaning_of_one(column) is not None or _ANY_LABEL.fullmatch(name):
        return True
    words = (value for given in values for value in (given if _listed(given) else (given,)))
    telling = (_HALLUCINATED | _FAITHFUL) - _OF_ANYTHING
    return any(re.sub(r"[\s_-]+", " ", str(word)).strip().lower() in telling for word in words)


def _listed(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, list | tuple)


def plain(key: str, meaning_of_one: int) -> int:
    """Return the class of a yes or no, by what a yes means."""
    return meaning_of_one if key in YES else 1 - meaning_of_one


def _word(key: str) -> int | None:
    word = re.sub(r"[\s_-]+", " ", key)
    if word in _HALLUCINATED:
        return HALLUCINATED
    return FAITHFUL if word in _FAITHFUL else None
