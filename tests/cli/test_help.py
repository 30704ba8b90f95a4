"""Help lists commands and options in panels, whole, and usage errors stay plain."""

from __future__ import annotations

import json
import re
import shlex
from itertools import takewhile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from calibrail.cli import _EXAMPLES, COMMANDS, app
from calibrail.cli.output import MOST_OPTIONS
from tests.command_line import calibrail

PANELS = {
    "Commands that most people need": [
        *(
            "doctor",
            "test",
            "calibrate",
            "compare",
            "export",
            "certify",
            "check",
            "label",
            "monitor",
        )
    ],
    "More evidence": ["score", "plan", "audit", "shift", "agree", "versus", "repeat", "explain"],
    "Guardrails in production": [
        *("serve", "select", "recalibrate", "guardrail", "log", "cache"),
    ],
}


def shown(*words: str) -> dict[str, list[str]]:
    """Return the lines of each panel of a help page, by its heading."""
    asked = "--help-all" if words else "--help"
    done = CliRunner().invoke(app, [*words, asked], env={"COLUMNS": "80"})
    assert done.exit_code == 0
    panels: dict[str, list[str]] = {}
    for line in done.output.partition("\n  Example: ")[0].splitlines():
        if heading := re.fullmatch(r"(\S.*):", line):
            lines = panels.setdefault(heading[1], [])
        elif panels and line.startswith("  "):
            lines.append(line)
    return panels


def names(lines: list[str]) -> list[str]:
    """Return what a panel lists: the first words of the lines that begin an entry."""
    entries = [line.split()[:2] for line in lines if re.match(r"  [a-z-]", line)]
    return [words[1] if words[0].endswith(",") else words[0] for words in entries]


def test_commands_stand_in_panels_each_on_its_line() -> None:
    panels = shown()
    last = [*panels][-1]
    panels[last] = list(takewhile(lambda line: "Start with" not in line, panels[last]))
    panels.pop("Options")
    assert {panel: names(lines) for panel, lines in panels.items()} == PANELS
    assert all(len(panels[panel]) == len(of) for panel, of in PANELS.items())
    assert not [line for lines in panels.values() for line in lines if line.endswith("...")]
    summaries = [" ".join(line.split()[1:]) for panel in PANELS for line in panels[panel]]
    assert len({*summaries}) == len(summaries)
    listed = [name for group in PANELS.values() for name in group]
    assert {name.partition(" ")[0] for name in COMMANDS} == {*listed}


def test_calibrate_lists_first_what_everyone_needs() -> None:
    panels = shown("calibrate")
    first = ["--output", "--score", "--alpha", "--guarantee", "--by", "--max-false-alarms"]
    assert names(panels["Options"]) == [*first, "--help"]
    rest = "Detectors, Promise, Verdict, Reading data, Split, Where it runs, Calls to endpoints"
    assert list(panels) == ["Arguments", "Options", *rest.split(", "), "Costs", "Report", "Output"]
    options = [name for lines in panels.values() for name in names(lines)]
    assert len(options) == len(set(options)) > 45


@pytest.mark.parametrize("command", COMMANDS)
def test_the_first_panel_of_every_command_is_short(command: str) -> None:
    panels = shown(*command.split())
    assert len(names(panels["Options"])) <= 13
    assert not [line for lines in panels.values() for line in lines if "…" in line]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_few_options_and_how_many_more_there_are(command: str) -> None:
    brief, whole = (
        CliRunner().invoke(app, [*command.split(), asked], env={"COLUMNS": "80"}).output
        for asked in ("--help", "--help-all")
    )
    counts = [len(re.findall(r"^  -", page, re.MULTILINE)) for page in (brief, whole)]
    assert counts[0] <= MOST_OPTIONS
    more = re.search(r"^(\d+) more options, shown with --help-all:", brief, re.MULTILINE)
    assert (int(more[1]) if more else 0) == counts[1] - counts[0]
    if command in PANELS["Commands that most people need"]:
        example = " ".join(whole.partition("Example: ")[2].split())
        assert example.startswith(f"calibrail {command} ") and "Example: " in brief


def test_a_usage_error_is_plain_text() -> None:
    done = CliRunner().invoke(app, ["calibrate", "--alhpa", "0.1"])
    assert done.exit_code == 2
    assert re.search("Error: No such option:? '?--alhpa", done.stderr) and "─" not in done.stderr


