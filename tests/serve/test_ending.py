from __future__ import annotations

import subprocess
import sys


def test_a_signal_is_not_lost_where_python_drops_exceptions() -> None:
    program = """
import os, signal, weakref
from calibrail.serve import exit_on_signal
class Gone: pass
gone = Gone()
seen = weakref.ref(gone, lambda _: os.kill(os.getpid(), signal.SIGTERM))
with exit_on_signal():
    del gone
    raise SystemExit(3)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_the_command_ends_before_it_has_imported_what_serves() -> None:
    program = """
import os, signal, sys
from calibrail.cli import app, operate
def begin(*_):
    assert "calibrail.serve.process" not in sys.modules
    os.kill(os.getpid(), signal.SIGTERM)
    raise SystemExit(3)
operate._run = begin
app(["serve", "guardrail.json"])
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
