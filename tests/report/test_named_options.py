"""Does a message name options alone that the command has which prints it?

Which command can print which text is read off the code: a function says the codes that stand in it,
and those of all functions and classes that it names; of a class all methods count. What is said
under a condition counts as said, so that some of what is found cannot be: `NEVER` says why.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

import calibrail
import calibrail.options
from calibrail.cli import app
from calibrail.options.fields import cli_spelling, flag
from calibrail.report.documents import BUILDERS
from calibrail.report.messages import say
from tests.catalogue import catalogue

PACKAGE = Path(calibrail.__file__).parent
#: Of each package with a stub, the names in it and the modules that define them.
STUBS = {
    package: calibrail.defined_in(package)
    for stub in PACKAGE.rglob("__init__.pyi")
    for package in [".".join(stub.relative_to(PACKAGE.parent).parent.parts)]
}
#: A function or class: its module, and its name.
Place = tuple[str, str]
#: An option that a text names, and where a template asks whether the command has it.
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
ASKED = re.compile(r'offers\("(--[a-z-]+)"\)')

#: Texts of options that a command lacks, and why it does not print them.
NEVER = {
    **dict.fromkeys(
        ("own_code_forbidden", "dry_run_asks", "refused.clustered_without_groups"),
        "said of what was asked for by that very option",
    ),
    "verdict.no_limit_of_reviews": "said of what was asked for by that very option",
    **dict.fromkeys(
        ("data.first_rows", "data.drawn_rows", "data.no_baselines", "verdict.assumed_apart"),
        "said of what was asked for by that very option",
    ),
    **dict.fromkeys(
        ("assumption.about_removed", "assumption.undefined_sentence", "removal.undefined"),
        "of sentences that are removed, as `calibrate` alone does",
    ),
    "removal.other_thresholds": "of sentences that are removed, as `calibrate` alone does",
    "command.planned_calls": "of a dry run, which `export` and `guardrail verify` do not make",
    "guardrail_unvouched": "of a guardrail's file, by a command that takes one",
    "own_file_not_noted": "of the command that will load what was written",
    "verdict.name_copies": "of a file of answers; `recalibrate` has a folder of labels",
    "calibrate.slider": "of a threshold that was calibrated",
    "fixed_threshold.turn": "`export` writes no report of a run",
    "fixed_threshold.cost_base": "a guardrail with costs states its base rate",
    "doctor.column": "what a command to come is told",
    "data.scores_of_programs": "what a command to come is told",
    **dict.fromkeys(
        ("refused.empty_split", "refused.no_faithful_to_test"),
        "of a split, which `audit` and `test` have not",
    ),
    "refused.no_winner": "of a comparison that `export` freezes",
    "refused.labels_without_ids": "of a file of labels; `recalibrate` has a folder",
    "refused.two_labels": "of a file of labels; `recalibrate` has a folder",
}


@cache
def trees() -> dict[str, ast.Module]:
    paths = sorted(PACKAGE.rglob("*.py"))
    names = (path.relative_to(PACKAGE.parent).with_suffix("").parts for path in paths)
    named = (".".join(part for part in parts if part != "__init__") for parts in names)
    return {
        name: ast.parse(path.read_text("utf-8")) for name, path in zip(named, paths, strict=True)
    }


@cache
def known(module: str) -> tuple[dict[str, ast.AST], dict[str, tuple[str, str | None]]]:
    """Return what a module defines, and what it imports of the package: a module, or its name."""
    defined: dict[str, ast.AST] = {}
    for node in trees()[module].body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined[node.name] = node
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            if isinstance(target, ast.Name):
                defined[target.id] = node
    imported: dict[str, tuple[str, str | None]] = {"calibrail": ("calibrail", None)}
    for node in ast.walk(trees()[module]):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("calibrail"):
            for item in node.names:
                whole = f"{node.module}.{item.name}"
                place = (whole, None) if whole in trees() else (str(node.module), item.name)
                imported[item.asname or item.name] = place
    return defined, imported


def found(module: str, name: str) -> Place | str | None:
    """Return the place that defines a name, or the module that it is."""
    defined, imported = known(module)
    if name in defined:
        return module, name
    if name in imported:
        source, inner = imported[name]
        return source if inner is None else found(source, inner)
    home = STUBS.get(module, {})
    if name in home:
        return found(home[name], name)
    return f"{module}.{name}" if f"{module}.{name}" in trees() else None


class Reader(ast.NodeVisitor):
    """Notes what a function or class names: places of the package, texts, kinds of documents."""

    def __init__(self, place: Place) -> None:
        self.module, self.places = place[0], set[Place]()
        self.texts, self.begun, self.scopes = set[str](), set[str](), list[set[str]]()
        self.visit(known(place[0])[0][place[1]])

    def visit_FunctionDef(self, node: Any) -> None:
        inner = [part for part in ast.walk(node) if isinstance(part, ast.Name | ast.arg)]
        own = {part.arg for part in inner if isinstance(part, ast.arg)}
        own |= {item.id for item in inner if isinstance(getattr(item, "ctx", None), ast.Store)}
        self.scopes.append(own)
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        for part in (*node.decorator_list, *node.body[bool(ast.get_docstring(node)) :], *defaults):
            self.visit(part)
        self.scopes.pop()

    def visit_AsyncFunctionDef(self, node: Any) -> None:
        self.visit_FunctionDef(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        self._note(node.id, [])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain, part = list[str](), node
        while isinstance(part, ast.Attribute):
            chain.insert(0, part.attr)
            part = part.value  # type: ignore[assignment]
        if isinstance(part, ast.Name):
            self._note(part.id, chain)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        named = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if named in ("build_document", "finish") and node.args:
            for part in ast.walk(node.args[0]):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    module, function = BUILDERS.get(part.value, (part.value, "document"))
                    if (whole := f"calibrail.report.documents.{module}") in trees():
                        self.places.add((whole, function))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        self.texts.add(str(node.value))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self.begun.add(str(getattr(node.values[0], "value", "")))
        self.generic_visit(node)

    def _note(self, name: str, chain: list[str]) -> None:
        place = None if any(name in own for own in self.scopes) else found(self.module, name)
        while isinstance(place, str) and chain:
            place = found(place, chain.pop(0))
        if isinstance(place, tuple):
            self.places.add(place)


reader = cache(Reader)


def said(command: Place) -> set[str]:
    """Return the codes of all texts that a command can print."""
    met, waiting = set[Place](), [command]
    while waiting:
        if (place := waiting.pop()) not in met:
            met.add(place)
            waiting += reader(place).places
    codes = texts().keys()
    whole = {text for place in met for text in reader(place).texts & codes}
    # A code of which one part is chosen: `say(f"refused.{code}")`.
    parts = (
        begin + end
        for place in met
        for begin in reader(place).begun
        for end in reader(place).texts
        if "." in begin
    )
    return whole | (codes & set(parts))


def commands(group: Any = None, name: str = "") -> Iterator[tuple[str, Place, set[str]]]:
    """Yield every command: its name, the function that it is, its options."""
    group = group or app
    for word in group.list_commands(click.Context(group)):
        item, whole = group.get_command(click.Context(group), word), f"{name} {word}".strip()
        if hasattr(item, "list_commands"):
            yield from commands(item, whole)
        else:
            place = item.callback.__module__, item.callback.__name__
            yield (
                whole,
                place,
                {name for part in item.params for name in (*part.opts, *part.secondary_opts)},
            )


@cache
def texts() -> dict[str, str]:
    """Return what a command line is told, by code: of the catalogue, and errors."""
    errors = tomllib.loads((PACKAGE / "errors.toml").read_text("utf-8"))
    parts = {
        code: " ".join(text for part, text in entry.items() if part != "python")
        for code, entry in catalogue().items()
    }
    return errors | parts


def lacking(text: str, own: set[str], options: dict[str, set[str]]) -> set[str]:
    """Return the options of a text that neither its command nor one that it names has."""
    for words in re.findall(r"calibrail ([a-z]+(?: [a-z]+)?)", text):
        own = own | options.get(words, options.get(words.split()[0], set()))
    spelled = {
        flag(item)
        for kind, name in re.findall(r'option_name\("(\w+)",\s*"(\w+)"', text)
        for item in fields(getattr(calibrail.options, kind))
        if item.name == name
    }
    return {*OPTION.findall(text), *spelled} - own - {*ASKED.findall(text)}


LISTED = list(commands())
OPTIONS = {name: options for name, _, options in LISTED}


@pytest.mark.parametrize(("name", "place"), [item[:2] for item in LISTED])
def test_a_message_names_options_that_its_command_has(name: str, place: Place) -> None:
    wrong = {
        code: sorted(others)
        for code in said(place) - NEVER.keys()
        if (others := lacking(texts()[code], OPTIONS[name], OPTIONS))
    }
    assert not wrong, f"calibrail {name} lacks these: name the command that has them, or `offers`"


def test_what_a_command_says_is_found() -> None:
    printed = {name: said(place) for name, place, _ in LISTED}
    assert {"verdict.looked_before", "refused.which_rating"} <= printed["recalibrate"]
    assert "verdict.looked_before" in printed["agree"] and "versus.close" in printed["versus"]
    assert "refused.nothing_to_compare" in printed["label"] - printed["serve"]
    assert "judge_constant" in printed["label"] and "versus.close" not in printed["agree"]
    assert not NEVER.keys() - set().union(*printed.values())
    assert lacking("add --by", {"--looks"}, {}) == {"--by"}
    assert not lacking("(`calibrail agree --by`)", set(), {"agree": {"--by"}})


def test_a_remedy_that_the_command_lacks_is_left_out() -> None:
    looks = {"same_traces": False, "shared": 1.0, "looks": "one"}
    assert "(--looks)" in say("verdict.looked_before", looks)
    with cli_spelling({"--labels"}):
        assert "--looks" not in say("verdict.looked_before", looks)
        assert "by `calibrail agree` with --judge-higher" in say("refused.which_rating", column="c")
    with cli_spelling({"--judge-higher"}):
        assert "say. Add --judge-higher" in say("refused.which_rating", column="c")
