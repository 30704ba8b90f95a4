"""Does the catalogue hold every message, and does each one render from its parameters?"""

from __future__ import annotations

import ast
import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from jinja2 import UndefinedError, meta, nodes

import calibrail
from calibrail.report.messages import (
    environment,
    facts,
    remarks,
    say,
    say_first,
    spell,
    title,
    word,
)
from tests.catalogue import catalogue
from tests.test_architecture import modules, walk

pytestmark = pytest.mark.usefixtures("as_command_line")

#: Topics whose codes are computed, e.g. ``warning.{code}``: evaluation chooses them.
COMPUTED = re.compile(r"^([a-z_]+)\.([a-z_]+_)?$")


#: What shows a message by its code.
SPEAKING = ("say", "say_first", "facts", "remarks", "word", "title", "is_known")


class Anything(int):
    """A parameter that is a number, a name, a list and a mapping, whatever a template takes."""

    def __getattr__(self, name: str) -> Anything:
        if name.startswith("_"):
            raise AttributeError(name)
        return self

    def __getitem__(self, name: object) -> Any:
        return [self] if isinstance(name, slice) else self

    def __call__(self, *_: object) -> Anything:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter((self, self))

    def __len__(self) -> int:
        return 2

    def __bool__(self) -> bool:
        return int(self) > 0

    def __hash__(self) -> int:
        return hash("flag")

    def __eq__(self, other: object) -> bool:
        # Policies and the like are names: every template knows this one.
        return other == "flag" if isinstance(other, str) else int(self) == other


@cache
def parameters(code: str) -> frozenset[str]:
    trees = map(environment().parse, catalogue()[code].values())
    names = {name for tree in trees for name in meta.find_undeclared_variables(tree)}
    return frozenset(names - environment().globals.keys())


@pytest.mark.parametrize("code", sorted(catalogue()))
def test_every_message_renders_from_its_parameters(code: str) -> None:
    for number in (0, 1, 1200):
        parts = facts(code, {name: Anything(number) for name in parameters(code)})
        assert parts or "text" not in catalogue()[code]
        for _, text in parts:
            assert "  " not in text.strip() and "{" not in text
    for name in parameters(code) - {"true", "false"}:
        others = {key: Anything(1) for key in parameters(code) - {name}}
        try:
            facts(code, others)
        except UndefinedError as error:
            assert name in str(error)


@cache
def calls() -> list[tuple[str, ast.Call]]:
    """Return code and call of every message that src shows; a prefix where it is computed."""
    found = list[tuple[str, ast.Call]]()
    for node in chain.from_iterable(map(walk, modules().values())):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[code, *_]) if name in SPEAKING:
                for part in ast.walk(code):
                    text = part.value if isinstance(part, ast.Constant) else ""
                    if re.match(r"^[a-z_]+\.[a-z_]*$", str(text)):
                        found.append((str(text), node))
    return found


