"""Do commands over shards give what they give without, whatever is killed meanwhile?"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.chat_server import ChatServer, verdicts
from tests.command_line import calibrail

TEXT = "The Rhine rises in the Alps and flows past castles to the North Sea near Rotterdam"
WORDS = TEXT.split()

#: A detector that waits before each answer until there is a file ``go``, where it is told to.
DETECTORS = """
import os, sys, time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent

def slow(example):
    with (HERE / "seen").open("a") as file:
        file.write(f"{example.id} {os.getpid()}\\n")
    row = int(example.id[1:])
    stop = HERE / f"stop-{row}"
    if stop.exists():
        (HERE / "reached").write_text(str(os.getpid()))
        while stop.exists():
            time.sleep(0.01)
    end = HERE / f"end-{row}"
    if end.exists():
        os._exit(1)
    if (HERE / f"poison-{row}").exists():
        raise ValueError(f"row {row} is poison")
    return float(len(example.response) * 7 % 13) or None
"""


def rows(n: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"r{index}",
            "question": f"Where does river {index // 3} rise?",
            "contexts": [TEXT, f"River {index} is {17 * index} km long."],
            "response": " ".join(WORDS[index % 7 : 8 + index % 7])
            + (f" {index} \ud83d towns" if index % 2 else ""),
            "samples": [TEXT, f"It is {index} km."],
            "label": index % 2,
            "group": f"g{index // 3}" if index % 5 else None,
            "side": ("fit", "calibration", "test")[index // 3 % 3],
            "kind": ("short", "long")[index % 2],
            "outside": index * 37 % 101 / 101 if index % 13 else None,
        }
        for index in range(n)
    ]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with data and detectors, in which commands run."""
    write(tmp_path / "data.jsonl", rows(120))
    (tmp_path / "slow_detectors.py").write_text(DETECTORS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    from calibrail.engine.distributed import opened_scores
    from calibrail.pipelines.check import opened_guardrail

    for module in ("slow_detectors", "slow_helper"):
        sys.modules.pop(module, None)
    opened_scores.cache_clear()
    opened_guardrail.cache_clear()


def write(path: Path, items: list[dict[str, Any]]) -> None:
    lines = (json.dumps(item) for item in items)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def without_command(path: Path) -> Any:
    """Return what a JSON file holds, but for the command that wrote it."""

    def cleaned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: cleaned(item) for key, item in value.items() if key != "command"}
        return list(map(cleaned, value)) if isinstance(value, list) else value

    return cleaned(json.loads(path.read_text()))


def assert_same_run(one: Path, other: Path) -> None:
    assert (one / "scores.parquet").read_bytes() == (other / "scores.parquet").read_bytes()
    names = [path.name for path in one.glob("*.json")]
    assert names == [path.name for path in other.glob("*.json")]
    for name in names:
        if name not in ("cost.json", "looks.json"):
            assert without_command(one / name) == without_command(other / name), name


