"""How are characters made whole that were cut in two between pieces of a text?"""


def joined(text: str) -> tuple[str, str]:
    r"""Return a text with each surrogate pair as one character, and the half pair at its end.

    Programs that count in UTF-16 cut there; the half belongs before the next piece.

    >>> joined("\ud83d\ude00 and \ud83d") == ("\U0001f600 and ", "\ud83d")
    True
    """
    half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
    text = text[: len(text) - len(half)]
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return text, half