@cache
def words() -> set[str]:
    """Return every text constant of src: computed codes stand among them."""
    return {
        str(node.value)
        for node in chain.from_iterable(map(walk, modules().values()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_code_has_a_message_and_every_message_is_used() -> None:
    used = {code for code, _ in calls()}
    topics = {match[1] for code in used if (match := COMPUTED.match(code))}
    named = {match[1] for code in words() if (match := COMPUTED.match(code))}
    topics |= named & {code.partition(".")[0] for code in catalogue()}
    in_others = " ".join(part for entry in catalogue().values() for part in entry.values())
    used |= set(re.findall(r'\bsay\("([a-z_.]+)"', in_others))
    whole = {code for code in used if not COMPUTED.match(code)} | (words() & {*catalogue()})
    assert whole <= set(catalogue()), whole - set(catalogue())
    known = {word.replace("-", "_") for word in words()}
    ordered = [*sorted(known), ""]

    def computed(code: str) -> bool:
        topic, _, name = code.partition(".")
        stem = re.sub("_(faithful|hallucinated)$", "_", name)
        places = list(re.finditer("_", name))
        ends = {end for at in places for end in (name[at.end() :], name[: at.start()])}
        begins = ordered[bisect_left(ordered, stem, 0, len(known))].startswith(stem)
        return topic in topics and bool(begins or known & {name, *ends})

    unused = [code for code in catalogue() if code not in whole | known and not computed(code)]
    assert unused == []
    assert topics <= {code.partition(".")[0] for code in catalogue()}


def test_messages_get_the_parameters_that_they_name() -> None:
    """Where a call spells them all out; the others take what is measured as it is."""
    wrong = [
        code
        for code, call in calls()
        if code in catalogue() and isinstance(call.func, ast.Name) and call.func.id == "say"
        if isinstance(call.args[0], ast.Constant) and len(call.args) == 1
        if all(keyword.arg for keyword in call.keywords)
        if {keyword.arg for keyword in call.keywords} != parameters(code)
    ]
    assert wrong == []


def test_the_parts_of_a_message_keep_their_order_and_say_something() -> None:
    counts = {"faithful": 3, "hallucinated": 1200, "unsure": 0, "skipped": 0}
    named = facts("label.counts", counts, disagreements=2, holding=0, changed=0)
    assert named[1] == ("hallucinated", "1,200")
    assert [name for name, _ in named] == [*list(counts)[:3], "annotators disagree"]
    assert remarks("label.counts", counts, disagreements=2, holding=0, changed=0)[-1] == "2"
    assert say_first({"log.whole": False, "log.broken": True}, n_problems=1).startswith(
        "1 problem:"
    )
    assert say_first({"log.whole": None}) == ""
    assert word("log.skipped", "torn") == "torn at the end"
    assert word("log.skipped", "of\x1blater") == "of\N{REPLACEMENT CHARACTER}later"


def test_a_missing_parameter_is_an_error_and_nothing_is_escaped() -> None:
    with pytest.raises(UndefinedError, match="limits"):
        say("certify.do_not_rely")
    with pytest.raises(KeyError):
        say("certify.nothing_of_the_kind")
    assert "<b> & --x" in say("certify.do_not_rely", limits="<b> & --x")


def test_a_code_without_a_title_is_its_own() -> None:
    assert title("warning.clustered") == "each group counts once"
    assert title("warning.few_distinct_scores") == "few distinct scores"
    assert title("warning.of_a_later_version") == "of a later version"


#: What the glossary calls caught, false alarms, an answer, or the test or the calibration set.
OTHERWISE = re.compile(
    r"(?<![-\w])(?:(?i:coverage)(?! and fpr| with fpr)\b|FPR|(?i:false[ -]positives?)|"
    r"(?:[Cc]alibration|[Tt]est) (?:part|half|halves)\b|[Hh]eld-out data|"
    r"(?:calibration|test|labelled|faithful|hallucinated) example|answers may be held back)"
)
CODE = re.compile(r"[a-z_.:<>=\d]+$")


def said_in_templates() -> Iterator[tuple[str, str]]:
    """Yield what files that are no code say: their words, and those that an expression quotes."""
    package = Path(calibrail.__file__).parent
    files = [*(package / "report/catalogue").glob("*.toml"), package / "options/help.toml"]
    field = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
    for file in [*files, package / "errors.toml"]:
        for name, value in texts_in(tomllib.loads(file.read_text(encoding="utf-8"))):
            said = [part for code in field.findall(value) for part in re.findall('"([^"]*)"', code)]
            words = [part for part in said if not CODE.match(part)]
            said = " | ".join([field.sub("", value), *words])
            yield f"{file.name}: {name}", " ".join(said.split())
    for file in [*(package / "report/templates").iterdir(), *(package / "ui/page").iterdir()]:
        yield file.name, file.read_text(encoding="utf-8")


def said_in_code() -> Iterator[tuple[str, str]]:
    """Yield the texts of pages, figures and refusals in code, and the help of commands."""
    for path, tree in modules().items():
        nodes = walk(tree)
        helps = {
            node.body[0]
            for node in nodes
            if isinstance(node, ast.FunctionDef) and node.decorator_list and "cli" in path.parts
        }
        docs = {node.value for node in nodes if isinstance(node, ast.Expr) and node not in helps}
        for node in nodes:
            text = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
            # A code, a key, a limit of a risk.
            if isinstance(text, str) and node not in docs and not CODE.match(text):
                yield f"{path.name}:{node.lineno}", text


def test_the_words_that_users_read_are_those_of_the_glossary() -> None:
    """In messages, help, errors, pages, heads of tables and figures; JSON keeps its names."""
    said = [*said_in_templates(), *said_in_code()]
    assert len(said) > 5000
    assert [(name, text) for name, text in said if OTHERWISE.search(text)] == []
    for wrong in (
        "FPR, points",
        "at the same coverage",
        "On the test part",
        "half of the test half",
    ):
        assert OTHERWISE.search(wrong)
    for right in ("with --coverage and --fpr", "coverage and fpr must be assumed", "test set"):
        assert not OTHERWISE.search(right)


def test_no_message_ends_in_too_or_draws_lots() -> None:
    wrong = re.compile(r",\s+too(?=[\"'.,:;)|]|\s*$)|\bby lot\b")
    said = [*said_in_templates(), *said_in_code()]
    assert [(name, text) for name, text in said if wrong.search(text)] == []
    assert all(map(wrong.search, ("give it, too", "drawn by lot (seed", "pass, too: x")))


def texts_in(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the texts of a table of a file with their names."""
    for name, value in content.items():
        yield from texts_in(value) if isinstance(value, dict) else [(name, str(value))]


def test_what_holds_a_sentence_ends_as_one() -> None:
    """But for errors, which are clauses, and what a command or a list follows or ends."""
    said = ((code, part) for code, entry in catalogue().items() for part in entry.values())
    bare = ((code, re.sub(r"{%.*?%}", "", part).strip()) for code, part in said)
    ends = (
        (code, text.rpartition(". ")[2])
        for code, text in bare
        if re.search(r"[a-z)}]\. [A-Z]", text) and not code.startswith(("refused.", "doctor."))
    )
    ended = re.compile(r".*(: .*|[.:?][\")]*|}}|\*)")
    assert [code for code, end in ends if not ended.fullmatch(end)] == []


#: Functions that say what weakens a result, or what is to be known of it; and tables that do.
REMARKING = re.compile(
    r"(warnings|doubts|_notes?|look_first|too_few|gone|alike|fallen_groups|freeze_into)$"
)
REMARKS = re.compile(
    r"(warning|sentence_warning|data_findings)\.|command\.\w+_kept$|"
    r"\w+\.(warnings|weakens|doubts|notes|\w+_notes|progress)$"
)
#: What these functions say beside that: a clause of another message, a line about a file.
OTHER_PARTS = {"agree.agreement", "data.made", "command.frozen", "command.signed"}
OTHER_PARTS |= {"guardrail.verdict"}


@cache
def remarked() -> set[str]:
    """Return the codes of warnings and notes, by their tables and by what says them."""
    found = {code for code in catalogue() if REMARKS.match(code)}
    for node in chain.from_iterable(map(walk, modules().values())):
        if isinstance(node, ast.FunctionDef) and REMARKING.search(node.name):
            constants = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
            named = {value for value in constants if isinstance(value, str)}
            topics = {value.partition(".")[0] for value in named if COMPUTED.match(value)}
            made = {f"{topic}.{name}" for topic in topics for name in named}
            found |= (named | made) & catalogue().keys()
    return found - OTHER_PARTS


def ends_of(body: list[nodes.Node], *, first: bool) -> set[str]:
    """Return all that a template may begin with, or end with; an expression in braces."""
    found = set[str]()
    for node in body if first else reversed(body):
        match node:
            case nodes.TemplateData():
                here = {node.data.strip()}
            case nodes.Output():
                here = ends_of(node.nodes, first=first)
            case nodes.If():
                branches = [node.body, *(item.body for item in node.elif_), node.else_]
                here = set().union(*(ends_of(branch, first=first) for branch in branches))
            case nodes.For():
                here = ends_of(node.body, first=first) | ends_of(node.else_, first=first)
            case nodes.Name(name=name):
                here = {f"{{{name}}}"}
            case nodes.Call(node=nodes.Name(name=name)):
                here = {f"{{{name}()}}"}
            case nodes.Assign() | nodes.AssignBlock() | nodes.Macro():
                here = {""}
            case _:
                here = {"{}"}
        found |= here - {""}
        if "" not in here:
            return found
    return found | {""}


def no_sentence(text: str) -> set[str]:
    """Return what a template begins or ends with where it is no sentence."""
    body = environment().parse(text).body
    begins, ends = (ends_of(body, first=first) for first in (True, False))
    wrong = {part for part in begins if part and not re.match(r"[A-Z0-9\"{]", part)}
    whole = re.compile(r".*[.?!]\)?|\{(reason|lost|say\(\))\}", re.DOTALL)
    return wrong | {part for part in ends if part and not whole.fullmatch(part)}


def test_every_warning_and_note_is_a_sentence() -> None:
    """Begins with a capital, a figure, a quotation or what is named, and ends with a stop."""
    texts = ((code, part) for code in remarked() for part in ["text", *catalogue()[code]])
    said = {
        (code, part): catalogue()[code].get(part, "") for code, part in texts if part != "title"
    }
    assert len(said) > 150
    assert {at: wrong for at, text in said.items() if (wrong := no_sentence(text))} == {}
    for clause in ("no row", "{% if n %}No{% else %}no{% endif %} row.", "{{ n }} rows", "No row"):
        assert no_sentence(clause)
    assert not no_sentence("{% if n %}{{ n }} rows{% else %}No row{% endif %} (of 3).")


def test_what_says_how_often_a_verdict_is_wrong_says_what_that_assumes() -> None:
    fixed = re.compile(r"fixed\s+before anyone looked|chose neither judge nor limits|assume\"")
    stated = ("assumption.intervals", "assumption.intervals_by_betting", "certify.intervals")
    stated += ("certify.intervals_of_sentences", "label.how_sure", "agree.granted", "card.limits")
    told = {code: " ".join(catalogue()[code].values()) for code in stated}
    assert [code for code, text in told.items() if not fixed.search(text)] == []
    drawn = {"versus.rests": "independent of each other", "decisions.bounds": "independent"}
    drawn |= {"monitor.intervals": "drawn at random", "agree.granted": "drawn at random"}
    assert all(words in " ".join(catalogue()[code].values()) for code, words in drawn.items())


def test_labels_that_are_no_random_sample_are_told_in_one_wording() -> None:
    words = "are no random sample"
    told = [code for code, entry in catalogue().items() if words in " ".join(entry.values())]
    assert told == ["measure.no_sample"]
    data = {"labelled_by": None}
    columns = {"probability": None, "by": None}
    about: dict[str, Any] = {"data": data, "columns": columns, "doubt": "DOUBT", "within": False}
    for code, text in {
        "agree.no_verdict": f"since the human labels {words}: DOUBT. Draw",
        "agree.not_alike": f"By J, the human labels {words}: DOUBT. Draw",
        "versus.no_verdict": f"since the questions that people labelled {words}: DOUBT. Draw",
        "refused.queue_for_a_threshold": f"labels of disagreements {words}, so no threshold",
    }.items():
        assert text in say(code, about, judge="J", drawing=False)
    assert spell("no_sample") == f"the human labels {words}"
