"""Run every command of calibrail over public data, and keep all that comes out, for a comparison.

A refactoring changes no number. To show that, run this with the old and with the new version, and
compare the folders of results::

    python benchmarks/every_command.py --source OLD/src --output before
    python benchmarks/every_command.py --source NEW/src --output after
    python benchmarks/same_results.py before/results after/results

The commands stand in ``every_command.txt``. Each leaves what it printed (``.json``, or ``.txt``),
its exit code and what it said beside it in ``results/FOLDER/NN-command/``; ``results/FOLDER/files``
holds what the commands of a folder wrote. Moments of this run, durations, ports and keys made anew
are written as words; everything else is as it came.

What an old version froze must go on to decide alike. ``before/artifacts`` holds the guardrails,
decisions, logs and folders of labels of the run, and ::

    python benchmarks/every_command.py --source NEW/src --output again --with-artifacts \
        before/artifacts
    python benchmarks/same_results.py before-again/results again/results

loads them: every guardrail checks the same answers again, and its decisions must be the same bytes
(exit status 1 if they are not); it is verified, too. Logs are verified, watched and drawn from,
labels certified and gone on with (``every_command_artifacts.txt``). ``before-again`` is the same
command run by the old version.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from every_command_data import MADE, known_by, prepare, rows_of, write_rows

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / ".." / "shared" / "data"
WORK = Path(tempfile.gettempdir()) / "every_command"
#: What is compared of the files that commands write; pictures and pages hold the same numbers.
COMPARED = {".json", ".jsonl", ".csv", ".parquet", ".md", ".xml", ".dsse"}
#: What a later version must be able to load; label folders hold pages that nobody loads.
NOT_KEPT = shutil.ignore_patterns("*.html", "*.svg", "*.png", "figures", "cache", "shards", "data")
#: Of these nothing is compared: the cost of a leaderboard holds measured times by name of a score.
ONLY_TIMES = ("board/cost.json",)
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?")
DURATION = re.compile(r"(?<![\w.])(?:about )?\d[\d,.]*\s?(?:ms|µs|s|min|h)\b(?: \d+ (?:s|min)\b)?")
#: Progress comes by the clock.
BY_THE_CLOCK = re.compile(
    r"^(?:.*(?: so far| left)\b.*|\w+: [\d,]+ (?:of|answers)\b.*)\n?", re.MULTILINE
)
#: Seed of the key that signs, so that signatures are the same bytes in every run.
KEY_SEED = hashlib.sha256(b"every_command: no secret").digest()
BEGIN = datetime(2025, 3, 1, tzinfo=UTC)


#: What forks a child for each command: libraries, which take most of a command's time to import,
#: are there already, and so is calibrail, but nothing that a command did.
FORKING = """
import atexit, gc, importlib, json, os, runpy, sys, traceback
for name in sys.argv[1].split(","):
    try:
        importlib.import_module(name)
    except ImportError:
        pass
import calibrail.cli
for name in sys.argv[2].split(","):
    getattr(calibrail, name)
