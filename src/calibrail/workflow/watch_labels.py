"""What do the labels of a watched guardrail show, so far?"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrail.errors import InputError
from calibrail.guardrail.frozen import FrozenConfig
from calibrail.settings import Requirement
from calibrail.workflow.frozen import frozen_limits


class WatchLabels:
    """The labels of a folder, read again where they have changed.

    Parameters
    ----------
    config : FrozenConfig
        The guardrail.
    asked : Requirement
        Limits in place of the frozen ones.
    folder : Path, optional
        Of ``calibrail audit-sample``.
    judge : Path, optional
        Labels of a judge.
    """

    def __init__(
        self,
        config: FrozenConfig,
        asked: Requirement,
        folder: Path | None = None,
        judge: Path | None = None,
    ) -> None:
        self.folder, self._judge, self._config = folder, judge, config
        self._delta = 0.05
        if folder is not None or judge is not None:
            raise InputError("labels do not count in a watch yet; leave them out")
        coverage, fpr = frozen_limits(config)
        self.limits = {
            "min_coverage": coverage if asked.min_coverage is None else asked.min_coverage,
            "max_fpr": fpr if asked.max_fpr is None else asked.max_fpr,
        }

    def changed(self) -> bool:
        """Whether there may be new labels."""
        return False

    def status(
        self, timeline: Sequence[Mapping[str, Any]]
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]:
        """Return what the labels say of the promise, of the prevalence, and of themselves."""
        nothing = {"estimate": None, "lower": 0.0, "upper": 1.0, "n": 0}
        promise = {
            "state": "undecided",
            "limits": {"coverage": self.limits["min_coverage"], "fpr": self.limits["max_fpr"]},
            "delta": self._delta,
            "coverage": nothing,
            "fpr": nothing,
            "n_labels": 0,
            "n_pending": 0,
            "n_unsure": 0,
            "since": None,
            "decided": None,
            "lately": {"alarm": False, "since": None, "log_e": 0.0, "arl": 1000},
            "groups": [],
            "course": {},
        }
        prevalence: dict[str, Any] = {
            **nothing,
            "method": "flags",
            "assumption": None,
            "flags": None,
            "labels": None,
            "judge": None,
            "periods": [],
        }
        return promise, prevalence, None
