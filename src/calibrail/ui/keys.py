"""Which key was pressed, in a terminal or on a pipe that holds a word a line?"""

import os
import re
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TextIO

#: What arrows and their like send, which means nothing here.
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?", re.DOTALL)

#: Seconds after which Ctrl-C is looked for while no key comes.
_GLANCE: Final = 0.2


class Keys(Protocol):
    """Where keys come from."""

    #: Whether somebody watches: then long texts are shown page by page.
    watched: bool

    def read(self) -> str | None:
        """Return the next key, or a word; None where there is no further one."""

    def line(self, prompt: str) -> str:
        """Return a line of text; nothing where there is no further one."""


class PipedKeys:
    """A word a line, as scripts and tests write them: ``f``, ``12``, ``m the second war``.

    Parameters
    ----------
    stream : text stream
        What is read.
    """

    watched = False

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._rest = stream, ""

    def read(self) -> str | None:
        """Return the first word of the next line that has any; None at the end."""
        for line in self._stream:
            word, _, self._rest = line.strip().partition(" ")
            if word:
                return word
        return None

    def line(self, prompt: str) -> str:
        """Return what stood behind the word."""
        return self._rest.strip()


class TerminalKeys:
    """Single keys of a terminal, without Enter."""

    watched = True

    def __init__(self) -> None:
        self._typed = ""

    def read(self) -> str | None:
        """Return the key that is pressed; None for the end of input.

        Raises
        ------
        KeyboardInterrupt
            Ctrl-C.
        """
        while not self._typed:
            typed = _typed()
            if typed in ("", "\x04", "\x1a"):
                return None
            self._typed = _SEQUENCE.sub("", typed)
        key, self._typed = self._typed[0], self._typed[1:]
        return key

    def line(self, prompt: str) -> str:
        """Return a line that is typed."""
        try:
            with _with_enter():
                return input(prompt).strip()
        except EOFError:
            return ""


@contextmanager
def open_keys() -> Iterator[Keys]:
    """Read keys from standard input; a terminal gives each of them at once until the end."""
    if not sys.stdin.isatty():
        yield PipedKeys(sys.stdin)
    elif sys.platform == "win32":
        yield TerminalKeys()
    else:
        import termios
        import tty

        stream = sys.stdin.fileno()
        before = termios.tcgetattr(stream)
        try:
            tty.setcbreak(stream, termios.TCSANOW)
            yield TerminalKeys()
        finally:
            termios.tcsetattr(stream, termios.TCSADRAIN, before)


def _typed() -> str:
    """Wait for a key, and return all that it sends."""
    if sys.platform == "win32":
        import msvcrt

        key = msvcrt.getwch()
        if key == "\x03":
            raise KeyboardInterrupt
        return "\x1b" + msvcrt.getwch() if key in "\x00\xe0" else key
    stream = sys.stdin.fileno()
    # A signal that falls just before a wait without end would be noticed with the next key only.
    while not select.select([stream], [], [], _GLANCE)[0]:
        pass
    return os.read(stream, 64).decode("utf-8", "replace")


@contextmanager
def _with_enter() -> Iterator[None]:
    """Let a line be typed as usual, seen and corrected."""
    if sys.platform == "win32":
        yield
        return
    import termios

    stream = sys.stdin.fileno()
    single = termios.tcgetattr(stream)
    usual = [*single[:3], single[3] | termios.ICANON | termios.ECHO, *single[4:]]
    try:
        termios.tcsetattr(stream, termios.TCSADRAIN, usual)
        yield
    finally:
        termios.tcsetattr(stream, termios.TCSADRAIN, single)
