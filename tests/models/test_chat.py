from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.models.llm.chat import KEPT_POSITIONS, ChatAnswer, ChatRequest, Position, read_answer

REQUEST = ChatRequest((("system", "judge"), ("user", "Is it so?")))
SCHEMA = '{"type":"object"}'


def body(content: Any = "faithful", **more: Any) -> dict[str, Any]:
    choice = {"message": {"content": content}, "finish_reason": "stop", **more.pop("choice", {})}
    return {"choices": [choice], "model": "judge-1", **more}


def test_an_answer_is_read() -> None:
    logprobs = {
        "content": [
            {
                "token": "faith",
                "logprob": -0.1,
                "top_logprobs": [
                    {"token": "faith", "logprob": -0.1},
                    {"token": "h", "logprob": -2},
                ],
            }
        ]
    }
    answer = read_answer(
        body(choice={"logprobs": logprobs}, usage={"prompt_tokens": 7, "completion_tokens": 2})
    )
    place = Position("faith", -0.1, (("faith", -0.1), ("h", -2.0)))
    assert answer == ChatAnswer("faithful", False, "stop", (place,), "judge-1", 7, 2)


@pytest.mark.parametrize(
    ("given", "lacks"),
    [
        (None, "without a choice"),
        ("<html>", "without a choice"),
        ([1], "without a choice"),
        ({}, "without a choice"),
        ({"choices": []}, "without a choice"),
        ({"choices": {}}, "without a choice"),
        ({"choices": [None]}, "without a choice"),
        ({"choices": [{}]}, "without a choice"),
        ({"choices": [{"message": "faithful"}]}, "without a choice"),
        ({"choices": [{"message": {}}]}, "without a text"),
        (body(None), "without a text"),
        (body(["faithful"]), "without a text"),
        (body(1), "without a text"),
    ],
)
def test_what_is_no_answer_says_what_it_lacks(given: Any, lacks: str) -> None:
    with pytest.raises(ValueError, match=f"^the endpoint answered .*{lacks}$"):
        read_answer(given)


def test_refusals_and_cut_answers_need_no_text() -> None:
    refused = read_answer(body(None, choice={"message": {"content": None, "refusal": "I won't"}}))
    assert (refused.text, refused.refusal) == ("", True)
    filtered = read_answer(body(None, choice={"finish_reason": "content_filter"}))
    assert (filtered.text, filtered.refusal) == ("", True)
    cut = read_answer(body(None, choice={"finish_reason": "length"}))
    assert (cut.text, cut.refusal, cut.finish) == ("", False, "length")


@pytest.mark.parametrize(
    "value", [None, "x", True, float("nan"), float("inf"), 10**400, -(10**400), []]
)
def test_what_is_no_log_probability_passes_for_none(value: Any) -> None:
    entry = {"token": "x", "logprob": value, "top_logprobs": [{"token": "y", "logprob": value}]}
    answer = read_answer(body(choice={"logprobs": {"content": [entry]}}))
    assert answer.positions == (Position("x", 1.0, (("y", 1.0),)),)


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        [],
        "x",
        {},
        {"content": None},
        {"content": []},
        {"content": ["x"]},
        {"content": [{"logprob": -1}]},
        {"content": [{"token": 5, "logprob": -1}]},
    ],
)
def test_other_log_probabilities_are_none(logprobs: Any) -> None:
    assert read_answer(body(choice={"logprobs": logprobs})).positions is None


@pytest.mark.parametrize("count", [None, True, -1, 1.5, "7", 10**30, float("nan")])
def test_what_is_no_count_is_unknown(count: Any) -> None:
    answer = read_answer(body(usage={"prompt_tokens": count, "completion_tokens": count}))
    assert (answer.tokens_in, answer.tokens_out) == (None, None)


def test_a_token_that_can_never_come_has_a_very_small_probability() -> None:
    entry = {"token": "x", "logprob": -1.0, "top_logprobs": [{"token": "y", "logprob": -math.inf}]}
    answer = read_answer(body(choice={"logprobs": {"content": [entry]}}))
    assert answer.positions == (Position("x", -1.0, (("y", -9999.0),)),)


