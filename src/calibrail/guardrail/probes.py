"""Does this machine compute what was certified?

The scores of sixteen fixed answers are frozen with a guardrail. Another version of a library,
another tokenizer, device or precision that changes them is found before it decides anything.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from calibrail.data.columns import ALL_COLUMNS
from calibrail.data.example import Example
from calibrail.errors import GuardrailError, ModelError
from calibrail.guardrail.frozen import Probes
from calibrail.guardrail.probe_answers import ANSWERS, SET
from calibrail.models.call_limits import BudgetError, account, limit_calls
from calibrail.models.machine import machine
from calibrail.models.remote import RemoteModel
from calibrail.scores.base import DetectorFailure, Score

#: What a probe that the detector raised on has for a reason.
_RAISED: Final = "the detector raised"


@dataclass(frozen=True, slots=True)
class Probed:
    """What became of comparing this machine with the frozen scores.

    Attributes
    ----------
    state : {"agree", "column", "endpoint"}
        ``agree``: every probe has its frozen score here. ``column``: the detector reads columns of
        the data alone, and no machine computes anything. ``endpoint``: it asks an endpoint, which
        was not asked.
    n, n_undefined : int
        Probes compared, and those of them that have no score, here as when it was frozen.
    largest_difference : float
        Between a frozen score and the one computed here.
    tolerance : float
        How large it may be.
    frozen, here : mapping of str to str
        Versions, device and precision then and now.
    """

    state: Literal["agree", "column", "endpoint"]
    n: int = 0
    n_undefined: int = 0
    largest_difference: float = 0.0
    tolerance: float = 0.0
    frozen: Mapping[str, str] | None = None
    here: Mapping[str, str] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON, with ``differ``: the versions that are not alike, in words."""
        return {**asdict(self), "differ": other_versions(self.frozen or {}, self.here or {})}


def probe_examples(score: Score) -> list[Example]:
    """Return the sixteen answers, with a number in each column that the score reads beside them."""
    names = [name for name in getattr(score, "columns", ()) if name != ALL_COLUMNS]
    return [
        Example(
            question=question,
            contexts=contexts,
            response=response,
            samples=samples,
            id=f"probe-{row}",
            columns=dict.fromkeys(names, row / len(ANSWERS)),
        )
        for row, (question, contexts, response, samples) in enumerate(ANSWERS, start=1)
    ]


def not_computed(score: Score) -> Literal["column", "endpoint"] | None:
    """Return why this machine alone does not compute a score; None where it does."""
    if not score.requires:
        return "column"
    models = getattr(score, "models", ())
    return "endpoint" if any(isinstance(model, RemoteModel) for model in models) else None


def freeze_probes(score: Score, *, endpoint: bool = False) -> Probes | None:
    """Return the probes' scores to freeze; None where there is nothing to compare later.

    Parameters
    ----------
    score : Score
        The detector, with what it has learnt.
    endpoint : bool
        Whether a detector that asks an endpoint may ask it about the probes.

    Raises
    ------
    GuardrailError
        If the endpoint gave no answer.
    ModelError
        If a model cannot be had.
    """
    why = not_computed(score)
    if why == "column" or (why == "endpoint" and not endpoint):
        return None
    values, reasons = _scores(score)
    return Probes(
        set=SET,
        scores=[None if np.isnan(value) else float(value) for value in values],
        reasons={str(row + 1): reason for row, reason in sorted(reasons.items())},
        versions=machine(getattr(score, "models", ())),
    )


