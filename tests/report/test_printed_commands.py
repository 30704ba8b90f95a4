"""Does every command that is printed parse, and is the next step in Python one in Python?"""

from __future__ import annotations

import ast
import html
import inspect
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import calibrail
from calibrail import calibrate, compare
from calibrail.cli import app
from calibrail.conformal import Assumption, plan
from calibrail.options.fields import cli_spelling
from calibrail.pipelines.certify import certify
from calibrail.pipelines.check import check_source
from calibrail.pipelines.loading import Context
from calibrail.report import document as parts
from calibrail.report.documents import build_document
from calibrail.report.documents.next_steps import goals
from calibrail.report.messages import say
from calibrail.scores.registry import build_column
from tests.catalogue import catalogue

COMMANDS = app
ODD = "it's my data.csv"


def parse(command: str) -> None:
    """Parse a command as the command line does, options and their values; raise where it cannot."""
    group: Any = COMMANDS
    words = shlex.split(command)[1:]
    while isinstance(group, click.Group):
        assert words and words[0] in group.commands, command
        group = group.commands[words.pop(0)]
    try:
        group.make_parser(click.Context(group)).parse_args(words)
    except click.UsageError as error:
        raise AssertionError(f"{command}: {error.format_message()}") from error


def of_templates() -> Iterator[tuple[str, str]]:
    """Yield every command in the catalogue, as far as it is one: up to what ends a sentence."""
    for code, entry in catalogue().items():
        for part, text in entry.items():
            if part == "python":
                continue
            plain = re.sub(r"{%.*?%}", " ", re.sub(r"{{.*?}}", "1", text))
            for found in re.finditer(r"\bcalibrail ([a-z][a-z-]+\b[^;`)]*)", plain):
                words = re.split(r"[.,:](?:\s|$)| or | and | which | \(|  #", found[1])[0]
                if words.split()[0] in COMMANDS.commands:
                    yield code, f"calibrail {words.strip()}"


@pytest.mark.parametrize(("code", "command"), list(of_templates()))
def test_a_command_of_the_catalogue_names_options_that_there_are(code: str, command: str) -> None:
    parse(command)


def calls(text: str) -> list[str]:
    """Return the calls of calibrail in a text; each must be one in Python, of what there is."""
    found = []
    for place in re.finditer(r"(?<![\w./`])(?:calibrail\.\w+|plan)\(", text):
        ends = [at.end() for at in re.finditer(r"\)", text[place.start() :])]
        parsed = [code for end in ends if is_python(code := text[place.start() :][:end])]
        assert parsed, text
        found.append(parsed[0])
        for node in ast.walk(ast.parse(found[-1])):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("calibrail."):
                function = getattr(calibrail, ast.unparse(node.func).split(".")[1])
                words = {str(word.arg): word.value for word in node.keywords}
                inspect.signature(function).bind_partial(*node.args, **words)
    return found


def is_python(code: str) -> bool:
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


def of_callers() -> Iterator[tuple[str, str]]:
    """Yield every text for callers in Python, as far as it can be read without its numbers."""
    for code, entry in catalogue().items():
        text = "; ".join(entry.values()) if code == "monitor.calls" else entry.get("python")
        if text:
            yield code, re.sub(r"{%.*?%}", "", re.sub(r"{{.*?}}", "1", text))


@pytest.mark.parametrize(("code", "text"), list(of_callers()))
def test_a_call_of_the_catalogue_names_what_there_is_in_python(code: str, text: str) -> None:
    assert not re.search(r"\bcalibrail [a-z]|(?<!\w)--[a-z]", text)
    calls(text)


def test_doctor_says_in_python_what_it_says_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    odd = [
        {"text": row["response"], "verdict": row["label"], "id": row["id"], "it's, so": row["s"]}
        for row in ({**item, "s": -3.0 * item["label"] + k % 5} for k, item in enumerate(rows()))
    ]
    Path(ODD + "l").write_text("".join(json.dumps(row) + "\n" for row in odd))
    reading = {"mapping": {"response": "text"}, "label_column": "verdict", "positive": "1"}
    said = calibrail.diagnose(ODD + "l", **reading)
    document = build_document("doctor", said.to_dict())
    steps = (document.next_step, *document.alternatives)
    with cli_spelling():
        typed = build_document("doctor", said.to_dict())
    assert len(steps) == len((typed.next_step, *typed.alternatives))
    for step in steps:
        assert "--" not in step and "calibrail calibrate" not in step
        call = calls(step)[0]
        run = eval(call, {"calibrail": calibrail})
        assert run.report.promise.alpha == 0.05
    for step in (typed.next_step, *typed.alternatives):
        parse("calibrail " + step.rpartition("calibrail ")[2])
    of_memory = build_document("doctor", calibrail.diagnose(rows()).to_dict()).next_step
    assert calls(of_memory)[0].startswith("calibrail.calibrate(data, ")


