"""Which share of the answers fits, which calibrates, and which tests?"""

from dataclasses import dataclass
from typing import Final

from calibrail.settings.option import setting

#: Share of the data that a score learns from, where nothing else is said.
FIT_SHARE: Final = 0.3


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """How to split: seeded shares, or the user's own column.

    Without a share to fit, none is kept, or ``FIT_SHARE`` where a score learns; without one to
    calibrate, it is half of the rest.
    """

    column: str | None = setting(
        "Column with your own split: fit, calibration or test.", None, flag="split-column"
    )
    seed: int = setting("Seed of the split.", 0)
    calibration_share: float | None = setting(
        "Share of the data used to calibrate (default: half the rest).", None
    )
    fit_share: float | None = setting(
        "Share of the data that scores learn from (default: 0.3 where one learns).", None
    )

    def shares(self, learning: bool) -> dict[str, float]:
        """Return the shares that calibrate and that fit, as ``split`` takes them."""
        fit = self.fit_share
        if fit is None:
            fit = FIT_SHARE if learning and self.column is None else 0.0
        share = self.calibration_share
        calibration = (1.0 - fit) / 2.0 if share is None else share
        return {"calibration_share": calibration, "fit_share": fit}
