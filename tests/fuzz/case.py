"""What is one damaged file, and what must hold whatever the damage is?"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

from calibrail import Example, diagnose
from calibrail.data import read
from calibrail.errors import CalibrailError
from tests.command_line import calibrail
from tests.fuzz.mutations import damage, odd_values
from tests.fuzz.odd_tables import odd_table
from tests.fuzz.seeds import sources

_TEXT: Final = (".jsonl", ".json", ".csv", ".tsv")
_KEEP: Final = ("score", "kind", "group", "contexts", "answers", "Category")

#: Every command that reads a file of answers, less the source.
COMMANDS: Final = {
    "doctor": "",
    "calibrate": "--score-column score --higher hallucinated --alpha 0.3 -o run",
    "calibrate_texts": "--score novelty --alpha 0.3 --max-fpr 0.9 -o run",
    "score": "--score rouge_l -o scores.parquet",
    "test": "--score-column score --higher hallucinated --threshold 0.5",
    "compare": "--score novelty,rouge_l --alpha 0.3 -o run",
    "audit": "--score novelty --no-geometry -o run",
    "shift": "--score novelty --by kind --alpha 0.3 -o run",
    "repeat": "--score novelty --alpha 0.3 -o run",
    "agree": "--label-column human --judge-column judge",
    "certify": "--max-fpr 0.9",
    "check": "-o decisions.jsonl",
    "select": "--fdr 0.3",
}


def written(rng: random.Random, folder: Path) -> Path:
    """Write one damaged source into an empty folder; return what is to be opened."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if rng.random() < 0.1:
        name, raw = odd_table(rng)
        files = {name: raw if rng.random() < 0.7 else damage(raw, rng, text=False)}
        if name == "data.arrow":
            files["state.json"] = b'{"_data_files": [{"filename": "data.arrow"}]}'
    else:
        files = dict(rng.choice(list(sources().values())))
        name = rng.choice(list(files))
        files[name] = damage(files[name], rng, text=name.endswith(_TEXT))
    for name, raw in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(raw)
    return folder if len(files) > 1 else folder / next(iter(files))


def read_case(seed: int, folder: Path) -> str:
    """Read a damaged source; return how it ended. Anything but its own error is raised."""
    rng = random.Random(seed)
    source, quarantine = written(rng, folder / "data"), folder / "quarantine.jsonl"
    quarantine.unlink(missing_ok=True)
    try:
        diagnose(source)
    except CalibrailError as error:
        _said(error, source)
    require = rng.choice(((), ("response",), ("question", "contexts", "response")))
    keep, labelled = rng.choice(((), (), _KEEP[:1], _KEEP[:2], _KEEP)), rng.random() < 0.6
    try:
        reading = read(
            source,
            keep=keep,
            require=require,
            labelled=labelled,
            allow_none=True,
            quarantine=quarantine,
            distinct=True,
        )
        examples = list(reading)
    except CalibrailError as error:
        _said(error, source)
        return "refused"
    assert len(examples) == reading.n_examples
    assert len({example.id for example in examples}) == len(examples)
    for example in examples:
        _usable(example, labelled)
    lines = quarantine.read_text("utf-8").split("\n")[:-1] if quarantine.exists() else []
    entries = [json.loads(line) for line in lines]
    assert len(entries) == reading.n_quarantined == sum(reading.reasons.values())
    assert all(entry["row"] >= 1 and entry["field"] and entry["reason"] for entry in entries)
    assert reading.n_examples + reading.n_quarantined + reading.n_filtered >= reading.n_rows
    return "quarantined" if entries else "read"


def command_case(seed: int, folder: Path, guardrail: Path, name: str | None = None) -> str:
    """Run a command, one at random or the one named, on a damaged source; return how it ended."""
    rng = random.Random(seed)
    source, name = written(rng, folder / "data"), name or rng.choice(list(COMMANDS))
    shutil.rmtree(folder / "run", ignore_errors=True)
    command = name.removesuffix("_texts")
    frozen = [guardrail] if command in ("certify", "check", "select") else []
    run = calibrail(command, *frozen, source, *COMMANDS[name].split(), cwd=folder)
    return _ended(run, f"{command} {source}")


def run_folder_case(seed: int, folder: Path, run: Path, guardrail: Path) -> str:
    """Damage a file of a run, or a guardrail, and use it; return how it ended."""
    rng = random.Random(seed)
    good, answers = folder / "good.jsonl", folder / "run"
    good.write_bytes(sources()["jsonl"]["rows.jsonl"])
    if rng.random() < 0.5:
        shutil.rmtree(answers, ignore_errors=True)
        shutil.copytree(run, answers)
        file = answers / rng.choice(("report.json", "calibration.json"))
        words = ["export", answers, "-o", "again.json", "--force"]
    else:
        file = folder / "guardrail.json"
        shutil.copy(guardrail, file)
        words = rng.choice(
            (
                ["check", file, good, "-o", "-"],
                ["certify", file, good, "--max-fpr", "0.9"],
                ["select", file, good, "--fdr", "0.3"],
                ["explain", file, "--response", "It is Ada."],
            )
        )
    raw = file.read_bytes()
    file.write_bytes(
        rng.choice((lambda: odd_values(raw, rng), lambda: damage(raw, rng, text=True)))()
    )
    done = calibrail(*words, cwd=folder)
    return _ended(done, f"{words[0]} {file}")


def _usable(example: Example, labelled: bool) -> None:
    """Refuse an example that another program could not write out, or with an impossible label."""
    assert example.label in ((0, 1) if labelled else (0, 1, None))
    texts = [example.question, *example.contexts, example.response, *example.samples, example.id]
    texts += [example.group or "", *(v for v in example.columns.values() if isinstance(v, str))]
    for text in texts:
        text.encode()


def _said(error: CalibrailError, source: Path) -> None:
    message = str(error)
    assert message and "\n" not in message and len(message) < 5000, message
    assert source.name in message, message


def _ended(done: CompletedProcess[str], words: str) -> str:
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in (0, 1, 3, 4), (words, done.returncode, done.stderr)
    assert done.returncode != 1 or done.stderr or done.stdout, words
    return f"{words.split()[0]} {done.returncode}"
