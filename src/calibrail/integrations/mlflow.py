"""MLflow: a scorer, and a guardrail logged as a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import calibrail
from calibrail.errors import InputError
from calibrail.integrations.gate import Gate, Guarding, needs, texts_of_parts

with needs("mlflow"):
    import mlflow
    import pandas as pd
    from mlflow.entities import AssessmentError, Feedback, Trace
    from mlflow.genai.scorers import Scorer
    from mlflow.models import ModelSignature
    from mlflow.models.model import ModelInfo
    from mlflow.pyfunc import PythonModel
    from mlflow.types.schema import Array, ColSpec, DataType, Schema
    from pydantic import PrivateAttr


#: From the inputs, the outputs and the trace of a row to the parameters of a check.
Reading = Callable[[Any, Any, "Trace | None"], Mapping[str, Any]]

#: Under which names a row holds the question, its sources and the answer, the first first.
_QUESTION: Final = ("question", "query", "user_input", "input", "prompt")
_CONTEXTS: Final = ("contexts", "retrieved_contexts", "context", "documents")
_RESPONSE: Final = ("response", "answer", "output", "content")

#: Where a chunk of a retriever has its text.
_TEXT: Final = ("page_content", "content", "text")

#: A row as the model takes it.
_EXAMPLE: Final[Mapping[str, Any]] = {
    "question": "Who wrote it?",
    "contexts": ["Ada wrote it."],
    "response": "Ada did.",
}

#: The code from which MLflow makes the model again, wherever it is loaded.
_CODE: Final = """from mlflow.models import set_model

from calibrail.integrations.mlflow import GuardrailModel

