"""What is left after a crash, a full disk or a careless hand, and does it go on from there?"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import calibrail
from calibrail.errors import DataError
from calibrail.labelling.ledger import Log
from calibrail.labelling.sampling import Pool
from calibrail.options import Drawing
from tests.labelling.rows import frozen, label_some, lines, traces, write
from tests.memory import peak_bytes

ROOT = Path(__file__).parents[2]


def test_killed_at_any_moment_it_loses_at_most_the_answer_on_screen(tmp_path: Path) -> None:
    source, whole, cut = write(tmp_path / "t.jsonl", traces(1200)), tmp_path / "w", tmp_path / "c"
    guardrail = tmp_path / "g.json"
    frozen().save(guardrail)
    asked = {"guardrail": str(guardrail), "max_fpr": 0.55}
    arguments = f"{str(source)!r}, {str(cut)!r}, guardrail={str(guardrail)!r}, max_fpr=0.55"
    program = textwrap.dedent(
        f"""
        import sys, calibrail
        from calibrail.options import Drawing
        from tests.labelling.rows import truth
        drawing = Drawing("active", floor=0.2)
        with calibrail.label({arguments}, drawing=drawing) as session:
            while (task := session.next("ada")) is not None:
                session.put("ada", task.order, truth(task.id))
                # What was acknowledged is what must be there afterwards.
                sys.stdout.write(f"{{task.order}}\\n")
                sys.stdout.flush()
        """
    )
    chance, kills, acknowledged = random.Random(20261122), 0, 0
    while kills < 4:
        running = subprocess.Popen(
            [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert running.stdout is not None
        if kills:
            running.stdout.readline()
            acknowledged += 1
        time.sleep(chance.uniform(0.0, 1.2 if not kills else 0.15))
        running.kill()
        acknowledged += len(running.stdout.read().splitlines())
        running.wait()
        kills += 1
        path = cut / "labels.jsonl"
        kept = len(path.read_bytes().splitlines()) if path.exists() else 0
        # One that was on its way may be there, although nobody was told.
        assert acknowledged <= kept <= acknowledged + kills
    drawing = Drawing("active", floor=0.2)
    with calibrail.label(source, cut, drawing=drawing, **asked) as session:
        n = session.counts("ada").by_you
        label_some(session, "ada", 3)
    # Begun over and over it is one look; the one that it is compared with is to be the first, too.
    assert json.loads((cut / "session.json").read_bytes())["share"] == 0.75
    (tmp_path / "g.looks.json").unlink(missing_ok=True)
    with calibrail.label(source, whole, drawing=drawing, **asked) as session:
        label_some(session, "ada", n + 3)
    for name in ("session.json", "pool.jsonl", "draws.jsonl"):
        assert (whole / name).read_bytes() == (cut / name).read_bytes()
    assert [line["label"] for line in lines(whole / "labels.jsonl")] == [
        line["label"] for line in lines(cut / "labels.jsonl")
    ]


@pytest.mark.parametrize("name", ["labels.jsonl", "draws.jsonl", "handed.jsonl"])
def test_a_torn_last_line_is_cut_off_and_said(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "labels"
    with calibrail.label(traces(20), folder) as session:
        label_some(session, "ada", 4)
        assert session.torn == ()
    path = folder / name
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[-1][:25])
    with calibrail.label(None, folder) as session:
        assert session.torn == (name,)
        assert path.read_bytes() == whole
        assert session.counts("ada").by_you == 4
        label_some(session, "ada", 16)
    assert len(lines(folder / "labels.jsonl")) == 20


def test_a_last_line_without_its_end_is_kept(tmp_path: Path) -> None:
    with calibrail.label(traces(5), tmp_path) as session:
        label_some(session, "ada", 2)
    path = tmp_path / "labels.jsonl"
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    with calibrail.label(None, tmp_path) as session:
        assert session.torn == ()
        label_some(session, "ada", 1)
    assert [line["order"] for line in lines(path)] == [1, 2, 3]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_said_and_the_label_can_be_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = calibrail.label(traces(10), tmp_path)
    label_some(session, "ada", 2)
    task = session.next("ada")
    assert task is not None
    before = (tmp_path / "labels.jsonl").read_bytes()
    really = os.write

    def full(handle: int, raw: bytes) -> int:
        # Half of the line still fits, as on a real disk.
        really(handle, raw[: len(raw) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(DataError, match=r"cannot write to .*labels.jsonl: No space left"):
        session.put("ada", task.order, 1)
    monkeypatch.undo()
    assert (tmp_path / "labels.jsonl").read_bytes() == before
    assert session.next("ada") == task
    session.put("ada", task.order, 1)
    assert session.counts("ada").by_you == 3


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(DataError, match=r"cannot make the folder .*file"):
        calibrail.label(traces(5), path)
    # As good as a folder without the right to write, and so for every user.
    (tmp_path / "locked" / ".lock").mkdir(parents=True)
    with pytest.raises(DataError, match=r"cannot write into .*locked"):
        calibrail.label(traces(5), tmp_path / "locked")


def test_a_crash_before_anything_was_agreed_on_begins_anew(tmp_path: Path) -> None:
    with calibrail.label(traces(10), tmp_path) as session:
        whole = (tmp_path / "pool.jsonl").read_bytes()
    (tmp_path / "session.json").unlink()
    (tmp_path / "pool.jsonl").write_bytes(whole[: len(whole) // 2])
    with calibrail.label(traces(10), tmp_path) as session:
        assert len(label_some(session, "ada", 10)) == 10
    assert (tmp_path / "pool.jsonl").read_bytes() == whole
    assert json.loads((tmp_path / "session.json").read_bytes())["schema"] == "calibrail.labels/1"


@pytest.mark.parametrize("name", ["labels.jsonl", "draws.jsonl", "handed.jsonl"])
def test_a_damaged_line_is_refused_until_it_is_restored(tmp_path: Path, name: str) -> None:
    session = calibrail.label(traces(10), tmp_path)
    label_some(session, "ada", 2)
    other = calibrail.label(None, tmp_path)
    label_some(session, "ada", 2)
    path = tmp_path / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-2] + b"?\n")
    n = len(whole.splitlines())
    for _ in range(2):
        with pytest.raises(DataError, match=rf"{name}, line {n} is not JSON"):
            other.next("ada")
    assert path.read_bytes() == whole[:-2] + b"?\n"
    path.write_bytes(whole)
    assert other.counts("ada").by_you == 4
    assert label_some(other, "ada", 1) == [lines(tmp_path / "draws.jsonl")[-1]["id"]]


def test_a_damaged_answer_set_aside_is_refused_until_it_is_restored(tmp_path: Path) -> None:
    calibrail.label(traces(5), tmp_path).close()
    pool = Pool(tmp_path / "pool.jsonl")
    whole = pool.path.read_bytes()
    first, second, *rest = whole.splitlines(keepends=True)
    pool.path.write_bytes(b"".join([first, b"?", second[1:], *rest]))
    for _ in range(2):
        with pytest.raises(DataError, match=r"pool\.jsonl, line 2, is damaged"):
            pool.refresh()
    pool.path.write_bytes(whole)
    pool.refresh()
    assert [pool[at].example.id for at in range(5)] == [row["id"] for row in lines(pool.path)]


def test_texts_that_are_set_aside_stay_on_the_disk(tmp_path: Path) -> None:
    rows = [{**row, "contexts": [f"{row['id']} " * 4_000]} for row in traces(200)]
    calibrail.label(rows, tmp_path).close()
    pool = Pool(tmp_path / "pool.jsonl")
    assert pool.path.stat().st_size > 3_000_000
    assert peak_bytes(pool.refresh) < 1_000_000
    assert len(pool) == 200


def test_lines_that_were_read_are_not_read_again(tmp_path: Path) -> None:
    log = Log(tmp_path / "a.jsonl")
    log.append([{"text": "x" * 1_000}] * 2_000)
    assert len(log.read_on() or ()) == 2_000
    log.append([{"text": "y"}])
    added = []
    assert peak_bytes(lambda: added.extend(log.read_on() or ())) < 100_000
    assert [(line.number, line.content) for line in added] == [(2_001, {"text": "y"})]
    assert peak_bytes(log.read_on) < 100_000


def test_a_draw_that_does_not_say_whether_it_was_handed_out_was_not(tmp_path: Path) -> None:
    with calibrail.label(traces(10), tmp_path) as session:
        label_some(session, "ada", 3)
    path = tmp_path / "draws.jsonl"
    rows = lines(path)
    rows.append(rows[-1] | {"order": 4, "unit": 4, "handed_out": None})
    write(path, rows)
    counts = calibrail.label(None, tmp_path).counts("ada")
    assert (counts.drawn, counts.labelled) == (4, 3)