def compare_probes(frozen: Probes | None, score: Score, *, endpoint: bool = False) -> Probed:
    """Score the probes on this machine and compare.

    Parameters
    ----------
    frozen : Probes or None
        What the guardrail holds.
    score : Score
        Its detector on this machine.
    endpoint : bool
        Whether a detector that asks an endpoint may ask it.

    Raises
    ------
    GuardrailError
        If a score differs by more than the score's tolerance, or is defined on one side alone; with
        the versions of both. Also if the guardrail holds no probes though it could.
    """
    why = not_computed(score)
    if why == "column" or (why == "endpoint" and not endpoint):
        return Probed(why)
    if frozen is None:
        asked = " --probe-endpoint" if why == "endpoint" else ""
        raise GuardrailError(
            "it holds no probes, so this machine cannot show that it computes what was certified; "
            f"export it again: calibrail export RUN -o guardrail.json{asked}"
        )
    there = np.array([np.nan if value is None else value for value in frozen.scores])
    values, reasons = _scores(score)
    here, tolerance = machine(getattr(score, "models", ())), float(score.tolerance)
    undefined = np.isnan(there)
    differences = np.where(undefined & np.isnan(values), 0.0, np.abs(there - values))
    # A score on one side alone is a difference, too: NaN is not within any tolerance.
    wrong = np.flatnonzero(~(differences <= tolerance))
    if len(wrong):
        first = int(wrong[np.argmax(np.nan_to_num(differences[wrong], nan=np.inf))])
        raise GuardrailError(
            f"this machine does not compute what was certified: {len(wrong)} of {len(there)} probe "
            f"scores differ by more than {tolerance:g}; probe {first + 1}: frozen "
            f"{_shown(there[first], frozen.reasons.get(str(first + 1)))}, here "
            f"{_shown(values[first], reasons.get(first))}. {_side_by_side(frozen.versions, here)}. "
            "Install what was frozen, or calibrate again with this"
        )
    return Probed(
        state="agree",
        n=len(there),
        n_undefined=int(undefined.sum()),
        largest_difference=float(differences.max()),
        tolerance=tolerance,
        frozen=dict(frozen.versions),
        here=here,
    )


def other_versions(frozen: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return what differs between two machines, with both values; empty where nothing does."""
    return "; ".join(
        f"{name}: frozen {frozen.get(name, 'none')}, here {here.get(name, 'none')}"
        for name in {**frozen, **here}
        if frozen.get(name) != here.get(name)
    )


@contextmanager
def asked_anew() -> Iterator[None]:
    """Let endpoints be asked within the block, whatever answers are kept."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        limits = replace(account().limits, cache=Path(folder) / "answers.sqlite")
        with limit_calls(limits):
            yield


def _side_by_side(frozen: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return the versions of both machines: those that differ, then those that do not."""
    alike = [f"{name} {value}" for name, value in frozen.items() if here.get(name) == value]
    differ = other_versions(frozen, here) or "none that is known"
    return f"What differs: {differ}. Alike: {', '.join(alike) or 'nothing'}"


def _shown(value: float, reason: str | None) -> str:
    return f"undefined ({reason})" if np.isnan(value) else f"{value:.9g}"


def _scores(score: Score) -> tuple[NDArray[np.float64], dict[int, str]]:
    """Return the probes' scores as this machine computes them now, and why some have none.

    Each is scored alone, as `check` scores one answer: a batch would pad all to the longest.
    """
    examples = probe_examples(score)
    values, reasons = np.full(len(examples), np.nan), dict[int, str]()
    if callable(forget := getattr(score, "forget", None)):
        # A vector that is known from before may be another machine's, or another version's.
        forget()
    with asked_anew():
        for row, example in enumerate(examples):
            try:
                scores = score.score([example])
            except (ModelError, BudgetError):
                raise
            except Exception as error:
                # A detector of one's own may fail on an answer; that is its value there.
                reasons[row] = f"{_RAISED} {type(error).__name__}"
                continue
            values[row] = scores.values[0]
            if (why := scores.reasons.get(0)) is not None:
                reasons[row] = why
            if isinstance(why, DetectorFailure):
                # That an endpoint is down says nothing of what it would say.
                raise GuardrailError(
                    f"the detector failed on probe {row + 1}, so nothing can be compared: {why}; "
                    "try again when it works"
                )
    return values, reasons
