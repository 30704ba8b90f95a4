"""Models that pages, help and examples name are sold now; each was looked up on the date below."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[1]

#: When the names were last looked up, in the tables of models of litellm 1.110.2, openai 3.57.0,
#: anthropic 2.14.0 and google-genai 3.6.1.
CHECKED: Final = "2026-11-26"

SOLD: Final = {
    "gpt-6-luna": "OpenAI",
    "gpt-6-luna-2026-09-22": "OpenAI and Azure, dated",
    "claude-haiku-5-5": "Anthropic",
    "gemini-3.8-flash": "Google",
    "text-embedding-3-large": "OpenAI, embeddings",
}

#: Models of published results and data, by the file that speaks of them.
OF_PAPERS: Final = {
    "docs/leaderboard.md": {"gpt-3.5-turbo", "gpt-4-turbo", "gpt-4o"},
    "docs/papers.md": {"gpt-4o-mini"},
    "src/calibrail/scores/registry.toml": {"gpt-4o-mini"},
}

_NAME: Final = re.compile(
    r"\b(?:gpt-(?:\d|oss)|claude-(?=\w+-\d|\d)|gemini-\d|o\d-(?:mini|pro)|text-embedding-\d)[\w.-]*\w",
    re.IGNORECASE,
)


def names() -> Iterator[tuple[str, str]]:
    """Yield every name of a model, with the file that holds it."""
    files = [ROOT / "README.md", ROOT / "action.yml"]
    for folder, patterns in {
        "docs": ("*.md", "*.ipynb"),
        "examples": ("*.py", "*.sh", "*.md", "*.json", "*.yaml"),
        "src": ("*.py", "*.toml"),
    }.items():
        files += [path for pattern in patterns for path in (ROOT / folder).rglob(pattern)]
    for path in files:
        where = path.relative_to(ROOT).as_posix()
        if where.startswith("docs/leaderboard/"):
            continue
        for match in _NAME.finditer(path.read_text(encoding="utf-8")):
            yield where, match[0].lower()


def test_models_that_are_named_are_sold() -> None:
    found = set(names())
    unknown = {
        (where, name)
        for where, name in found
        if name not in SOLD and name not in OF_PAPERS.get(where, ())
    }
    assert not unknown, f"look them up, and note them above with the date (now {CHECKED})"
    # None stands in the table that no page names any more.
    named = {name for _, name in found} | {"gemini-3.8-flash"}
    assert set(SOLD) <= named


def test_tests_of_providers_ask_for_models_that_are_sold() -> None:
    text = (ROOT / "tests" / "models" / "test_providers.py").read_text(encoding="utf-8")
    asked = re.findall(r'"(?:\w+/)+(?:us\.anthropic\.)?([\w.-]+)"', text)
    assert {"gpt-6-luna", "claude-haiku-5-5", "gemini-3.8-flash"} <= {*asked}
    assert {*asked} - {*SOLD} <= {"my-deployment", "model", "x", "json", "completions"}
