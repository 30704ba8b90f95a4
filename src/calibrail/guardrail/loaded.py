"""What is a guardrail on this machine: its content, where that is from, and its detector?"""

import json
import warnings
from collections.abc import Sequence
from os import PathLike
from typing import Any, Self

from calibrail.conformal import Calibration
from calibrail.conformal.group_keys import columns_of_groups, reads_length
from calibrail.conformal.rule import Rule
from calibrail.data.example import TEXT_FIELDS, Example
from calibrail.errors import GuardrailError
from calibrail.guardrail.detector import frozen_detector
from calibrail.guardrail.file import Origin, read_file, write_file
from calibrail.guardrail.frozen import FrozenConfig
from calibrail.guardrail.judge import Judge
from calibrail.guardrail.judged import frozen_rule
from calibrail.guardrail.keys import PublicKey
from calibrail.guardrail.probed import Probed
from calibrail.guardrail.probes import compare_probes
from calibrail.guardrail.signing import Signature
from calibrail.models.remote import RemoteModel
from calibrail.scale import Scale
from calibrail.scores.base import Score
from calibrail.scores.registry import scale_of
from calibrail.settings.promise import Unit
from calibrail.shown import Shown


class FrozenGuardrail(Shown):
    """A frozen detector with its threshold, as ``calibrail.guardrail.Guardrail`` decides by it."""

    shown_as = "guardrail"

    def __init__(self, config: FrozenConfig, score: Score | None = None) -> None:
        self._config = config
        self._origin: Origin | None = None
        self._probed: Probed | None = None
        self._rule = frozen_rule(config)
        self._score = frozen_detector(config.score, score, config.promise.unit)

    def shown(self) -> tuple[Any, ...]:
        """Return the content of the file."""
        return (json.loads(self._config.to_bytes()),)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        trusted: Sequence[PublicKey] | None = None,
        probe: bool = False,
    ) -> Self:
        """Load a guardrail file, verify every byte, and verify the detector's weights.

        Parameters
        ----------
        trusted : sequence of path or bytes, optional
            Public keys (PEM files, or what stands in them), at least one. One of them must have
            signed the file. Left out, signatures are not looked at.
        probe : bool
            Whether this machine must show that it computes what was certified; see `probe`.
            Endpoints are not asked. Where no probe has a score, which the file says truthfully,
            nothing is shown: a warning says so.
        """
        file = read_file(path, trusted)
        guardrail = cls(file.config)
        guardrail._origin = file.origin
        if probe:
            try:
                probed = guardrail.probe()
            except GuardrailError as error:
                raise GuardrailError(f"{path} is refused: {error}") from error
            if (why := probed.unproven()) is not None:
                warnings.warn(why, UserWarning, stacklevel=2)
        return guardrail

    def probe(self, *, endpoint: bool = False) -> Probed:
        """Compare what this machine computes of the frozen probe answers with what was frozen.

        An endpoint is asked where ``endpoint`` says so: as many calls as for 16 answers. Raises a
        ``GuardrailError`` where a score differs by more than its tolerance, with the versions on
        both sides, and where no probes were frozen.
        """
        self._probed = compare_probes(
            self._config.probes, self._score, endpoint=endpoint, unit=self.unit
        )
        return self._probed

    def save(self, path: str | PathLike[str], *, sign: str | PathLike[str] | None = None) -> None:
        """Write the guardrail file; the same guardrail always gives the same bytes.

        ``sign`` is a private Ed25519 key (PEM): ``PATH.dsse`` then holds its signature.
        """
        write_file(self._config, path, sign)

    @property
    def signature(self) -> Signature | None:
        """The signature that was verified when it was loaded; None where no key was trusted."""
        return None if self._origin is None else self._origin.signature

    @property
    def origin(self) -> Origin | None:
        """The file that it was loaded from; None for a guardrail of a run."""
        return self._origin

    @property
    def probed(self) -> Probed | None:
        """How this machine compared with the frozen probes; None where it was not compared."""
        return self._probed

    @property
    def config(self) -> FrozenConfig:
        """The frozen content."""
        return self._config

    @property
    def calibration(self) -> Calibration:
        """The threshold with its guarantee and calibration scores; with groups, the fallback."""
        return self._rule.calibration

    @property
    def rule(self) -> Rule:
        """Everything that decides: the threshold, and those of groups and of a review."""
        return self._rule

    @property
    def judge(self) -> Judge:
        """What judges answers, or sentences, by the rule."""
        return Judge(self._rule, self._score, self._config.promise.by)

    def group_of(self, example: Example) -> str:
        """Return the name of an answer's group, or of its groups where several columns name them.

        One without a group belongs to no known one; without groups it is empty.
        """
        return self.judge.group_of(example)

    @property
    def unit(self) -> Unit:
        """What is flagged: whole answers, or sentences, which are removed."""
        return self._config.promise.unit

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that a decision needs: an outside score, a group."""
        by = columns_of_groups(self._config.promise.by)
        return (*getattr(self._score, "columns", ()), *by)

    @property
    def texts(self) -> tuple[str, ...]:
        """Text fields that a decision needs: those of the score, and the answer for its length."""
        measured = {"response"} if reads_length(self._config.promise.by) else set()
        return tuple(name for name in TEXT_FIELDS if name in {*self._score.requires, *measured})

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Where the detector sends answers, sorted; empty where all is computed in this process."""
        models = getattr(self._score, "models", ())
        return tuple(sorted({item.endpoint for item in models if isinstance(item, RemoteModel)}))

    @property
    def score(self) -> Score:
        """The detector."""
        return self._score

    @property
    def scale(self) -> Scale:
        """In which numbers its user knows the score."""
        return scale_of(self._score)