def test_a_plan_and_a_watch_say_in_python_what_is_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    promise, limits = calibrail.Promise(alpha=0.1), calibrail.Requirement(max_fpr=0.3)
    for assumed in (None, Assumption(auroc=0.95), Assumption(coverage=0.97, fpr=0.1)):
        given = {} if assumed is None else {"requirement": limits, "assumption": assumed}
        pac = replace(promise, guarantee="pac")
        made = plan(pac, **given, base_rate=None if assumed is None else 0.3)
        step = build_document("plan", made.to_dict()).next_step
        assert "--" not in step and calls(step)
    score = build_column("good one", "faithful")
    guardrail = calibrate(rows(), score, alpha=0.2).freeze()
    guardrail.save(tmp_path / "it's.json")
    log = tmp_path / "log d.jsonl"
    check_source(guardrail, rows(), log)
    calibrail.monitor(tmp_path / "it's.json", log, tmp_path / "watch")
    page = html.unescape((tmp_path / "watch" / "watch.html").read_text())
    assert "calibrail monitor" not in page and "--per-day" not in page
    document = build_document("watch", json.loads((tmp_path / "watch/status.json").read_bytes()))
    assert "--" not in document.next_step and calls(document.next_step)
    (drawn,) = calls(page)[:1]
    assert eval(drawn, {"calibrail": calibrail}).n_drawn


def rows(n: int = 240, apart: float = 1.5) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    drawn = []
    for k in range(n):
        label = int(rng.random() < 0.4)
        text = f"It is {k} of {rng.integers(10**6)}."
        drawn.append(
            {"id": f"a{k}", "contexts": [f"It is {k}."], "response": text, "label": label}
            | {"good one": float(rng.normal(-apart * label)), "site's": "xy"[k % 2]}
        )
    return drawn


SCORE = "column:column=good one,higher=faithful"
SETTINGS: dict[str, dict[str, Any]] = {
    "no limit": {},
    "certified": {"max_fpr": 0.9, "guarantee": "pac"},
    "rejected": {"max_fpr": 0.01},
    "open": {"max_fpr": 0.35, "guarantee": "pac"},
    "average": {"max_fpr": 0.5},
    "by": {"max_fpr": 0.5, "by": "site's"},
    "reversed": {"max_fpr": 0.5, "score": "column:column=good one,higher=hallucinated"},
}


