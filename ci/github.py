"""How does `calibrail certify` run as a step of a GitHub workflow? See action.yml.

Inputs come as environment variables and go on as arguments of a process: no shell sees them. What
the command prints is kept from being read as a workflow command.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REJECTED = 3
VERDICTS = {0: "certified", REJECTED: "rejected", 4: "inconclusive"}
#: Verdicts that let the step fail; an error always does.
FAILS = {
    "not-certified": ("rejected", "inconclusive"),
    "rejected": ("rejected",),
    "never": (),
}
#: Annotations of one kind that GitHub shows of a step.
MOST = 10


def given(name: str) -> str:
    """Return the value of an input; empty where none is given."""
    return os.environ.get(f"INPUT_{name}", "").strip()


def lines(name: str) -> list[str]:
    """Return the values of an input that holds one a line."""
    return [line.strip() for line in given(name).splitlines() if line.strip()]


def annotate(kind: str, title: str, text: str, file: str = "") -> None:
    """Print an annotation; nothing in it ends it, or begins another one."""
    properties = {"file": file, "title": title}
    shown = ",".join(
        f"{key}={escaped(value).replace(':', '%3A').replace(',', '%2C')}"
        for key, value in properties.items()
        if value
    )
    print(f"::{kind} {shown}::{escaped(text)}", flush=True)


def escaped(text: str) -> str:
    """Return a message as a workflow command can hold it."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def append(variable: str, text: str) -> None:
    """Append to one of the files that GitHub names in the environment."""
    if path := os.environ.get(variable):
        with Path(path).open("a", encoding="utf-8") as stream:
            stream.write(text)


def refuse(text: str) -> int:
    """Say what is wrong with an input, and return the exit code of wrong usage."""
    annotate("error", "calibrail: wrong usage", text)
    return 2


def install() -> int:
    """Install calibrail, unless it is to be the one that is there."""
    wanted, extras = given("VERSION"), given("EXTRAS")
    if wanted == "installed":
        return 0
    if not re.fullmatch(r"[\w.+!-]*", wanted):
        return refuse(f"version must be a version, e.g. 0.1.0; got {wanted!r}")
    if not re.fullmatch(r"[\w.-]+(\s*,\s*[\w.-]+)*|", extras):
        return refuse(f"extras must be names with commas, e.g. models,judge; got {extras!r}")
    source = "calibrail" if wanted else str(Path(__file__).resolve().parents[1])
    requirement = source + (f"[{extras}]" if extras else "") + (f"=={wanted}" if wanted else "")
    pip = [sys.executable, "-P", "-m", "pip", "install", "--disable-pip-version-check", requirement]
    return subprocess.run(pip, check=False).returncode


def arguments(folder: Path) -> list[str]:
    """Return the arguments of the command; what names a file is never taken for an option."""
    names = ("max-fpr", "min-coverage", "confidence")
    values = [(name, given(name.replace("-", "_").upper())) for name in names]
    words = [f"--{name}={value}" for name, value in values if value]
    words += [f"--trusted={key}" for key in lines("TRUSTED")]
    words += shlex.split(given("ARGUMENTS"))
    words += [f"--page={folder / 'certificate.html'}", f"--page={folder / 'certificate.md'}"]
    return ["certify", *words, "--json", "--", given("GUARDRAIL"), *lines("DATA")]


def run(words: list[str], output: Path) -> tuple[int, str]:
    """Run the command; return its exit code and what it said beside its result."""
    said: list[str] = []
    # -P: no file of the working folder, which a pull request may write, stands for a package.
    command = [sys.executable, "-P", "-m", "calibrail", *words]
    token = uuid.uuid4().hex
    print("$", " ".join(shlex.join(["calibrail", *words]).split()), flush=True)
    print(f"::stop-commands::{token}", flush=True)
    with output.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.PIPE)
        assert process.stderr is not None
        for raw in process.stderr:
            said.append(raw.decode("utf-8", "replace"))
            print(said[-1], end="", flush=True)
        code = process.wait()
    print(f"\n::{token}::", flush=True)
    return code, "".join(said)