@pytest.mark.parametrize("command", ["calibrate", "certify", "compare", "plan", "label"])
def test_limits_go_by_plain_names_and_former_ones_are_not_listed(command: str) -> None:
    listed = "\n".join(line for lines in shown(command).values() for line in lines)
    assert "--max-false-alarms" in listed and "--min-caught" in listed
    assert "--max-fpr" not in listed and "--min-coverage" not in listed


def test_a_former_name_means_the_same() -> None:
    given = ["--alpha", "0.2", "--auroc", "0.9", "--base-rate", "0.3", "--json"]
    now = ["--max-false-alarms", "0.4", "--min-caught", "0.7"]
    made = [
        CliRunner().invoke(app, ["plan", *given, *limits])
        for limits in (now, ["--max-fpr", "0.4", "--min-coverage=0.7"])
    ]
    assert made[0].exit_code == 0 and made[0].output == made[1].output


def test_every_example_parses() -> None:
    group = app
    for command, line in _EXAMPLES.items():
        name, *words = shlex.split(line)
        assert name == command
        found = group.commands[name]
        found.make_parser(click.Context(found)).parse_args(words)


@pytest.mark.parametrize(
    ("former", "words"),
    [
        ("card 'a b.json' --json", "guardrail card 'a b.json' --json"),
        ("verify a.json b.json --no-probe", "guardrail verify a.json b.json --no-probe"),
        (
            "audit-sample g.json log more -o audit --per-day 3 --traces t.jsonl",
            "label --from-log log more -o audit --per-day 3 --traces t.jsonl --guardrail g.json",
        ),
        ("audit-sample -o audit g.json -", "label --from-log -o audit - --guardrail g.json"),
        (
            "audit-sample --output=audit g.json",
            "label --from-log --output=audit --guardrail g.json",
        ),
        ("audit-sample --help", "label --from-log --help"),
        ("cache", "cache show"),
        ("cache --clear --model m", "cache clear --model m"),
    ],
)
def test_a_former_name_prints_the_new_one_and_does_the_same(
    former: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    was, now = calibrail(*shlex.split(former)), calibrail(*shlex.split(words))
    line, _, said = was.stderr.partition("\n")
    assert line == f"calibrail {former.split()[0]} is now: calibrail {words}"
    assert (was.returncode, was.stdout, said) == (now.returncode, now.stdout, now.stderr)
    assert "is now" not in now.stderr


def test_a_key_by_itself_is_made_as_before(tmp_path: Path) -> None:
    done = calibrail("keygen", "-o", tmp_path / "a key.pem", "--json")
    assert json.loads(done.stdout)["public"] == str(tmp_path / "a key.pub.pem")
    new = f"calibrail export RUN -o g.json --new-key '{tmp_path}/a key.pem'"
    assert done.stderr.startswith(f"calibrail keygen is now: {new}\n")


def test_the_verdict_ends_what_is_printed_and_baselines_take_a_line_unless_asked(
    tmp_path: Path,
) -> None:
    asked = ("example:facts", "--score", "novelty", "--alpha", 0.2, "--max-false-alarms", 0.6)
    brief = calibrail("calibrate", *asked, "-o", tmp_path / "run").stdout
    full = calibrail("calibrate", *asked, "-o", tmp_path / "run", "--verbose").stdout
    for text in (brief, full):
        last = " ".join(" ".join(text.splitlines()[-3:]).split())
        assert "CERTIFIED: Caught at least 80% (" in last and "required <= 60%)" in last
        assert last.endswith("; each bound holds by itself")
    assert len(brief.splitlines()) < len(full.splitlines())
    said = "Baselines at the same target raise these false alarms: length 69.5% (worse)"
    assert said in " ".join(brief.split()) and said not in " ".join(full.split())
    assert "your detector" in full and "your detector" not in brief
    rows = calibrail("compare", *asked[:-2], "--score", "rouge_l", "-o", tmp_path / "c").stdout
    assert "Baselines at the same target" in rows and "no such option" not in rows.lower()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_option_is_broken_at_a_hyphen(command: str) -> None:
    page = CliRunner().invoke(app, [*command.split(), "--help-all"], env={"COLUMNS": "80"}).output
    assert "Usage:" in page and re.findall(r"\S*[a-z]-$", page, re.MULTILINE) == []


@pytest.mark.parametrize("noun", ["guardrail", "log"])
def test_a_noun_alone_shows_its_help_line_by_line(noun: str) -> None:
    done = calibrail(noun)
    assert done.returncode == 2
    assert "\n\nCommands:\n  " in done.stderr and "\N{REPLACEMENT CHARACTER}" not in done.stderr
