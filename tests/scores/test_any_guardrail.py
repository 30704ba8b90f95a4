"""Is a guardrail of any-guardrail asked, and its answer read, as the library documents it?"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import calibrail
from calibrail.data.example import Example
from calibrail.errors import GuardrailError, InputError, ModelError
from calibrail.scores.any_guardrail import AnyGuardrailScore
from calibrail.scores.base import DetectorFailure
from calibrail.scores.registry import build, key_of, parse_spec, spell
from calibrail.testing import check_score

ANSWER = Example("Who?", ("A document.", " ", "Another."), "Ann.")


@dataclass
class GuardrailOutput:
    """The library's fields of the same names."""

    valid: bool
    score: float | None = None
    extra: dict[str, Any] | None = None


@dataclass
class Spec:
    name: str
    stage: str
    secret: bool = False


@dataclass
class Library:
    """What was created and asked, and what is answered."""

    output: Any = None
    created: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def answer(self, text: str, **given: Any) -> Any:
        self.asked.append((text, given))
        return self.output(text) if callable(self.output) else self.output


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    seen = Library(GuardrailOutput(valid=True))
    module: Any = ModuleType("any_guardrail")

    class GuardrailName(StrEnum):
        LETTUCE_DETECT = "lettuce_detect"
        GRANITE_GUARDIAN = "granite_guardian"
        ANYLLM = "any_llm"
        PATRONUS = "patronus"

    class LettuceDetect:
        def validate(
            self, input_text: str, context: Any = None, question: Any = None, **kwargs: Any
        ) -> Any:
            return seen.answer(input_text, context=context, question=question, **kwargs)

    class GraniteGuardian:
        def validate(self, input_text: str, output_text: Any = None, documents: Any = None) -> Any:
            return seen.answer(input_text, output_text=output_text, documents=documents)

    class AnyLlm:
        def validate(self, input_text: str, policy: str, model_id: str = "m", **kwargs: Any) -> Any:
            return seen.answer(input_text, policy=policy, model_id=model_id, **kwargs)

    class Patronus:
        def validate(
            self, input_text: str, output_text: Any = None, retrieved_context: Any = None
        ) -> Any:
            return seen.answer(input_text, output_text=output_text, context=retrieved_context)

    classes = {"lettuce_detect": LettuceDetect, "granite_guardian": GraniteGuardian}
    classes |= {"any_llm": AnyLlm, "patronus": Patronus}

    class AnyGuardrail:
        @classmethod
        def get_parameter_schema(cls, name: GuardrailName) -> list[Spec]:
            keys = [Spec("api_key", "create", secret=True)]
            return [Spec("criteria", "create"), Spec("policy", "validate"), *keys]

        @classmethod
        def create(cls, name: GuardrailName, provider: Any = None, **kwargs: Any) -> Any:
            if kwargs.get("criteria") == "none":
                raise ImportError("Missing packages for this guardrail")
            seen.created.append(kwargs)
            return classes[name]()

    module.AnyGuardrail, module.GuardrailName = AnyGuardrail, GuardrailName
    monkeypatch.setitem(sys.modules, "any_guardrail", module)
    versions = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda x: "0.7.7" if x == "any-guardrail" else versions(x)
    )
    return seen


CHUNKS = ["A document.", "Another."]
NUMBERED = [{"doc_id": "1", "text": "A document."}, {"doc_id": "2", "text": "Another."}]
SHOWN = "Documents:\nA document.\nAnother.\n\nQuestion: Who?\n\nAnswer: Ann."


@pytest.mark.parametrize(
    ("spec", "created", "asked"),
    [
        ("name=lettuce_detect", {}, ("Ann.", {"context": CHUNKS, "question": "Who?"})),
        (
            'name=granite_guardian,options="{\\"criteria\\": \\"grounded\\"}"',
            {"criteria": "grounded"},
            ("Who?", {"output_text": "Ann.", "documents": NUMBERED}),
        ),
        ("name=patronus", {}, ("Who?", {"output_text": "Ann.", "context": CHUNKS})),
        (
            'name=any_llm,options="{\\"policy\\": \\"No inventions.\\"}"',
            {},
            (SHOWN, {"policy": "No inventions.", "model_id": "m"}),
        ),
    ],
)
def test_each_guardrail_gets_what_it_takes(
    spec: str, created: dict[str, Any], asked: tuple[str, dict[str, Any]], library: Library
) -> None:
    score = build(parse_spec(f"anyguardrail:{spec}"))
    assert library.created == []
    library.output = GuardrailOutput(valid=False, score=0.75)
    assert score.score([ANSWER]).values.tolist() == [0.75]
    assert (library.created, library.asked) == ([created], [asked])
    assert score.fingerprint() == {"any_guardrail": "0.7.7"}
    assert build(parse_spec(spell(score))).params == score.params