def shown(document: parts.Document, **names: object) -> list[str]:
    """Return the commands in what a document says."""
    named = document.naming(**names)
    texts = [
        named.next_step,
        *named.alternatives,
        *(item.text for item in named.warnings),
        *named.notes,
    ]
    for block in parts.all_blocks(named.blocks):
        if isinstance(block, parts.Text):
            texts.append(block.text)
    found = (re.findall(r"calibrail [a-z-]+ [^;`]*?(?=\)|: |; |$|\. )", text) for text in texts)
    return [command.rstrip(".") for commands in found for command in commands]


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_what_a_report_prints_parses_and_python_is_told_python(
    setting: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = {"alpha": 0.2, **setting}
    score = options.pop("score", SCORE)
    run = calibrate(rows(), score, **options)
    ended = build_document("calibrate", run.report.to_dict()).next_step
    assert "calibrail " not in ended and "--" not in ended
    if "freeze()" in ended:
        exec(ended.rpartition(": ")[2], {"run": run, "calibrail": calibrail})
        assert (tmp_path / "guardrail.json").is_file()
    words = shlex.join(["calibrail", "calibrate", ODD, "--score-column", "good one", "--higher"])
    context = Context(command=f'{words} faithful --alpha 0.2 --by "site\'s"')
    with cli_spelling():
        again = calibrate(rows(), score, **options, context=context)
        document = build_document("calibrate", again.report.to_dict())
        commands = shown(document, RUN="a run's", DATA=[ODD], GUARDRAIL="my guard.json")
        for command in commands:
            parse(command)
            assert "RUN" not in shlex.split(command)
        made = certify(again.freeze(), rows(300), max_fpr=0.4, fresh=True)
        for item in shown(build_document("certify", made.to_dict()), GUARDRAIL="my guard.json"):
            parse(item)


@pytest.mark.parametrize("kept", [None, 0.7])
def test_a_printed_command_asks_for_the_very_limits(kept: float | None) -> None:
    most, least = 0.12345678, 1.0 - 0.1
    limits = {"max_fpr": most if kept is None else None, "min_coverage": least}
    result = {**limits, "requirement": {"min_kept": kept}, "promise": {}}
    named = {"max_false_alarms": most} if kept is None else {"min_kept": kept}
    parsed = ast.parse(f"f(g{goals(result)})", mode="eval").body
    assert isinstance(parsed, ast.Call)
    words = {str(word.arg): ast.literal_eval(word.value) for word in parsed.keywords}
    assert words == {**named, "min_caught": 0.9}
    with cli_spelling():
        command = f"calibrail certify guardrail.json NEW{goals(result)}"
        parse(command)
        asked = shlex.split(command)[4:]
    assert dict(zip(asked[::2], map(float, asked[1::2]), strict=True)) == {
        f"--{name.replace('_', '-')}": value for name, value in words.items()
    }
    assert goals({"max_fpr": None, "min_coverage": 0.9}) == ""
    # What is promised certify tests by itself.
    same, other = ({**limits, "max_fpr": 0.2, "alpha": alpha} for alpha in (1.0 - least, 0.2))
    assert (goals(same), goals(other)) == (
        ", max_false_alarms=0.2",
        ", max_false_alarms=0.2, min_caught=0.9",
    )


def test_a_lower_alpha_is_the_very_one() -> None:
    with cli_spelling():
        said = say("verdict.lower_alpha", alpha=round(1.0 - 0.87654321, 12))
    assert "--alpha 0.12345679:" in said


def test_a_comparison_says_what_is_next_in_the_words_of_its_caller() -> None:
    scores = [SCORE, "novelty"]
    run = compare(rows(), scores, alpha=0.2, max_fpr=0.9)
    assert "calibrail " not in build_document("compare", run.to_dict(), run.cost).next_step
    command = shlex.join(["calibrail", "compare", ODD, "--score-column", "good one", "--higher"])
    with cli_spelling():
        context = Context(command=f"{command} faithful --score novelty")
        run = compare(rows(), scores, alpha=0.2, max_fpr=0.9, context=context)
        commands = shown(build_document("compare", run.to_dict(), run.cost), RUN="a run")
    for item in commands:
        parse(item)
    assert not any("calibrate" in item for item in commands)


@pytest.mark.parametrize("guarantee", ["marginal", "pac"])
def test_a_range_of_another_population_says_whose_it_is(guarantee: Any) -> None:
    halves = calibrail.SplitOptions(calibration_share=0.5)
    run = calibrate(rows(), SCORE, alpha=0.2, guarantee=guarantee, max_fpr=0.5, splitting=halves)
    report = run.report.to_dict()
    n, n_test = report["certificate"]["fpr"]["n"], report["test"]["fpr"]["n"]
    document = build_document("calibrate", report)
    texts = [
        block.text for block in parts.all_blocks(document.blocks) if isinstance(block, parts.Text)
    ]
    assert (n > n_test) == (guarantee == "pac") and "counts all" not in document.summary
    said = [text for text in texts if f"counts all {n} faithful answers" in text]
    assert len(said) == (n != n_test)
    assert all(f"of the test set alone ({n_test} faithful)" in text for text in said)


def test_a_file_that_is_named_like_a_stand_in_keeps_its_name() -> None:
    step = "Go on: calibrail calibrate RUN.csv --score rad -o RUN-rad and check in/RUN of RUN."
    named = parts.Document("of", next_step=step).naming(RUN="my run").next_step
    end = "'my run'-rad and check in/RUN of 'my run'."
    assert named == f"Go on: calibrail calibrate RUN.csv --score rad -o {end}"
