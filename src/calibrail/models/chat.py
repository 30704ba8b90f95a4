"""What is asked of a chat endpoint, and what does it answer?"""

import hashlib
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

#: Positions whose alternatives are kept, at either end of an answer: a verdict stands at its
#: beginning, or after what a model thinks aloud.
KEPT_POSITIONS: Final = 16
#: Log-probability of a token that can never come, as OpenAI writes it.
NEVER: Final = -9999.0

#: Tokens that no answer costs: larger counts are mistakes, and would overflow a table's sums.
_MOST_TOKENS: Final = 2**40

_LARGEST: Final = sys.float_info.max


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question to a chat model.

    Attributes
    ----------
    messages : tuple of (str, str)
        Role and content of each message.
    temperature : float
        0 for the most likely answer.
    max_tokens : int
        Tokens of the answer at most.
    top_logprobs : int
        Alternatives per token whose log-probabilities are asked for; 0 for none.
    schema : str
        JSON schema of the answer, as text; empty for free text.
    sample : int
        Which of several answers to the same question; it seeds the endpoint's sampling.
    """

    messages: tuple[tuple[str, str], ...]
    temperature: float = 0.0
    max_tokens: int = 16
    top_logprobs: int = 0
    schema: str = ""
    sample: int = 0

    def parameters(self) -> dict[str, Any]:
        """Return everything but the model as the fields of an OpenAI request."""
        fields: dict[str, Any] = {
            # Halves of a character, left over from broken UTF-16, cannot be sent.
            "messages": [
                {"role": role, "content": text.encode("utf-8", "replace").decode()}
                for role, text in self.messages
            ],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
        }
        if self.temperature > 0.0:
            fields["seed"] = self.sample
        if self.top_logprobs:
            fields |= {"logprobs": True, "top_logprobs": self.top_logprobs}
        if self.schema:
            shape = {"name": "answer", "strict": True, "schema": json.loads(self.schema)}
            fields["response_format"] = {"type": "json_schema", "json_schema": shape}
        return fields

    def key(self, endpoint: str, model: str) -> str:
        """Return a digest of the endpoint, the model and all that is asked: 64 hex digits."""
        content = {"endpoint": endpoint, "model": model, "request": asdict(self)}
        text = json.dumps(content, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class Position:
    """One token of an answer with its alternatives.

    Attributes
    ----------
    token : str
        The token as text.
    logprob : float
        Its natural log-probability as the endpoint gives it, not checked.
    top : tuple of (str, float)
        The likeliest tokens at this place with theirs.
    """

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What a chat model answered.

    Attributes
    ----------
    text : str
        The answer; empty where it refused.
    refusal : bool
        Whether the endpoint marked it as a refusal or filtered it.
    finish : str
        Why it ended: ``stop``, ``length``, ...
    positions : tuple of Position, or None
        The first tokens with their log-probabilities; None where the endpoint gave none.
    served : str
        The model as the endpoint names it, e.g. with its date; empty if it does not.
    tokens_in, tokens_out : int or None
        Tokens as the endpoint counted them.
    """

    text: str
    refusal: bool = False
    finish: str = "stop"
    positions: tuple[Position, ...] | None = None
    served: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild an answer from ``to_dict``."""
        positions = data["positions"] and tuple(
            Position(item["token"], item["logprob"], tuple(map(tuple, item["top"])))
            for item in data["positions"]
        )
        return cls(**{**data, "positions": positions})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request has no answer, in words that hold nothing of what was sent."""

    reason: str


def read_answer(body: Any) -> ChatAnswer:
    """Read the body of a chat completion.

    Raises
    ------
    ValueError
        If it is no chat completion with a choice; the message says what is missing.
    """
    if not isinstance(body, dict):
        raise ValueError("the endpoint answered with no JSON object")
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise ValueError("the endpoint answered without a choice")
    choice = choices[0]
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ValueError("the endpoint answered without a message")
    content, finish = message.get("content"), choice.get("finish_reason")
    refused = bool(message.get("refusal")) or finish == "content_filter"
    if not (isinstance(content, str) or refused or finish == "length"):
        raise ValueError("the endpoint answered without a text")
    return ChatAnswer(
        text=_text(content),
        refusal=refused,
        finish=_text(finish),
        positions=_positions(choice.get("logprobs")),
        served=_text(body.get("model")),
        tokens_in=read_tokens(body, "prompt_tokens"),
        tokens_out=read_tokens(body, "completion_tokens"),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _positions(logprobs: Any) -> tuple[Position, ...] | None:
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list) or not content:
        return None
    positions = []
    for place, item in enumerate(content):
        if not isinstance(item, dict) or not isinstance(item.get("token"), str):
            return None
        inside = KEPT_POSITIONS <= place < len(content) - KEPT_POSITIONS
        listed = None if inside else item.get("top_logprobs")
        top = tuple(
            (entry["token"], _logprob(entry.get("logprob")))
            for entry in (listed if isinstance(listed, list) else ())
            if isinstance(entry, dict) and isinstance(entry.get("token"), str)
        )
        positions.append(Position(item["token"], _logprob(item.get("logprob")), top))
    return tuple(positions)


def _logprob(value: Any) -> float:
    """Return a log-probability; what is none becomes a number that no check lets pass."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 1.0
    if value == -math.inf:
        return NEVER
    # A whole number of JSON may be larger than any float.
    return float(value) if -_LARGEST <= value <= _LARGEST else 1.0


def read_tokens(body: dict[str, Any], kind: str) -> int | None:
    """Return how many tokens of a kind an answer says that it took; None where it says none."""
    usage = body.get("usage")
    n = usage.get(kind) if isinstance(usage, dict) else None
    is_count = isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= _MOST_TOKENS
    return n if is_count else None
