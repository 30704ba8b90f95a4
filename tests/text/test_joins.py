"""Which sentences hang together is tested on layouts as language models write them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrail.text.sentences import answer_sentences
from calibrail.text.structure import Joins, broken_links, joins, removed_with


def of(text: str) -> tuple[list[str], Joins]:
    sentences = answer_sentences(text)
    return [sentence.text for sentence in sentences], joins(text, sentences)


@pytest.mark.parametrize(
    ("text", "introduces"),
    [
        ("Two reasons:\n- It is old.\n- It is small.\n\nGo.", [2, 0, 0, 0]),
        ("Two reasons:\n\n1. It is old. Very.\n2. It is small.\nGo.", [3, 0, 0, 0, 0]),
        ("Yes. Two reasons:\n- It is old.", [0, 1, 0]),
        ("Note: it is old.\nGo.", [0, 0]),
        ("Ingredients:\nFlour.\nSugar.\n\nGo.", [2, 0, 0, 0]),
        ("# A\nOne. Two.\n## B\nThree.\n# C\nFour.", [4, 0, 0, 1, 0, 1, 0]),
        ("**A**\nOne.\n\n**B**\nTwo.", [1, 0, 1, 0]),
        ("A\n===\nOne.\n\nB\n---\nTwo.", [3, 0, 1, 0]),
        ("1. **Cost:**\n   - Low.\n   - Fair.\n2. **Time:**\n   - Short.", [2, 0, 0, 1, 0]),
        ("1. Cost:\n- Low.\n- Fair.\n2. Time:\n- Short.", [2, 0, 0, 1, 0]),
        ("- **Cost.** It is low.\n- **Time.** It is short.", [1, 0, 1, 0]),
        ("Is it open? It is. Daily. Is it old? No.", [2, 0, 0, 1, 0]),
        ("Is it open?\n\nIt is.\n\nGo.", [1, 0, 0]),
        ("It is open. Anything else?", [0, 0]),
        ("Run:\n```\nx = 1\ny = 2\n```\nIt ran.", [2, 0, 0, 0]),
        ("See:\n\n| a | b |\n|---|---|\n| c | d |\n\nEnd.", [2, 1, 0, 0]),
    ],
)
def test_what_a_sentence_introduces(text: str, introduces: list[int]) -> None:
    assert of(text)[1].introduces.tolist() == introduces


@pytest.mark.parametrize(
    ("text", "leans"),
    [
        ("There are two. The latter is old.", [0, 1]),
        ("The latter is old.", [0]),
        ("The first reason is cost. It is high. The second reason is time.", [0, 0, 2]),
        ("The second reason is time.", [0]),
        ("- Fruit.\n  - An apple.\n  - A pear.\n- Bread.", [0, 1, 2, 0]),
        ("- Fruit.\n\n  It is cheap. Very.\n- Bread.", [0, 1, 2, 0]),
        ("You need:\n- flour\n- sugar", [0, 1, 2]),
        ("You need this:\n- Buy flour.\n- Buy sugar.", [0, 0, 0]),
        ("Do not buy:\n- Flour is old.\n- Sugar is old.\n\nGo.", [0, 1, 2, 0]),
        ("These are myths:\n\n1. Ice is hot. Very.\n2. Snow is green.", [0, 1, 2, 3]),
        ("- Yes. These are myths:\n  - Ice is hot.\n- No.", [0, 1, 1, 0]),
        ("What is known?\n- Ice is cold.\n- Fire is hot.", [0, 0, 0]),
        ("## Myths:\n- Ice is hot.\n- Fire is cold.", [0, 1, 2]),
        ("**Myths:**\n- Ice is hot.\n- Fire is cold.", [0, 1, 2]),
        ("## Myths\n\nIce is hot. Fire is cold.\n\n## Facts\n\nSnow.", [0, 1, 2, 0, 0]),
        ("The following is wrong:\n\nIce is hot.\n\nSnow is cold.", [0, 1, 0]),
        ("Which are myths?\n- Ice is hot.\n- Fire is cold.", [0, 1, 2]),
        ("Why does it not melt?\n\nIce is cold.", [0, 0]),
        ("## Facts:\n- Ice is cold.\n- Fire is hot.", [0, 0, 0]),
        ("| a | b |\n|---|---|\n| c | d |\n| e | f |", [0, 1, 2]),
        ("- One.\n- Two.\n\nThree.\n\n- Four.", [0, 0, 0, 0]),
    ],
)
def test_what_a_sentence_leans_on(text: str, leans: list[int]) -> None:
    assert of(text)[1].leans.tolist() == leans


@pytest.mark.parametrize(
    ("text", "together"),
    [
        ("Go.\n```py\nx = 1\ny = 2\n```\nEnd.", [0, 2, 0, 0, 0]),
        ("Go.\n~~~\nx = 1\ny = 2", [0, 1, 0]),
        ("(One. Two.) Three.", [1, 0, 0]),
        ("He said \u201cOne. Two.\u201d Three.", [1, 0, 0]),
        ('He said "One. Two. Three." Four.', [2, 0, 0, 0]),
        ("**One. Two.** Three.", [1, 0, 0]),
        ("\uff08\u4e00\u3002\u4e8c\u3002\uff09\u3002\u4e09\u3002", [1, 0, 0]),
        ("\u300a\u4e00\u3002\u4e8c\u3002\u300b\u8bf4\u3002", [1, 0, 0]),
        ("(One. Two. Three.", [0, 0, 0]),
        ("One) is. Two) is.", [0, 0]),
        ("It is 5 ft. One `(` is. Two `)` is.", [0, 0, 0]),
        ("| a | b |\n|---|---|\n| One. Two. | c |", [0, 2, 0, 0]),
    ],
)
def test_which_sentences_share_a_fate(text: str, together: list[int]) -> None:
    assert of(text)[1].together.tolist() == together


def test_what_is_left_without_anything_to_introduce_goes_from_the_inside_out() -> None:
    _, found = of("# A\nTwo reasons:\n- One.\n- Two.\n\n# B\nThree.")
    gone = removed_with(found, np.array([False, False, True, True, False, False]))
    assert gone.tolist() == [True, True, True, True, False, False]
    gone = removed_with(found, np.array([False, False, True, False, False, False]))
    assert gone.tolist() == [False, False, True, False, False, False]


PIECES = (
    'One.|Two? |Three:|\n|\n\n|- |1. |  - |# |## |**b**|(|)|"|```\n|| a | b |\n|---|---|\n|The '
    "latter is. |First, x. |Second, y. |However, z. |[1]|\u3002|> "
)
ragged = st.lists(st.sampled_from(PIECES.split("|")), max_size=25).map("".join)
anything = st.one_of(st.text(), ragged)


@given(st.lists(anything, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_many_answers_are_judged_at_once_as_one_by_one(texts: list[str], random: object) -> None:
    found = [of(text)[1] for text in texts]
    masks = [
        np.array([random.random() < 0.5 for _ in item.leans], dtype=bool)  # type: ignore[attr-defined]
        for item in found
    ]
    gone = [removed_with(item, mask) for item, mask in zip(found, masks, strict=True)]
    tears = [broken_links(item, mask) for item, mask in zip(found, gone, strict=True)]
    whole = Joins(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
    assert removed_with(whole, np.concatenate(masks)).tolist() == np.concatenate(gone).tolist()
    assert broken_links(whole, np.concatenate(gone)).tolist() == np.concatenate(tears).tolist()


@given(anything, st.integers(0, 2**25))
def test_distances_stay_within_the_answer_and_nothing_or_all_tears_nothing(
    text: str, bits: int
) -> None:
    _, found = of(text)
    places = np.arange(len(found.leans))
    for forward in (found.introduces, found.together):
        assert (forward >= 0).all()
        assert (places + forward < max(1, len(places))).all()
    assert ((found.leans >= 0) & (found.leans <= places)).all()
    for all_of_them in (False, True):
        mask = np.full(len(places), all_of_them)
        assert removed_with(found, mask).tolist() == mask.tolist()
        assert not broken_links(found, mask).any()
    asked = np.array([bool(bits >> place & 1) for place in places], dtype=bool)
    gone = removed_with(found, asked)
    assert (gone >= asked).all()
    assert removed_with(found, gone).tolist() == gone.tolist()
