"""Are keys made, guardrails signed, and unsigned ones refused, as a user gets it?"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calibrail.guardrail.signing import make_keys
from calibrail.labelling.session import Session
from tests.answers import rows, write
from tests.chat_server import ChatServer, says, verdicts
from tests.cli.test_commands import COLUMN
from tests.command_line import calibrail
from tests.labelling.rows import frozen, traces, truth
from tests.labelling.rows import write as write_traces
from tests.pipelines.test_agree import judged as by_both


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signed")
    answers = write(folder / "answers.jsonl", rows(60))
    for name, options in (("words", ("--score", "novelty")), ("column", COLUMN)):
        run = folder / name
        done = calibrail("calibrate", answers, *options, "--alpha", 0.2, "-o", run)
        assert done.returncode == 0, done.stderr
    make_keys(folder / "other.pem")
    for name, key in (("words", "--new-key"), ("column", "--sign")):
        guardrail = folder / f"{name}.json"
        done = calibrail("export", folder / name, "-o", guardrail, key, folder / "key.pem")
        assert done.returncode == 0, done.stderr
        assert f"signed by {guardrail}.dsse" in " ".join(done.stdout.split())
    assert calibrail("export", folder / "words", "-o", folder / "unsigned.json").returncode == 0
    return folder


def test_a_signed_guardrail_is_verified(folder: Path) -> None:
    done = calibrail("guardrail", "verify", folder / "words.json", "--key", folder / "key.pub.pem")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert re.search(r"signed by the key [0-9a-f]{64}", said)
    assert "16 probe answers, 1 of them undefined as before" in said
    assert max(map(len, done.stdout.splitlines())) <= 80
    key = ("--key", folder / "key.pub.pem")
    told = calibrail("guardrail", "verify", folder / "words.json", *key, "--json")
    content = json.loads(told.stdout)
    assert content["schema"] == "calibrail.verify/1"
    page = Path(__file__).parents[2] / "docs" / "cli.md"
    [named] = re.findall(r"(?m)^\| `calibrail.verify/1` \|(.*)", page.read_text(encoding="utf-8"))
    assert {"choice", "guarantee"} <= {*re.findall(r"`(\w+)`", named)} <= content.keys()
    assert content["signature"]["name"] == "words.json"
    assert content["probes"]["state"] == "agree"


def test_verify_says_what_it_did_not_look_at(folder: Path) -> None:
    done = calibrail("guardrail", "verify", folder / "column.json")
    assert done.returncode == 0
    assert "its signature was not verified" in done.stdout
    assert "no probes: the score comes with the data" in done.stdout
    assert "\n- not signed" in calibrail("guardrail", "verify", folder / "unsigned.json").stdout


def test_several_guardrails_are_verified_each_by_itself(folder: Path, tmp_path: Path) -> None:
    good, changed = folder / "words.json", tmp_path / "changed.json"
    changed.write_bytes(good.read_bytes().replace(b"novelty", b"novelti", 1))
    both = ("guardrail", "verify", changed, good, f"{good}.dsse")
    done = calibrail(*both)
    said = " ".join(done.stdout.split())
    assert done.returncode == 1 and said.count("this machine computes what was frozen") == 1
    # A path that is longer than a line is broken at its joints.
    assert f"REFUSED{changed}:" in said.replace(" ", "") and "1 of 2 guardrails verified" in said
    content = json.loads(calibrail(*both, "--json").stdout)
    assert content["schema"] == "calibrail.verify_several/1"
    assert [item["guardrail"] for item in content["files"]] == [str(changed), str(good)]
    assert "was changed" in content["files"][0]["refused"]
    alone = json.loads(calibrail("guardrail", "verify", good, "--json").stdout)
    assert content["files"][1] == alone and alone["schema"] == "calibrail.verify/1"
    assert calibrail("guardrail", "verify", good, folder / "unsigned.json").returncode == 0


def test_without_probes_no_detector_is_built(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def built(*_: Any, **__: Any) -> None:
        raise AssertionError("a detector was built")

    monkeypatch.setattr("calibrail.Guardrail.load", built)
    done = calibrail("guardrail", "verify", folder / "words.json", "--no-probe", "--json")
    content = json.loads(done.stdout)
    assert (done.returncode, content["probes"]) == (0, {"state": "skipped"})
    assert content["detector"] == "novelty"
    key = ("--key", folder / "key.pub.pem")
    done = calibrail("guardrail", "verify", folder / "column.json", "--no-probe", *key)
    assert "- detector detector" in done.stdout and "signed by the key" in done.stdout
    assert "no probes compared, and no detector built (--no-probe)" in done.stdout
    done = calibrail("guardrail", "verify", folder / "words.json", "--no-probe", "--probe-endpoint")
    assert done.returncode == 2 and "leave out --no-probe" in done.stderr


@pytest.mark.parametrize(
    ("name", "key", "message"),
    [
        ("words.json", "other.pub.pem", "is signed by another key"),
        ("words.json", "key.pem", "is a private key"),
        ("words.json", "answers.jsonl", "is no PEM file"),
        ("words.json", "missing.pem", "cannot read the key"),
        ("unsigned.json", "key.pub.pem", "is not signed"),
        (".", "key.pub.pem", "is not signed"),
    ],
)
def test_what_a_key_does_not_vouch_for_is_refused(
    folder: Path, name: str, key: str, message: str
) -> None:
    done = calibrail("guardrail", "verify", folder / name, "--key", folder / key)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["agree", "label"])
def test_a_guardrail_that_is_an_option_is_a_trusted_one(
    folder: Path, tmp_path: Path, command: str
) -> None:
    write(tmp_path / "judged.jsonl", by_both(60))
    write_traces(tmp_path / "traces.jsonl", traces(30))
    frozen().save(tmp_path / "g.json", sign=folder / "key.pem")
    if command == "agree":
        guardrail = folder / "words.json"
        given = ("judged.jsonl", "--label-column", "human", "--judge-column", "judge")
    else:
        guardrail = tmp_path / "g.json"
        given = ("traces.jsonl", "--max-fpr", 0.9, "--min-coverage", 0.4, "-o", "labels")
        given += ("--export", "some.csv", "--export-n", 5)
    named = (command, *given, "--guardrail", guardrail)
    done = calibrail(*named, "--trusted", folder / "other.pub.pem", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "signed by another key" in done.stderr and not (tmp_path / "labels").exists()
    done = calibrail(command, *given, "--trusted", folder / "key.pub.pem", cwd=tmp_path)
    assert done.returncode == 2 and "also name its file: --guardrail" in done.stderr
    assert not (tmp_path / "labels").exists()
    done = calibrail(*named, "--trusted", folder / "key.pub.pem", cwd=tmp_path)
    assert done.returncode in (0, 4), done.stderr
    if command == "label":
        plan = json.loads((tmp_path / "labels" / "session.json").read_text())
        assert plan["guardrail_file"] == str(guardrail)


def commands(folder: Path) -> dict[str, tuple[object, ...]]:
    answers = folder / "answers.jsonl"
    return {
        "check": (answers, "-o", folder / "decisions.jsonl"),
        "select": (answers, "--fdr", 0.5, "-o", folder / "released.jsonl"),
        "explain": ("--response", "It is high."),
        "certify": (answers, "--max-fpr", 0.9),
    }


@pytest.mark.parametrize("command", ["check", "select", "explain", "certify"])
def test_a_command_decides_with_a_trusted_guardrail_alone(folder: Path, command: str) -> None:
    rest = commands(folder)[command]
    trusted = ("--trusted", folder / "other.pub.pem", "--trusted", folder / "key.pub.pem")
    done = calibrail(command, folder / "words.json", *rest, *trusted, cwd=folder)
    assert done.returncode in (0, 3, 4), done.stderr
    for output in ("decisions.jsonl", "released.jsonl"):
        (folder / output).unlink(missing_ok=True)
    for refused in (folder / "unsigned.json", folder / "words.json"):
        key = "key.pub.pem" if refused.name == "unsigned.json" else "other.pub.pem"
        done = calibrail(command, refused, *rest, "--trusted", folder / key, cwd=folder)
        assert (done.returncode, done.stdout) == (1, "")
        assert "signed" in done.stderr
        assert not any((folder / name).exists() for name in ("decisions.jsonl", "released.jsonl"))


def test_a_verdict_on_labels_is_of_a_trusted_guardrail(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen().save(tmp_path / "g.json", sign=folder / "key.pem")
    write_traces(tmp_path / "traces.jsonl", traces(300))

    def knows(opened: Session, annotator: str, *_: Any, **__: Any) -> None:
        for _ in range(200):
            if opened.counts(annotator).decided:
                return
            task = opened.next(annotator)
            assert task is not None
            opened.put(annotator, task.order, truth(task.id))

    monkeypatch.setattr("calibrail.ui.server.serve", knows)
    easy = ("--max-fpr", 0.9, "--min-coverage", 0.4)
    begun = ("traces.jsonl", "--guardrail", "g.json", *easy, "-o", "labels")
    assert calibrail("label", *begun, cwd=tmp_path).returncode == 0
    verdict = ("certify", "g.json", "--labels", "labels", "--trusted")
    done = calibrail(*verdict, folder / "key.pub.pem", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = calibrail(*verdict, folder / "other.pub.pem", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "signed by another key" in done.stderr


def test_an_export_with_a_key_that_cannot_sign_writes_nothing(folder: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    done = calibrail("export", folder / "words", "-o", new, "--sign", folder / "key.pub.pem")
    assert done.returncode == 1
    assert "is a public key" in done.stderr
    assert not new.exists()


def test_an_earlier_signature_is_named_when_a_file_is_written_anew(
    folder: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new.json"
    sign = ("--sign", folder / "key.pem")
    assert calibrail("export", folder / "words", "-o", new, *sign).returncode == 0
    other = ("export", folder / "words", "-o", new, "--on-failure", "flag")
    assert "another guardrail stands there; " in calibrail(*other).stderr
    done = calibrail(*other, "--force")
    assert "is the signature of an earlier file" in " ".join(done.stdout.split())
    done = calibrail("guardrail", "verify", new, "--key", folder / "key.pub.pem")
    assert (done.returncode, "is not what was signed" in done.stderr) == (1, True)


def test_a_new_key_signs_and_replaces_none(folder: Path, tmp_path: Path) -> None:
    key, file, public = (tmp_path / name for name in ("key.pem", "g.json", "key.pub.pem"))
    export = ("export", folder / "words", "-o", file, "--new-key", key)
    both = calibrail(*export, "--sign", folder / "key.pem")
    assert both.returncode == 2 and "give one of them" in both.stderr
    same = calibrail("export", folder / "words", "-o", file, "--new-key", file)
    assert same.returncode == 2 and "are the same file" in same.stderr
    # Nothing to freeze, no key.
    assert calibrail("export", folder / "none", *export[2:]).returncode == 1
    assert list(tmp_path.iterdir()) == []
    done = calibrail(*export, "--json")
    made = json.loads(done.stdout)["new_key"]
    assert (made["private"], made["public"]) == (str(key), str(public))
    assert made["encrypted"] is False and "has no passphrase" in done.stderr
    assert f"{key}: private key; keep it secret" in done.stderr
    told = calibrail("guardrail", "verify", file, "--key", public, "--json")
    assert json.loads(told.stdout)["signature"]["keyid"] == made["keyid"]
    before, frozen = key.read_bytes(), file.read_bytes()
    again = calibrail(*export, "--force", "--on-failure", "flag")
    assert again.returncode == 1
    assert (
        "is there already; keys are not replaced: sign with it (`calibrail export" in again.stderr
    )
    assert (key.read_bytes(), file.read_bytes()) == (before, frozen)


def test_a_passphrase_protects_a_key(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALIBRAIL_KEY_PASSPHRASE", "open sesame")
    export = ("export", folder / "words", "-o", tmp_path / "g.json")
    done = calibrail(*export, "--new-key", tmp_path / "key.pem")
    assert done.returncode == 0 and "has no passphrase" not in done.stderr
    monkeypatch.delenv("CALIBRAIL_KEY_PASSPHRASE")
    done = calibrail(*export, "--sign", tmp_path / "key.pem")
    assert done.returncode == 1
    assert "CALIBRAIL_KEY_PASSPHRASE" in done.stderr


def test_verify_refuses_a_machine_that_computes_otherwise(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calibrail.scores.lexical import Novelty

    value: Callable[..., Any] = Novelty.value
    monkeypatch.setattr(Novelty, "value", lambda self, example: value(self, example) * 0.999)
    done = calibrail("guardrail", "verify", folder / "words.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert "this machine does not compute what was certified" in done.stderr
    assert "Alike: " in done.stderr


@pytest.mark.parametrize("key", ["key.pub.pem", "other.pub.pem"])
def test_a_service_does_not_start_with_what_must_not_decide(
    folder: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calibrail.scores.lexical import Novelty

    monkeypatch.setattr(Novelty, "value", lambda self, example: 0.123)
    serve = ("serve", folder / "words.json", "--port", 0, "--trusted", folder / key)
    done = calibrail(*serve)
    assert (done.returncode, done.stdout) == (1, "")
    reason = "does not compute what was certified" if key == "key.pub.pem" else "another key"
    assert reason in done.stderr


def supported(text: str) -> float:
    return 0.9 if "Bergen" in text or "Vienna" in text else 0.1 + len(text) % 7 / 100


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_models: None) -> Path:
    monkeypatch.setenv("CALIBRAIL_CACHE", str(tmp_path / "answers.sqlite"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr("calibrail.models.llm.transport.FIRST_WAIT", 0.005)
    monkeypatch.setattr("calibrail.models.llm.transport.LONGEST_WAIT", 0.02)
    write(tmp_path / "answers.jsonl", rows(60))
    return tmp_path


def test_an_endpoint_is_asked_about_probes_on_request_alone(judged: Path) -> None:
    with ChatServer(verdicts(supported)) as server:
        spec = f"judge:model=tiny,base_url={server.url}"
        calibrate = ("calibrate", "answers.jsonl", "--score", spec, "--alpha", 0.2, "-o", "run")
        assert calibrail(*calibrate, cwd=judged).returncode == 0
        n_sent = len(server.seen)
        done = calibrail("export", "run", "-o", "none.json", cwd=judged)
        said = " ".join(done.stdout.split())
        assert "`calibrail export --probe-endpoint` it is asked about 16 answers" in said
        done = calibrail("guardrail", "verify", "none.json", cwd=judged)
        assert done.returncode == 0
        assert "no probes compared: the detector asks an endpoint" in done.stdout
        assert len(server.seen) == n_sent
        done = calibrail("guardrail", "verify", "none.json", "--probe-endpoint", cwd=judged)
        assert (done.returncode, "holds no probes" in done.stderr) == (1, True)
        assert len(server.seen) == n_sent
        asks = ("--probe-endpoint", "--price", "1,2")
        done = calibrail("export", "run", "-o", "g.json", *asks, cwd=judged)
        assert done.returncode == 0, done.stderr
        # One of the sixteen holds no context, and is not asked about.
        assert re.search(r"about the probe answers: judge.*: 15 calls to tiny.*\$", done.stderr)
        assert len(server.seen) == n_sent + 15
        # What was answered before is not taken from what is kept.
        done = calibrail("guardrail", "verify", "g.json", *asks, cwd=judged)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "15 calls to tiny" in done.stderr
        assert len(server.seen) == n_sent + 30
        server.answer = verdicts(lambda text: 1.0 - supported(text))
        done = calibrail("guardrail", "verify", "g.json", *asks, cwd=judged)
        assert (done.returncode, done.stdout) == (1, "")
        assert "15 of 16 probe scores differ" in done.stderr
        assert calibrail("guardrail", "verify", "g.json", cwd=judged).returncode == 0


def test_probes_that_an_endpoint_does_not_answer_are_not_frozen(judged: Path) -> None:
    with ChatServer(verdicts(supported)) as server:
        spec = f"judge:model=tiny,base_url={server.url}"
        calibrate = ("calibrate", "answers.jsonl", "--score", spec, "--alpha", 0.2, "-o", "run")
        assert calibrail(*calibrate, cwd=judged).returncode == 0
        server.faults = lambda key, attempt: "500"
        done = calibrail("export", "run", "-o", "g.json", "--probe-endpoint", cwd=judged)
        assert done.returncode == 1
        assert "the detector failed on probe 1, so nothing can be compared" in done.stderr
        assert not (judged / "g.json").exists()
        server.faults, server.answer = lambda key, attempt: None, says("FAITHFUL")
        limit = ("--probe-endpoint", "--max-calls", 3)
        done = calibrail("export", "run", "-o", "g.json", *limit, cwd=judged)
        assert (done.returncode, "budget of 3 calls" in done.stderr) == (1, True)
        assert not (judged / "g.json").exists()