def findings(certificate: dict[str, Any], failing: bool) -> Iterator[tuple[str, str, str]]:
    """Yield kind, title and text of each annotation."""
    verdict = certificate["verdict"]
    if verdict != "certified":
        kind = "error" if failing or verdict == "rejected" else "warning"
        yield kind, f"calibrail: {verdict}", certificate["reason"]
    room = MOST - 1
    for text in certificate["warnings"][:room]:
        yield "warning", "calibrail: warning", text
    if (more := len(certificate["warnings"]) - room) > 0:
        yield "warning", "calibrail: warning", f"{more:,} more warnings stand in the summary"
    if groups := rejected_groups(certificate):
        text = f"rejected by itself: {', '.join(groups)}"
        yield "error", "calibrail: rejected", text


def rejected_groups(certificate: dict[str, Any]) -> list[str]:
    """Return the groups of ``--by`` that are rejected."""
    rows = (certificate.get("by_group") or {}).get("rows", ())
    return [str(row["group"]) for row in rows if row["verdict"] == "rejected"]


def measured(folder: Path) -> tuple[int, str, dict[str, Any]]:
    """Return the exit code, what went wrong if anything did, and the certificate."""
    if given("FAIL_ON") not in FAILS:
        return 2, f"fail-on must be one of {', '.join(FAILS)}; got {given('FAIL_ON')!r}", {}
    try:
        words = arguments(folder)
    except ValueError as error:
        return 2, f"arguments cannot be read as a shell would: {error}", {}
    result = folder / "certificate.json"
    code, said = run(words, result)
    if code in VERDICTS:
        try:
            return code, "", json.loads(result.read_text(encoding="utf-8"))
        except ValueError:
            code, said = 2, "arguments ask for something else than a certificate, e.g. --help"
    result.unlink()
    message = re.search(r"^error: (.*)", said, re.DOTALL | re.IGNORECASE | re.MULTILINE)
    return code or 1, (message[1] if message else said).strip(), {}


def kept_looks(folder: Path) -> Path | None:
    """Return the file of looks beside the guardrail, which a runner would forget, once copied."""
    looks = Path(given("GUARDRAIL")).with_suffix(".looks.json")
    if not looks.is_file():
        return None
    shutil.copy(looks, folder)
    return looks


def certify() -> int:
    """Run the command, and hand its result to GitHub."""
    folder = Path(tempfile.mkdtemp(prefix="calibrail-", dir=os.environ.get("RUNNER_TEMP")))
    code, wrong, certificate = measured(folder)
    outputs: dict[str, object] = {"exit-code": code, "folder": folder}
    if wrong:
        outputs |= {"verdict": "error", "ends-with": code}
        annotate("error", "calibrail: nothing was certified", wrong, given("GUARDRAIL"))
        fence = "`" * max([3, *(1 + len(run) for run in re.findall("`+", wrong))])
        summary = f"# Nothing was certified\n\n{fence}text\n{wrong}\n{fence}\n"
    else:
        verdict = VERDICTS[code]
        fails = FAILS[given("FAIL_ON")]
        failing = verdict in fails
        in_a_group = "rejected" in fails and bool(rejected_groups(certificate))
        for kind, title, text in findings(certificate, failing):
            annotate(kind, title, text, given("GUARDRAIL"))
        summary = (folder / "certificate.md").read_text(encoding="utf-8")
        outputs |= {
            "verdict": verdict,
            "coverage": certificate["coverage"]["estimate"],
            "fpr": certificate["fpr"]["estimate"],
            "page": folder / "certificate.html",
            "markdown": folder / "certificate.md",
            "json": folder / "certificate.json",
            "looks": kept_looks(folder),
            "ends-with": code if failing else REJECTED if in_a_group else 0,
        }
    append("GITHUB_STEP_SUMMARY", summary)
    for name, value in outputs.items():
        end = uuid.uuid4().hex
        append("GITHUB_OUTPUT", f"{name}<<{end}\n{'' if value is None else value}\n{end}\n")
    # The page is kept first; the last step ends as the verdict says.
    return 0


if __name__ == "__main__":
    sys.exit({"install": install, "certify": certify}[sys.argv[1]]())
