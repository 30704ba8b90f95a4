"""Does a guardrail's file run code, or send anything, for which nobody vouches?"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

import calibrail
from calibrail import Guardrail
from calibrail.errors import GuardrailError
from calibrail.guardrail.file import content_digest, read_file, render
from calibrail.integrations.gate import Gate
from calibrail.working_folder import working_folder
from tests.answers import rows, write
from tests.chat_server import ChatServer, verdicts
from tests.command_line import calibrail as command
from tests.serve.process import Service, until

#: Leaves a trace wherever it is imported.
DETECTOR = """
open("RAN", "a").write("ran ")

def score(example):
    return float(len(example.response))
"""
#: How each command is told of a guardrail.
COMMANDS = {
    "check": ("check", "g.json", "answers.jsonl", "-o", "decisions.jsonl"),
    "select": ("select", "g.json", "answers.jsonl", "--fdr", 0.2),
    "explain": ("explain", "g.json", "--response", "r", "--question", "q", "--context", "c"),
    "verify": ("guardrail", "verify", "g.json"),
    "certify": ("certify", "g.json", "answers.jsonl", "--fresh", "--max-false-alarms", 0.99),
    "serve": ("serve", "g.json"),
    "label": (
        *("label", "answers.jsonl", "-o", "labels", "--guardrail", "g.json"),
        *("--max-false-alarms", 0.9, "--export", "sheet.csv"),
    ),
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a detector of somebody's own and its guardrail, as its owner made them."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "own_trusted.py").write_text(DETECTOR)
    write(folder / "answers.jsonl", rows(60))
    asked = ("calibrate", "answers.jsonl", "--score", "own_trusted:score", "--alpha", 0.2)
    assert command(*asked, "-o", "run", cwd=folder).returncode == 0
    made = command("export", "run", "-o", "g.json", "--new-key", "key.pem", cwd=folder)
    assert made.returncode == 0, made.stderr
    (folder / "RAN").unlink()
    return folder


@pytest.fixture
def stranger(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same on the machine of somebody else, who did not make it."""
    for name in ("own_trusted.py", "answers.jsonl", "g.json", "g.json.dsse", "key.pub.pem"):
        copyfile(desk / name, tmp_path / name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    sys.modules.pop("own_trusted", None)
    yield tmp_path
    sys.modules.pop("own_trusted", None)


def _rewritten(path: Path, **score: Any) -> Path:
    """Let a guardrail's file name another detector, as whoever writes it can."""
    content = json.loads(path.read_bytes())
    content["score"] |= score
    content["digest"] = content_digest(content)
    path.write_bytes(render(content))
    return path


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unsigned_file_of_somebody_else_runs_no_code(stranger: Path, name: str) -> None:
    refused = command(*COMMANDS[name], cwd=stranger)
    said = " ".join(refused.stderr.split())
    assert refused.returncode == 1, said
    assert "g.json names the detector own_trusted:score, and nobody vouches for the file" in said
    assert "--trusted" in said and "--own-code" in said
    assert not (stranger / "RAN").exists() and "own_trusted" not in sys.modules


def test_a_trusted_key_or_the_users_word_vouches(stranger: Path) -> None:
    line = (*COMMANDS["check"], "--json")
    for vouched in (("--trusted", "key.pub.pem"), ("--own-code",)):
        done = command(*line, *vouched, cwd=stranger)
        assert done.returncode == 0, done.stderr
    # What was said for one command does not hold for the next.
    assert command(*line, cwd=stranger).returncode == 1
    both = command(*line, "--own-code", "--forbid-own-code", cwd=stranger)
    assert both.returncode == 2 and "exclude each other" in both.stderr
    verify = COMMANDS["verify"]
    for options, code in (((), 1), (("--own-code",), 0), (("--key", "key.pub.pem"), 0)):
        assert command(*verify, *options, cwd=stranger).returncode == code
    # A card builds nothing of it, and no model is loaded without probes.
    (stranger / "RAN").unlink()
    sys.modules.pop("own_trusted")
    for harmless in (("guardrail", "card", "g.json"), (*verify, "--no-probe")):
        assert command(*harmless, cwd=stranger).returncode == 0
    assert not (stranger / "RAN").exists()


def test_in_python_it_is_refused_however_it_is_read(
    stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stranger / "g.json"
    with working_folder(stranger):
        for load in (Guardrail.load, Gate, lambda path: Guardrail(read_file(path)[0])):
            with pytest.raises(GuardrailError, match=r"own_trusted:score.*own_code=True"):
                load(path)
        assert not (stranger / "RAN").exists()
        monkeypatch.chdir(stranger)
        loaded = Guardrail.load(path, own_code=True)
        assert loaded.check(response="four").score == 4.0
        assert Guardrail.load(path, trusted=[stranger / "key.pub.pem"]).signature is not None
        # For adapters that are given a path alone the environment says it.
        monkeypatch.setenv("CALIBRAIL_OWN_CODE", "yes")
        assert Gate(path).check(response="four").score == 4.0


def test_a_member_is_code_as_well(stranger: Path) -> None:
    named = {"scores": "own_trusted:score,length"}
    _rewritten(stranger / "g.json", name="ensemble", params=named)
    refused = command(*COMMANDS["check"], cwd=stranger)
    assert refused.returncode == 1 and "names the detector own_trusted:score" in refused.stderr
    assert not (stranger / "RAN").exists()


def test_its_own_export_vouches_for_exactly_these_bytes(stranger: Path, desk: Path) -> None:
    path = stranger / "g.json"
    assert command(*COMMANDS["check"], cwd=stranger).returncode == 1
    done = command("export", desk / "run", "-o", "mine.json", cwd=stranger)
    assert done.returncode == 0, done.stderr
    assert (stranger / "mine.json").read_bytes() == path.read_bytes()
    assert command(*COMMANDS["check"], cwd=stranger).returncode == 0
    state = stranger / "state" / "calibrail" / "guardrails"
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert command("export", desk / "run", "-o", "again.json", cwd=stranger).returncode == 0
    assert len(state.read_text().split()) == 1
    content = json.loads(path.read_bytes())
    _rewritten(path, params=content["score"]["params"] | {"batch": True})
    refused = command(*COMMANDS["check"], "--force", cwd=stranger)
    assert refused.returncode in (1, 2) and "RAN" not in refused.stdout
    assert "nobody vouches" in command(*COMMANDS["check"], cwd=stranger).stderr


def test_kept_answers_are_cleared_and_what_was_made_here_is_not(
    stranger: Path, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALIBRAIL_CACHE", str(stranger / "answers.sqlite"))
    assert command("export", desk / "run", "-o", "mine.json", cwd=stranger).returncode == 0
    assert command("cache", "clear", cwd=stranger).returncode == 0
    assert command(*COMMANDS["check"], cwd=stranger).returncode == 0


def test_without_a_home_it_is_exported_and_that_is_said(stranger: Path, desk: Path) -> None:
    (stranger / "state").write_text("a file, and no folder")
    made = command("export", desk / "run", "-o", "mine.json", cwd=stranger)
    assert made.returncode == 0 and (stranger / "mine.json").exists()
    # What code warns of is told as a note, without the line of code that did.
    assert "warning: that you made mine.json could not be noted" in " ".join(made.stderr.split())
    assert "UserWarning" not in made.stderr
    assert command(*COMMANDS["check"], cwd=stranger).returncode == 1
    assert command(*COMMANDS["check"], "--own-code", cwd=stranger).returncode == 0
    # Of a detector that is no code nothing is to be noted.
    run = calibrail.calibrate(rows(60), "length", alpha=0.2)
    run.freeze().save(stranger / "plain.json")
    assert Guardrail.load(stranger / "plain.json").check(response="four").score is not None


def test_no_key_and_no_answer_goes_where_only_a_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-key-of-this-user")
    answers, path = write(tmp_path / "answers.jsonl", rows(30)), tmp_path / "judge.json"
    line = ("check", path, answers, "-o", tmp_path / "decisions.jsonl")
    with ChatServer(verdicts(lambda text: len(text) % 97 / 97), served="judge-1") as server:
        judge = f"judge:model=judge,mode=logprob,base_url={server.url}"
        calibrail.calibrate(rows(60), judge, alpha=0.3).freeze().save(path)
        assert command(*line).returncode == 0
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        asked = len(server.seen)
        for options in ((), ("--forbid-own-code",)):
            refused = command(*line, *options)
            said = " ".join(refused.stderr.split())
            assert refused.returncode == 1 and f"names the address {server.url}" in said
        probed = command("guardrail", "verify", path, "--probe-endpoint")
        assert probed.returncode == 1 and len(server.seen) == asked
        assert command("guardrail", "card", path).returncode == 0
        # What the environment names is the user's word.
        for said in (("--own-code",), ()):
            answers = write(tmp_path / "answers.jsonl", rows(10, prefix=f"{said}"))
            assert command(*line, *said).returncode == 0
            assert len(server.seen) > asked
            asked = len(server.seen)
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)


def test_a_provider_by_its_name_is_no_address_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "judge.json"
    with ChatServer(verdicts(lambda text: len(text) % 97 / 97), served="judge-1") as server:
        judge = f"judge:model=judge,mode=logprob,base_url={server.url}"
        calibrail.calibrate(rows(60), judge, alpha=0.3).freeze().save(path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    params = json.loads(path.read_bytes())["score"]["params"]
    usual = {"https://api.openai.com/v1": "judge", "anthropic": "anthropic/judge"}
    for place, model in usual.items():
        _rewritten(path, params=params | {"base_url": place, "model": model})
        assert Guardrail.load(path).endpoints == (place,)
    for place in ("https://api.openai.com.example/v1", "http://localhost:1/v1", "http://[::1]/v1"):
        _rewritten(path, params=params | {"base_url": place})
        with pytest.raises(GuardrailError, match=r"names the address .*, and nobody vouches"):
            Guardrail.load(path)


def test_a_service_takes_up_no_file_that_nobody_vouches_for(stranger: Path, desk: Path) -> None:
    pytest.importorskip("httpx2")
    path = stranger / "faq.json"
    calibrail.calibrate(rows(60), "length", alpha=0.2).freeze().save(path)
    before = path.read_bytes()
    with Service(path, before=lambda: os.chdir(stranger)) as service:
        copyfile(desk / "g.json", stranger / "new.json")
        (stranger / "new.json").replace(path)
        refused = 'calibrail_reloads_total{guardrail="faq",result="refused"}'
        until(lambda: service.metric(refused) == 1, "refused", lambda: service.stderr)
        assert "faq.json names the detector own_trusted:score" in " ".join(service.stderr.split())
        known = service.ask("GET", "/v1/guardrail").json()
        assert known["guardrail"]["digest"] == json.loads(before)["digest"], known.keys()
    assert not (stranger / "RAN").exists()


def test_labels_go_on_by_the_copy_that_the_user_began_with(stranger: Path) -> None:
    write(stranger / "answers.jsonl", rows(30, prefix="new "))
    begun = command(*COMMANDS["label"], "--trusted", "key.pub.pem", cwd=stranger)
    assert begun.returncode in (0, 4), begun.stderr
    again = ("label", "-o", "labels", "--export", "sheet.csv")
    refused = command(*again, cwd=stranger)
    assert refused.returncode == 1 and "labels/guardrail.json names" in refused.stderr
    assert command(*again, "--own-code", cwd=stranger).returncode in (0, 4)
