"""Guardrails AI: a validator of answers and streams."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from os import PathLike
from typing import Any, Final
from unittest.mock import patch

from calibrail.errors import InputError
from calibrail.guardrail.decision import Decision
from calibrail.integrations.gate import Gate, Guarding, needs

# On import it fetches data for nltk, where that is installed.
_FETCH: Final = patch("nltk.download") if find_spec("nltk") else nullcontext()

with needs("guardrails-ai"), _FETCH:
    from guardrails import validator_base as base
    from guardrails.classes.rc import RC
    from guardrails.utils.hub_telemetry_utils import HubTelemetry


# No variable keeps it from reporting to its maker, and each Guard reads its file anew: whoever has
# one has been asked.
if not RC.exists():
    HubTelemetry(enabled=False)._tracer = None

#: Where the metadata of a result holds the decision.
_DECISION: Final = "calibrail"
#: Where the metadata of a stream keeps what came so far: no other stream has the same dict.
_CHUNKS: Final = "calibrail_chunks"


@base.register_validator(name="calibrail/guardrail", data_type="string")
class CalibrailValidator(base.Validator):
    """A validator that an answer passes only where the guardrail says ``pass``.

    A Guard is called with ``metadata={"question": ..., "contexts": [...]}``. What is not passed is
    a FailResult: its ``error_message`` begins with the outcome, its ``metadata["calibrail"]`` holds
    the decision, and ``on_fail="fix"`` puts the gate's refusal in the answer's place. A stream is
    held back until it has been judged whole.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides.
    on_fail : str, OnFailAction or callable, optional
        What guardrails-ai does with an answer that is not passed; left out, ``"exception"``.
    """

    required_metadata_keys = ("question", "contexts")

    def __init__(
        self, guardrail: Guarding, on_fail: str | Callable[..., Any] | None = None, **options: Any
    ) -> None:
        self._gate = Gate.of(guardrail)
        # What a saved Guard says about it: where to find the guardrail, or which one it was.
        named = guardrail if isinstance(guardrail, str | PathLike) else self._gate.digest
        super().__init__(on_fail=on_fail, guardrail=str(named), **options)

    def validate(self, value: Any, metadata: dict[str, Any]) -> base.ValidationResult:
        """Decide about an answer.

        Raises
        ------
        InputError
            The answer is no text, or the metadata lacks the question or the contexts.
        """
        return self._result(self._gate.check(**_asked(value, metadata)), value, metadata)

    async def async_validate(self, value: Any, metadata: dict[str, Any]) -> base.ValidationResult:
        """Decide as `validate` does, while the event loop goes on."""
        return self._result(await self._gate.acheck(**_asked(value, metadata)), value, metadata)

    def validate_stream(
        self, chunk: Any, metadata: dict[str, Any], **options: Any
    ) -> base.ValidationResult | None:
        """Decide about a stream once it has ended; until then nothing of it is let through.

        Raises
        ------
        InputError
            It is streamed in a way in which guardrails-ai shows chunks that no validator has seen.
        """
        # Only where some validator fixes does a Guard wait for results, and tell of the end.
        if "remainder" not in options:
            raise InputError.on("guard_without_fix")
        chunks: list[str] = metadata.setdefault(_CHUNKS, [])
        chunks.append(chunk)
        if not options["remainder"]:
            return None
        answer = "".join(metadata.pop(_CHUNKS))
        if not answer and _DECISION in metadata:
            # What comes after the end of an answer, such as a count of tokens.
            return base.PassResult(validated_chunk="")
        result = self.validate(answer, metadata)
        result.validated_chunk = answer
        return result

    async def async_validate_stream(
        self, chunk: Any, metadata: dict[str, Any], **options: Any
    ) -> base.ValidationResult | None:
        """Refuse: an AsyncGuard never tells that a stream has ended.

        Raises
        ------
        InputError
            Always.
        """
        raise InputError.on("async_guard_streams")

    def _result(self, decision: Decision, answer: str, metadata: dict[str, Any]) -> Any:
        # Some runners of guardrails-ai hand this on to the validators that follow.
        noted = {**metadata, _DECISION: self._gate.details(decision)}
        if not decision.flagged:
            return base.PassResult(metadata=noted)
        return base.FailResult(
            error_message=f"{decision.outcome}: {decision.reason}",
            fix_value=self._gate.shown(decision, answer),
            metadata=noted,
        )


def _asked(answer: Any, metadata: dict[str, Any]) -> dict[str, Any]:
    for name in CalibrailValidator.required_metadata_keys:
        if name not in metadata:
            raise InputError(f"metadata has no {name!r}; got {', '.join(map(str, metadata))}")
    return {"question": metadata["question"], "contexts": metadata["contexts"], "response": answer}
