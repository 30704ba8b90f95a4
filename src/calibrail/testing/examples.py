"""Which examples show whether a score keeps the rules?"""

from dataclasses import replace

from calibrail.data.example import Example

_TOPICS = (
    ("lighthouse", "Orla", "1853", "The lighthouse at Orla was lit in 1853 and guards the bay."),
    ("orchard", "Tamsin", "1911", "The orchard near Tamsin was planted in 1911 with plum trees."),
    ("tunnel", "Brec", "1974", "The tunnel under Brec opened in 1974 and carries two tracks."),
    ("observatory", "Lund Hill", "1902", "The observatory on Lund Hill was founded in 1902."),
    ("canal", "Wester", "1788", "The canal of Wester was dug in 1788 by hand."),
    ("library", "Castell", "1830", "The library of Castell opened its doors in 1830."),
)

_ASTRAY = "Fresh Bread Needs 240 Degrees And Patience Overnight "


def grounded() -> list[Example]:
    """Return answers that repeat what their context says."""
    return [
        Example(
            question=f"When did the {thing} of {place} begin?",
            contexts=(passage, "An unrelated chunk about weather in spring."),
            response=f"The {thing} of {place} goes back to {year}.",
            label=0,
            id=f"grounded-{thing}",
        )
        for thing, place, year, passage in _TOPICS
    ]


def labelled() -> list[Example]:
    """Return enough examples of both classes to learn from."""
    return [
        replace(example, response=f"{lead}{example.response}", id=f"{example.id}-{lead}")
        for lead in ("", "Surely: ", "I think that ")
        for example in (*grounded(), *off_topic())
    ]


def off_topic() -> list[Example]:
    """Return answers that have nothing to do with their context."""
    # As long as the grounded answer, so that length alone explains nothing.
    return [
        replace(
            example,
            response=(_ASTRAY * 2)[: len(example.response) - 1] + ".",
            label=1,
            id=f"off-topic-{example.id}",
        )
        for example in grounded()
    ]


def strange() -> list[Example]:
    """Return answers in strange characters, and examples that lack something."""
    passage = ("The lighthouse at Orla was lit in 1853.",)
    responses = {
        "one character": "a",
        "punctuation": "?!...",
        "stop words": "It is what it is.",
        "control characters": "lit\x00 in\x07 1853\x1b[31m",
        "a lone surrogate": "lit in \ud800 1853",
        "line separators": "lit\u2028in\u20291853",
        "right to left": "\u05de\u05d2\u05d3\u05dc \u0627\u0644\u0645\u0646\u0627\u0631\u0629",
        "no spaces": "\u706f\u5854\u59cb\u5efa\u4e8e1853\u5e74",
        "Thai": "\u0e1b\u0e23\u0e30\u0e20\u0e32\u0e04\u0e32\u0e23",
        "emoji": "\U0001f3e0\U0001f525 1853",
        "combining marks": "cafe\u0301 e\u0301te\u0301",
        "the context itself": passage[0],
        "empty": "",
    }
    return [
        *(Example("When was it lit?", passage, text, id=name) for name, text in responses.items()),
        Example("", passage, "It was lit in 1853.", id="no question"),
        Example("When?", (), "It was lit in 1853.", id="no contexts"),
        Example("When?", ("", " "), "It was lit in 1853.", id="blank contexts"),
    ]


def long(characters: int) -> list[Example]:
    """Return an answer of so many characters, and a context of as many words, at most 20,000."""
    n_words = min(characters, 20_000)
    context = " ".join(f"word{index % 997}" for index in range(n_words))
    answer = "word5 " * (characters // 6)
    return [
        Example(
            "What is it?", (context,), "It is word5 and word9.", id=f"a {n_words:,}-word context"
        ),
        Example("What is it?", ("It is word5.",), answer, id="a huge answer"),
    ]
