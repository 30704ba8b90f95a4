from __future__ import annotations

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.models.llm.chat import ChatAnswer, Position
from calibrail.scores.judge_replies import (
    BAD_LOGPROBS,
    CUT,
    NEITHER,
    NO_GRADE,
    NO_LOGPROBS,
    NO_RATING,
    REFUSED,
    UNREADABLE,
    RatingScale,
    UnreadReply,
    quoted,
    read_grade,
    read_probability,
    read_rating,
    read_verdict,
)
from tests.scores.odd_replies import GRADES, NO_GRADES, NO_VERDICTS, RATINGS, VERDICTS


@pytest.mark.parametrize(("text", "verdict"), VERDICTS)
def test_the_first_word_is_the_verdict(text: str, verdict: bool) -> None:
    assert read_verdict(ChatAnswer(text)) is verdict


@pytest.mark.parametrize("text", NO_VERDICTS)
def test_another_reply_holds_no_verdict(text: str) -> None:
    found = read_verdict(ChatAnswer(text))
    assert isinstance(found, UnreadReply)
    assert found.kind == UNREADABLE
    assert found == f"{UNREADABLE}: {quoted(text)}"


@pytest.mark.parametrize("run", ["1,", " ", "\n", "."])
@pytest.mark.parametrize("head", ["Faithful. 1", '{"verdict": '])
def test_a_long_reply_is_read_once(run: str, head: str) -> None:
    # From each of its places it would take minutes.
    text = f"{head}{run * ((1 << 16) // len(run))}{' ' * (1 << 16)}x"
    assert isinstance(read_verdict(ChatAnswer(text)), UnreadReply | bool)


_MARKS = ["", "**", "_", '"', "`", "> ", "Verdict: ", "**Answer:** "]
_PLAIN = ["", ".", "!", ";", ", since", " - the", "\n", "\n\nThe", ". The"]
_TAKEN_BACK = [
    " claims: 0",
    "? No",
    ": no",
    " = 0",
    ": false",
    " or not",
    "ness: 1",
    ". No",
    "_score",
]


@given(
    st.sampled_from(_MARKS),
    st.sampled_from(["faithful", "Faithful", "hallucination", "Hallucinated"]),
    st.sampled_from(_PLAIN),
    st.sampled_from(_TAKEN_BACK),
)
def test_what_follows_the_word_decides_whether_it_is_one(
    mark: str, word: str, plain: str, taken: str
) -> None:
    close = mark if mark in ("**", "_", '"', "`") else ""
    explained = f"{plain} first document was read" if plain[-1:].isalpha() else plain
    verdict = read_verdict(ChatAnswer(f"{mark}{word}{close}{explained}"))
    assert verdict is word.lower().startswith("h")
    assert isinstance(read_verdict(ChatAnswer(f"{mark}{word}{close}{taken}")), UnreadReply)
    other = "faithful" if verdict else "a hallucination"
    said = f"{mark}{word}{close}. On reflection, it is {other}."
    assert isinstance(read_verdict(ChatAnswer(said)), UnreadReply)


def test_a_quoted_reply_is_short_and_plain() -> None:
    assert quoted("a\n\x1b[31m\u202eb\ud800") == '"a [31m b"'
    assert quoted("x" * 100_000) == f'"{"x" * 80}..."'


def test_refusals_and_cut_replies_say_so() -> None:
    assert read_verdict(ChatAnswer("faithful", refusal=True)) == REFUSED
    assert read_verdict(ChatAnswer("")) == CUT
    assert read_verdict(ChatAnswer(" \n")) == CUT
    assert read_verdict(ChatAnswer("hallu", finish="length")) == CUT
    assert read_verdict(ChatAnswer("<think>Let me see", finish="length")) == CUT
    # A verdict that was said stands, whatever was cut off after it.
    assert read_verdict(ChatAnswer("faithful, since the", finish="length")) is False


def place(chosen: str, top: dict[str, float]) -> Position:
    logs = tuple((token, math.log(mass)) for token, mass in top.items())
    return Position(chosen, math.log(top[chosen]), logs)


def said(*positions: Position, text: str | None = None) -> ChatAnswer:
    spelled = "".join(position.token for position in positions)
    return ChatAnswer(spelled if text is None else text, positions=positions)


def rest(token: str) -> Position:
    return Position(token, -0.01, ((token, -0.01),))


def test_a_probability_is_that_of_the_two_verdicts() -> None:
    first = place("hall", {"hall": 0.6, "faith": 0.3, "The": 0.05})
    assert read_probability(said(first, rest("ucination"))) == pytest.approx(0.6 / 0.9)


def test_spellings_of_one_verdict_add_up() -> None:
    first = place(
        "faith",
        {
            "faith": 0.4,
            "Faith": 0.1,
            " faithful": 0.05,
            "**faith": 0.02,
            "f": 0.01,
            "hall": 0.2,
            "Hallucination": 0.1,
            "\u0120hall": 0.05,
            "\u2581Hall": 0.02,
            "The": 0.01,
        },
    )
    assert read_probability(said(first, rest("ful"))) == pytest.approx(0.37 / (0.37 + 0.58))


