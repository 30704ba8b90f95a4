"""What is said before the first label, of what will keep labels from deciding?"""

from collections.abc import Iterator, Mapping
from math import ceil

from calibrail.phrases import listed

#: From so many times the fewest answers on nothing is said: the shares of both classes are unknown.
_PLENTY = 4


def unknown_origin() -> str:
    """Say that nobody can tell whether the traces set the threshold."""
    return (
        "it cannot be told whether these traces set the guardrail's threshold: they have neither "
        "texts nor ids that its calibration had, too, and what they hold does not tell them apart. "
        'Labels will not come to "certified" unless you say that they are new (--fresh, now or '
        "with calibrail certify --labels)"
    )


def too_few(
    needed: tuple[int, int],
    n: int,
    *,
    floors: tuple[float, float] | None,
    instead: Mapping[str, tuple[int, int]],
) -> Iterator[str]:
    """Say where even a guardrail without an error would need about all traces, or more.

    Parameters
    ----------
    needed : (int, int)
        Hallucinated and faithful answers drawn that it takes.
    n : int
        Answers of the traces.
    floors : (float, float) or None
        With ``active``: least probabilities of a label of a flagged and of a passed answer.
    instead : mapping
        Other ways of drawing that take far fewer, with their numbers.
    """
    total = sum(needed)
    if n >= (total if floors is None else _PLENTY * total):
        return
    labels = ""
    if floors is not None:
        least = sum(ceil(count * floor) for count, floor in zip(needed, floors, strict=True))
        labels = f", of which at least {least:,} are labelled"
    about = "at least" if floors is None else "about"
    text = (
        f'"certified" takes {about} {needed[0]:,} hallucinated and {needed[1]:,} faithful answers '
        f"drawn{labels}, even of a guardrail that makes no error, and these traces hold {n:,}"
    )
    ways = [f"{name} takes {one:,} and {two:,}" for name, (one, two) in instead.items()]
    if ways:
        text += f"; {listed(ways)} (in another folder)"
    yield f"{text}. Labels may well end without a verdict" if n >= total else text
