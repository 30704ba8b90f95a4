"""What does the label of one row mean, or why can nobody tell?"""

from calibrail.data.labels import LabelReader, Meaning, TieError, label_remedy
from calibrail.data.rows import FieldError
from calibrail.settings import ReadOptions
from calibrail.settings.option import option_of


def read_label(
    labels: LabelReader, value: object, column: str, *, needed: bool, row: int | None = None
) -> Meaning:
    """Return a class, the mark of what is left out on request, or None without a label.

    Parameters
    ----------
    labels : LabelReader
        Reads it, and counts.
    value : object
        The label as it is stored, or the list of several people's.
    column : str
        Where it is.
    needed : bool
        Whether there must be one; without, one that cannot be read is passed over.
    row : int, optional
        Which row it is in, where an answer is made of several.

    Raises
    ------
    FieldError
        A label is needed, and there is none, or none that says either class.
    """
    try:
        label = labels(value)
    except TieError as tie:
        if not needed:
            return None
        remedy = f"decide ties with {option_of(ReadOptions, 'annotators', 'any')} or all ({tie})"
        raise FieldError("label", "annotators tie", value, remedy, row) from tie
    if label is None and needed:
        reason, remedy = "not 0 or 1", label_remedy(value, labels)
        if labels.is_missing(value):
            reason, remedy = "missing", f"give every row a {column!r} of 0 or 1"
        else:
            labels.set_aside(value)
        raise FieldError("label", reason, value, remedy, row)
    return label