def test_the_place_is_that_of_the_verdict() -> None:
    first = place("Answer", {"Answer": 0.9, "hall": 0.09})
    colon = place(":", {":": 0.99, "hall": 0.001})
    verdict = place(" faith", {" faith": 0.8, " hall": 0.1})
    answer = said(first, colon, verdict, rest("ful"))
    assert read_probability(answer) == pytest.approx(0.1 / 0.9)
    quoted = said(place('"', {'"': 0.9, "faith": 0.05}), verdict, rest("ful"), rest('"'))
    assert read_probability(quoted) == pytest.approx(0.1 / 0.9)


@pytest.mark.parametrize("token", ["\u0120faithful", "\u2581faithful", " faithful", "\nfaithful"])
def test_a_vocabularys_own_spelling_of_spaces_is_read(token: str) -> None:
    first = place(token, {token: 0.7, token.replace("faithful", "hall"): 0.2})
    for text in ("faithful", " faithful"):
        assert read_probability(said(first, text=text)) == pytest.approx(0.2 / 0.9)
    line = place("\u010a", {"\u010a": 1.0})
    assert read_probability(said(line, first, text="faithful")) == pytest.approx(0.2 / 0.9)


def test_a_missing_verdict_is_no_likelier_than_what_is_left() -> None:
    # The endpoint lists the token that it said, and no alternative.
    for top in ((("faithful", math.log(0.9)),), ()):
        answer = said(Position("faithful", math.log(0.9), top))
        assert read_probability(answer) == pytest.approx(0.1 / 1.0)
        answer = said(Position("hallucination", math.log(0.9), ()))
        assert read_probability(answer) == pytest.approx(0.9)
    certain = read_probability(said(Position("faithful", 0.0, (("faithful", 0.0),))))
    assert isinstance(certain, float)
    assert 0.0 <= certain < 1e-5


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["hall", "Hall", "faith", "f", "The", ""]), st.floats(-10_000, 0.01)
        ),
        max_size=6,
    ),
    st.floats(-10_000, 0.01),
    st.booleans(),
)
def test_any_log_probabilities_give_a_number_from_0_to_1_or_a_reason(
    top: list[tuple[str, float]], logprob: float, faithful: bool
) -> None:
    pieces = ("faith", "ful") if faithful else ("hall", "ucination")
    found = read_probability(said(Position(pieces[0], logprob, tuple(top)), rest(pieces[1])))
    if isinstance(found, str):
        assert found.startswith(BAD_LOGPROBS)
    else:
        assert 0.0 <= found <= 1.0


def test_wrong_log_probabilities_are_not_used() -> None:
    good = {"hall": math.log(0.1), "faith": math.log(0.8)}

    def read(top: dict[str, float], own: float = math.log(0.8)) -> float | str:
        return read_probability(said(Position("faith", own, tuple(top.items())), rest("ful")))

    assert isinstance(read(good), float)
    assert read({**good, "hall": 0.7}) == f"{BAD_LOGPROBS}: one is above 0"
    assert read({**good, "The": 1.0}) == f"{BAD_LOGPROBS}: one is above 0"
    assert read(good, own=1.0) == f"{BAD_LOGPROBS}: one is above 0"
    # So large that no number is its exponential.
    assert read({**good, "The": 710.0}) == f"{BAD_LOGPROBS}: one is above 0"
    assert read({**good, "The": -0.1}) == f"{BAD_LOGPROBS}: they add up to more than 1"
    assert isinstance(read({**good, "The": math.log(0.1004)}), float)


def test_tokens_that_are_not_the_replys_are_not_used() -> None:
    other = place("Par", {"Par": 0.8, "Lon": 0.1})
    assert read_probability(said(other, rest("is"), text="faithful")) == (
        f"{BAD_LOGPROBS}: their tokens do not spell the reply"
    )
    assert read_probability(said(text="faithful")) == (
        f"{BAD_LOGPROBS}: their tokens do not spell the reply"
    )
    far = said(*[rest("a ")] * 3, text="a a a faithful")
    assert read_probability(far) == f'{UNREADABLE}: "a a a faithful"'


def test_neither_verdict_at_its_place() -> None:
    # One token holds more than the verdict, and none of those listed begins with it.
    joined = Position("Answer: faithful", -0.1, (("Answer: faithful", -0.1), ("The", -3.0)))
    assert read_probability(said(joined)) == NEITHER


def test_no_log_probabilities_no_probability() -> None:
    assert read_probability(ChatAnswer("faithful")) == NO_LOGPROBS
    assert read_probability(ChatAnswer("maybe", positions=(rest("maybe"),))) == (
        f'{UNREADABLE}: "maybe"'
    )
    assert read_probability(ChatAnswer("", refusal=True)) == REFUSED
    assert read_probability(ChatAnswer("", finish="length")) == CUT