DETECTORS_ASKED = (
    *("--score", "rouge_l", "--score", "slow_detectors:slow", "--score", "fused"),
    *("--score", "hybrid:expensive=novelty,cheap=rouge_l"),
    *("--score", 'ensemble:scores="novelty,length"'),
    *("--score-column", "outside", "--higher", "hallucinated"),
)
COMMANDS = {
    "calibrate": ("--score", "slow_detectors:slow", "--alpha", 0.3, "--by", "kind", "--no-text"),
    "compare": (*DETECTORS_ASKED, "--alpha", 0.3, "--split-column", "side"),
    "audit": (*DETECTORS_ASKED, "--no-geometry"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_over_shards_is_the_run_without(work: Path, command: str) -> None:
    words = (command, "data.jsonl", *COMMANDS[command])
    over = ("--shards", "S", "--shard-rows", 25)
    plain = calibrail(*words, "-o", "plain", cwd=work)
    assert plain.returncode == 0, plain.stderr
    n_seen = len(seen(work))
    for again in ("first", "again"):
        done = calibrail(*words, "-o", again, *over, cwd=work)
        assert done.returncode == 0, done.stderr
        assert_same_run(work / "plain", work / again)
        if command != "calibrate":
            break
    # Beyond these only what pages show of the worst errors.
    assert n_seen < 140 and len(seen(work)) < n_seen + 140
    assert not list((work / "S" / "inputs").iterdir())


def test_processes_give_the_same_bytes(work: Path) -> None:
    words = ("compare", "data.jsonl", *COMMANDS["compare"])
    away = ("--engine", "processes", "--workers", 2, "--shard-rows", 25)
    assert calibrail(*words, "-o", "plain", cwd=work).returncode == 0
    before = seen(work)
    done = calibrail(*words, "-o", "apart", *away, cwd=work)
    assert done.returncode == 0, done.stderr
    assert_same_run(work / "plain", work / "apart")
    after = seen(work)[len(before) :]
    elsewhere = [id for id, pid in after if pid != os.getpid()]
    assert sorted(elsewhere) == sorted(f"r{row}" for row in range(120))
    assert len(after) == len(before)


def seen(work: Path) -> list[tuple[str, int]]:
    """Return whom the detector was asked about, and in which process."""
    pairs = map(str.split, (work / "seen").read_text().splitlines())
    return [(id, int(pid)) for id, pid in pairs]


def test_another_question_to_the_same_answers_computes_nothing(work: Path) -> None:
    over = ("--shards", "S", "--shard-rows", 30, "--score", "slow_detectors:slow")
    # The worst errors, which pages show, are scored once more.
    quiet = ("--no-text", "--alpha", 0.3)
    for words in (
        ("score", "data.jsonl", "-o", "scores.parquet"),
        ("calibrate", "data.jsonl", "--no-text", "--alpha", 0.2, "-o", "one"),
        ("calibrate", "data.jsonl", *quiet, "--seed", 5, "-o", "two"),
        ("calibrate", "data.jsonl", *quiet, "--split-column", "side", "-o", "three"),
        ("compare", "data.jsonl", "--score", "novelty", "--alpha", 0.3, "-o", "four"),
        ("score", "data.jsonl", "--limit", 60, "-o", "few.parquet"),
    ):
        done = calibrail(*words, *over, cwd=work)
        assert done.returncode == 0, done.stderr
        assert len(seen(work)) == 120, words
    table = pq.read_table(work / "few.parquet")
    assert table.equals(pq.read_table(work / "scores.parquet").slice(0, 60))


@pytest.mark.usefixtures("fresh_models")
def test_a_judge_is_asked_from_here_whatever_the_engine(work: Path) -> None:
    def supported(message: str) -> bool:
        return "towns" not in message

    write(work / "few.jsonl", rows(30))
    with ChatServer(verdicts(supported)) as server:
        spec = f"judge:model=tiny,base_url={server.url}"
        words = ("score", "few.jsonl", "--score", spec, "--score", "novelty")
        over = ("--shard-rows", 10, "--shards", "S")
        refused = calibrail(*words, "-o", "no.parquet", *over, "--max-calls", 5, cwd=work)
        assert refused.returncode != 0 and not (work / "no.parquet").exists()
        assert len(server.seen) == 5
        away = ("--engine", "processes", "--workers", 2)
        done = calibrail(*words, "-o", "apart.parquet", *away, *over, cwd=work)
        assert done.returncode == 0, done.stderr
        # Each question once, those of the refused run included.
        assert len(server.seen) == 30
        assert done.stderr.count("it asks an endpoint, whose answers have a cache") == 1
        assert calibrail(*words, "-o", "plain.parquet", cwd=work).returncode == 0
    plain, apart = (work / f"{name}.parquet" for name in ("plain", "apart"))
    assert plain.read_bytes() == apart.read_bytes()


def test_a_network_gives_the_same_verdict(work: Path) -> None:
    words = ("calibrate", "data.jsonl", "--score", "rad", "--alpha", 0.3, "--max-fpr", 0.9)
    plain = calibrail(*words, "-o", "plain", cwd=work)
    apart = calibrail(*words, "-o", "apart", "--shards", "S", "--shard-rows", 7, cwd=work)
    assert plain.returncode == apart.returncode
    one, other = (
        pq.read_table(work / name / "scores.parquet")["rad"].to_pandas()
        for name in ("plain", "apart")
    )
    np.testing.assert_allclose(one, other, rtol=0.0, atol=1e-6)


def test_check_decides_over_shards_as_without(work: Path) -> None:
    helper = work / "slow_helper.py"
    helper.write_text("FACTOR = 1.0\n")
    with (work / "slow_detectors.py").open("a") as file:
        file.write("\nimport slow_helper\n\ndef helped(example):\n")
        file.write("    return slow(example) and slow(example) * slow_helper.FACTOR\n")
    forget()
    words = ("calibrate", "data.jsonl", "--score", "slow_detectors:helped", "--alpha", 0.3)
    assert calibrail(*words, "--by", "kind", "-o", "run", cwd=work).returncode == 0
    assert calibrail("export", "run", "-o", "g.json", cwd=work).returncode == 0
    check = ("check", "g.json", "data.jsonl")
    over = ("--shards", "S", "--shard-rows", 25)
    lines = []
    for name, options in (("plain", ()), ("first", over), ("again", over)):
        (work / "seen").write_text("")
        done = calibrail(*check, *options, "-o", f"{name}.jsonl", cwd=work)
        assert done.returncode == 0, done.stderr
        lines.append((work / f"{name}.jsonl").read_bytes())
        assert bool(seen(work)) == (name != "again")
    away = ("--engine", "processes", "--workers", 2, "--shard-rows", 60)
    assert calibrail(*check, *away, "-o", "apart.jsonl", cwd=work).returncode == 0
    assert os.getpid() not in {pid for _, pid in seen(work)}
    lines.append((work / "apart.jsonl").read_bytes())
    assert len(set(lines)) == 1
    (work / "seen").write_text("")
    helper.write_text("FACTOR = -1.0\n")
    forget()
    assert calibrail(*check, *over, "-o", "other.jsonl", cwd=work).returncode == 0
    assert len(seen(work)) >= 120 and (work / "other.jsonl").read_bytes() != lines[0]


def test_what_is_computed_here_despite_the_options_is_said_once(work: Path) -> None:
    write(work / "few.jsonl", rows(90))
    hybrid = ("--score", "hybrid:expensive=novelty,cheap=rouge_l")
    asked = (*hybrid, "--score", "length", "--score-column", "outside", "--higher", "hallucinated")
    words = ("compare", "few.jsonl", *asked, "--alpha", 0.3, "--split-column", "side")
    away = ("--engine", "processes", "--workers", 1)
    for options, despite in (
        ((), None),
        (("--shards", "S"), "--shards S"),
        ((*away, "--shards", "S"), "--engine processes and --shards S"),
    ):
        done = calibrail(*words, *options, "-o", f"run-{len(options)}", cwd=work)
        assert done.returncode == 0, done.stderr
        warned = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
        assert warned == (
            []
            if despite is None
            else [
                "warning: hybrid:expensive=novelty,cheap=rouge_l is computed by the process that "
                f"you started, and not kept, despite {despite}: one process has to know whom it "
                "learnt from, and how many answers it judged"
            ]
        )


@pytest.mark.parametrize("late", [False, True])
def test_scores_of_an_edited_helper_are_not_kept(work: Path, late: bool) -> None:
    helper = work / "slow_helper.py"
    line = "from slow_helper import FACTOR\n"
    with (work / "slow_detectors.py").open("a") as file:
        file.write("" if late else line)
        file.write(f"def helped(example):\n    {line if late else ''}\n    slow(example)\n")
        file.write("    return FACTOR * len(example.response)\n")
    words = ("score", "data.jsonl", "--score", "slow_detectors:helped", "-o", "scores.parquet")
    read = []
    for factor in (1.0, 2.0, 2.0, 1.0):
        (work / "seen").write_text("")
        helper.write_text(f"FACTOR = {factor}\n")
        forget()
        done = calibrail(*words, "--shards", "S", cwd=work)
        assert done.returncode == 0, done.stderr
        scores = pq.read_table(work / "scores.parquet")["slow_detectors:helped"].to_numpy()
        read.append((len(seen(work)), scores.sum()))
    (_, once), (_, twice), *known = read
    assert [n for n, _ in read[:2]] == [120, 120] and twice == 2.0 * once
    assert known == [(0, twice), (0, once)]


def test_a_poisoned_shard_is_named_and_the_rest_is_kept(work: Path) -> None:
    words = (
        *("score", "data.jsonl", "--score", "slow_detectors:slow", "-o", "scores.parquet"),
        *("--shards", "S", "--shard-rows", 30),
    )
    (work / "poison-40").touch()
    failed = calibrail(*words, cwd=work)
    assert failed.returncode == 1 and not (work / "scores.parquet").exists()
    assert "rows 31 to 60: " in failed.stderr and "row 40 is poison" in failed.stderr
    assert "Traceback" not in failed.stderr and failed.stderr.count("error:") == 1
    (work / "poison-40").unlink()
    (work / "seen").unlink()
    assert calibrail(*words, cwd=work).returncode == 0
    assert [id for id, _ in seen(work)] == [f"r{row}" for row in range(30, 60)]


def test_a_folder_that_cannot_be_written_is_refused(work: Path) -> None:
    words = ("score", "data.jsonl", "--score", "length", "-o", "x.parquet", "--shards")
    for folder in ("/proc/shards", "data.jsonl"):
        done = calibrail(*words, folder, cwd=work)
        assert done.returncode == 1 and not (work / "x.parquet").exists()
        assert f"cannot keep shards in {(work / folder)}: " in done.stderr
        assert done.stderr.strip().endswith("; name another folder")


def test_a_dry_run_leaves_the_folder_of_shards_alone(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = work / "shards"
    command = ["score", work / "data.jsonl", "--score", "novelty,length"]
    engine = ["--engine", "processes", "--workers", "2", "--shard-rows", "50", "--shards", kept]
    arguments = [*command, "-o", work / "scores.parquet", "--dry-run", "--json"]
    fresh = calibrail(*arguments, *engine)
    assert fresh.returncode == 0, fresh.stderr
    assert not kept.exists() and not (work / "scores.parquet").exists()
    done = calibrail(*command, "-o", work / "real.parquet", "--shards", kept, "--shard-rows", "50")
    assert done.returncode == 0, done.stderr

    def listing() -> dict[str, tuple[bytes | None, int]]:
        return {
            str(path): (path.read_bytes() if path.is_file() else None, path.stat().st_mtime_ns)
            for path in (kept, *kept.rglob("*"))
        }

    def opened(options: object) -> None:
        raise AssertionError("a dry run opened a folder of shards")

    before = listing()
    assert str(kept / "manifest.json") in before
    monkeypatch.setattr("calibrail.engine.shards.opened_store", opened)
    again = calibrail(*arguments, *engine)
    assert again.returncode == 0, again.stderr
    assert listing() == before
    assert json.loads(again.stdout) == {"schema": "calibrail.dry_run/1", "calls": []}
