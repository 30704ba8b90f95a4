"""What errors say stands in one file, and each text is said somewhere, with what it names."""

from __future__ import annotations

import ast
import string
import tomllib
from pathlib import Path

import calibrail
from calibrail.errors import error_text

ROOT = Path(calibrail.__file__).parent
TEXTS: dict[str, str] = tomllib.loads((ROOT / "errors.toml").read_text("utf-8"))


def test_each_text_is_said_with_all_that_it_names() -> None:
    said: set[str] = set()
    for path in ROOT.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(call, ast.Call) and ast.unparse(call.func) == "error_text"):
                continue
            (code,) = (ast.literal_eval(argument) for argument in call.args)
            named = {name for _, name, _, _ in string.Formatter().parse(TEXTS[code]) if name}
            heads = {name.partition(".")[0] for name in named}
            assert heads == {item.arg for item in call.keywords}, (path.name, code)
            said.add(code)
    assert said == set(TEXTS)


def test_a_text_says_what_was_given() -> None:
    assert error_text("colang_version", config=type("C", (), {"colang_version": "2.x"})) == (
        "the rail is written in Colang 1.0, and this configuration in 2.x"
    )
