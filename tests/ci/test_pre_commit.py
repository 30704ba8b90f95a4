"""Does the hook for pre-commit verify guardrail files, and nothing else, without a model?"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from calibrail.guardrail.signing import make_keys
from tests.answers import rows, write
from tests.command_line import calibrail

ROOT = Path(__file__).resolve().parents[2]
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))

#: Ends a process that has imported a package which the base install does not have.
LIGHT = (
    "import sys, atexit, os\n"
    "heavy = {'torch', 'transformers', 'sentence_transformers', 'openai'}\n"
    "atexit.register(lambda: heavy & set(sys.modules) and os._exit(99))\n"
    "from calibrail.cli import main\n"
    "main()\n"
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two guardrails, one of which is signed, and with files beside them."""
    folder = tmp_path_factory.mktemp("repository")
    answers = write(folder / "answers.jsonl", rows(60))
    for name, score in (("novelty", "novelty"), ("second guardrail", "rouge_l")):
        calibrated = ("calibrate", answers, "--score", score, "--alpha", 0.2)
        assert calibrail(*calibrated, "-o", folder / "runs" / name).returncode == 0
    make_keys(folder / "key.pem")
    export = ("export", folder / "runs" / "novelty", "-o", folder / "guardrail.json")
    assert calibrail(*export, "--sign", folder / "key.pem").returncode == 0
    second = ("export", folder / "runs" / "second guardrail")
    assert calibrail(*second, "-o", folder / "second guardrail.json").returncode == 0
    (folder / "guardrail.looks.json").write_text("{}")
    return folder


def selected(names: list[str]) -> list[str]:
    """Return the changed files that pre-commit hands to the hook."""
    return [
        name
        for name in names
        if re.search(HOOK["files"], name) and not re.search(HOOK["exclude"], name)
    ]


def hook(folder: Path, *changed: str, args: tuple[str, ...] = ()) -> Any:
    """Run the hook's entry as pre-commit does: arguments, then the files, no shell."""
    program, *rest = shlex.split(HOOK["entry"])
    assert program == "calibrail"
    words = [sys.executable, "-c", LIGHT, *rest, *args, *selected(list(changed))]
    return subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)


def test_the_hook_takes_guardrails_and_their_signatures_alone() -> None:
    names = ["guardrail.json", "a/b/my-guardrail-v2.json", "guardrail.json.dsse", "guardrails.json"]
    others = ["guardrail.looks.json", "guardrail.md", "report.json", "guardrail/run.json"]
    others += ["guardrail-2.recalibration.json"]
    assert selected(names + others) == names
    assert (HOOK["id"], HOOK["language"]) == ("calibrail-verify", "python")


def test_whole_files_pass_and_a_changed_one_fails(repository: Path, tmp_path: Path) -> None:
    done = hook(repository, "guardrail.json", "second guardrail.json", "guardrail.looks.json")
    assert done.returncode == 0, done.stderr
    assert "2 of 2 guardrails verified" in done.stdout
    for name in ("guardrail.json", "second guardrail.json"):
        (tmp_path / name).write_bytes((repository / name).read_bytes())
    changed = tmp_path / "second guardrail.json"
    changed.write_text(changed.read_text().replace('"seed":0', '"seed":1'))
    done = hook(tmp_path, "guardrail.json", "second guardrail.json")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "guardrail.json: not a byte has changed" in done.stdout
    assert "REFUSED second guardrail.json: second guardrail.json was changed" in done.stdout
    (tmp_path / "guardrail.json").write_text("{}")
    done = hook(tmp_path, "guardrail.json")
    assert done.returncode == 1 and "guardrail.json" in done.stderr


def test_with_a_key_the_signature_counts(repository: Path, tmp_path: Path) -> None:
    key = ("--key", "key.pub.pem")
    done = hook(repository, "guardrail.json.dsse", args=key)
    assert done.returncode == 0 and "signed by the key" in done.stdout
    done = hook(repository, "guardrail.json", "guardrail.json.dsse", args=key)
    assert done.returncode == 0 and done.stdout.count("not a byte has changed") == 1
    done = hook(repository, "guardrail.json", "second guardrail.json", args=key)
    assert done.returncode == 1 and "second guardrail.json is not signed" in done.stdout
    for name in ("guardrail.json", "key.pub.pem"):
        (tmp_path / name).write_bytes((repository / name).read_bytes())
    envelope = (repository / "guardrail.json.dsse").read_text()
    (tmp_path / "guardrail.json.dsse").write_text(envelope.replace("A", "B", 1))
    done = hook(tmp_path, "guardrail.json.dsse", args=key)
    assert done.returncode == 1 and "guardrail.json" in done.stderr


def test_the_documented_configuration_names_the_hook() -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(# \.pre-commit-config\.yaml\n.*?)```", page, re.DOTALL)
    (repository,) = yaml.safe_load(block)["repos"]
    (shown,) = repository["hooks"]
    assert shown["id"] == HOOK["id"] and shown["args"][0] == "--key"
