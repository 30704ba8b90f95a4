from __future__ import annotations

import json
from pathlib import Path

import pytest

from calibrail.guardrail.signing import make_keys
from tests.answers import rows, write
from tests.command_line import calibrail


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("card")
    answers = write(folder / "answers.jsonl", rows(60))
    options = ("--score", "novel_stretch", "--alpha", 0.2)
    assert calibrail("calibrate", answers, *options, "-o", folder / "run").returncode == 0
    make_keys(folder / "key.pem")
    signed = ("--sign", folder / "key.pem")
    assert calibrail("export", folder / "run", "-o", folder / "g.json", *signed).returncode == 0
    return folder


def test_card_is_printed_or_written(folder: Path) -> None:
    done = calibrail("guardrail", "card", folder / "g.json")
    assert done.returncode == 0, done.stderr
    assert "THRESHOLD FOUND, NO VERDICT YET  g.json (novel_stretch)" in done.stdout
    assert "What it does not promise" in done.stdout
    said = " ".join(done.stdout.split())
    assert "It is not certified: no limit was set, so no verdict was asked for." in said
    assert "meets what was asked" not in said and "--min-caught" not in said
    done = calibrail("guardrail", "verify", folder / "g.json")
    assert done.stdout.rstrip().endswith("\n- no verdict was asked for")
    for name, begins in (("card.html", "<!doctype html>"), ("card.md", "# calibrail card of")):
        path = folder / "out" / name
        done = calibrail(
            "guardrail", "card", folder / "g.json", "-o", path, "--key", folder / "key.pub.pem"
        )
        assert (done.returncode, done.stdout) == (0, f"{path}: the card of {folder / 'g.json'}\n")
        text = path.read_text()
        assert text.startswith(begins) and "verified: signed with the key" in text


def test_card_as_json_says_the_same(folder: Path) -> None:
    content = json.loads(calibrail("guardrail", "card", folder / "g.json", "--json").stdout)
    assert content["schema"] == "calibrail.card/1"
    assert content["signature"]["state"] == "not verified"
    assert content["guardrail"]["score"]["name"] == "novel_stretch"


def test_no_card_is_written_for_what_is_not_trusted(folder: Path) -> None:
    make_keys(folder / "other.pem")
    path = folder / "refused.html"
    other = ("--key", folder / "other.pub.pem")
    done = calibrail("guardrail", "card", folder / "g.json", "-o", path, *other)
    assert done.returncode == 1 and "signed by another key" in done.stderr
    done = calibrail("guardrail", "card", folder / "g.json", "-o", folder / "card.pdf")
    assert done.returncode == 2 and ".html, .md or .svg" in done.stderr
    assert not path.exists() and not (folder / "card.pdf").exists()
