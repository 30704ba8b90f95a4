"""What needs a guardrail that flags whole answers?"""

from calibrail.errors import InputError
from calibrail.guardrail.frozen import FrozenConfig
from calibrail.settings import Promise
from calibrail.settings.option import option_of


def require_answers(config: FrozenConfig, what: str) -> None:
    """Refuse a guardrail of sentences where flags of whole answers are counted.

    Parameters
    ----------
    config : FrozenConfig
        The guardrail.
    what : str
        What is asked of it, as the beginning of a sentence.

    Raises
    ------
    InputError
        If it removes sentences.
    """
    if config.promise.unit == "sentence":
        raise InputError(
            f"{what} counts flags of whole answers, and this guardrail removes sentences "
            f"({option_of(Promise, 'unit', 'sentence')}); take one of whole answers, calibrated "
            "beside it"
        )
