"""Does every command print its result as Markdown for a comment, and does nothing act in it?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from markdown_it import MarkdownIt

import calibrail
from calibrail.cli import app
from tests.answers import rows, write
from tests.cli.test_commands import COLUMN
from tests.command_line import calibrail as command
from tests.pipelines.test_agree import judged
from tests.pipelines.test_recalibrate import Product

#: A name that a file or a cell may have.
HOSTILE = "@team #12 [x](y) `z` <b>|\x1b[31m"
READER = MarkdownIt("commonmark").enable("table")
OWN = {"h1", "h2", "h3", "h4", "p", "ul", "li", "strong", "em", "table", "thead", "tbody", "tr"}
OWN |= {"th", "td", "pre", "code", "details", "summary"}

#: What follows each command: DATA is a file with a hostile name, OUT what the command writes.
SCENARIOS = {
    "agree": ("judged.jsonl", "--label-column", "human", "--judge-column", "judge"),
    "audit": ("DATA", *COLUMN, "--by", "kind", "--no-geometry", "-o", "OUT"),
    "cache clear": (),
    "cache show": (),
    "calibrate": (
        *("DATA", *COLUMN, "--alpha", 0.2, "--by", "kind", "--max-fpr", 0.9, "-o", "OUT"),
        *("--guarantee", "marginal"),
    ),
    "certify": ("guardrail.json", "DATA", "--max-fpr", 0.1, "--by", "kind", "--fresh"),
    "check": ("guardrail.json", "DATA", "-o", "OUT"),
    "compare": ("DATA", *COLUMN, "--score", "length", "--alpha", 0.2, "-o", "OUT"),
    "doctor": ("DATA", "--group-column", "kind"),
    "explain": ("words.json", "--response", HOSTILE, "--question", "q", "--context", HOSTILE),
    "export": ("run", "-o", "OUT"),
    "guardrail card": ("guardrail.json",),
    "guardrail verify": ("guardrail.json",),
    "label --from-log": (*("log", "--guardrail", "product.json"), *("-o", "OUT", "--per-day", 9)),
    "label": ("DATA", "--until", "calibrated", "-o", "labels", "--export", "OUT.csv"),
    "log export": ("log", "-o", "OUT"),
    "log verify": ("log",),
    "monitor": ("product.json", "log", "-o", "OUT", "--labels", "audit"),
    "plan": ("--alpha", 0.1),
    "recalibrate": ("product.json", "log", "--labels", "audit", "-o", "OUT"),
    "repeat": ("DATA", *COLUMN, "--alpha", 0.2, "-o", "OUT"),
    "score": ("DATA", "--score", "length", "-o", "OUT"),
    "select": ("guardrail.json", "DATA", "--fdr", 0.5),
    "shift": ("DATA", *COLUMN, "--by", "kind", "-o", "OUT"),
    "test": ("DATA", *COLUMN, "--threshold", 0.5),
    "versus": ("judged.jsonl", "other.jsonl", "--judge-column", "judge", "-o", "OUT"),
}
#: Exit codes of verdicts other than certified; Markdown changes none of them.
CODES = {"calibrate": 4, "certify": 4, "monitor": 3, "versus": 4}


def commands(group: click.Group | None = None, above: str = "") -> Iterator[str]:
    """Yield the commands that have --json, each with its group's name."""
    group = group or app
    assert isinstance(group, click.Group)
    for name, item in group.commands.items():
        if isinstance(item, click.Group):
            yield from commands(item, f"{name} ")
        elif not item.hidden and any("--json" in parameter.opts for parameter in item.params):
            assert any("--markdown" in parameter.opts for parameter in item.params), name
            yield f"{above}{name}"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands read."""
    desk = tmp_path_factory.mktemp("desk")
    items = [row | {"kind": HOSTILE if i % 4 < 2 else "plain"} for i, row in enumerate(rows())]
    write(desk / f"{HOSTILE}.jsonl", items)
    write(desk / "judged.jsonl", judged(60))
    write(desk / "other.jsonl", judged(60, seed=2))
    write(desk / "texts.jsonl", rows(60))
    run = calibrail.calibrate(desk / f"{HOSTILE}.jsonl", COLUMN_SCORE, alpha=0.2)
    run.save(desk / "run")
    run.freeze().save(desk / "guardrail.json")
    calibrail.calibrate(desk / "texts.jsonl", "novelty", alpha=0.2).freeze().save(
        desk / "words.json"
    )
    compared = calibrail.compare(desk / f"{HOSTILE}.jsonl", [COLUMN_SCORE], alpha=0.2)
    compared.save(desk / "compared")
    product = calibrail.calibrate(
        [
            {"id": str(i), "response": f"Answer {i}.", "suspicion": i % 7 + 2 * (i % 2)}
            | {"label": i % 2}
            for i in range(200)
        ],
        "column:column=suspicion,higher=hallucinated",
        alpha=0.2,
        max_fpr=0.9,
    ).freeze()
    product.save(desk / "product.json")
    logged = Product(desk, product, 1, per_day=20)
    logged.week(300)
    logged.label()
    return desk


COLUMN_SCORE = "column:column=detector,higher=hallucinated"


def words(name: str, place: Path) -> list[object]:
    stands_for = {"DATA": f"{HOSTILE}.jsonl", "OUT": place / "out", "OUT.csv": place / "out.csv"}
    given = [stands_for.get(str(word), word) for word in SCENARIOS[name]]
    return [*name.split(), *(word if word != "labels" else place / "labels" for word in given)]


def test_every_command_that_prints_json_prints_markdown() -> None:
    assert set(commands()) == {name.partition(" --")[0] for name in SCENARIOS}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_result_is_markdown_in_which_nothing_acts(
    name: str, desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALIBRAIL_CACHE", str(tmp_path / "answers.sqlite"))
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = command(*words(name, tmp_path), "--markdown", cwd=desk)
    assert done.returncode == CODES.get(name, 0), done.stderr
    text = done.stdout
    assert text.startswith(("# calibrail ", "- ")) and text.endswith("\n")
    assert "\x1b" not in text and "wrote " not in text and len(text) < 65_536
    html = READER.render(text)
    assert set(re.findall(r"<([a-zA-Z]\w*)", html)) <= OWN
    prose = re.sub(r"<(pre|code).*?</\1>", "", html, flags=re.DOTALL)
    assert not re.search(r"@team|#12", prose)


@pytest.mark.parametrize("name", ["certify", "guardrail verify", "calibrate"])
def test_one_of_json_and_markdown_is_printed(name: str, desk: Path, tmp_path: Path) -> None:
    done = command(*words(name, tmp_path), "--json", "--markdown", cwd=desk)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--json and --markdown each print the result; give one of them" in done.stderr
    assert not (tmp_path / "out").exists()


def test_one_run_prints_json_and_writes_a_page_and_markdown(desk: Path, tmp_path: Path) -> None:
    pages = tmp_path / "a" / "page.html", tmp_path / "a" / "comment.md"
    given = words("certify", tmp_path)
    options = [word for page in pages for word in ("--page", page)]
    done = command(*given, *options, "--json", cwd=desk)
    assert done.returncode == 4
    assert json.loads(done.stdout)["verdict"] == "inconclusive"
    assert pages[0].read_text(encoding="utf-8").startswith("<!doctype html>")
    printed = command(*given, "--markdown", cwd=desk).stdout
    comment = pages[1].read_text(encoding="utf-8")
    # The second look at these answers is said to be one.
    assert comment.splitlines()[:9] == printed.splitlines()[:9]
    assert "**Inconclusive**" in comment and "┃ required" in comment
    loaded = calibrail.Guardrail.load(desk / "guardrail.json")
    found = calibrail.certify(loaded, desk / f"{HOSTILE}.jsonl", max_fpr=0.1, fresh=True)
    assert "**Inconclusive**" in found.markdown() and "┃ required" in found.markdown()


def test_how_a_result_is_shown_is_no_part_of_how_it_is_made(desk: Path, tmp_path: Path) -> None:
    done = command(*words("calibrate", tmp_path), "--markdown", cwd=desk)
    again = re.search(r"- \*\*command:\*\* (.*)", done.stdout)
    assert again is not None and "--markdown" not in again[1] and "-o RUN" in again[1]
