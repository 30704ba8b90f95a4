"""A guardrail of sentences says what may be shown of an answer."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrail.guardrail.sentences as trimming
from calibrail import Example
from calibrail.data.sentences import sentence_examples
from calibrail.errors import GuardrailError, InputError
from calibrail.guardrail import Decision, FrozenConfig, Guardrail
from calibrail.guardrail.decision import Cause
from calibrail.guardrail.file import ScoreSpecConfig
from calibrail.scores import build, parse_spec, registry

from .sentences import Digits, by_sentence, by_sentence_of_words, of_sentences


def check(guardrail: Guardrail, response: str, **more: object) -> Decision:
    decision = guardrail.check(response=response, id="a", **more)  # type: ignore[arg-type]
    assert Decision.from_dict(json.loads(decision.line(evidence=True))) == decision
    return decision


@pytest.mark.parametrize(
    ("response", "outcome", "text", "removed"),
    [
        ("It is 3. It is 4.", "pass", "It is 3. It is 4.", []),
        ("It is 3. However, it is 90. Then it is 4.", "flag", "It is 3. It is 4.", [(9, 27)]),
        ("It is 90. It is 50.", "flag", "", [(0, 9), (10, 19)]),
        ("Up to 2 reasons:\n- It is 90.\n\nIt is 1.", "flag", "It is 1.", [(0, 16), (19, 28)]),
        ("It is 99 here. The latter is 3.", "review", None, [(0, 14)]),
        ("It is 3. It is old.", "flag", "It is 3.", [(9, 19)]),
        ("", "flag", "", []),
        ("  \n", "flag", "", []),
    ],
)
def test_what_may_be_shown(
    response: str, outcome: str, text: str | None, removed: list[tuple[int, int]]
) -> None:
    decision = check(of_sentences(), response)
    assert (decision.outcome, decision.text) == (outcome, text)
    assert decision.removed is not None
    assert [(item.start, item.end) for item in decision.removed] == removed
    assert [item.text for item in decision.removed] == [response[i:j] for i, j in removed]


def test_score_and_p_value_are_those_of_the_worst_sentence() -> None:
    guardrail = of_sentences()
    decision = check(guardrail, "It is 3. It is 70. It is 60.")
    calibration = guardrail.calibration
    assert decision.score == 70.0
    assert decision.p_value == (1 + (calibration.scores <= 70.0).sum()) / (calibration.n + 1)
    assert decision.threshold == calibration.threshold == 50.0
    assert decision.reason == (
        "2 of 3 sentences removed; of the worst sentence, score 70 is at least the threshold 50"
    )
    assert decision.removed is not None
    assert [item.score for item in decision.removed] == [70.0, 60.0]
    assert decision.removed[1].reason == "score 60 is at least the threshold 50"


def test_what_goes_with_others_says_so() -> None:
    decision = check(of_sentences(), "2 reasons:\n- It is 90.\n\nIt is 1.")
    assert decision.removed is not None
    assert decision.removed[0].reason == "nothing is left of what it introduces"
    assert decision.removed[0].score == 2.0


@pytest.mark.parametrize(
    ("policy", "outcome", "text"),
    [
        ("flag", "flag", "It is 3."),
        ("review", "review", None),
        ("pass", "pass", "It is 3. It was."),
    ],
)
def test_a_sentence_without_a_score_follows_the_policy(
    policy: str, outcome: str, text: str | None
) -> None:
    guardrail = of_sentences(undefined=policy)
    decision = check(guardrail, "It is 3. It was.")
    assert (decision.outcome, decision.text, decision.score) == (outcome, text, 3.0)
    assert decision.reason.startswith(f"undefined score of 1 of 2 sentences; policy: {policy}")
    # Where there is no score at all, its policy still decides, and quotes nothing.
    decision = check(guardrail, "It was.")
    assert (decision.outcome, decision.score, decision.p_value) == (outcome, None, None)
    assert decision.text == {"flag": "", "review": None, "pass": "It was."}[policy]


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_a_sentence_on_which_the_detector_fails_fails_the_answer(policy: str) -> None:
    detector = Digits()
    guardrail = of_sentences(detector, failure=policy)
    answers = [Example(response=text, id=text) for text in ("It is 3. It is 90.", "It is 4.")]
    detector.raises_on = "90"
    for alone in (False, True):
        bad, good = guardrail.decide(answers, alone=alone)
        assert (bad.outcome, bad.text, bad.removed, bad.failed) == (policy, None, (), True)
        assert (good.outcome, good.text) == ("pass", "It is 4.")
        assert bad.reason == (
            f"the detector failed: RuntimeError: cannot read 90; policy: {policy}"
        )
        assert Decision.from_dict(bad.to_dict()) == replace(bad, evidence=None)
    detector.raises_on, detector.fails_on = "", "90"
    bad, good = guardrail.decide(answers)
    assert (bad.outcome, bad.failed, good.outcome) == (policy, True, "pass")


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
@pytest.mark.parametrize("step", ["trim", "sentence_examples"])
def test_an_error_of_calibrail_itself_costs_one_answer_and_is_not_called_the_detectors(
    policy: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(answer: Any, *rest: Any) -> Any:
        if "90" in (answer if isinstance(answer, str) else answer.response):
            raise IndexError("list index out of range")
        return original(answer, *rest)

    original = getattr(trimming, step)
    monkeypatch.setattr(trimming, step, breaks)
    answers = [Example(response=text) for text in ("It is 3. It is 90.", "It is 4. It is 70.")]
    guardrail = of_sentences(failure=policy)
    bad, good = guardrail.decide(answers)
    assert (bad.outcome, bad.text, bad.removed, bad.failed) == (policy, None, (), True)
    assert bad.reason == f"calibrail failed: IndexError: list index out of range; policy: {policy}"
    assert bad.without_texts().reason == f"calibrail failed: IndexError; policy: {policy}"
    assert (good.outcome, good.text) == ("flag", "It is 4.")


sentences = st.lists(
    st.sampled_from(
        ["It is 3.", "However, it is 90.", "It is 50.", "The latter is 7.", "It was.", "\n- A 51."]
    ),
    max_size=6,
).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(st.lists(sentences, min_size=1, max_size=5), st.sampled_from([-9e-7, 0.0, 9e-7]))
def test_no_byte_depends_on_what_else_is_decided(texts: list[str], noise: float) -> None:
    detector = Digits()
    guardrail = of_sentences(detector)
    answers = [Example(response=text, id=str(row)) for row, text in enumerate(texts)]
    alone = [guardrail.decide([answer])[0].line() for answer in answers]
    detector.noise = noise
    assert [item.line() for item in guardrail.decide(answers)] == alone
    assert [item.line() for item in guardrail.stream(iter(answers), block=2)] == alone
    by_itself = guardrail.decide(answers, alone=True)
    assert [item.line() for item in by_itself] == alone
    # The verdicts of a stream, sentence by sentence, come to the same.
    for answer, line in zip(answers, alone, strict=True):
        parts = guardrail.sentences(answer)
        verdicts = [guardrail.judge.decide([part])[0] for part in parts]
        assert guardrail.decision_for_sentences(answer, verdicts).line() == line


def test_all_sentences_of_a_batch_are_scored_at_once_and_near_ties_again() -> None:
    detector = Digits(noise=4e-7)
    guardrail = of_sentences(detector)
    detector.asked.clear()
    guardrail.decide([Example(response="It is 3. It is 90."), Example(response="It is 4.")])
    assert detector.asked == [["It is 3.", "It is 90.", "It is 4."]]


def test_groups_have_thresholds_of_their_own() -> None:
    guardrail = of_sentences(by="lang", alpha=0.05)
    thresholds = dict(zip(("de", "en"), guardrail.rule.thresholds(2, ["de", "en"]), strict=True))
    assert thresholds["de"] != thresholds["en"]
    edge = int(min(thresholds.values()))
    lines = {
        lang: check(guardrail, f"It is {edge}. It is 1.", columns={"lang": lang}).outcome
        for lang in thresholds
    }
    assert sorted(lines.values()) == ["flag", "pass"]


def columns_guardrail() -> Guardrail:
    from calibrail import calibrate

    answers = [
        Example(response="It is.", label=int(row >= 50), id=f"{row}", columns={"nli": float(row)})
        for row in range(150)
    ]
    return by_sentence(calibrate(answers, "column:column=nli,higher=hallucinated").freeze())


def test_a_column_holds_a_number_for_each_sentence() -> None:
    guardrail = columns_guardrail()
    text = "It is old. It is new. It was."
    for cell in ([1.0, 149.0, 2], "[1.0, 149.0, 2]", (1, 149, 2)):
        decision = check(guardrail, text, columns={"nli": cell})
        assert (decision.outcome, decision.text) == ("flag", "It is old. It was.")
        assert decision.column_value == 149.0
    decision = check(guardrail, text, columns={"nli": [1.0, None, 2.0]})
    assert decision.text == "It is old. It was."
    decision = check(guardrail, text, columns={"nli": [1.0, 2.0]})
    assert (decision.outcome, decision.text) == ("error", None)
    assert "column nli holds 2 numbers, and the answer has 3 sentences" in decision.reason
    with pytest.raises(InputError, match="nli"):
        guardrail.check(response=text, columns={"nli": [1.0, "x"]})


def test_the_data_may_split_its_answers_itself() -> None:
    from calibrail.data.example import GivenSentence

    answer = Example(
        response="It is 3 It is 90", sentences=(GivenSentence(0, 7), GivenSentence(8, 16)), id="a"
    )
    (decision,) = of_sentences().decide([answer])
    assert (decision.outcome, decision.text) == ("flag", "It is 3")


def test_texts_are_left_out_of_what_is_logged() -> None:
    guardrail = of_sentences()
    secret = "The secret is 90. It was secret. It is 3."
    decision = check(guardrail, secret)
    bare = decision.without_texts()
    assert "secret" in decision.line()
    assert "secret" not in bare.line(evidence=True)
    assert (bare.score, bare.reason) == (decision.score, decision.reason)
    assert bare.removed is not None and decision.removed is not None
    assert [(x.start, x.end, x.score) for x in bare.removed] == [
        (x.start, x.end, x.score) for x in decision.removed
    ]
    assert "text" not in bare.removed[0].to_dict()
    assert Decision.from_dict(json.loads(bare.line())) == bare
    failed = guardrail.failed(Example(response=secret), RuntimeError("secret"))
    assert "secret" not in failed.without_texts().line()
    seen = guardrail.unjudged("a", "error", Cause("seen_before"))
    assert seen.without_texts() == seen
    unread = guardrail.unjudged("a", "error", Cause("row_unusable", row=3), "response: secret")
    assert unread.reason == "row 3 cannot be used: response: secret"
    assert "secret" not in unread.without_texts().line()


def test_a_decision_about_a_whole_answer_has_no_text_and_no_removed() -> None:
    decision = Decision("a", "flag", 1.0, 0.5, 0.5, "x")
    assert "text" not in decision.to_dict()
    assert "removed" not in decision.to_dict()
    assert "removed" not in repr(decision)


@pytest.mark.parametrize(
    "change",
    [
        {"removed": 3},
        {"removed": [{"start": 5, "end": 3, "score": 1.0, "p_value": 0.5, "reason": "x"}]},
        {"removed": [{"start": 0, "end": 3, "score": 1.0, "p_value": None, "reason": "x"}]},
        {"removed": [{"start": 0, "end": True, "score": 1.0, "p_value": 0.5, "reason": "x"}]},
        {"removed": ["It is 90."]},
        {"text": 3},
        {"outcome": "review"},
        {"outcome": "pass", "score": 1.0},
    ],
)
def test_what_is_no_decision_is_refused(change: dict[str, object]) -> None:
    content = check(of_sentences(), "It is 3. It is 90.").to_dict()
    with pytest.raises(InputError, match=r"decision"):
        Decision.from_dict({**content, **change})


def test_a_file_of_sentences_is_read_back_and_travels() -> None:
    guardrail = by_sentence_of_words()
    raw = guardrail.config.to_bytes()
    again = Guardrail(FrozenConfig.from_bytes(raw))
    assert (again.unit, again.config.to_bytes()) == ("sentence", raw)
    answer = "Tungsten is a metal. Basalt hums loudly."
    contexts = ("Tungsten is a metal.",)
    lines = {
        item.check(response=answer, contexts=contexts).line()
        for item in (guardrail, again, pickle.loads(pickle.dumps(guardrail)))
    }
    assert len(lines) == 1
    assert again.probe().state == "agree"


def test_another_splitter_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    guardrail = by_sentence_of_words()
    raw = guardrail.config.to_bytes()
    content = json.loads(raw)
    assert set(content["score"]["fingerprint"]["by_sentence"]) == {"splitter", "trimming"}
    monkeypatch.setattr(registry, "answer_sentences_version", lambda: "another/2")
    with pytest.raises(GuardrailError, match=r"by_sentence: frozen .*another/2"):
        Guardrail(FrozenConfig.from_bytes(raw))
    # One that names itself alike but splits otherwise shows in the probes.
    monkeypatch.undo()
    import calibrail.guardrail.probes as probes

    monkeypatch.setattr(probes, "sentence_examples", lambda answer: sentence_examples(answer)[:1])
    with pytest.raises(GuardrailError, match=r"have 16 sentences here, frozen were 2\d"):
        guardrail.probe()


def test_a_detector_of_answers_is_not_that_of_sentences() -> None:
    from calibrail.pipelines.run import score_config

    guardrail = by_sentence_of_words()
    score = build(parse_spec("novel_count"))
    assert score_config(score)["fingerprint"] != score_config(score, "sentence")["fingerprint"]
    pinned = ScoreSpecConfig.model_validate(score_config(score))
    config = guardrail.config.model_copy(update={"score": pinned})
    with pytest.raises(GuardrailError, match="by_sentence"):
        Guardrail(config)


def test_an_answer_that_is_too_long_is_not_judged_and_nothing_of_it_is_shown() -> None:
    guardrail = of_sentences()
    long = check(guardrail, "It is 3. " * 2000)
    assert long.outcome == "pass"
    decision = check(guardrail, "It is 3. " * 8000)
    assert (decision.outcome, decision.text, decision.failed) == ("error", None, True)
    assert "72,000 characters in 8,000 sentences: too long" in decision.reason
