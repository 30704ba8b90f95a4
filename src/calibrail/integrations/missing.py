"""What does an adapter say where its framework is not installed?"""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Name the extra that brings what is imported within the block, where it cannot be.

    Parameters
    ----------
    extra : str
        An extra of calibrail, e.g. ``"langchain"``.

    Raises
    ------
    ImportError
        As it was raised, with the remedy.
    """
    try:
        yield
    except ImportError as error:
        remedy = f"pip install 'calibrail[{extra}]'"
        raise ImportError(f"{error}; {remedy}", name=error.name, path=error.path) from error
