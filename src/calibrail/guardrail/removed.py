"""What does a decision say of sentences that a guardrail removes from an answer?"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Self

from calibrail.errors import InputError


@dataclass(frozen=True, slots=True)
class Removed:
    """A sentence that a guardrail removes from an answer.

    Attributes
    ----------
    start, end : int
        Its characters in the answer, half open.
    text : str or None
        What it says; None where no texts are kept.
    score, p_value : float or None
        As those of a decision, of this sentence; None where its score is undefined.
    reason : str
        Why, in one sentence.
    """

    start: int
    end: int
    text: str | None
    score: float | None
    p_value: float | None
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return its fields, without the text where there is none."""
        content = asdict(self)
        if self.text is None:
            del content["text"]
        return content

    @classmethod
    def from_dict(cls, content: object) -> Self:
        """Return the sentence of what ``to_dict`` made.

        Raises
        ------
        InputError
            If it is none.
        """
        if isinstance(content, Mapping):
            start, end, text = (content.get(name) for name in ("start", "end", "text"))
            score, p_value = (number_in(content, name) for name in ("score", "p_value"))
            match content.get("reason"):
                case str(reason) if (
                    type(start) is int
                    and type(end) is int
                    and 0 <= start < end
                    and isinstance(text, str | None)
                    and (score is None) == (p_value is None)
                ):
                    return cls(start, end, text, score, p_value, reason)
        raise InputError(
            "each of a decision's removed must hold start, end, score, p_value and reason of a "
            f"sentence; got {content!r:.80}"
        )


def trimming_in(content: Mapping[str, Any]) -> tuple[str | None, tuple[Removed, ...] | None]:
    """Return the text and the removed sentences of a decision by sentences."""
    if "removed" not in content:
        return None, None
    removed, text, outcome = content["removed"], content.get("text"), content["outcome"]
    if not isinstance(removed, list | tuple):
        raise InputError(f"a decision's removed must be a list; got {removed!r:.80}")
    if not isinstance(text, str | None) or (text is not None and outcome in ("review", "error")):
        raise InputError(
            f"a decision's text must be one, or null where nothing may be shown; got {text!r:.80} "
            f"with the outcome {outcome}"
        )
    if removed and outcome == "pass":
        raise InputError(f"a decision that passes has no sentences removed; got {len(removed)}")
    return text, tuple(map(Removed.from_dict, removed))


def number_in(content: Mapping[str, Any], name: str) -> float | None:
    """Return a number that must be given, though it may be None."""
    value = content.get(name, "nothing")
    if value is None:
        return None
    number = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = float(value)
    if not math.isfinite(number):
        raise InputError(f"a decision's {name} must be a finite number or null; got {value!r:.80}")
    return number