@pytest.mark.parametrize(
    ("output", "value", "why"),
    [
        (GuardrailOutput(valid=True), 0.0, ""),
        (GuardrailOutput(valid=False), 1.0, ""),
        (GuardrailOutput(valid=True, score=0), 0.0, ""),
        (GuardrailOutput(valid=False, extra={"parse_failure": True}), None, "could not read"),
        (GuardrailOutput(valid=False, score=7.5), None, "7.5"),
        (GuardrailOutput(valid=False, score=float("nan")), None, "nan"),
    ],
)
def test_what_it_says_is_a_risk(
    output: GuardrailOutput, value: float | None, why: str, library: Library
) -> None:
    library.output = output
    found = AnyGuardrailScore(name="lettuce_detect").score([ANSWER])
    if value is not None:
        assert found.values.tolist() == [value]
    else:
        assert why in found.reasons[0]
        assert isinstance(found.reasons[0], DetectorFailure)


def test_a_call_that_fails_tells_nothing_of_what_was_sent(library: Library) -> None:
    def fails(text: str) -> Any:
        if text == "Ann.":
            raise ValueError(f"request failed: {text}")
        return GuardrailOutput(valid=False)

    library.output = fails
    others = [ANSWER, Example("", ("x",), "Bob."), Example("", (), "no context")]
    found = AnyGuardrailScore(name="lettuce_detect").score(others)
    assert found.reasons[0] == "any-guardrail failed: ValueError"
    assert found.reasons[2] == "there is no context"
    np.testing.assert_array_equal(found.values[1], 1.0)


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"name": "x", "options": "[1]"}, InputError, "JSON object"),
        ({"name": "x", "options": "{"}, InputError, "JSON object"),
        ({"name": "nothing"}, InputError, "it has lettuce_detect, "),
        # What the library itself calls a secret.
        ({"name": "patronus", "options": {"api_key": "k"}}, InputError, r"no key .*\(api_key\)"),
        (
            {"name": "patronus", "options": {"criteria": "none"}},
            ModelError,
            "cannot make patronus: Missing packages",
        ),
    ],
)
def test_what_cannot_be_made_is_named(
    params: dict[str, Any], error: type[Exception], match: str, library: Library
) -> None:
    with pytest.raises(error, match=match):
        AnyGuardrailScore(**params).score([ANSWER])


def test_without_the_library_the_remedy_is_named() -> None:
    with pytest.raises(ModelError, match=r"pip install 'calibrail\[any-guardrail\]'"):
        AnyGuardrailScore(name="lettuce_detect").score([ANSWER])


def test_it_conforms_and_has_a_name_of_its_own(library: Library) -> None:
    library.output = lambda text: GuardrailOutput(valid=True, score=len(text) % 7 / 7)
    score = AnyGuardrailScore(name="lettuce_detect", options=json.dumps({}))
    check_score(score, polarity=False, huge=2_000)
    assert key_of(score) == "anyguardrail:name=lettuce_detect"


def test_a_card_does_not_say_that_it_sends_nothing(library: Library) -> None:
    library.output = lambda text: GuardrailOutput(valid=True, score=len(text) % 7 / 7)
    rows = [
        {"contexts": [f"It is {i}."], "response": f"It is {'1' * (i % 7)}, {i}.", "label": i % 2}
        for i in range(80)
    ]
    run = calibrail.calibrate(rows, AnyGuardrailScore(name="lettuce_detect"), alpha=0.3)
    text = " ".join(calibrail.card(run.freeze()).markdown().split())
    assert "does not say what it reads or whether it sends anything" in text


def test_where_own_code_is_forbidden_it_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALIBRAIL_OWN_CODE", "no")
    with pytest.raises(InputError, match="--forbid-own-code"):
        AnyGuardrailScore(name="any_llm", options={"policy": "No."})


def test_a_strangers_guardrail_does_not_load_it(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.output = lambda text: GuardrailOutput(valid=True, score=len(text) % 7 / 7)
    rows = [
        {"contexts": [f"It is {i}."], "response": f"It is {'1' * (i % 7)}, {i}.", "label": i % 2}
        for i in range(80)
    ]
    path = tmp_path / "g.json"
    calibrail.calibrate(rows, AnyGuardrailScore(name="lettuce_detect"), alpha=0.3).freeze().save(
        path
    )
    assert calibrail.Guardrail.load(path).check(response="Yes.", contexts=["No."]).score is not None
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with pytest.raises(GuardrailError, match="names any-guardrail's lettuce_detect, and nobody"):
        calibrail.Guardrail.load(path)
