"""Which values of a label column mean hallucinated, which faithful, and which neither?"""

from typing import Final

from calibrail.data.example import FAITHFUL, HALLUCINATED

_TEXTS: Final = {"0": FAITHFUL, "1": HALLUCINATED, "false": FAITHFUL, "true": HALLUCINATED}


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_LIKE_HALLUCINATED: Final = _set(
    "hallucinated hallucination unfaithful ungrounded unsupported wrong inconsistent contradiction"
    " contradicted incorrect fail failed nonfactual non-factual"
)
_LIKE_FAITHFUL: Final = _set(
    "faithful grounded supported consistent entailment entailed correct right pass passed factual"
)
_EITHER: Final = _set("yes no y n t f positive negative")


def parse_label(value: object) -> int | None:
    """Return 0 (faithful), 1 (hallucinated), or None where the value says neither.

    Accepted are 0 and 1, the texts ``"0"`` and ``"1"``, and true and false. Nothing else is
    guessed: a label read the wrong way round turns every number of a report around.

    >>> parse_label("1"), parse_label(False), parse_label("yes")
    (1, 0, None)
    """
    if isinstance(value, str):
        return _TEXTS.get(value.strip().lower())
    if isinstance(value, (bool, int, float)) and value in (0, 1):
        return int(value)
    return None


def label_remedy(value: object) -> str:
    """Say how a value that `parse_label` refuses can be turned into 0 or 1.

    >>> label_remedy("PASS")
    "write 0 (faithful) in place of 'PASS' if that is what it means"
    """
    text = str(value).strip().lower() if isinstance(value, (str, int, float)) else ""
    start = value if not isinstance(value, str) or len(value) < 40 else value[:40]
    if text in _LIKE_HALLUCINATED:
        return f"write 1 (hallucinated) in place of {start!r} if that is what it means"
    if text in _LIKE_FAITHFUL:
        return f"write 0 (faithful) in place of {start!r} if that is what it means"
    if text in _EITHER:
        return f"{start!r} can mean either class: write 1 for hallucinated and 0 for faithful"
    if text in ("0.0", "1.0"):
        return f"write whole numbers: {text[0]} in place of {start!r}"
    if text == "-1":
        return "labels of -1 and 1 are not read: write 1 for hallucinated and 0 for faithful"
    if isinstance(value, (int, float)) and 0 < value < 1:
        return "a graded label needs a cut-off: write 1 where it counts as hallucinated, else 0"
    return "write 1 for hallucinated and 0 for faithful, or name another column (--label-column)"
