"""Did these answers set a guardrail's threshold, and can that be told at all?"""

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from calibrail.conformal import Certificate, GroupVerdict
from calibrail.data.example import Example
from calibrail.data.ids import n_repeated
from calibrail.guardrail.runtime import Guardrail
from calibrail.report.documents.certify_warnings import DECLARED, withheld

#: What is known of the answers: that they are new, that they are those of the calibration, nothing
#: of either, or nothing but that the user says they are new.
Freshness = Literal["new", "calibration data", "unknown", "declared"]

#: Share of rows alike from which what rows hold does not tell them apart: so many are left out by
#: chance at most, or are in it twice.
ALIKE: Final = 0.01
#: Share of the answers that set the threshold from which data is the calibration data.
_SAME: Final = 0.5


class KnownBy:
    """Counts answers by what tells them from others, one by one."""

    def __init__(self) -> None:
        self._by: Counter[str] = Counter()
        # Eight bytes a row, where a counter of texts takes two hundred.
        self._contents = array("Q")

    def add(self, example: Example) -> None:
        """Count one answer."""
        kind = example.known_by
        self._by[kind] += 1
        if kind == "content":
            self._contents.append(int(example.digest(), 16))

    def counts(self) -> dict[str, int]:
        """Return the counts, and under ``alike`` how many share their content with another."""
        alike = n_repeated(np.array(self._contents))
        return {kind: self._by[kind] for kind in ("texts", "id", "content", "nothing")} | {
            "alike": alike
        }


class Fresh:
    """Which answers did not set a guardrail's threshold? Counts those that did.

    Parameters
    ----------
    guardrail : Guardrail or None
        Without one, every answer is fresh.
    """

    def __init__(self, guardrail: Guardrail | None) -> None:
        self._data = None if guardrail is None else guardrail.config.data
        self._known = set(self._data.calibration_examples if self._data else ())
        self._then = self._data.known_by if self._data else None
        self._now = KnownBy()
        self.n_seen_before = 0

    def admits(self, example: Example) -> bool:
        """Return whether the threshold was found without this answer."""
        if not self._known:
            return True
        self._now.add(example)
        # Where many rows are alike, an equal one is no sign of the same.
        comparable = example.known_by != "content" or _distinct(self._then)
        known = comparable and example.digest() in self._known
        self.n_seen_before += known
        return not known

    def freshness(self, sha256: str | None, *, declared: bool = False) -> Freshness:
        """Return what is known, after all answers have been seen.

        Parameters
        ----------
        sha256 : str or None
            Digest of the file.
        declared : bool
            Whether the user says that the answers are new.
        """
        same = self._data is not None and sha256 is not None and sha256 == self._data.sha256
        if same or self.n_seen_before > _SAME * len(self._known):
            return "calibration data"
        if self._comparable():
            return "new"
        return "declared" if declared else "unknown"

    def _comparable(self) -> bool:
        """Return whether each answer would have been recognised."""
        now = self._now.counts()
        if now["nothing"] or (now["content"] and not (_distinct(now) and _distinct(self._then))):
            return False
        # An answer that was known by its id then cannot be recognised by its texts now.
        then = self._then or {"texts": 1, "id": 1}
        return all(not now[kind] or then.get(kind, 0) for kind in ("texts", "id", "content"))


def _distinct(counts: Mapping[str, int] | None) -> bool:
    """Return whether rows that are known by their content are told apart by it."""
    return counts is not None and counts["alike"] <= ALIKE * counts["content"]


def without_proof(
    certificate: Certificate, groups: Mapping[str, GroupVerdict] | None, freshness: Freshness
) -> tuple[Certificate, Mapping[str, GroupVerdict] | None]:
    """Take back what was certified on answers that may have set the threshold, or say so.

    A rejection stands: on answers that set it a threshold looks better than it is, never worse.
    """
    if freshness == "new":
        return certificate, groups

    def taken_back(item: Certificate) -> Certificate:
        if item.verdict != "certified":
            return item
        if freshness == "declared":
            return replace(item, reason=f"{item.reason} {DECLARED}")
        reason = withheld(freshness)
        return replace(item, verdict="inconclusive", reason=reason, flips=None)

    if groups is not None:
        groups = {
            name: replace(item, certificate=taken_back(item.certificate))
            for name, item in groups.items()
        }
    return taken_back(certificate), groups
