"""Which language is a text in?"""

import logging
from collections.abc import Callable
from functools import cache
from typing import Final

#: Characters that are looked at: more change the answer seldom, and cost time.
LOOKED_AT: Final = 400
#: Letters below which no language is named.
FEWEST_LETTERS: Final = 20
#: Below this probability, over all languages, the model has seen no language clearly.
CERTAIN: Final = 0.2
#: What the model calls a text below it, and what is no language at all: numbers, markup, noise.
_NONE: Final = ("und", "zxx")

_log: Final = logging.getLogger("calibrail.text")


def language_of(*texts: str) -> str | None:
    """Return the language of the first text that has enough letters to tell, as ISO 639 has it.

    Only the first 400 characters of each are looked at; in code and lists of names the language
    named may be a chance one.

    Parameters
    ----------
    *texts : str
        In order of preference.

    Returns
    -------
    str or None
        None where no text has 20 letters, no language is certain, or py3langid is not installed.
    """
    if (classify := _classifier()) is None:
        return None
    for text in texts:
        beginning = text[:LOOKED_AT]
        if sum(map(str.isalpha, beginning)) >= FEWEST_LETTERS:
            try:
                language, _ = classify(beginning)
            except Exception:
                # Nobody's answer waits for a language.
                return None
            return None if language in _NONE else language
    return None


def languages_known() -> bool:
    """Return whether languages can be told; loads the model, in half a second and 75 MiB."""
    return _classifier() is not None


@cache
def _classifier() -> Callable[[str], tuple[str, float]] | None:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        model = LanguageIdentifier.from_model_file(
            MODEL_FILE, norm_probs=True, min_confidence=CERTAIN
        )
        classify: Callable[[str], tuple[str, float]] = model.classify
        # Loaded only if it works.
        classify("Is this a text in English, or in another language?")
    except ImportError:
        return None
    except Exception as error:
        _log.warning("languages are not told: py3langid does not load: %r", error)
        return None
    return classify
