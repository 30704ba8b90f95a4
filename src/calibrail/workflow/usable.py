"""Can anything be measured on what was scored?"""

import numpy as np

from calibrail.data.splits import CALIBRATION, TEST
from calibrail.errors import DataError, InputError
from calibrail.settings import ReadOptions, SplitOptions
from calibrail.settings.option import either, option_of
from calibrail.workflow.scored import Scored


def require_usable(scored: Scored, index: int = 0, *, split: bool = True) -> None:
    """Refuse a table on which nothing can be measured, naming what is missing and the remedy.

    Parameters
    ----------
    scored : Scored
        What was scored.
    index : int
        The detector that is looked at.
    split : bool
        Whether a calibration and a test part are needed, too.

    Raises
    ------
    DataError
        If the detector is undefined everywhere, a class is missing, or a part is empty.
    """
    require_defined(scored, index)
    table, codes = scored.table, scored.codes
    for label, name in ((1, "hallucinated"), (0, "faithful")):
        if not (table.labels == label).any():
            purpose = "calibration needs" if split else "this needs"
            raise DataError(
                f"no example is labelled {name} ({label}); {purpose} both classes. Is the "
                f"label column right ({option_of(ReadOptions, 'label_column')}), and do labels "
                f"mean what they were read as ({option_of(ReadOptions, 'positive')}, "
                f"{option_of(ReadOptions, 'label_map')})?"
            )
    if not split:
        return
    for code, name in ((CALIBRATION, "calibration"), (TEST, "test")):
        if not (codes == code).any():
            raise DataError(
                f"the {name} split is empty; change "
                f"{option_of(SplitOptions, 'calibration_share')} or the split column"
            )
    if not ((codes == TEST) & (table.labels == 0)).any():
        raise InputError(
            "the test split holds no faithful example, so false alarms cannot be measured; "
            f"change {option_of(SplitOptions, 'seed')} or "
            f"{option_of(SplitOptions, 'calibration_share')}, or label more faithful answers"
        )


def require_defined(scored: Scored, index: int = 0) -> None:
    """Refuse a detector that is undefined everywhere, with the reasons."""
    key = scored.keys[index]
    values = scored.table.columns[key]
    if np.isnan(values).all():
        reasons = list(dict.fromkeys(scored.table.reasons.get(key, {}).values()))[:3]
        raise DataError(
            f"the score {key} is undefined for all {len(values)} examples "
            f"({'; '.join(reasons)}); choose another score or column "
            f"({either('`calibrail doctor DATA`', 'calibrail.diagnose(...)')} lists the columns "
            "that hold numbers)"
        )
