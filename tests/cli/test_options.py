"""Do a command's options follow from the settings objects that it takes?"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from click.testing import CliRunner

from calibrail import calibrate
from calibrail.cli import app
from calibrail.cli.parameters import Pick, command
from calibrail.errors import DataError, InputError
from calibrail.options import ReadOptions, fields
from calibrail.options.fields import help_of, setting


@dataclass(frozen=True)
class Some:
    """What is tried here."""

    rate: float = setting("The rate.", 0.5)
    kind: Literal["a", "b"] = setting("The kind.", "a")
    names: tuple[str, ...] = setting("Names.", (), flag="name")
    counts: tuple[int, ...] = setting("Counts.", ())
    pairs: dict[str, str] | None = setting("Pairs.", None, flag="map")
    loud: bool = setting("Loud.", True)
    hidden: int = 3


Base = Annotated[Some, Pick()]
FEWER = Pick(without=("kind",))


def called(run: Any, *arguments: str) -> Any:
    done = CliRunner().invoke(command(run, name="run", panel=None), list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_fields_become_options_and_options_the_object() -> None:
    seen: list[Some] = []

    def run(some: Base) -> None:
        seen.append(some)

    called(run)
    assert seen.pop() == Some()
    words = "--rate 0.1 --kind b --name x --name y --counts 2 --map question=prompt --no-loud"
    called(run, *words.split())
    assert seen.pop() == Some(0.1, "b", ("x", "y"), (2,), {"question": "prompt"}, False)
    assert called(run, "--hidden", "4").exit_code == 2
    with pytest.raises(InputError, match="--kind must be one of a, b; got 'c'"):
        called(run, "--kind", "c")
    with pytest.raises(InputError, match="--map must look like KEY=VALUE; got 'x'"):
        called(run, "--map", "x")


def test_what_is_given_counts_where_it_is_the_default_and_one_value_is_given_once() -> None:
    seen: list[Some | None] = []

    def run(some: Annotated[Some | None, Pick()] = None) -> None:
        seen.append(some)

    called(run)
    called(run, "--rate", "0.5")
    assert seen == [None, Some()]
    done = called(run, "--rate", "0.1", "--kind", "b", "--rate=0.2")
    assert done.exit_code == 0 and seen.pop() == Some(0.2, "b")
    assert "--rate is given twice, and takes one value: 0.2 counts" in done.output
    called(run, "--name", "x", "--name", "y", "--loud", "--loud")
    assert seen[-1] == Some(names=("x", "y"))


def test_what_a_command_picks_replaces_what_its_type_offers() -> None:
    seen: list[Some] = []

    def run(some: Annotated[Base, FEWER]) -> None:
        seen.append(some)

    called(run)
    assert seen.pop() == Some()
    assert called(run, "--kind", "b").exit_code == 2
    assert "The rate." in called(run, "--help").output


def test_an_option_means_what_its_class_says_but_for_one_command() -> None:
    pages = [
        " ".join(CliRunner().invoke(app, [name, "--help-all"]).output.split())
        for name in ("calibrate", "label")
    ]
    of_class, of_label = (help_of(ReadOptions, "positive", of) for of in ("", "label_command"))
    assert of_label == "With --import or --elsewhere: the label that means hallucinated."
    assert of_class in pages[0] and of_label not in pages[0]
    assert of_label in pages[1] and of_class not in pages[1]


def test_every_text_of_an_option_is_said_by_a_command() -> None:
    """None was left behind, and none is of a class or command that is gone."""
    commands, seen = app, set[str]()

    def walk(group: Any) -> None:
        for item in group.commands.values():
            if hasattr(item, "commands"):
                walk(item)
            else:
                seen.update(str(getattr(parameter, "help", "")) for parameter in item.params)

    walk(commands)
    text = Path(fields.__file__).with_name("help.toml").read_text(encoding="utf-8")
    for name, texts in tomllib.loads(text).items():
        assert name.isupper() or {*texts.values()} <= seen, name


def test_an_object_that_may_be_absent_is_none_where_nothing_is_given() -> None:
    seen: list[Some | None] = []

    def run(some: Annotated[Some | None, Pick(only=("rate",))]) -> None:
        seen.append(some)

    called(run)
    called(run, "--rate", "0.75")
    assert seen == [None, Some(0.75)]


def test_an_error_names_options_as_they_are_given_where_it_is_met(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = {"question": "q", "contexts": ["c"], "answer": "a", "summary": "s", "label": 1}
    path.write_text(json.dumps(row))
    with pytest.raises(DataError) as caught:
        calibrate(path, "novelty")
    said = "choose one with mapping=..., e.g. mapping={'response': 'answer'}"
    assert str(caught.value).endswith(said)
    result = CliRunner().invoke(app, ["calibrate", str(path), "-o", str(tmp_path / "run")])
    assert str(result.exception).endswith("choose one with --map, e.g. --map response=answer")
    # What a command has said leaves no trace.
    with pytest.raises(DataError, match=r"choose one with mapping="):
        calibrate(path, "novelty")
    with pytest.raises(DataError, match="novelty is undefined for all 1 answers"):
        calibrate(path, "novelty", mapping={"response": "answer"})
