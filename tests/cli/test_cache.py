from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from calibrail.cli import app
from calibrail.errors import InputError
from calibrail.models.llm.chat import AnswerCache, CacheError, Source


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "answers.sqlite"
    monkeypatch.setenv("CALIBRAIL_CACHE", str(path))
    return path


@pytest.fixture
def filled(path: Path) -> Path:
    cache = AnswerCache(path)
    for i in range(5):
        cache.put(
            f"{i}",
            {"text": "the SAID"},
            Source("http://e/v1", "old" if i < 3 else "new", "chat"),
            9,
            (1000, 2),
        )
    cache.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE answers SET created = created - 10 * 86400 WHERE key < '2'")
    connection.close()
    return path


def run(action: str = "show", *arguments: str) -> str:
    done = CliRunner().invoke(app, ["cache", action, *arguments])
    if done.exception is not None:
        raise done.exception
    return done.stdout


def test_an_absent_cache_is_empty_and_stays_absent(path: Path) -> None:
    assert run() == f"{path}: 0 answers, 0.0 MiB\n"
    assert run("clear").startswith("removed 0 answers\n")
    assert json.loads(run("show", "--json")) == {
        "schema": "calibrail.cache/1",
        "path": str(path),
        "bytes": 0,
        "removed": 0,
        "models": [],
    }
    assert not path.exists()


def test_contents_are_shown_by_model(filled: Path) -> None:
    shown = run()
    assert f"{filled}: 5 answers" in shown
    assert "  old at http://e/v1: 3 chat answers, 3,000 tokens in, 6 out" in shown
    assert "SAID" not in shown
    content = json.loads(run("show", "--json"))
    assert [(item["model"], item["n"]) for item in content["models"]] == [("new", 2), ("old", 3)]
    assert content["bytes"] > 0


def test_answers_are_cleared_by_model_and_age(filled: Path) -> None:
    assert run("clear", "--model", "old", "--older-than", "9").startswith("removed 2 answers\n")
    assert json.loads(run("clear", "--older-than", "0.5", "--json"))["removed"] == 0
    content = json.loads(run("clear", "--model", "new", "--json"))
    assert content["removed"] == 2
    assert [(item["model"], item["n"]) for item in content["models"]] == [("old", 1)]
    assert run("clear").startswith("removed 1 answer\n")
    assert json.loads(run("show", "--json"))["models"] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("clear", "--older-than", "-1"), "from 0; got -1.0"),
        (("clear", "--older-than", "nan"), "from 0"),
        (("clear", "--older-than", "inf"), "0"),
    ],
)
def test_mistakes_remove_nothing(arguments: tuple[str, ...], says: str, filled: Path) -> None:
    with pytest.raises(InputError, match=says):
        run(*arguments)
    assert len(json.loads(run("show", "--json"))["models"]) == 2


def test_no_cache_and_a_broken_one_are_explained(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"something else")
    for arguments in (("show",), ("clear",)):
        with pytest.raises(CacheError, match="CALIBRAIL_CACHE"):
            run(*arguments)
    assert path.read_bytes() == b"something else"
    monkeypatch.setenv("CALIBRAIL_CACHE", "off")
    with pytest.raises(InputError, match="no answers are kept"):
        run()
