"""Which detectors does a command look at?"""

from dataclasses import dataclass

from calibrail.settings.option import setting


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
    baselines : bool
        Whether trivial baselines stand beside them.
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
    baselines: bool = setting("Set baselines (answer length, new words, ...) beside.", True)
