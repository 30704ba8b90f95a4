"""Rules of the house that import-linter cannot see."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "calibrail"

MOST_PARAMETERS = 9
#: What makes objects of the keywords of a public function.
COLLECTED = "options_from_keywords"
FEWEST_WORDS = 5
#: Private to users, not to the rooms above: checks of arrays.
SHARED = ("calibrail.conformal.argument_checks",)
#: Rooms in which a module has the name of its command or framework.
OWN_NAMES = ("cli", "pipelines", "report/documents", "integrations")
#: Modules whose names still occur in two rooms; this list only shrinks.
NAMED_TWICE = {
    *("streaming", "prevalence", "spans", "formats", "rows", "sentences", "detector", "runtime"),
    *("batching", "limits", "terminal", "removal"),
}
#: Of ARCHITECTURE.md.
MOST_WORDS = 900


@cache
def modules() -> dict[Path, ast.Module]:
    """Return what each module of the package holds: to read them all takes seconds."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}


@cache
def walk(tree: ast.Module) -> list[ast.AST]:
    """Return all nodes of a module: many rules look at them."""
    return list(ast.walk(tree))


def place(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def room(path: Path) -> tuple[str, ...]:
    """Return the folder of a module; who stands in it may know its private names."""
    return path.relative_to(PACKAGE).parts[:-1]


def room_of_module(name: str) -> tuple[str, ...]:
    parts = tuple(name.split(".")[1:])
    return parts if PACKAGE.joinpath(*parts).is_dir() else parts[:-1]


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_uses(tree: ast.Module, here: tuple[str, ...]) -> Iterator[str]:
    """Yield private names of other rooms: imported, or read from an imported module."""
    modules: dict[str, tuple[str, ...]] = {}
    for node in walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("calibrail"):
            there = room_of_module(str(node.module))
            for alias in node.names:
                modules[alias.asname or alias.name] = there
                if private(alias.name) and there != here[: len(there)]:
                    yield f"{node.module}.{alias.name}"
    for node in walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and private(node.attr)
            and isinstance(node.value, ast.Name)
            and modules.get(node.value.id, here) != here
        ):
            yield f"{node.value.id}.{node.attr}"


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def n_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    taken = function.args
    every = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs]
    return sum(item.arg not in ("self", "cls") for item in every)