def test_alternatives_are_kept_at_both_ends() -> None:
    entry = {"token": "x", "logprob": -1, "top_logprobs": [{"token": "y", "logprob": -2}]}
    answer = read_answer(body(choice={"logprobs": {"content": [entry] * 200}}))
    assert answer.positions is not None and len(answer.positions) == 200
    kept = [place for place, position in enumerate(answer.positions) if position.top]
    assert kept == [*range(KEPT_POSITIONS), *range(200 - KEPT_POSITIONS, 200)]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("choices", "message", "content", "refusal", "finish_reason", "logprobs"),
                    *("token", "logprob", "top_logprobs", "usage", "prompt_tokens", "model"),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(_JSON, st.lists(_JSON, max_size=3), _JSON, _JSON)
def test_any_body_is_read_or_refused(message: Any, content: Any, usage: Any, model: Any) -> None:
    choice = {"message": message, "logprobs": {"content": content}}
    logprobs = {"content": content}
    bodies = (
        message,
        {"choices": [choice], "usage": usage, "model": model},
        body(choice={"logprobs": logprobs}, usage=usage, model=model),
    )
    for one in bodies:
        try:
            answer = read_answer(one)
        except ValueError:
            continue
        stored = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
        assert ChatAnswer.from_dict(stored) == answer


def test_the_key_tells_every_question_apart() -> None:
    others = [
        replace(REQUEST, messages=(("system", "judge"), ("user", "Is it so? "))),
        replace(REQUEST, messages=(("user", "judge"), ("user", "Is it so?"))),
        replace(REQUEST, messages=(("system", "judgeIs"), ("user", " it so?"))),
        replace(REQUEST, messages=(("user", "Is it so?"),)),
        replace(REQUEST, temperature=1.0),
        replace(REQUEST, max_tokens=17),
        replace(REQUEST, top_logprobs=20),
        replace(REQUEST, schema=SCHEMA),
        replace(REQUEST, sample=1),
        replace(REQUEST, effort="none"),
        replace(REQUEST, effort="low"),
    ]
    keys = [request.key("http://a/v1", "m") for request in [REQUEST, *others]]
    keys += [REQUEST.key("http://b/v1", "m"), REQUEST.key("http://a/v1", "n")]
    keys += [REQUEST.key("http://a/v1m", ""), REQUEST.key("", "http://a/v1m")]
    assert len(set(keys)) == len(keys)
    assert all(len(key) == 64 and int(key, 16) >= 0 for key in keys)
    assert REQUEST.key("http://a/v1", "m") == replace(REQUEST).key("http://a/v1", "m")


def test_every_field_is_in_the_key() -> None:
    assert set(ChatRequest.__dataclass_fields__) == {
        "messages",
        "temperature",
        "max_tokens",
        "top_logprobs",
        "schema",
        "sample",
        "effort",
        "most_tokens",
    }
    # What may be spent beyond it asks nothing else.
    assert replace(REQUEST, most_tokens=4096).key("e", "m") == REQUEST.key("e", "m")


def test_answers_of_before_there_were_efforts_keep_their_keys() -> None:
    request = ChatRequest((("user", "Is it so?"),), max_tokens=10, top_logprobs=20)
    digest = "7b88a10857728a7ff95e405821aa0dae7f9ee7caec65f8fb05cbabfb93c379a4"
    assert request.key("https://api.openai.com/v1", "m") == digest


def test_half_a_character_is_keyed_but_not_sent() -> None:
    broken = replace(REQUEST, messages=(("user", "a\ud800b"),))
    whole = replace(REQUEST, messages=(("user", "a?b"),))
    assert broken.key("e", "m") != whole.key("e", "m")
    assert json.dumps(broken.parameters(), ensure_ascii=False).encode()
    assert broken.parameters()["messages"] == [{"role": "user", "content": "a?b"}]
