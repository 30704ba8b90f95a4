"""The command ``calibrail`` as a shell runs it, without the seconds that a new process imports."""

from __future__ import annotations

import io
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from calibrail.cli import main


def calibrail(*arguments: object, cwd: Path | None = None) -> CompletedProcess[str]:
    """Run one command; return its exit code and what it printed."""
    words = ["calibrail", *map(str, arguments)]
    # With a buffer of bytes below, as the streams of a process have it.
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    code: object = 0
    with pytest.MonkeyPatch.context() as patch, chdir(cwd or "."):
        patch.setattr(sys, "argv", words)
        patch.setenv("COLUMNS", "80")
        with redirect_stdout(out), redirect_stderr(err):
            try:
                main()
            except SystemExit as end:
                code = end.code or 0
    out.flush(), err.flush()
    printed = [stream.buffer.getvalue().decode("utf-8") for stream in (out, err)]
    assert isinstance(code, int)
    return CompletedProcess(words, code, *printed)
