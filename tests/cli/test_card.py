from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.answers import rows, write
from tests.command_line import calibrail


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("card")
    answers = write(folder / "answers.jsonl", rows(60))
    options = ("--score", "novel_stretch", "--alpha", 0.2)
    assert calibrail("calibrate", answers, *options, "-o", folder / "run").returncode == 0
    assert calibrail("keygen", "-o", folder / "key.pem").returncode == 0
    signed = ("--sign", folder / "key.pem")
    assert calibrail("export", folder / "run", "-o", folder / "g.json", *signed).returncode == 0
    return folder


def test_card_is_printed_or_written(folder: Path) -> None:
    done = calibrail("card", folder / "g.json")
    assert done.returncode == 0, done.stderr
    assert "THRESHOLD FOUND  g.json (novel_stretch)" in done.stdout
    assert "What it does not promise" in done.stdout
    for name, begins in (("card.html", "<!doctype html>"), ("card.md", "# calibrail card of")):
        path = folder / "out" / name
        done = calibrail("card", folder / "g.json", "-o", path, "--key", folder / "key.pub.pem")
        assert (done.returncode, done.stdout) == (0, f"{path}: the card of {folder / 'g.json'}\n")
        text = path.read_text()
        assert text.startswith(begins) and "verified: signed with the key" in text


def test_card_as_json_says_the_same(folder: Path) -> None:
    content = json.loads(calibrail("card", folder / "g.json", "--json").stdout)
    assert content["schema"] == "calibrail.card/1"
    assert content["signature"]["state"] == "not verified"
    assert content["guardrail"]["score"]["name"] == "novel_stretch"


def test_no_card_is_written_for_what_is_not_trusted(folder: Path) -> None:
    assert calibrail("keygen", "-o", folder / "other.pem").returncode == 0
    path = folder / "refused.html"
    other = ("--key", folder / "other.pub.pem")
    done = calibrail("card", folder / "g.json", "-o", path, *other)
    assert done.returncode == 1 and "signed by another key" in done.stderr
    done = calibrail("card", folder / "g.json", "-o", folder / "card.pdf")
    assert done.returncode == 2 and ".html or .md" in done.stderr
    assert not path.exists() and not (folder / "card.pdf").exists()
