"""How does a test run what a page of docs/integrations shows?"""

from __future__ import annotations

import ast
import asyncio
import os
import re
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.scenario import Scenario

ROOT = Path(__file__).resolve().parents[2]
_PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

#: Lines of code that a page may ask of a new user.
MOST_LINES = 10


def run_page(page: str, scenario: Scenario, folder: Path, **given: Any) -> dict[str, Any]:
    """Run the Python of ``docs/integrations/PAGE.md`` in a folder that holds ``guardrail.json``.

    Parameters
    ----------
    page
        E.g. ``"llama-index"``.
    given
        What the page takes for granted, such as the user's own model.

    Returns
    -------
    dict
        The names that its blocks, run one after another, have bound.
    """
    text = (ROOT / "docs" / "integrations" / f"{page}.md").read_text(encoding="utf-8")
    blocks = _PYTHON.findall(text)
    assert blocks, f"{page}.md shows no Python"
    lines = [line for line in max(blocks, key=len).splitlines() if line.strip()]
    assert len(lines) <= MOST_LINES, f"{page}.md asks for {len(lines)} lines"
    names: dict[str, Any] = {"__name__": "page", **given}
    shutil.copy(scenario.file, folder / "guardrail.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in blocks:
            # As in a notebook, a page may await.
            code = compile(block, f"{page}.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            awaited = eval(code, names)
            if awaited is not None:
                asyncio.run(awaited)
    return names


def run_example(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run ``examples/integrations/with_NAME.py`` in a folder, as a reader would; return its output.

    A script's folder comes first where Python looks for modules: one named ``langchain.py`` would
    be what it imports, hence ``with_``.
    """
    script = ROOT / "examples" / "integrations" / f"with_{name}.py"
    here = Path.cwd()
    os.chdir(folder)
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        os.chdir(here)
    return capsys.readouterr().out
