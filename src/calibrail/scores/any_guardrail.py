"""Guardrails of the library any-guardrail, which puts many detectors behind one call, as scores."""

import importlib
import importlib.metadata
import inspect
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from calibrail.data.example import Example
from calibrail.errors import InputError, ModelError, errors_as, keep_libraries_quiet
from calibrail.scores import base
from calibrail.working_folder import refuse_own_code


class AnyGuardrailScore:
    """Risk of an answer as a guardrail of any-guardrail sees it. In [0, 1].

    Its ``score`` counts where it gives one; else 0 where it finds the answer valid and 1 where not.

    Parameters
    ----------
    name : str
        What any-guardrail calls it, e.g. ``"lettuce_detect"``.
    options : mapping or str
        What the guardrail is made with, and further arguments of its ``validate``; as JSON.
    """

    name = "anyguardrail"
    requires = ("contexts", "response")
    tolerance = 1e-6

    def __init__(self, *, name: str, options: Mapping[str, Any] | str = "{}") -> None:
        # Of some guardrails it runs code that stands in a model hub.
        refuse_own_code(f"any-guardrail's {name}")
        with errors_as(InputError, (TypeError, ValueError), "guardrail_options", options=options):
            self._options = dict(json.loads(options) if isinstance(options, str) else options)
        written = json.dumps(self._options, sort_keys=True)
        self.params: Mapping[str, base.JSON] = {"name": str(name), "options": written}

    def fingerprint(self) -> Mapping[str, base.JSON]:
        """Return the library's version; which weights it loads, it does not say."""
        try:
            return {"any_guardrail": importlib.metadata.version("any-guardrail")}
        except importlib.metadata.PackageNotFoundError:
            remedy = "pip install 'calibrail[any-guardrail]'"
            raise ModelError(f"this score needs the library any-guardrail: {remedy}") from None

    def score(self, examples: Sequence[Example]) -> base.Scores:
        """Return the risk of each answer; undefined where a field is missing or the call fails."""
        results = (base.missing(it, self.requires) or self._judged(it) for it in examples)
        return base.Scores.of(results)

    @cached_property
    def _guardrail(self) -> Any:
        self.fingerprint()
        keep_libraries_quiet()
        library = importlib.import_module("any_guardrail")
        known, name = [item.value for item in library.GuardrailName], self.params["name"]
        if name not in known:
            raise InputError(f"any-guardrail has no {name!r}; it has {', '.join(known)}")
        makes, name = library.AnyGuardrail, library.GuardrailName(name)
        known_as = {item.name: item for item in makes.get_parameter_schema(name)}
        if keys := [key for key in self._options if getattr(known_as.get(key), "secret", False)]:
            raise InputError.on("option_holds_key", names=", ".join(keys))
        asked_later = {key for key, item in known_as.items() if item.stage == "validate"}
        made_with = {key: self._options[key] for key in self._options.keys() - asked_later}
        causes = (ImportError, TypeError, ValueError)
        with errors_as(ModelError, causes, "any_guardrail_not_made", name=name):
            return makes.create(name, **made_with)

    def _judged(self, example: Example) -> base.Valued | str:
        guardrail, chunks = self._guardrail, base.filled(example.contexts)
        fields: dict[str, Any] = {
            **dict.fromkeys(("output_text", "output"), example.response),
            **dict.fromkeys(("context", "retrieved_context", "context_documents"), chunks),
            "documents": [{"doc_id": str(n), "text": text} for n, text in enumerate(chunks, 1)],
            "question": example.question,
        }
        taken = inspect.signature(guardrail.validate).parameters
        given = {key: value for key, value in {**fields, **self._options}.items() if key in taken}
        first = example.question if {"output_text", "output"} & given.keys() else example.response
        if "policy" in taken:
            # A judge by a policy is shown one text.
            shown = "\n".join(chunks)
            first = f"Documents:\n{shown}\n\nQuestion: {example.question}\n\nAnswer: {first}"
        try:
            output = guardrail.validate(first, **given)
        except Exception as error:
            # Its words may quote what was sent.
            return base.DetectorFailure(f"any-guardrail failed: {type(error).__name__}")
        if (output.extra or {}).get("parse_failure"):
            return base.DetectorFailure("any-guardrail could not read the model's reply")
        value = float(not output.valid) if output.score is None else output.score
        if not base.is_number(value) or not 0.0 <= value <= 1.0:
            return base.DetectorFailure(f"any-guardrail gave a risk of {value!r}, not of 0 to 1")
        return float(value), {}
