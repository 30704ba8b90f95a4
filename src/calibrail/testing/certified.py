"""Is a guardrail certified on a file of answers? As an assertion, for a test suite."""

from os import PathLike
from pathlib import Path
from typing import Any

from calibrail.data.sources import Source
from calibrail.guardrail.runtime import Guardrail
from calibrail.settings import Requirement
from calibrail.workflow.certification import Certification
from calibrail.workflow.certify import certify
from calibrail.workflow.looks import looks_of


class NotCertifiedError(AssertionError):
    """A guardrail that was to be certified is rejected, or the answers leave it open.

    Attributes
    ----------
    certification : Certification
        What was found, with its intervals.
    """

    def __init__(self, certification: Certification) -> None:
        super().__init__(repr(certification))
        self.certification = certification


def assert_certified(
    guardrail: Guardrail | str | PathLike[str],
    source: Source | None = None,
    requirement: Requirement | None = None,
    **options: Any,
) -> Certification:
    """Return the certification of a guardrail on fresh labelled answers, or fail.

    The verdict is that of ``calibrail certify``: looks at the same answers are counted in the same
    file beside the guardrail's, where it is given as a path.

    Parameters
    ----------
    guardrail, source, requirement
        As for `calibrail.certify`.
    **options
        Its further parameters, e.g. ``max_fpr=0.2``.

    Raises
    ------
    NotCertifiedError
        The verdict is ``rejected`` or ``inconclusive``; it is an ``AssertionError``.
    CalibrailError
        There is no verdict: a file is missing, or a class.
    """
    if isinstance(guardrail, str | PathLike):
        options.setdefault("looks", looks_of(Path(guardrail)))
    certification = certify(guardrail, source, requirement, **options)
    if certification.verdict != "certified":
        raise NotCertifiedError(certification)
    return certification
