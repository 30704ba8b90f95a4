"""`check` writes what may be shown of each answer, over shards and by itself alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calibrail import Guardrail
from tests.command_line import calibrail
from tests.guardrail.sentences import by_sentence_of_words

ROWS: list[dict[str, Any]] = [
    {"id": "trimmed", "response": "Tungsten is a metal. However, basalt hums loudly."},
    {"id": "whole", "response": "Tungsten is a metal."},
    {"id": "emptied", "response": "Basalt hums loudly. Granite jumps higher there."},
    {"id": "torn", "response": "Basalt hums loudly. The latter is a metal."},
    {"id": "listed", "response": "Metals:\n- Basalt hums loudly\n- Tungsten is a metal"},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("check")
    by_sentence_of_words().save(made / "g.json")
    rows = [{**row, "contexts": ["Tungsten is a metal among metals."]} for row in ROWS]
    (made / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return made


def decisions(path: Path) -> dict[str, dict[str, Any]]:
    return {item["id"]: item for item in map(json.loads, path.read_text().splitlines())}


def test_each_line_holds_what_may_be_shown_and_what_may_not(folder: Path) -> None:
    done = calibrail("check", folder / "g.json", folder / "a.jsonl", "-o", folder / "d.jsonl")
    said = " ".join(done.stdout.split())
    assert "1 passed (20%), 2 trimmed (40%), 1 with nothing left (20%) and 1 for review" in said
    lines = decisions(folder / "d.jsonl")
    assert {name: (item["outcome"], item["text"]) for name, item in lines.items()} == {
        "trimmed": ("flag", "Tungsten is a metal."),
        "whole": ("pass", "Tungsten is a metal."),
        "emptied": ("flag", ""),
        "torn": ("review", None),
        "listed": ("flag", "Metals:\n- Tungsten is a metal"),
    }
    for row in ROWS:
        for item in lines[row["id"]]["removed"]:
            assert row["response"][item["start"] : item["end"]] == item["text"]
            assert item["reason"]
    assert [len(item["removed"]) for item in lines.values()] == [1, 0, 2, 1, 1]


def test_the_summary_counts_answers_by_what_became_of_them(folder: Path) -> None:
    done = calibrail(
        "check", folder / "g.json", folder / "a.jsonl", "-o", folder / "j.jsonl", "--json"
    )
    content = json.loads(done.stdout)
    assert content["outcomes"] == {"flag": 3, "pass": 1, "review": 1}
    assert content["trimmed"] == {"trimmed": 2, "emptied": 1}


@pytest.mark.parametrize("evidence", [(), ("--evidence",)])
def test_shards_give_the_same_lines(
    folder: Path, tmp_path: Path, evidence: tuple[str, ...]
) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    calibrail("check", folder / "g.json", folder / "a.jsonl", "-o", one, *evidence)
    options = ("--engine", "processes", "--shards", tmp_path / "shards", "--shard-rows", "2")
    calibrail("check", folder / "g.json", folder / "a.jsonl", "-o", other, *evidence, *options)
    assert one.read_bytes() == other.read_bytes()
    if evidence:
        first = decisions(one)["trimmed"]["evidence"]
        assert [item["text"] for item in first["items"]] == [
            "Tungsten is a metal.",
            "However, basalt hums loudly.",
        ]
        words = first["items"][1]["evidence"]["items"]
        text = ROWS[0]["response"]
        assert [text[item["start"] : item["end"]] for item in words] == ["basalt", "hums", "loudly"]


def test_an_answer_that_cannot_be_used_has_no_text(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text((folder / "a.jsonl").read_text() + "{broken\n")
    calibrail("check", folder / "g.json", path, "-o", tmp_path / "d.jsonl")
    *_, last = map(json.loads, (tmp_path / "d.jsonl").read_text().splitlines())
    assert (last["outcome"], last["text"], last["removed"]) == ("error", None, [])


def test_sentences_that_the_data_gives_are_those_that_are_judged(folder: Path) -> None:
    guardrail = Guardrail.load(folder / "g.json")
    row = {
        "contexts": ["Tungsten is a metal."],
        "response": "Tungsten is a metal Basalt hums loudly",
        "sentences": [{"start": 0, "end": 19}, {"start": 20, "end": 38}],
    }
    (decision,) = guardrail.decide([row])
    assert decision.text == "Tungsten is a metal"


def test_explain_shows_what_is_left_and_what_is_removed(folder: Path) -> None:
    asked = ("--response", ROWS[0]["response"], "--context", "Tungsten is a metal.")
    text = " ".join(calibrail("explain", folder / "g.json", *asked).stdout.split())
    assert "What is left may be shown Tungsten is a metal." in text
    assert 'Removed sentences removed "However, basalt hums loudly."' in text
    content = json.loads(calibrail("explain", folder / "g.json", *asked, "--json").stdout)
    assert content["text"] == "Tungsten is a metal."
    asked = ("--response", ROWS[3]["response"], "--context", "Tungsten is a metal.")
    text = " ".join(calibrail("explain", folder / "g.json", *asked).stdout.split())
    assert "Nothing of it may be shown as it is." in text
    assert "Sentences that would be removed" in text


def test_the_card_says_that_sentences_are_removed(folder: Path) -> None:
    text = " ".join(calibrail("guardrail", "card", folder / "g.json").stdout.split())
    assert "It removes each sentence of an answer whose novel_count score is at least" in text
    assert "It removes every unsupported sentence of at least 90% of hallucinated answers" in text
    assert "What the held-out answers show Value 95% interval Counts Fully cleaned" in text
    assert "It flags an answer" not in text
    assert "It catches" not in text
