"""What errors say stands in one file, and each text is said somewhere, with what it names."""

from __future__ import annotations

import ast
import string
import tomllib
from pathlib import Path

import pytest

import calibrail
from calibrail.errors import DataError, error_text, errors_as

ROOT = Path(calibrail.__file__).parent
TEXTS: dict[str, str] = tomllib.loads((ROOT / "errors.toml").read_text("utf-8"))


def test_each_text_is_said_with_all_that_it_names() -> None:
    said: set[str] = set()
    for path in ROOT.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            by = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
            by = by.removeprefix("errors.")
            said_by = by in ("error_text", "errors_as") or by.endswith("Error.on")
            if not said_by:
                continue
            assert isinstance(call, ast.Call)
            if path.name == "errors.py" and not isinstance(call.args[-1], ast.Constant):
                continue
            code = ast.literal_eval(call.args[-1])
            named = {name for _, name, _, _ in string.Formatter().parse(TEXTS[code]) if name}
            heads = {name.partition(".")[0] for name in named}
            heads -= {"error", "reason"} if by == "errors_as" else set()
            assert heads == {item.arg for item in call.keywords}, (path.name, code)
            said.add(code)
    assert said == set(TEXTS)


def test_a_text_says_what_was_given() -> None:
    assert error_text("colang_version", config=type("C", (), {"colang_version": "2.x"})) == (
        "the rail is written in Colang 1.0, and this configuration in 2.x"
    )


def test_errors_of_others_are_told_in_the_words_of_a_code() -> None:
    with (
        pytest.raises(DataError, match=r"^cannot read g\.json: no such file; name") as caught,
        errors_as(DataError, OSError, "guardrail_unreadable", path="g.json"),
    ):
        raise FileNotFoundError(2, "no such file")
    assert isinstance(caught.value.__cause__, FileNotFoundError)