def spells_options_out(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the keywords of a public function are the fields of option objects."""
    called = (item.func for item in function.decorator_list if isinstance(item, ast.Call))
    return any(ast.unparse(item).rpartition(".")[2] == COLLECTED for item in called)


def docstrings(tree: ast.Module) -> set[ast.AST]:
    """Return the texts that stand alone: docstrings of modules, classes and functions."""
    return {node.value for node in walk(tree) if isinstance(node, ast.Expr)}


def sentences(tree: ast.Module) -> Iterator[str]:
    """Yield texts that read like a sentence for users; docstrings and raised errors are none."""
    skipped = docstrings(tree)
    for node in walk(tree):
        if isinstance(node, ast.Raise):
            skipped |= set(ast.walk(node))
        if isinstance(node, ast.JoinedStr):
            # Its parts are no texts of their own.
            skipped |= set(node.values)
    for node in walk(tree):
        if node in skipped:
            continue
        text = ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "1" for part in node.values
            )
        if len(text.split()) >= FEWEST_WORDS and re.search(r"\w\W?\.( [A-Z]|\s*$)", text):
            yield text


def test_who_computes_leaves_the_sentences_to_the_documents() -> None:
    said = [
        f"{place(path)}: {text}"
        for path, tree in modules().items()
        if room(path)[:1] == ("evaluation",)
        for text in sentences(tree)
    ]
    assert said == []


@pytest.mark.parametrize(
    ("code", "n"),
    [
        ('"""A docstring of five words and more."""', 0),
        ('def f():\n    """A docstring of five words and more."""', 0),
        ('raise ValueError("an error has some words, too.")', 0),
        ('x = "there is no faithful example"', 0),
        ('x = "The score is undefined here."', 1),
        ('x = f"Of {n} scores only {m} differ."', 1),
        ('x = f"Of {n} scores only {m} differ. Use {rest}"', 1),
    ],
)
def test_a_sentence_among_the_numbers_is_found(code: str, n: int) -> None:
    assert len(list(sentences(ast.parse(code)))) == n


def test_no_room_uses_what_another_keeps_to_itself() -> None:
    used = [
        f"{place(path)}: {name}"
        for path, tree in modules().items()
        for name in private_uses(tree, room(path))
        if name not in SHARED
    ]
    assert used == []


def test_a_list_of_parameters_that_long_would_be_an_object() -> None:
    long = [
        f"{place(path)}: {function.name} takes {n_parameters(function)}"
        for path, tree in modules().items()
        for function in functions(tree)
        if n_parameters(function) > MOST_PARAMETERS and not spells_options_out(function)
    ]
    assert long == []


def test_calls_are_short_enough_to_be_shaped_by_the_formatter() -> None:
    shaped = [
        path
        for folder in ("src", "tests", "benchmarks", "examples")
        for path in (ROOT / folder).rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.rstrip().endswith(("# fmt: skip", "# fmt: off"))
    ]
    assert shaped == []


def test_no_class_name_occurs_twice() -> None:
    homes: dict[str, list[str]] = {}
    for path, tree in modules().items():
        for node in walk(tree):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(place(path))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_no_module_name_occurs_in_two_rooms() -> None:
    homes: dict[str, list[str]] = {}
    for path in modules():
        if not path.stem.startswith("__") and "/".join(room(path)) not in OWN_NAMES:
            homes.setdefault(path.stem, []).append(place(path))
    twice = {name: where for name, where in homes.items() if len(where) > 1}
    assert twice.keys() <= NAMED_TWICE, twice


def test_first_lines_of_modules_are_statements() -> None:
    first = {
        place(path): (ast.get_docstring(tree) or "?").partition("\n")[0]
        for path, tree in modules().items()
    }
    assert {path: line for path, line in first.items() if "?" in line or line[-1] != "."} == {}


def test_pages_name_modules_that_exist() -> None:
    of_the_house = [ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md"]
    named = {
        path: page.name
        for page in [*of_the_house, *(ROOT / "docs").glob("*.md")]
        for path in re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", page.read_text("utf-8"))
        if page in of_the_house or path.endswith(".py")
    }
    assert len(named) > 20
    lost = {path for path in named if not any((at / path).exists() for at in (PACKAGE, ROOT))}
    assert {path: named[path] for path in lost} == {}


def test_the_architecture_is_read_in_minutes() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(page.split()) <= MOST_WORDS


@pytest.mark.parametrize(
    ("code", "uses"),
    [
        ("from calibrail.data.splits import _halves", ["calibrail.data.splits._halves"]),
        ("from calibrail.data import splits\nsplits._halves(1)", ["splits._halves"]),
        ("from calibrail.models.batching import _reply", []),
        ("from calibrail.data import splits\nsplits.__doc__", []),
    ],
)
def test_a_private_name_of_another_room_is_found(code: str, uses: list[str]) -> None:
    assert list(private_uses(ast.parse(code), ("models",))) == uses


def flags_in_errors(tree: ast.Module) -> Iterator[str]:
    """Yield what an error says of the command line's options, but for whole commands."""
    for node in (node for node in walk(tree) if isinstance(node, ast.Raise)):
        calls = (part for part in ast.walk(node) if isinstance(part, ast.Call))
        both = {
            part
            for call in calls
            if ast.unparse(call.func).endswith("cli_or_python")
            for part in ast.walk(call)
        }
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and part not in both:
                command = r"calibrail (?:(?:cache|guardrail|log) )?\w+( --[a-z-]+)*"
                beside_commands = re.sub(command, "", str(part.value))
                yield from re.findall("--[a-z][a-z-]*", beside_commands)


def test_errors_name_options_for_python_and_the_command_line_alike() -> None:
    found = [
        f"{place(path)}: {flag}"
        for path, tree in modules().items()
        if room(path)[:1] not in (("cli",), ("report",))
        for flag in flags_in_errors(tree)
    ]
    assert not found, f"use spell_option or cli_or_python of options/fields.py: {found}"
    wrong = ast.parse("raise E(f'name {x} with --map, or ' + cli_or_python('--by', 'by=...'))")
    assert list(flags_in_errors(wrong)) == ["--map"]


#: How a text is searched.
SEARCHES = {"startswith", "endswith", "removeprefix", "removesuffix", "replace"}
SEARCHES |= {"partition", "rpartition", "split", "find", "index", "count"}

#: Where a sentence is read all the same, and which.
READS_SENTENCES = {
    # What an older calibrail wrote, which kept no codes.
    "guardrail/decision.py": {
        *("reason.startswith", "reason.removeprefix", "in reason", "reason =="),
    },
    # Arrow raises one class for all that is invalid.
    "data/tables.py": {"in str(error)"},
    # These are codes: a name, and numbers behind colons or underscores.
    "report/messages.py": {"reason.split"},
    "pipelines/independence.py": {"reason.split"},
    "report/documents/guardrail.py": {"reason.replace"},
    # The first words of what a parser says are shown.
    "data/files.py": {"str(error).split"},
}


def sentence_reads(tree: ast.Module) -> Iterator[str]:
    """Yield where the words of a reason or an error are searched or compared."""

    def is_prose(node: ast.AST) -> str:
        match node:
            case ast.Name(id="reason" | "why" as name) | ast.Attribute(attr="reason" as name):
                return name
            case ast.Subscript(slice=ast.Constant(value="reason")):
                return "reason"
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value="reason"), *_]):
                return "reason"
            case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id="error" | "failure" as name)]):
                return f"str({name})"
        return ""

    for node in walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in SEARCHES:
                if name := is_prose(value):
                    yield f"{name}.{attr}"
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
                if name := is_prose(right):
                    yield f"in {name}"
                elif (name := is_prose(left)) and isinstance(right, ast.Tuple | ast.Set | ast.List):
                    yield f"{name} in"
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                # What is one word is a code.
                words = [side.value for side in (left, right) if isinstance(side, ast.Constant)]
                coded = all(re.fullmatch("[a-z_]+", str(word)) for word in words) and words
                if (name := is_prose(left) or is_prose(right)) and not coded:
                    yield f"{name} =="


