"""Does a stream decide what `check` decides, and show nothing that was not judged?"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Never

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail import Example, Guardrail, calibrate, read
from calibrail.data.sentences import sentence_examples
from calibrail.errors import GuardrailError, InputError
from calibrail.guardrail.decision_rule import decide_stably
from calibrail.guardrail.sentences import StreamCheck
from calibrail.options import SplitOptions
from calibrail.scores.embedding import Rad
from calibrail.scores.members import WorstSentence
from calibrail.scores.registry import ColumnScore
from calibrail.text.sentences import answer_sentences
from tests.guardrail.sentences import Digits, numbered, of_sentences

SENTENCES = ["It is 7.", "It is 49.", "It is 50.", "It is 99!", "No number.", "However, it is 3."]
PIECES = [*SENTENCES, " ", "\n", "- ", "\n\n1. ", "(Passage 1)", "It is", "...", "Second, 60. "]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=10).map(" ".join)


def of_worst(detector: Any = None, *, failure: str = "error", **options: Any) -> Guardrail:
    """Return a guardrail of answers whose worst sentence has a number of 50 or more."""
    score = WorstSentence(detector="length")
    score.members = {"detector": detector or Digits()}
    answers, splitting = numbered("It is 1. It is {}."), SplitOptions(calibration_share=0.9)
    run = calibrate(answers, score, splitting=splitting, alpha=0.02, **options)
    return run.freeze(on_failure=failure, score=score)  # type: ignore[arg-type]


MADE: dict[tuple[Any, ...], Guardrail] = {}


def made(unit: str, undefined: str = "flag", **options: Any) -> Guardrail:
    key = (unit, undefined, *sorted(options.items()))
    if key not in MADE:
        make = of_sentences if unit == "sentence" else of_worst
        MADE[key] = make(undefined=undefined, **options)
    return MADE[key]


def streamed(guardrail: Guardrail, text: str, cuts: list[int], **asked: Any) -> StreamCheck:
    check = guardrail.stream_check(**asked)
    for start, end in itertools.pairwise([0, *cuts, len(text)]):
        check.feed(text[start:end])
    return check


units = pytest.mark.parametrize("unit", ["sentence", "answer"])


@units
@pytest.mark.parametrize("undefined", ["flag", "review", "pass"])
@given(text=TEXTS, data=st.data())
def test_every_chunking_decides_as_check_does(
    unit: str, undefined: str, text: str, data: st.DataObject
) -> None:
    guardrail = made(unit, undefined)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    decision = streamed(guardrail, text, cuts, id="a").close()
    assert decision.line() == guardrail.check(response=text, id="a").line()
    assert decision.evidence == guardrail.check(response=text, id="a").evidence


@units
@pytest.mark.parametrize("undefined", ["flag", "review", "pass"])
@given(text=TEXTS, data=st.data())
def test_what_is_shown_was_judged_as_in_the_whole_and_is_all_of_an_answer_that_passes(
    unit: str, undefined: str, text: str, data: st.DataObject
) -> None:
    guardrail = made(unit, undefined)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    tokens = [text[a:b] for a, b in itertools.pairwise([0, *cuts, len(text)])]
    check = guardrail.stream_check()
    shown = "".join(check.show(iter(tokens)))
    assert text.startswith(shown)
    whole = guardrail.check(response=text)
    assert (shown == text) == (whole.outcome == "pass") or not text
    by_hand = guardrail.stream_check()
    verdicts = [said for token in tokens for said in by_hand.feed(token)]
    verdicts += map(by_hand.judge, by_hand.end())
    items = (whole.evidence or {}).get("items", [])
    for place, (said, sentence) in enumerate(zip(verdicts, answer_sentences(text), strict=True)):
        assert (said.start, said.end, said.text) == (sentence.start, sentence.end, sentence.text)
        if unit == "sentence":
            assert said.score == items[place]["value"]
        if said.start < len(shown):
            assert said.end <= len(shown) and not said.stop and (said.score or 0.0) < 50.0
    # What was not shown begins with a sentence that does not pass.
    by_character = "".join(guardrail.stream_check().show(text))
    assert shown == by_character
    assert check.decision is not None
    if check.stopped is not None:
        assert whole.flagged
        end = check.stopped.end
        assert check.decision.line() == guardrail.check(response=text[:end]).line()
        assert len(shown) <= check.stopped.start


@units
@given(text=TEXTS, more=TEXTS)
def test_after_a_stop_the_whole_answer_is_flagged_whatever_follows(
    unit: str, text: str, more: str
) -> None:
    guardrail = made(unit, "pass")
    check = streamed(guardrail, text, [])
    if check.stopped is None:
        return
    assert check.stopped.score is not None and check.stopped.score >= 50.0
    check.feed(more)
    decision = check.close()
    assert decision.line() == guardrail.check(response=text + more).line()
    # An answer whose rest hangs together with what goes is for people.
    assert decision.outcome == "flag" or (unit == "sentence" and decision.outcome == "review")
    assert text[: check.stopped.start].startswith(check.release())


@units
def test_a_verdict_comes_with_the_word_after_its_sentence(unit: str) -> None:
    check = made(unit).stream_check()
    assert check.feed("It is 7. It") == []
    assert check.release() == ""
    (first,) = check.feed(" is 50. Th")
    assert (first.number, first.text, first.outcome, first.stop) == (1, "It is 7.", "pass", False)
    assert check.release() == "It is 7."
    assert check.feed("en") == []
    (second,) = check.feed(" it")
    assert (second.score, second.outcome, second.stop) == (50.0, "flag", True)
    assert (second.start, second.end, second.text) == (9, 18, "It is 50.")
    assert check.stopped == second
    (third,) = check.feed(" is 1.\n")
    assert (third.outcome, third.stop) == ("pass", True)
    assert check.release() == ""
    decision = check.close()
    assert (second.threshold, second.p_value) == (decision.threshold, decision.p_value)
    assert second.to_dict() | {"text": ""} == replace(second, text="").to_dict()


@units
def test_showing_takes_no_token_after_the_stop_and_ends_the_model(unit: str) -> None:
    taken, ended = [], []

    def tokens() -> Iterator[str]:
        try:
            for token in ("It is 7. ", "It is 50. ", "Then ", "it ", "is 1."):
                taken.append(token)
                yield token
        finally:
            ended.append(True)

    check = made(unit).stream_check(id="x")
    assert list(check.show(tokens())) == ["It is 7."]
    assert taken[-1] == "Then "
    assert ended == [True]
    assert check.decision == made(unit).check(response="It is 7. It is 50.", id="x")
    assert check.text == "It is 7. It is 50."


@units
def test_a_loop_shows_the_same(unit: str) -> None:
    async def tokens(text: str) -> AsyncIterator[str]:
        for letter in text:
            yield letter

    async def shown(text: str) -> tuple[list[str], Any]:
        check = made(unit).stream_check()
        return [piece async for piece in check.ashow(tokens(text))], check.decision

    for text in ("It is 7. It is 50. It is 8.", "It is 7.\n\nIt is 8. \n", "", "No. No."):
        check = made(unit).stream_check()
        expected = list(check.show(text))
        assert asyncio.run(shown(text)) == (expected, check.decision)


@units
def test_a_detector_that_fails_ends_what_is_shown(unit: str) -> None:
    for failure in ("error", "flag", "review"):
        for fault in ("raises_on", "fails_on"):
            detector = Digits()
            make = of_sentences if unit == "sentence" else of_worst
            guardrail = make(detector, failure=failure)
            setattr(detector, fault, "13")
            text = "It is 7. It is 13. It is 8. It is 9."
            check = guardrail.stream_check()
            assert "".join(check.show(text)) == "It is 7."
            assert check.stopped is not None and check.decision is not None
            assert check.stopped.outcome == check.decision.outcome == failure
            assert check.stopped.reason == check.decision.reason
            asked = len(detector.asked)
            whole = streamed(guardrail, text, [9, 20])
            assert [len(texts) for texts in detector.asked[asked:]] == [1, 1]
            assert whole.close().line() == guardrail.check(response=text).line()


@units
def test_an_answer_that_is_too_long_is_not_cut_into_sentences(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("data.sentences", "guardrail.sentences", "scores.base"):
        monkeypatch.setattr(f"calibrail.{module}.MOST_CHARACTERS", 1_200)
    guardrail = (of_sentences if unit == "sentence" else of_worst)(failure="review")
    # Marks alone are no sentence, so that nothing else ends the work on them.
    text = "It is 7. " + "? ! " * 300
    whole = streamed(guardrail, text, [600]).close()

    def cut(text: str) -> Never:
        raise AssertionError("the answer was cut")

    monkeypatch.setattr("calibrail.data.sentences.answer_sentences", cut)
    decision = guardrail.check(response=text)
    assert (decision.outcome, decision.cause) == (whole.outcome, whole.cause)
    if unit == "sentence":
        assert decision.outcome == "review"
        assert "the answer holds 1,209 characters: too long to judge by" in decision.reason
        assert "in parts of 100,000 characters at most" in decision.reason


@units
def test_an_answer_of_too_many_sentences_is_judged_no_further(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of an answer's decision the detector asks for no more than these.
    monkeypatch.setattr("calibrail.scores.base.MOST_PIECES", 3)
    for module in ("data", "guardrail"):
        monkeypatch.setattr(f"calibrail.{module}.sentences.MOST_BEFORE", 100)
    detector = Digits()
    guardrail = (of_sentences if unit == "sentence" else of_worst)(detector, failure="review")
    detector.asked.clear()
    text = "It is 7. " * 1_000
    check = guardrail.stream_check(id="a")
    assert "".join(check.show(text)) == "It is 7. It is 7. It is 7. It is 7. It is 7."
    assert check.stopped is not None and check.decision is not None
    # 9 + 18 + 27 + 36 characters stand before five of them.
    assert (check.stopped.number, check.stopped.outcome) == (6, "review")
    assert "too long to judge by sentence: it has 6 sentences so far" in check.stopped.reason
    assert sum(map(len, detector.asked)) == 5
    # Nor where nobody stops the model.
    whole = streamed(guardrail, text, [100, 5_000]).close()
    assert sum(map(len, detector.asked)) == 10
    expected = guardrail.check(response=text)
    for decision in (check.decision, whole):
        assert (decision.outcome, decision.cause) == (expected.outcome, expected.cause)


@units
def test_a_model_runs_once_for_each_text_of_a_stream_near_ties_included(
    unit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So wide that hardly any score lies far from all lines.
    monkeypatch.setattr(Rad, "rounding", 0.02)
    detector = "rad" if unit == "sentence" else "worst_sentence:detector=rad"
    answers = [
        replace(item, spans=((0, len(item.response)),) * (item.label or 0))
        for item in islice(read("example:facts"), 86)
    ]
    guardrail = calibrate(answers[:80], detector, alpha=0.3, unit=unit).freeze()
    member: Any = getattr(guardrail.score, "member", guardrail.score)
    n_uncertain = 0
    for answer in answers[80:]:
        asked = {"question": answer.question, "contexts": answer.contexts}
        sentences = sentence_examples(answer)
        texts = {text for part in sentences for text in member.inputs(part)}
        values = member.score(sentences).values
        rule, tolerance = guardrail.rule, member.tolerance
        n_uncertain += (~decide_stably(rule, values, None, tolerance).certain).sum()
        known = member.encoder.n_embedded
        member.forget()
        check = streamed(guardrail, answer.response, [9], **asked)
        decision = check.close()
        assert member.encoder.n_embedded == known + len(texts)
        assert decision.line() == guardrail.check(response=answer.response, **asked).line()
    assert n_uncertain > 3


@units
def test_groups_are_given_up_front(unit: str) -> None:
    guardrail = made(unit, by="lang", min_n=20)
    for columns in ({"lang": "en"}, {"lang": "de"}, {}):
        for text in ("It is 7. It is 50. It is 8.", "It is 51.", "It is 52."):
            check = streamed(guardrail, text, [4], columns=columns)
            expected = guardrail.check(response=text, columns=columns)
            assert check.close().line() == expected.line()


def test_a_sentence_without_a_score_waits_for_one_in_an_answer() -> None:
    check = made("answer").stream_check()
    (first,) = check.feed("No number. It ")
    assert (first.outcome, first.score, first.stop, check.release()) == ("flag", None, False, "")
    check.feed("is 7. So ")
    assert check.release() == "No number. It is 7."
    assert check.close().outcome == "pass"
    assert check.release() == " So "
    stopping = made("sentence").stream_check()
    (first,) = stopping.feed("No number. It ")
    assert (first.outcome, first.stop) == ("flag", True)


@units
def test_an_answer_is_not_decided_before_all_of_its_sentences_are_judged(unit: str) -> None:
    check = made(unit).stream_check()
    assert check.feed("It is 9. It is 99") != []
    (last,) = check.end()
    for decide in (check.close, check.cut):
        with pytest.raises(InputError, match=r"^1 sentence that split\(\) or end\(\) returned"):
            decide()
    assert (check.decision, check.release()) == (None, "It is 9.")
    check.judge(last)
    expected = made(unit).check(response="It is 9. It is 99")
    assert check.close().line() == expected.line() and expected.flagged
    with pytest.raises(InputError, match="must be judged once, in the order"):
        check.judge(last)
    check = made(unit).stream_check()
    first, second = check.split("It is 99. It is 9. And so")
    with pytest.raises(InputError, match=r"judged once, in the order.*It is 9\."):
        check.judge(second)
    check.judge(first)
    # What stops the answer is reason enough to cut it there.
    assert check.cut().line() == made(unit).check(response="It is 99.").line()


def test_an_answer_that_has_ended_takes_no_more() -> None:
    check = made("sentence").stream_check()
    check.feed("It is 7.")
    decision = check.close()
    assert check.close() is decision is check.cut()
    with pytest.raises(InputError, match=r"has ended; begin another one"):
        check.feed("It")
    with pytest.raises(InputError, match="a token must be a text; got 7"):
        made("sentence").stream_check().feed(7)  # type: ignore[arg-type]


def test_a_guardrail_of_whole_answers_says_what_to_calibrate() -> None:
    answers = [Example(response=f"It is {n}.", label=int(n >= 50), id=str(n)) for n in range(120)]
    guardrail = calibrate(answers, "length", alpha=0.1).freeze()
    with pytest.raises(GuardrailError, match=r"judges whole answers by length.*--unit sentence, "):
        guardrail.stream_check()
    rows = [{"label": n % 2, "mine": n / 99} for n in range(99)]
    guardrail = calibrate(
        rows, ColumnScore(column="mine", higher="hallucinated"), alpha=0.1
    ).freeze()
    with pytest.raises(GuardrailError, match=r"reads the column mine, which nobody has computed"):
        guardrail.stream_check()


def test_a_list_of_values_is_refused() -> None:
    guardrail = made("sentence", by="lang", min_n=20)
    with pytest.raises(InputError, match="column lang holds a list"):
        guardrail.stream_check(columns={"lang": "[1, 2]"})