set_model(GuardrailModel())
"""


class GuardrailScorer(Scorer):
    """A scorer of ``mlflow.genai.evaluate`` that says ``yes`` where the guardrail says ``pass``.

    Its feedback is ``yes`` or ``no``, of which MLflow takes the mean; the rationale begins with the
    outcome, and the metadata hold the decision. Where the outcome is ``error`` there is no value
    but an assessment error.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides.
    name : str
        Of the feedback.
    reading : callable, optional
        Takes the inputs, outputs and trace of a row and returns ``question``, ``contexts`` and
        ``response``. Left out: `answer_of`.
    """

    _gate: Gate = PrivateAttr()
    _reading: Reading = PrivateAttr()

    def __init__(
        self, guardrail: Guarding, *, name: str = "calibrail", reading: Reading | None = None
    ) -> None:
        super().__init__(name=name, description="Whether the guardrail lets the answer pass.")
        self._gate, self._reading = Gate.of(guardrail), reading or answer_of

    def __call__(
        self, *, inputs: Any = None, outputs: Any = None, trace: Trace | None = None
    ) -> Feedback:
        """Return the feedback about one row."""
        gate = self._gate
        decision = gate.check(**self._reading(inputs, outputs, trace))
        details = gate.details(decision)
        held = {name: str(value) for name, value in details.items() if value is not None}
        if decision.outcome == "error":
            error = AssessmentError("calibrail.error", decision.reason)
            return Feedback(name=self.name, error=error, metadata=held)
        return Feedback(
            name=self.name,
            value="no" if decision.flagged else "yes",
            rationale=gate.explained(decision),
            metadata=held,
        )


def answer_of(inputs: Any, outputs: Any, trace: Trace | None = None) -> dict[str, Any]:
    """Return the question, contexts and response of a row, by the names that rows usually have.

    Parameters
    ----------
    inputs : str or mapping
        The question, or what holds it (``question``, ``query``; of ``messages`` the user's last),
        and the sources (``contexts``, ``documents``) where no retriever was traced.
    outputs : str or mapping
        The answer, or what holds it (``response``, ``answer``; of chat completions the message).
    trace : Trace, optional
        Its retriever spans give the sources.

    Raises
    ------
    InputError
        Where there is no answer.
    """
    if trace is not None:
        root = next((span for span in trace.data.spans if span.parent_id is None), None)
        inputs = root.inputs if inputs is None and root else inputs
        outputs = root.outputs if outputs is None and root else outputs
    question = _named(inputs, _QUESTION)
    if question is None and isinstance(inputs, Mapping):
        question = _last_of(inputs.get("messages"), "user", "human")
    response = _named(outputs, _RESPONSE)
    if response is None and isinstance(outputs, Mapping):
        # Clients show the first of several choices.
        choices = outputs.get("choices") or [{}]
        said = [choices[0]["message"]] if "message" in choices[0] else outputs.get("messages")
        response = _last_of(said, "assistant", "ai")
    if not isinstance(response, str):
        raise InputError.on("no_response", names=", ".join(_RESPONSE), outputs=outputs)
    contexts = list(_retrieved(trace)) or _chunks(
        next((one[name] for one in (inputs, outputs) for name in _CONTEXTS if _has(one, name)), ())
    )
    return {"question": question or "", "contexts": contexts, "response": response}


class GuardrailModel(PythonModel):
    """The guardrail that is the model's artifact ``guardrail``, as a model of MLflow."""

    def load_context(self, context: Any) -> None:
        """Load the guardrail, and verify it."""
        self._gate = Gate(context.artifacts["guardrail"])

    # MLflow takes other hints on the rows for a schema, in place of the signature's.
    def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> pd.DataFrame:
        """Return a decision a row, in their order; a row without an answer is an ``error``."""
        rows = pd.DataFrame(model_input).to_dict("records")
        return pd.DataFrame([self._decided(row) for row in rows], columns=list(_DECIDED))

    def _decided(self, row: Mapping[str, Any]) -> dict[str, Any]:
        from calibrail.data.values import native

        given = {name: value for name, value in row.items() if native(value) is not None}
        answer = {name: given.pop(name) for name in ("id", "question", "response") if name in given}
        contexts = given.pop("contexts", ())
        try:
            decision = self._gate.check(
                contexts=contexts if isinstance(contexts, str) else list(contexts),
                columns=given,
                **{"response": None, **answer},
            )
        except InputError as error:
            return {"id": answer.get("id", ""), "outcome": "error", "reason": str(error)}
        return self._gate.details(decision)


def log_guardrail(guardrail: str | Path, name: str = "guardrail", **options: Any) -> ModelInfo:
    """Log a guardrail's file as a model, from code: nothing is pickled.

    Parameters
    ----------
    guardrail : path
        The guardrail's file, which becomes the artifact ``guardrail``.
    name : str
        Of the model.
    **options
        Further arguments of ``mlflow.pyfunc.log_model``, e.g. ``registered_model_name``.

    Returns
    -------
    ModelInfo
        As ``log_model`` returns it; ``mlflow.pyfunc.load_model(info.model_uri)`` decides.

    Raises
    ------
    GuardrailError
        The file is no guardrail that this machine can load.
    """
    loaded = calibrail.Guardrail.load(guardrail)
    with TemporaryDirectory() as folder:
        code = Path(folder) / "guardrail_model.py"
        code.write_text(_CODE, encoding="utf-8")
        return mlflow.pyfunc.log_model(
            **{
                "name": name,
                "python_model": str(code),
                "artifacts": {"guardrail": str(Path(guardrail).absolute())},
                "signature": _signature(loaded),
                "input_example": [{**_EXAMPLE, **dict.fromkeys(loaded.columns)}],
                "pip_requirements": _requirements(loaded),
            }
            | options
        )


_NUMBERS: Final = ("score", "threshold", "p_value")
_DECIDED: Final[Mapping[str, DataType]] = {
    name: DataType.double if name in _NUMBERS else DataType.string
    for name in ("id", "outcome", *_NUMBERS, "reason", "guardrail")
}


def _signature(guardrail: calibrail.Guardrail) -> ModelSignature:
    from calibrail.conformal.group_thresholds import columns_of_groups

    groups = columns_of_groups(guardrail.config.promise.by)
    columns = {it: DataType.string if it in groups else DataType.double for it in guardrail.columns}
    texts = {"response": DataType.string, "question": DataType.string, "id": DataType.string}
    asked = [ColSpec(it, k, required=k == "response") for k, it in (texts | columns).items()]
    asked.append(ColSpec(Array(DataType.string), "contexts", required=False))
    decided = [ColSpec(kind, name, required=False) for name, kind in _DECIDED.items()]
    return ModelSignature(Schema(asked), Schema(decided))


def _requirements(guardrail: calibrail.Guardrail) -> list[str]:
    from importlib.metadata import version

    extras = "mlflow,models" if getattr(guardrail.score, "models", ()) else "mlflow"
    return [f"calibrail[{extras}]=={version('calibrail')}"]


def _has(item: Any, name: str) -> bool:
    return isinstance(item, Mapping) and item.get(name) is not None


def _last_of(messages: Any, *roles: str) -> str | None:
    """Return the text of the last message of a role, its parts one a line."""
    told = [item for item in messages or () if item.get("role", item.get("type")) in roles]
    content = told[-1].get("content") if told else None
    if not isinstance(content, list):
        return content
    return "\n".join(texts_of_parts(content)) or None


def _named(item: Any, names: Iterable[str]) -> Any:
    """Return a text as it is, or what a mapping holds under the first of the names it has."""
    if isinstance(item, str):
        return item
    return next((item[name] for name in names if _has(item, name)), None)


def _chunks(chunks: Any) -> list[Any]:
    """Return the texts of chunks, which may be mappings that hold them."""
    alone = [chunks] if isinstance(chunks, str | Mapping) else chunks
    return [text for chunk in alone if (text := _named(chunk, _TEXT)) is not None]


def _retrieved(trace: Trace | None) -> Iterable[str]:
    """Return what retrievers gave in a trace, once each: a retriever may stand in another."""
    if trace is None:
        return ()
    spans = trace.search_spans(span_type="RETRIEVER")
    return dict.fromkeys(text for span in spans for text in _chunks(span.outputs or ()))
