"""Which promises are about whole answers, and not about sentences that are removed from them?"""

from calibrail.errors import InputError
from calibrail.settings.option import option_of
from calibrail.settings.promise import Promise
from calibrail.settings.requirement import Requirement


def whole_answers(command: str, promise: Promise, requirement: Requirement | None = None) -> None:
    """Refuse a promise by which sentences are removed.

    Parameters
    ----------
    command : str
        What was called.
    promise : Promise
        What it was called for.
    requirement : Requirement, optional
        What it was to show; a share of sentences to keep is refused, too.

    Raises
    ------
    InputError
        If the promise is about sentences, or the requirement is.

    Examples
    --------
    >>> whole_answers("compare", Promise())
    """
    if promise.unit == "sentence":
        raise InputError(
            f"{command} looks at whole answers, and this promise removes sentences from them "
            f"({option_of(Promise, 'unit', 'sentence')}): calibrate, check, serve, score and "
            f"certify do that. For {command}, calibrate whole answers"
        )
    if requirement is not None:
        requirement.check_unit(promise)
