"""Progress of long work on standard error, and silence of short work."""

from __future__ import annotations

import gzip
import io
import json
import random
import sys
import time
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrail import Example
from calibrail.cli import output
from calibrail.cli.output import ProgressLine, counting
from calibrail.data import files
from calibrail.data.files import count_rows
from calibrail.data.reading import observe_readings, read
from calibrail.pipelines.scoring import score_only
from calibrail.scores.custom import CustomScore


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """A time that only passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def answers(path: Path, n: int) -> Path:
    rows = ({"response": f"Answer {k}.", "label": k % 2} for k in range(n))
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Put a terminal where standard error was; pytest sets its own before every test's body."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("TERM", "xterm")
    return found


def test_long_work_is_shown_although_it_never_ends_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "PATIENCE", 0.05)
    seen = terminal(monkeypatch)
    with counting("comparing") as context:
        assert context.progress is not None
        context.progress(17)
        until = time.monotonic() + 10
        while "comparing" not in seen.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    assert "comparing" in seen.getvalue() and "17 answers" in seen.getvalue()


def test_short_work_stays_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = terminal(monkeypatch)
    with counting("scoring") as context:
        assert context.progress is not None
        context.progress(3)
    assert seen.getvalue() == ""


def test_short_work_stays_silent_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    with counting("scoring") as context:
        assert context.progress is not None
        context.progress(3)
    assert capfd.readouterr() == ("", "")


def test_lines_say_what_is_done_the_rate_and_the_time_left(tmp_path: Path) -> None:
    clock = Clock()
    line = ProgressLine("scoring", clock)
    with observe_readings(line.reads):
        examples = iter(read(answers(tmp_path / "a.jsonl", 5000), require=("response",)))
    clock.now = 4.0
    assert line.words() == "starting, 4 s so far"
    for _ in range(64):
        next(examples)
    clock.now = 10.0
    line(64)
    assert line.words() == "scoring: 64 of about 5,000 answers"
    clock.now = 20.0
    line(128)
    assert line.words() == "scoring: 128 of about 5,000 answers, 6.4 a second, about 13 min left"
    line.answered = 70
    assert "70 answers of endpoints" in line.words()


def test_lines_come_ever_more_rarely_and_never_on_standard_output(
    capfd: pytest.CaptureFixture[str],
) -> None:
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) > 7

    ProgressLine("scoring", Clock()).tell(wait)
    assert pauses == [10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 300.0, 300.0]
    out, err = capfd.readouterr()
    assert out == "" and len(err.splitlines()) == 7


def test_rows_that_cannot_be_used_and_parts_count_for_the_total(tmp_path: Path) -> None:
    path = answers(tmp_path / "a.jsonl", 200)
    path.write_text(path.read_text() + '{"response": "", "label": 1}\n' * 200)
    whole = read(path, require=("response",))
    assert len(list(whole)) == whole.about_in_all() == 200
    part = read(path, require=("response",), limit=50)
    next(part)
    assert part.about_in_all() == 50


def test_rows_are_counted_without_being_read(tmp_path: Path) -> None:
    jsonl, table = answers(tmp_path / "a.jsonl", 30), tmp_path / "t.csv"
    table.write_text("response,label\nyes,1\nno,0")
    pq.write_table(pa.table({"label": [0, 1, 1]}), tmp_path / "p.parquet")
    assert count_rows([jsonl]) == 30 and count_rows([table]) == 2
    assert count_rows([jsonl, tmp_path / "p.parquet"]) == 33
    table.write_text('response,label\n"two\nlines, ""quoted""",1\nno,0\n')
    assert count_rows([table]) == 2
    (tmp_path / "z.jsonl.gz").write_bytes(gzip.compress(jsonl.read_bytes()))
    assert count_rows([tmp_path / "z.jsonl.gz"]) == 30
    (tmp_path / "list.json").write_text("[\n{}\n]")
    assert count_rows([tmp_path / "list.json"]) is None and count_rows([]) is None


def test_of_large_files_a_part_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "COUNTED", 1 << 21)
    path, noise = tmp_path / "large.jsonl", random.Random(1)
    lines = [f'{{"response": "{noise.getrandbits(1500):x}"}}\n' for _ in range(20_000)]
    path.write_text("".join(lines))
    about = count_rows([path])
    assert about != 20_000 and about == pytest.approx(20_000, rel=0.1)
    assert count_rows([path] * 20) == pytest.approx(400_000, rel=0.1)
    path.write_bytes(gzip.compress(path.read_bytes(), 1))
    assert count_rows([path]) is None


def test_the_rows_of_data_in_memory_are_known(tmp_path: Path) -> None:
    rows = [{"response": f"Answer {k}.", "label": k % 2} for k in range(40)]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    for source in (rows, columns, pa.table(columns), pd.DataFrame(columns)):
        opened = read(source, require=("response",))
        next(opened)
        assert opened.about_in_all() == 40
    endless = read(iter(rows), require=("response",))
    next(endless)
    assert endless.about_in_all() in (None, 40)
    drawn = read(answers(tmp_path / "a.jsonl", 3000), require=("response",), sample=30)
    next(drawn)
    assert drawn.about_in_all() == 30 == 1 + len(list(drawn))


def test_the_number_of_whole_groups_is_known_once_they_are_drawn() -> None:
    rows = [{"response": f"Answer {k}.", "label": k % 2, "group": k // 7} for k in range(700)]
    opened = read(rows, require=("response",), sample=100)
    next(opened)
    expected = opened.about_in_all()
    assert expected == 1 + len(list(opened)) != 100


@pytest.mark.filterwarnings("ignore:The detector")
def test_a_slow_function_is_followed_answer_by_answer(tmp_path: Path) -> None:
    clock, seen = Clock(), list[str]()
    line = ProgressLine("scoring", clock)

    def slow(example: Example) -> float:
        clock.now += 0.5
        seen.append(line.words())
        return float(len(example.response))

    with observe_readings(line.reads):
        score_only(answers(tmp_path / "a.jsonl", 3000), CustomScore(slow), progress=line)
    assert seen[100] == "scoring: 100 of about 3,000 answers, 2 a second, about 24 min left"
    done = [int(words.split()[1].replace(",", "")) for words in seen[1:]]
    assert done == list(range(1, 3000)) and line.done == 3000
