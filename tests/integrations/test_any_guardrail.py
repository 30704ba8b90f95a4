"""Does the score of any-guardrail ask and read the library itself?"""

from __future__ import annotations

import json

import pytest

from calibrail.data.example import Example
from calibrail.errors import InputError, ModelError
from tests.chat_server import ChatServer, Reply
from tests.integrations.frameworks import need

need("any-guardrail")

from calibrail.scores.any_guardrail import AnyGuardrailScore  # noqa: E402

POLICY = "The answer must state nothing that the documents do not support."


def test_a_judge_by_a_policy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def says(body: dict[str, object]) -> Reply:
        risk = 0.9 if "invented" in json.dumps(body["messages"]) else 0.1
        verdict = {"valid": risk < 0.5, "explanation": "", "risk_score": risk}
        return Reply(json.dumps(verdict))

    with ChatServer(says) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        options = {"policy": POLICY, "model_id": "openai:m"}
        score = AnyGuardrailScore(name="any_llm", options=options)
        answers = [Example("Who?", ("A document.",), text) for text in ("fine", "invented")]
        assert score.score(answers).values.tolist() == [0.1, 0.9]
        sent = json.dumps(server.seen[0].body["messages"])
        assert POLICY in sent
        assert "Documents:" in sent


def test_the_library_says_what_is_missing() -> None:
    answers = [Example("Who?", ("A document.",), "Ann.")]
    with pytest.raises(ModelError, match="cannot make lettuce_detect: Missing packages"):
        AnyGuardrailScore(name="lettuce_detect").score(answers)
    with pytest.raises(InputError, match="granite_guardian"):
        AnyGuardrailScore(name="lettuce").score(answers)
    with pytest.raises(ModelError, match="takes no arguments"):
        AnyGuardrailScore(name="any_llm", options={"colour": "red"}).score(answers)
