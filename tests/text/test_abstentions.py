from __future__ import annotations

import pytest

from calibrail.text.claims import abstains


@pytest.mark.parametrize(
    "statement",
    [
        "Unable to answer based on given passages.",
        "The passages do not mention the height of the tower.",
        "Passage 2 doesn\u2019t specify who built it.",
        "passages 1 and 2 do not directly state it",
        "However, the provided context does not contain enough information to say.",
        "does not provide any information on its effectiveness.",
        "It does not give further details.",
        "There is no direct mention of the tower in this passage.",
        "There is no information about its keeper.",
        "The height is not mentioned in the given passages.",
        "The height is not specified.",
        "None of the passages describe the keeper.",
        "No passage mentions the keeper.",
        "I am unable to determine its height.",
        "I don't know.",
        "I'm sorry, but I do not have enough information.",
        "It is difficult to tell from the passages.",
        "Based on the given passages, it is unclear who built it.",
        "There is not enough information to answer.",
        "The question cannot be answered.",
        "THE PASSAGES DO NOT\n MENTION IT",
        "Although it is old, the passages do not mention its age.",
    ],
)
def test_abstentions(statement: str) -> None:
    assert abstains(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "The tower is 90 m high.",
        "The passages mention the tower.",
        "The treaty does not mention the tower.",
        "The tower does not have a light.",
        "The crabs are unable to escape.",
        "They cannot be separated by physical means.",
        "It is difficult to open the door.",
        "There is no bridge.",
        "While there is no mention of a fee, the passage says that the price was lowered.",
        "Although the passages do not name it, it has a light.",
        "Elastic energy is stored by stretching (not mentioned in the passages).",
        "",
    ],
)
def test_statements(statement: str) -> None:
    assert not abstains(statement)


def test_a_long_text_is_no_abstention() -> None:
    assert not abstains("word " * 200_000 + "Unable to answer.")
