"""Does a guardrail that was used, and then forked, decide about each child's own answers?"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from calibrail import Guardrail, calibrate, read
from calibrail.models import hardware
from calibrail.models.hardware import waited_for
from tests.answers import rows, write
from tests.chat_server import ChatServer, verdicts
from tests.pipelines.test_judging import supported

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

#: As a server that loads first and forks then: the parent decides once, its children all the rest.
SERVER = """
import json, os, sys
from pathlib import Path
from calibrail import Guardrail, read

file, answers, out, n_children = sys.argv[1:]
guardrail = Guardrail.load(file)
examples = list(read(answers))
guardrail.decide(examples[:4])
children = []
for number in range(int(n_children)):
    child = os.fork()
    if not child:
        decided = guardrail.decide(examples[number :: int(n_children)])
        lines = [json.dumps(decision.to_dict()) for decision in decided]
        Path(out, f"{number}.jsonl").write_text("\\n".join(lines))
        os._exit(0)
    children.append(child)
sys.exit(sum(os.waitpid(child, 0)[1] for child in children))
"""


def decided_by_children(
    n_children: int, guardrail: Path, answers: Path, folder: Path, **environment: str
) -> dict[str, dict[str, object]]:
    """Return every decision by the id of its answer."""
    folder.mkdir()
    subprocess.run(
        [sys.executable, "-c", SERVER, str(guardrail), str(answers), str(folder), str(n_children)],
        env={**os.environ, "TOKENIZERS_PARALLELISM": "false", **environment},
        check=True,
        timeout=180,
    )
    lines = [line for path in folder.iterdir() for line in path.read_text().splitlines()]
    return {decision["id"]: decision for decision in map(json.loads, lines)}


@pytest.mark.parametrize("cache", ["answers.sqlite", "off"])
def test_no_child_reads_the_reply_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_models: None, cache: str
) -> None:
    file = cache if cache == "off" else str(tmp_path / cache)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    answers = write(tmp_path / "answers.jsonl", rows(192))
    with ChatServer(verdicts(supported)) as server:
        run = calibrate(answers, f"judge:model=tiny,base_url={server.url}", alpha=0.2)
        run.freeze().save(tmp_path / "guardrail.json")
        expected = {item.id: item.to_dict() for item in run.freeze().decide(list(read(answers)))}
        decided = decided_by_children(
            8, tmp_path / "guardrail.json", answers, tmp_path / "out", CALIBRAIL_CACHE=file
        )
        assert decided == expected
        if cache != "off":
            # What the children kept is what a process of its own reads: nothing was swapped.
            n_seen = len(server.seen)
            monkeypatch.setenv("CALIBRAIL_CACHE", file)
            again = Guardrail.load(tmp_path / "guardrail.json").decide(list(read(answers)))
            assert {item.id: item.to_dict() for item in again} == expected
            assert len(server.seen) == n_seen


def test_a_local_model_answers_in_every_child(tmp_path: Path) -> None:
    answers = write(tmp_path / "answers.jsonl", rows(24))
    run = calibrate(answers, "sgi", alpha=0.2)
    run.freeze().save(tmp_path / "guardrail.json")
    expected = {item.id: item for item in run.freeze().decide(list(read(answers)))}
    decided = decided_by_children(
        2, tmp_path / "guardrail.json", answers, tmp_path / "out", OMP_NUM_THREADS="2"
    )
    assert decided.keys() == expected.keys()
    for id, decision in decided.items():
        assert decision["outcome"] == expected[id].outcome
        assert decision["score"] == pytest.approx(expected[id].score, abs=1e-5)


def test_a_guardrail_travels_to_a_process_that_is_not_forked(tmp_path: Path) -> None:
    answers = write(tmp_path / "answers.jsonl", rows(60))
    guardrail = calibrate(answers, "novelty", alpha=0.2).freeze()
    examples = list(read(answers))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        (decided,) = pool.map(guardrail.decide, [examples])
    assert decided == guardrail.decide(examples)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="this system lists no threads")
def test_a_fork_waits_until_a_pool_has_left_nothing_behind() -> None:
    """A thread that has ended as far as Python knows may hold a lock of OpenSSL a little longer."""
    for _ in range(50):
        ids = []
        with ThreadPoolExecutor(8, initializer=waited_for) as pool:
            ids += pool.map(lambda _: threading.get_native_id(), range(64))
        child = os.fork()
        if not child:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert not any(Path(f"/proc/self/task/{id}").exists() for id in ids)


def test_a_fork_waits_while_a_thread_that_has_ended_is_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = [False, True, True]
    monkeypatch.setattr(hardware, "_ending", {})
    monkeypatch.setattr(hardware, "_is_listed", lambda _: listed.pop())
    thread = threading.Thread(target=waited_for)
    thread.start()
    thread.join()
    child = os.fork()
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert listed == []