@pytest.mark.parametrize(("text", "grade"), GRADES)
def test_a_grade_is_read(text: str, grade: float) -> None:
    found = read_grade(ChatAnswer(text))
    assert found == grade
    assert type(found) is float


@pytest.mark.parametrize(
    "value",
    [
        "1.01",
        "true",
        '"0.5"',
        "50",
        "{}",
        "NaN",
        "9" * 400,
    ],
)
def test_what_is_no_grade_is_refused(value: str) -> None:
    found = read_grade(ChatAnswer(f'{{"hallucination": {value}}}'))
    assert isinstance(found, UnreadReply) and found.kind == NO_GRADE


@pytest.mark.parametrize("text", NO_GRADES)
def test_another_reply_holds_no_grade(text: str) -> None:
    found = read_grade(ChatAnswer(text))
    assert isinstance(found, UnreadReply) and found.kind == NO_GRADE


def test_a_grade_that_is_cut_or_refused_says_so() -> None:
    assert read_grade(ChatAnswer('{"hallucination": 0.', finish="length")) == CUT
    assert read_grade(ChatAnswer("", finish="length")) == CUT
    assert read_grade(ChatAnswer('{"hallucination": 0.5}', refusal=True)) == REFUSED


SCALES = [
    ("1-5", "faithful"),
    ("0-10", "hallucinated"),
    ("0/1", "faithful"),
    ("A-E", "hallucinated"),
    ("yes/no", "hallucinated"),
    ("0-100", "faithful"),
]


@pytest.mark.parametrize(
    ("scale", "replies"),
    [
        (SCALES[0], RATINGS),
        (SCALES[1], {"7/10": 0.7, "0": 0.0, "7.5": 0.75, "7/5": None, "11": None}),
        (SCALES[2], {"0": 1.0, "Answer: 1": 0.0, "0.5": None, "0/1": None, "0 or 1": None}),
        (SCALES[3], {"A": 0.0, "e": 1.0, "Grade: C": 0.5, "(B)": 0.25, "B. Nearly": 0.25}),
        (SCALES[3], dict.fromkeys(["A statement", "A or B", "A, B", "F", "D?"])),
        (SCALES[4], {"Yes": 0.0, "NO.": 1.0, "No, the date is wrong.": 1.0, "Yes\nIt is.": 0.0}),
        (SCALES[4], dict.fromkeys(["yes and no", "Yes/No", "Yes?", "No doubt", "yes, probably"])),
        (SCALES[5], {"85": 0.15, "85%": 0.15, "85/100": 0.15, "101": None, "0.85": None}),
    ],
)
def test_a_rating_is_read_from_its_scale(
    scale: tuple[str, object], replies: dict[str, float | None]
) -> None:
    for text, value in replies.items():
        found = read_rating(ChatAnswer(text), RatingScale.parse(*scale))
        if value is None:
            assert isinstance(found, UnreadReply) and found.kind == NO_RATING, text
        else:
            assert found == pytest.approx(value), text


_VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@given(st.text(max_size=60), st.booleans(), st.sampled_from(["stop", "length", ""]))
def test_any_reply_is_read_without_failure(text: str, refusal: bool, finish: str) -> None:
    answer = ChatAnswer(text, refusal, finish, positions=(rest(text[:3]),))
    ratings = [partial(read_rating, scale=RatingScale.parse(*scale)) for scale in SCALES]
    for read in (read_verdict, read_probability, read_grade, *ratings):
        value = read(answer)
        assert isinstance(value, str) or 0.0 <= value <= 1.0


@pytest.mark.parametrize(
    "text",
    [
        "```json\n" + " " * 100_000,
        "```" + "\n" * 100_000 + "x",
        "<think>" * 30_000,
        "*" * 200_000,
        "faithful" + " =" * 50_000,
        "faithful " + "not " * 20_000,
        "1" * 50_000,
        "{" + '"verdict": ' * 4_000,
        "faithful. " + "hallucinat " * 5_000,
        "<answer>" * 5_000,
        "</think>" * 10_000,
    ],
)
def test_the_longest_reply_is_read_to_its_end(text: str) -> None:
    # An expression that tries every way to split such a reply would not come to an end.
    for finish in ("stop", "length"):
        answer = ChatAnswer(text, finish=finish)
        assert read_verdict(answer) == read_verdict(answer)
        assert read_grade(answer) == read_grade(answer)
        for scale in SCALES:
            rating = RatingScale.parse(*scale)
            assert read_rating(answer, rating) == read_rating(answer, rating)


def test_a_thought_that_the_server_keeps_out_of_the_text_does_not_hide_the_verdict() -> None:
    thought = tuple(Position(token, -0.1, ()) for token in ("Let", " me", " see", ".", "\n"))
    verdict = Position("faith", math.log(0.8), (("faith", math.log(0.8)), ("hall", math.log(0.2))))
    answer = ChatAnswer("faithful", positions=(*thought, verdict, Position("ful", 0.0, ())))
    assert read_probability(answer) == pytest.approx(0.2)
