"""Which options do several commands share beyond the settings objects, and what do they mean?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from calibrail.cli.settings import Pick, takes_settings
from calibrail.errors import InputError
from calibrail.models.call_limits import CallLimits
from calibrail.settings import Promise, ReadOptions, Requirement, SplitOptions
from calibrail.settings.option import pairs, setting

__all__ = [
    "AsJson",
    "Calls",
    "Data",
    "Detectors",
    "FreeCalls",
    "Guardrail",
    "Pick",
    "Promise",
    "Reading",
    "ReadingUnlabelled",
    "Requirement",
    "RunFolder",
    "Showing",
    "Splitting",
    "ThresholdPromise",
    "pairs",
    "takes_settings",
]

Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A file or folder of answers, or example:facts.")
]
Guardrail = Annotated[
    Path, typer.Argument(metavar="GUARDRAIL", help="File that `calibrail export` wrote.")
]
RunFolder = Annotated[Path, typer.Option("--output", "-o", metavar="RUN", help="Run folder.")]
Page = Annotated[
    Path | None, typer.Option("--page", metavar="FILE", help="Write the result as a page, too.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the machine-readable result on standard output.")
]

#: Answers with labels, and answers whose labels and groups are not read.
Reading = Annotated[ReadOptions, Pick()]
ReadingUnlabelled = Annotated[ReadOptions, Pick(without=("label_column", "group_column"))]
Splitting = Annotated[SplitOptions, Pick()]
#: What one threshold can promise.
ThresholdPromise = Annotated[Promise, Pick(only=("alpha", "guarantee", "delta", "undefined"))]
#: With a price where costs are reported.
Calls = Annotated[CallLimits, Pick()]
FreeCalls = Annotated[CallLimits, Pick(without=("price",))]


@dataclass(frozen=True, slots=True)
class Showing:
    """How a command shows what it found, and whether it computes anything at all.

    Attributes
    ----------
    dry_run : bool
        Only say what would be asked of endpoints.
    json : bool
        Print the machine-readable result.
    """

    dry_run: bool = setting(
        "For judges: print calls, tokens and cost, and send and write nothing.", False
    )
    json: bool = setting("Print the machine-readable result on standard output.", False)


@dataclass(frozen=True, slots=True)
class Detectors:
    """Which detectors a command looks at.

    Attributes
    ----------
    score : tuple of str
        Names of detectors.
    score_column : tuple of str
        Columns of scores that the data holds.
    higher : str or None
        What a higher value of these columns means.
    """

    score: tuple[str, ...] = setting(
        "Detector, e.g. rouge_l (the default), novelty, rad:weighting=question. Repeatable.",
        (),
        metavar="NAME[:KEY=VALUE,...]",
    )
    score_column: tuple[str, ...] = setting(
        "Score that the data holds. Repeatable.", (), metavar="COL"
    )
    higher: str | None = setting(
        "What a higher value of --score-column means.", None, metavar="hallucinated|faithful"
    )

    def scores(self) -> list[Any]:
        """Return what ``calibrate`` and ``compare`` take; one default where none is named."""
        from calibrail.scores.registry import DEFAULT_SCORE, build_column

        if self.score_column and self.higher not in ("hallucinated", "faithful"):
            raise InputError(
                "--higher must be hallucinated or faithful when --score-column is used: say what a "
                f"higher value means; got {self.higher!r}"
            )
        if not self.score_column and self.higher is not None:
            raise InputError("--higher says what a --score-column means; name the column too")
        columns = [build_column(name, higher=str(self.higher)) for name in self.score_column]
        return [*self.score, *columns] or [DEFAULT_SCORE]
