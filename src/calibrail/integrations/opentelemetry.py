"""OpenTelemetry: decisions as events of spans and logs."""

from __future__ import annotations

import logging
from typing import Any, Final

import calibrail.guardrail
from calibrail.guardrail.decision import Decision
from calibrail.integrations.gate import Gate, Guarding, needs

with needs("opentelemetry"):
    from opentelemetry import trace
    from opentelemetry._logs import LoggerProvider, SeverityNumber, get_logger


#: The event of the semantic conventions for generative AI, on the span and in the log.
EVENT: Final = "gen_ai.evaluation.result"

_RESPONSE_ID: Final = "gen_ai.response.id"


class Evaluations:
    """Record decisions as ``gen_ai.evaluation.result``, on the span and as a log event.

    Hand it to a gate: ``Gate(path, notify=Evaluations(path))`` records the decisions of every
    adapter on the span that is current where the answer is checked. Without an SDK nothing is done.

    Parameters
    ----------
    guardrail : Gate, Guardrail, path or Client
        Whose promise and intervals are recorded with each decision; of a path only the file is
        read. The client of a service knows neither, so that they are left out.
    name : str
        ``gen_ai.evaluation.name``.
    texts : bool
        Whether the explanation may quote the answer, or an error of the detector that does.
    logger_provider : LoggerProvider, optional
        Left out, the global one.

    Raises
    ------
    GuardrailError
        The file is no guardrail.
    """

    def __init__(
        self,
        guardrail: Guarding,
        *,
        name: str = "calibrail",
        texts: bool = False,
        logger_provider: LoggerProvider | None = None,
    ) -> None:
        self._certified = _certified(_config(guardrail))
        self._name, self._texts, self._provider = name, texts, logger_provider

    def __call__(self, decision: Decision) -> None:
        """Record a decision on the current span: what a gate's ``notify`` calls.

        Telemetry that fails is logged, and costs nobody an answer.
        """
        try:
            self.record(decision)
        except Exception:
            logging.getLogger(__name__).exception("a decision could not be recorded")

    def record(
        self, decision: Decision, *, span: trace.Span | None = None, response_id: str | None = None
    ) -> None:
        """Add the event to a span, and emit it as a log event within that span.

        Parameters
        ----------
        decision : Decision
            What the guardrail said.
        span : Span, optional
            The span of the operation that answered; the current one where it is left out. One that
            has ended takes no event any more: the log event still names it.
        response_id : str, optional
            The model's id of the answer; left out, the one that the span carries.
        """
        span = trace.get_current_span() if span is None else span
        known = getattr(span, "attributes", None) or {}
        attributes = self.attributes(decision, response_id=response_id or known.get(_RESPONSE_ID))
        if span.is_recording():
            span.add_event(EVENT, attributes)
        get_logger("calibrail", logger_provider=self._provider).emit(
            context=trace.set_span_in_context(span),
            severity_number=SeverityNumber.INFO,
            attributes=attributes,
            event_name=EVENT,
        )

    def attributes(self, decision: Decision, *, response_id: str | None = None) -> dict[str, Any]:
        """Return what the event holds; what has no value is left out."""
        quiet = decision.without_texts()
        scale = decision.scale
        return _present(
            {
                "gen_ai.evaluation.name": self._name,
                "gen_ai.evaluation.score.value": decision.score,
                "gen_ai.evaluation.score.label": decision.outcome,
                "gen_ai.evaluation.explanation": (decision if self._texts else quiet).reason,
                _RESPONSE_ID: response_id,
                "error.type": _error(quiet),
                "calibrail.id": decision.id or None,
                "calibrail.threshold": decision.threshold,
                "calibrail.p_value": decision.p_value,
                "calibrail.column.name": scale.column,
                "calibrail.column.value": decision.column_value,
                "calibrail.column.threshold": decision.column_threshold,
            }
            | self._certified
        )


def _config(guardrail: Guarding) -> calibrail.guardrail.FrozenConfig | None:
    from os import PathLike

    from calibrail.guardrail.file import read_file

    if isinstance(guardrail, str | PathLike):
        return read_file(guardrail)[0]
    local = Gate.of(guardrail).guardrail
    return None if local is None else local.config


def _certified(config: calibrail.guardrail.FrozenConfig | None) -> dict[str, Any]:
    """Return the guardrail's digest, its promise, and the intervals of its test."""
    if config is None:
        return {}
    promise, headline = config.promise, config.headline
    certified: dict[str, Any] = {
        "calibrail.guardrail.digest": config.digest,
        "calibrail.guardrail.verdict": headline.verdict,
        "calibrail.guarantee": promise.guarantee,
        "calibrail.alpha": promise.alpha,
        "calibrail.beta": promise.beta,
        "calibrail.delta": promise.delta if promise.of_this_threshold else None,
    }
    for rate, measure in (("coverage", headline.coverage), ("fpr", headline.fpr)):
        for part in ("estimate", "lower", "upper", "confidence", "n"):
            certified[f"calibrail.{rate}.{part}"] = measure.get(part)
    return _present(certified)


def _error(quiet: Decision) -> str | None:
    """Return the class of what was raised, where something failed; None for a verdict."""
    return quiet.cause.error or "_OTHER" if quiet.failed or quiet.outcome == "error" else None


def _present(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}
