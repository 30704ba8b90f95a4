from __future__ import annotations

from pathlib import Path

import pytest

from calibrail.guardrail import Guardrail
from calibrail.options import ServeOptions
from calibrail.serve import process
from calibrail.serve.guardrails import Guardrails
from calibrail.serve.watch_status import watch_folder


def test_where_decisions_are_logged_and_watched_is_said(
    surface: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guardrails = Guardrails({"faq": surface}, Guardrail.load)
    assert process.startup_lines(guardrails, ServeOptions())[1:] == [
        "decisions are not logged (--log DIR)"
    ]
    options = ServeOptions(log=tmp_path / "log", monitor=tmp_path / "watch")
    folder = watch_folder(tmp_path / "watch", "faq", guardrails.get(None).digest)
    known = process.startup_lines(guardrails, options)
    assert known[1:] == [
        f"decisions are logged in {tmp_path / 'log'}",
        f"faq is watched in {folder}",
    ]
    monkeypatch.setattr(process, "languages_known", lambda: False)
    (more,) = set(process.startup_lines(guardrails, options)) - set(known)
    assert "tells no languages: pip install 'calibrail[serve]'" in more