def test_no_code_reads_a_sentence() -> None:
    found = {
        f"{place(path)}: {read}"
        for path, tree in modules().items()
        for read in sentence_reads(tree)
        if read not in READS_SENTENCES.get(str(place(path)), ())
    }
    assert not found, f"read a code (guardrail/decision.py, scores/base.py), not words: {found}"


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        ("decision.reason.startswith(X)", ["reason.startswith"]),
        ("content['reason'] == SEEN", ["reason =="]),
        ("'(timeout)' in item.get('reason', '')", ["in reason"]),
        ("NO_REPLY in why", ["in why"]),
        ("'UTF8' in str(error)", ["in str(error)"]),
        ("decision.cause.code == 'seen_before'", []),
        ("report['reason'] == 'fpr_open'", []),
        ("report['reason'] == 'It flags all.'", ["reason =="]),
        ("row in reasons", []),
        ("reason is None", []),
    ],
)
def test_reading_a_sentence_is_found(code: str, reads: list[str]) -> None:
    assert list(sentence_reads(ast.parse(code))) == reads


def test_decisions_are_made_with_their_cause() -> None:
    found = [
        place(path)
        for path, tree in modules().items()
        if room(path)[:1] in (("guardrail",), ("serve",), ("integrations",), ("workflow",))
        for node in walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Decision"
        and not any(keyword.arg == "cause" for keyword in node.keywords)
    ]
    assert found == []
