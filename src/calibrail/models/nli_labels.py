"""Which output of an entailment model means what, told from its files alone?"""

import re
from dataclasses import dataclass
from typing import Any, Final

from calibrail.errors import ModelError
from calibrail.models.location import Location

ENTAILMENT: Final = "entailment"
NEUTRAL: Final = "neutral"
CONTRADICTION: Final = "contradiction"
NOT_ENTAILMENT: Final = "not_entailment"

#: What published models call the classes.
_MEANINGS: Final = {
    ENTAILMENT: (
        "entailment entail entails entailed consistent factually_consistent supported supports "
        "support faithful grounded factual"
    ),
    NEUTRAL: "neutral nei not_enough_info unknown unrelated",
    CONTRADICTION: (
        "contradiction contradict contradicts contradicted contradictory refutes refuted"
    ),
    NOT_ENTAILMENT: (
        "not_entailment not_entailed non_entailment not_entail inconsistent not_consistent "
        "factually_inconsistent hallucinated hallucination unsupported not_supported unfaithful "
        "not_faithful ungrounded not_grounded not_factual"
    ),
}
_NAMES: Final = {name: label for label, names in _MEANINGS.items() for name in names.split()}
_CLASSES: Final = (
    frozenset({ENTAILMENT, NEUTRAL, CONTRADICTION}),
    frozenset({ENTAILMENT, NOT_ENTAILMENT}),
    frozenset({ENTAILMENT, CONTRADICTION}),
)


@dataclass(frozen=True, slots=True)
class HeadKind:
    """What a model's files say it is.

    Attributes
    ----------
    name : {"classifier", "hhem", "minicheck"}
        How it is read.
    labels : tuple of str
        Meaning of each of its outputs, in their order.
    """

    name: str
    labels: tuple[str, ...]


def find_kind(place: Location, model: str) -> HeadKind:
    """Tell from a model's files what kind of entailment model it is.

    Raises
    ------
    ModelError
        If it is none, or its labels have no names that say what they mean.
    """
    architectures = place.config("architectures")
    is_stated = isinstance(architectures, list) and architectures
    architecture = str(architectures[0]) if is_stated else ""
    if architecture.startswith("HHEM"):
        return HeadKind("hhem", (NOT_ENTAILMENT, ENTAILMENT))
    if architecture == "T5ForConditionalGeneration":
        return HeadKind("minicheck", (NOT_ENTAILMENT, ENTAILMENT))
    return HeadKind("classifier", label_order(place.config("id2label"), model))


def label_order(id2label: Any, model: str) -> tuple[str, ...]:
    """Return what each output of a classifier means, from the names that its config gives.

    Raises
    ------
    ModelError
        If the names do not say which output is entailment, and what the others are.
    """
    names = id2label if isinstance(id2label, dict) else {}
    in_order = [str(names.get(str(index))).strip().lower() for index in range(len(names))]
    labels = tuple(_NAMES.get(re.sub(r"[\W_]+", "_", name), "") for name in in_order)
    if len(set(labels)) != len(labels) or frozenset(labels) not in _CLASSES:
        listed = ", ".join(f"{key}: {value}" for key, value in names.items()) or "none"
        raise ModelError(
            f"{model}: its labels ({listed}) do not say which output is entailment. An entailment "
            "model has the labels entailment, neutral and contradiction, or entailment and "
            "not_entailment. If you know their order from its model card, write it into "
            'config.json of a local copy, e.g. "id2label": {"0": "contradiction", '
            '"1": "neutral", "2": "entailment"}, and give that folder as model='
        )
    return labels
