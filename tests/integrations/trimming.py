"""A guardrail of sentences, and answers for each thing that becomes of one."""

from __future__ import annotations

from functools import cache
from typing import Final

from calibrail import Guardrail
from calibrail.integrations import Gate

QUESTION: Final = "What is tungsten?"
CONTEXTS: Final = ("Tungsten is a metal.",)
KEPT: Final = "Tungsten is a metal."
REMOVED: Final = "However, basalt hums loudly."
TRIMMED: Final = f"{KEPT} {REMOVED}"
EMPTIED: Final = "Basalt hums loudly."
TORN: Final = "Basalt hums loudly. The latter is a metal."
#: Each answer with what a gate that trims shows; None is the refusal.
SHOWN: Final = {KEPT: KEPT, TRIMMED: KEPT, EMPTIED: None, TORN: None}


@cache
def guardrail() -> Guardrail:
    from tests.guardrail.sentences import by_sentence_of_words

    return by_sentence_of_words()


def gate(*, trim: bool = True) -> Gate:
    return Gate(guardrail(), trim=trim)
