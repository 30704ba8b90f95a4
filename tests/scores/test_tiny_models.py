"""Do the scores of entailment behave on a model that really reads, from the command line on?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.answers import write
from tests.command_line import calibrail
from tests.tiny_models import PADDING, WORDS, make_matcher

SUPPORT = f"{WORDS[0]} {WORDS[1]} {WORDS[2]}."
PAD = " ".join(PADDING)


@pytest.fixture(scope="module")
def matcher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_matcher(tmp_path_factory.mktemp("models") / "matcher")


def padded(words: int, place: float, sentence: str = SUPPORT) -> str:
    text = " ".join((PADDING * (words // len(PADDING) + 1))[:words])
    cut = text.find(" ", int(place * (len(text) - 1)))
    cut = len(text) if cut < 0 else cut
    return f"{text[:cut]}. {sentence} {text[cut:]}"


def test_from_labelled_answers_to_an_explained_decision(matcher: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    items = []
    for index in range(120):
        stated = [WORDS[i] for i in rng.choice(len(WORDS), 3, replace=False)]
        other = next(word for word in WORDS if word not in stated)
        label = index % 2
        answered = [*stated[:2], other] if label else stated
        if rng.random() < 0.1:
            answered = stated
        items.append(
            {
                "id": f"a{index}",
                "question": "q?",
                "contexts": [" ".join(stated) + "."],
                "response": " ".join(answered) + ".",
                "label": label,
            }
        )
    answers = write(tmp_path / "answers.jsonl", items)
    spec = f"sec:model={matcher}"
    done = calibrail(
        "calibrate",
        answers,
        "--score",
        spec,
        "--score",
        f"claims:model={matcher}",
        "--alpha",
        0.3,
        "--max-fpr",
        0.5,
        "-o",
        tmp_path / "run",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "forward passes, shared with" in done.stderr
    exported = calibrail("export", tmp_path / "run", "-o", tmp_path / "g.json")
    assert exported.returncode == 0, exported.stderr
    response = f"{WORDS[0]} {WORDS[1]}. {WORDS[2]} {WORDS[3]}."
    done = calibrail(
        "explain",
        tmp_path / "g.json",
        "--question",
        "q?",
        "--response",
        response,
        "--context",
        f"{WORDS[0]} {WORDS[1]}.",
        "--json",
    )
    decision = json.loads(done.stdout)
    assert decision["outcome"] == "flag"
    assert [item["verdict"] for item in decision["evidence"]["items"]] == [
        "supported",
        "unsupported",
    ]
    checked = calibrail(
        "check", tmp_path / "g.json", answers, "--evidence", "-o", tmp_path / "d.jsonl"
    )
    assert checked.returncode == 0, checked.stderr
    lines = [json.loads(line) for line in (tmp_path / "d.jsonl").open()]
    assert all(line["evidence"]["kind"] == "sentences" for line in lines)


def test_other_weights_are_another_detector(matcher: Path, tmp_path: Path) -> None:
    said = (f"not {SUPPORT}", SUPPORT)
    items = [
        {
            "id": str(i),
            "contexts": [SUPPORT],
            "response": said[i % 2],
            "label": (i + 1) % 2,
            "question": " ".join(f"word{i}{k}" for k in range(5)),
        }
        for i in range(40)
    ]
    answers = write(tmp_path / "answers.jsonl", items)
    copy = make_matcher(tmp_path / "copy")
    done = calibrail(
        "calibrate", answers, "--score", f"sec:model={copy}", "--alpha", 0.3, "-o", tmp_path / "run"
    )
    assert done.returncode == 0, done.stderr
    assert calibrail("export", tmp_path / "run", "-o", tmp_path / "g.json").returncode == 0
    weights = copy / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(bytes(raw))
    # Another process opens the model anew.
    program = "from calibrail.cli import main; main()"
    words = ["check", tmp_path / "g.json", answers, "-o", tmp_path / "d.jsonl"]
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "is not the one that was calibrated (weights_sha256" in done.stderr


def test_samples_are_read_from_the_data(matcher: Path, tmp_path: Path) -> None:
    items = [
        {"id": "a", "question": "q", "response": SUPPORT, "samples": [SUPPORT, f"not {PAD}"]},
        {"id": "b", "question": "q", "response": f"not {WORDS[3]}.", "samples": [SUPPORT]},
        {"id": "c", "question": "q", "response": SUPPORT},
    ]
    answers = write(tmp_path / "answers.jsonl", items)
    done = calibrail(
        "score", answers, "--score", f"selfcheck:model={matcher}", "-o", tmp_path / "s.parquet"
    )
    assert done.returncode == 0, done.stderr
    *_, values, reasons = pq.read_table(tmp_path / "s.parquet").to_pydict().values()
    assert values[1] > 0.9 > 0.1 > values[0]
    assert values[2] is None
    assert "no further answers sampled" in reasons[2]