gc.collect()
gc.freeze()
for line in iter(sys.stdin.buffer.readline, b""):
    job = json.loads(line)
    child = os.fork()
    if child:
        _, status, used = os.wait4(child, 0)
        print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, flush=True)
        continue
    os.chdir(job["folder"])
    for number, path in enumerate(job["streams"]):
        opened = os.open(path, os.O_RDWR if number else os.O_RDONLY)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.argv = ["calibrail", *job["words"]]
    code = 0
    try:
        runpy.run_module("calibrail", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    # All that an interpreter does at its end, but for taking every module apart.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
"""
LIBRARIES = "numpy,scipy.stats,scipy.optimize,pyarrow.parquet,pyarrow.csv,pyarrow.dataset,"
LIBRARIES += (
    "pydantic,click,rich.table,rich.console,matplotlib.figure,matplotlib.backends.backend_svg,"
)
LIBRARIES += "sklearn.linear_model,sklearn.ensemble,statsmodels.api,cryptography.fernet,jinja2,"
LIBRARIES += "torch,transformers,sentence_transformers"
FUNCTIONS = "calibrate,compare,certify,audit,shift,select,agree,monitor,label,audit_sample,"
FUNCTIONS += "recalibrate,card,Guardrail"


@dataclass
class Place:
    """Where commands run, with what, and what is to be written as words."""

    work: Path
    results: Path
    interpreter: str
    source: Path
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    words: dict[str, str] = field(default_factory=dict)
    parent: subprocess.Popen[str] | None = None
    #: Of processors, in the commands so far.
    seconds: float = 0.0

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of each command: the same for all versions."""
        own = {
            "PYTHONPATH": str(self.source),
            "CALIBRAIL_CACHE": str(self.work / "cache"),
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "TZ": "UTC",
            "HF_HUB_OFFLINE": "1",
        }
        return {**os.environ, **own}

    def program(self, *words: str) -> list[str]:
        """Return the command line of a command of calibrail."""
        return [self.interpreter, "-P", "-m", "calibrail", *words]

    def start(self) -> None:
        """Start the process that commands are forked from."""
        command = [self.interpreter, "-P", "-c", FORKING, LIBRARIES, FUNCTIONS]
        pipe = subprocess.PIPE
        self.parent = subprocess.Popen(
            command, env=self.environment, stdin=pipe, stdout=pipe, text=True
        )

    def run(self, folder: Path, words: list[str], typed: str) -> tuple[int, str, str]:
        """Run a command; return its exit code, and what it printed and said."""
        streams = [self.work.parent / name for name in ("typed", "printed", "said")]
        for path, text in zip(streams, (typed, "", ""), strict=True):
            path.write_text(text, "utf-8")
        # Processes that it starts itself begin as those of a program do.
        if self.parent is None or "processes" in words:
            with (
                streams[0].open() as given,
                streams[1].open("w") as out,
                streams[2].open("w") as err,
            ):
                code = subprocess.run(
                    self.program(*words),
                    cwd=folder,
                    env=self.environment,
                    stdin=given,
                    stdout=out,
                    stderr=err,
                    check=False,
                ).returncode
        else:
            assert self.parent.stdin is not None and self.parent.stdout is not None
            job = {"folder": str(folder), "words": words, "streams": list(map(str, streams))}
            print(json.dumps(job), file=self.parent.stdin, flush=True)
            ended, seconds = self.parent.stdout.readline().split()
            code, self.seconds = int(ended), self.seconds + float(seconds)
        return code, streams[1].read_text("utf-8"), streams[2].read_text("utf-8")

    def settled(self, text: str) -> str:
        """Return a text without what differs between two runs of one version."""
        for found, word in self.words.items():
            text = text.replace(found, word)
        return MOMENT.sub(self._moment, text)

    def _moment(self, found: re.Match[str]) -> str:
        moment = datetime.fromisoformat(found[0])
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        near = self.began - timedelta(days=1) < moment < datetime.now(UTC) + timedelta(days=1)
        return "NOW" if near else found[0]


def scenes(text: str) -> dict[str, list[str]]:
    r"""Return the commands of each folder.

    >>> scenes("# why\n[a]\nplan\n\n[b]\n!key k\ndoctor x\n")
    {'a': ['plan'], 'b': ['!key k', 'doctor x']}
    """
    found: dict[str, list[str]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("["):
            found[name := line.strip("[]")] = []
        elif not line.startswith("#"):
            found[name].append(line)
    return found


def run_scene(place: Place, name: str, lines: list[str], first: int = 1) -> None:
    """Run the commands of a folder in turn, and keep what came of each and what they wrote."""
    folder = place.work / name
    folder.mkdir(exist_ok=True)
    had = _files(folder)
    for number, line in enumerate(lines, first):
        words = shlex.split(line.partition(" <<< ")[0])
        target = place.results / name / f"{number:02}-{words[0].strip('!')}"
        target.mkdir(parents=True)
        if line.startswith("!"):
            OWN[words[0][1:]](place, folder, target, *words[1:])
            continue
        typed = line.partition(" <<< ")[2].encode().decode("unicode_escape")
        code, printed, said = place.run(folder, [*words, "--json"], typed)
        # Times of labels are in the digests of what is made from them.
        for path in folder.rglob("labels.jsonl"):
            text = place.settled(path.read_text("utf-8"))
            path.write_text(text.replace("NOW", "2025-06-01T12:00:00+00:00"), "utf-8")
        if "--new-key" in words:
            key = json.loads(printed)["new_key"]["keyid"]
            place.words |= {key: "KEYID", key[:16]: "KEYID"}
        _keep(place, target, printed, said, code, line)
    for path, _ in sorted(_files(folder) - had):
        if path.suffix in COMPARED and not path.as_posix().endswith(ONLY_TIMES):
            keep_file(place, path, place.results / name / "files" / path.relative_to(folder))


def _files(folder: Path) -> set[tuple[Path, int]]:
    """Return the files of a folder, each with the time at which it was changed."""
    return {(path, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def _keep(place: Place, target: Path, printed: str, said: str, code: int | None, line: str) -> None:
    """Write down what a command printed and said, and how it ended."""
    shown = place.settled(printed)
    kind = "json" if shown.lstrip().startswith(("{", "[")) else "txt"
    (target / f"printed.{kind}").write_text(shown, "utf-8")
    (target / "ended.json").write_text(json.dumps({"command": line, "code": code}), "utf-8")
    # One line, so that every word of it is compared.
    beside = DURATION.sub("TIME", BY_THE_CLOCK.sub("", place.settled(said)))
    (target / "said.json").write_text(json.dumps(beside.splitlines(), ensure_ascii=False), "utf-8")


def keep_file(place: Place, path: Path, target: Path) -> None:
    """Copy a file that a command wrote; what changes in texts is written as words."""
    target = Path(place.settled(str(target)))
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        shutil.copyfile(path, target)
    elif path.suffix != ".dsse":
        target.write_text(place.settled(path.read_text("utf-8")), "utf-8")
    elif "KEYID" not in place.settled(text := path.read_text("utf-8")):
        target.with_suffix(".dsse.json").write_text(text, "utf-8")


# What is no command of calibrail: lines that begin with !.


def own_key(place: Place, folder: Path, target: Path, name: str) -> None:
    """Write the key that is the same in every run, and its public key."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key, path = Ed25519PrivateKey.from_private_bytes(KEY_SEED), folder / name
    pem, plain = form.Encoding.PEM, form.NoEncryption()
    path.write_bytes(key.private_bytes(pem, form.PrivateFormat.PKCS8, plain))
    path.chmod(0o600)
    public = key.public_key().public_bytes(pem, form.PublicFormat.SubjectPublicKeyInfo)
    path.with_suffix(".pub.pem").write_bytes(public)


def own_fill(place: Place, folder: Path, target: Path, name: str, turned: str = "7") -> None:
    """Label a sheet as the data does; each so many rows one wrong, and one unsure."""
    truth = json.loads((place.work / "prepared" / "truth.json").read_text("utf-8"))
    path, every = folder / name, int(turned)
    if path.suffix == ".csv":
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.DictReader(stream))
    else:
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for number, row in enumerate(rows, 1):
        right = truth[known_by(row["question"], row["response"])]
        label = right
        if every and number % every == 0:
            label = 1 - right if number % (2 * every) else None
        row["label"] = "unsure" if label is None and path.suffix == ".csv" else label
    write_rows(path, rows)


def own_log(
    place: Place, folder: Path, target: Path, guardrail: str, decisions: str, traces: str, to: str
) -> None:
    """Write decisions as the log of a service that decided them in the spring of 2025."""
    frozen = json.loads((folder / guardrail).read_text("utf-8"))
    asked = {row["id"]: row for row in rows_of(folder / traces)}
    made = [json.loads(line) for line in (folder / decisions).read_text("utf-8").splitlines()]
    lines = [{"kind": "opened", "chain": CHAIN, "file": 1, "calibrail": "0.1.0", "others": {}}]
    for row in made:
        texts = asked.get(row["id"], {})
        traffic = {
            "question": len(texts["question"]) if "question" in texts else None,
            "response": len(texts["response"]) if "response" in texts else None,
            "chunks": len(texts["contexts"]) if "contexts" in texts else None,
            "language": "en" if "response" in texts else None,
        }
        lines.append({"guardrail": frozen["digest"], "name": "g", **row, "traffic": traffic})
    lines.append({"kind": "closed", "others": {}})
    (folder / to).mkdir()
    path = folder / to / f"{CHAIN}.0001.jsonl"
    path.write_bytes(b"".join(chained(lines, BEGIN, timedelta(minutes=10))))
    os.utime(path, (MADE, MADE))


CHAIN = "20250301T000000-1-00000000"


def chained(lines: list[dict[str, Any]], begin: datetime, step: timedelta) -> Iterator[bytes]:
    """Yield lines as a decision log has them, each with its time and the hash of the one before."""
    previous = "0" * 64
    for seq, line in enumerate(lines):
        moment = (begin + seq * step).isoformat(timespec="microseconds").replace("+00:00", "Z")
        content = {"time": moment, **line, "seq": seq, "previous": previous}
        body = json.dumps(content, ensure_ascii=False)
        previous = hashlib.sha256(body.encode()).hexdigest()
        yield f'{body[:-1]}, "hash": "{previous}"}}\n'.encode()


def own_serve(
    place: Place, folder: Path, target: Path, guardrail: str, answers: str, log: str
) -> None:
    """Ask a real process about answers one by one, and stop it."""
    command = place.program("serve", f"g={guardrail}", "--port", "0", "--log", log)
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            command, cwd=folder, env=place.environment, stdout=subprocess.PIPE, stderr=said
        )
        try:
            assert process.stdout is not None
            address = process.stdout.readline().decode().split()[-1]
            place.words[address] = "ADDRESS"
            lines = (folder / answers).read_text("utf-8").splitlines()
            replies = [_asked(f"{address}/v1/check", line) for line in lines]
            batch = json.dumps({"answers": [json.loads(line) for line in lines[:5]]})
            replies.append(_asked(f"{address}/v1/check/batch", batch))
            replies += [_asked(f"{address}{path}") for path in ("/readyz", "/v1/guardrails")]
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        finally:
            process.kill()
        said.seek(0)
        _keep(place, target, json.dumps(replies), said.read(), code, "serve")
    # Its chain is named by the moment and by chance, and so are the hashes in it.
    for path in (folder / log).iterdir():
        place.words[path.name.partition(".")[0]] = "CHAIN"
        hashes = (json.loads(line)["hash"] for line in path.read_text("utf-8").splitlines())
        place.words |= {each: f"HASH{number}" for number, each in enumerate(hashes)}


def _asked(address: str, body: str | None = None) -> dict[str, Any]:
    data = None if body is None else body.encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, raw = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, raw = error.code, error.read()
    text = raw.decode()
    return {"status": status, "body": json.loads(text) if text.startswith(("{", "[")) else text}


OWN: dict[str, Callable[..., None]] = {
    "key": own_key,
    "fill": own_fill,
    "log": own_log,
    "serve": own_serve,
}


# Both ways to run it.


def run_all(place: Place, text: Path, only: Sequence[str] = ()) -> None:
    """Run all commands of a file, or of some of its folders, and say how long each took."""
    for name, lines in scenes(text.read_text("utf-8")).items():
        if only and name not in only:
            continue
        began = time.monotonic()
        run_scene(place, name, lines)
        print(f"{time.monotonic() - began:6.1f} s  {name}", flush=True)


def check_again(place: Place) -> int:
    """Let every guardrail of old decide again; return how many decide differently."""
    changed = 0
    commands = scenes((HERE / "every_command.txt").read_text("utf-8"))
    for name, lines in commands.items():
        folder = place.work / name
        for line in lines:
            if not (line.startswith("check ") and line.endswith(" -o decisions.jsonl")):
                continue
            before = (folder / "decisions.jsonl").read_bytes()
            again = line.replace(" -o decisions.jsonl", " -o again.jsonl")
            run_scene(place, name, [again, f"verify {shlex.split(line)[1]}"], first=91)
            after = folder / "again.jsonl"
            if not after.exists() or after.read_bytes() != before:
                changed += 1
                print(f"DIFFERENT  {name}: {line}", flush=True)
            else:
                n = len(before.splitlines())
                print(f"same bytes {name}: {n:,} decisions", flush=True)
    return changed


def main(arguments: list[str] | None = None) -> int:
    """Run every command, or old artifacts with every command that reads them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, required=True, help="folder that holds calibrail/")
    parser.add_argument("--python", default=sys.executable, help="interpreter to run it with")
    parser.add_argument("--output", type=Path, required=True, help="folder that does not exist")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of public data sets")
    parser.add_argument("--work", type=Path, default=WORK, help="where to work; removed at the end")
    parser.add_argument("--with-artifacts", type=Path, help="artifacts of an earlier version")
    parser.add_argument(
        "--fresh", action="store_true", help="start a process for each command (slow)"
    )
    parser.add_argument("--only", action="append", default=[], metavar="FOLDER")
    options = parser.parse_args(arguments)
    output, source = options.output.resolve(), options.source.resolve()
    if not (source / "calibrail" / "__init__.py").exists():
        parser.error(f"{source} holds no calibrail")
    results = output / "results"
    if results.exists():
        parser.error(f"{results} exists")
    if options.work.exists():
        parser.error(f"{options.work} exists: another run works there, or one that was killed did")
    results.mkdir(parents=True)
    began, changed = time.monotonic(), 0
    # One place for all runs: a folder of labels knows by its path what it was made from.
    options.work.mkdir(exist_ok=False)
    try:
        work = options.work.resolve() / "work"
        place = Place(work, results, options.python, source)
        place.words |= {str(work): "WORK", str(source): "SOURCE"}
        _say_version(place)
        if not options.fresh:
            place.start()
        if options.with_artifacts:
            shutil.copytree(options.with_artifacts, work)
            (work / "data").symlink_to(options.data.resolve(), target_is_directory=True)
            changed = check_again(place)
            run_all(place, HERE / "every_command_artifacts.txt", options.only)
        else:
            work.mkdir()
            facts = next(source.rglob("facts.jsonl"))
            prepare(options.data, facts, work / "prepared")
            run_all(place, HERE / "every_command.txt", options.only)
            shutil.copytree(work, output / "artifacts", ignore=NOT_KEPT)
    finally:
        if place.parent is not None:
            assert place.parent.stdin is not None
            place.parent.stdin.close()
            place.parent.wait(60)
        shutil.rmtree(options.work)
    print(f"{time.monotonic() - began:6.1f} s  in all; {results}")
    print(f"{place.seconds:6.1f} s  of a processor, in commands that were forked")
    return 1 if changed else 0


def _say_version(place: Place) -> None:
    """Print which calibrail runs; another one than was asked for is an error."""
    where = "import calibrail; print(calibrail.__file__)"
    command = [place.interpreter, "-P", "-c", where]
    found = subprocess.run(
        command, env=place.environment, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert Path(found).is_relative_to(place.source), found
    print(f"calibrail of {found}, Python {place.interpreter}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
