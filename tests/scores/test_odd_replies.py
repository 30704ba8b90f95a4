"""Forty odd replies through every mode and model family: none is read for what it does not say."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from calibrail.scores.judge import Judge
from tests.chat_server import ChatServer, Reply, text_of
from tests.scores.odd_replies import GRADES, NO_GRADES, NO_VERDICTS, RATINGS, VERDICTS
from tests.scores.test_judge import examples, stated
from tests.scores.test_judge_families import FAMILIES, build

pytestmark = pytest.mark.usefixtures("fresh_models", "quick_retries")

N = 40
#: Half of them hold a value. An empty reply is asked for again with more tokens.
VERDICT_REPLIES: dict[str, float | None] = {
    **{text: float(verdict) for text, verdict in VERDICTS[-N // 2 :]},
    **dict.fromkeys(NO_VERDICTS[: N // 2]),
}
REPLIES: dict[str, dict[str, float | None]] = {
    **dict.fromkeys(("verdict", "votes", "logprob"), VERDICT_REPLIES),
    "graded": {**dict(GRADES), **dict.fromkeys([text for text in NO_GRADES if text])},
    "rating": RATINGS,
}
UNREADABLE = ("the judge's reply is", "the endpoint gave no log-prob", "the judge's reply ended")


def replies(mode: str) -> list[tuple[str, float | None]]:
    chosen = [*REPLIES[mode].items()][-N:]
    assert len(chosen) == N and {value is None for _, value in chosen} == {True, False}
    return chosen


def odd(mode: str, text: str) -> str:
    """Return the reply to the answer that a prompt holds."""
    return replies(mode)[round(stated(text) * N)][0]


def none_is_misread(score: Judge, mode: str) -> int:
    """Return how many of the replies have a value, which is theirs."""
    found = score.score(examples(N))
    n_read = 0
    for row, (text, value) in enumerate(replies(mode)):
        read = found.values[row]
        if math.isnan(read):
            assert any(why in found.reasons[row] for why in UNREADABLE), (text, found.reasons[row])
        elif mode == "logprob":
            # The model is sure of what it says.
            assert value is not None and (read > 0.5) == (value > 0.5), text
        else:
            assert read == value, text
        n_read += not math.isnan(read)
    return n_read


def pieces(text: str) -> list[dict[str, float]]:
    """Return the tokens of a reply, before each verdict the other one as its alternative."""
    other = {"f": "hall", "h": "faith"}
    tops = []
    for token in re.findall(r"\s*[^\W_]+|\s*[\W_]", text):
        first = token.strip()[:1].lower()
        tops.append({token: -0.1, **({other[first]: -3.0} if first in other else {})})
    return tops


@pytest.mark.parametrize("mode", REPLIES)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_odd_reply_of_any_family_is_misread(family: str, mode: str) -> None:
    behaves, params = FAMILIES[family]

    def answer(body: dict[str, Any]) -> Reply:
        reply = behaves(body)
        text = odd(mode, text_of(body["messages"]))
        return replace(reply, text=text, top=pieces(text)) if reply.text else reply

    with ChatServer(answer) as server:
        score = build(mode, server.url, **params)
        n_read = none_is_misread(score, mode)
    n_holding = sum(value is not None for _, value in replies(mode))
    if mode != "logprob":
        assert n_read == n_holding
    else:
        none = family in ("reasoning", "reasoning, effort medium", "no log-probabilities")
        assert n_read == 0 if none else n_read > n_holding / 2
