"""Two tiers of tests, and what every test costs.

``tests/slow_tests.txt`` lists the tests of a quarter of a second of processor time or more: they
get the mark ``slow``. ``make test`` leaves them out, ``make test-slow`` runs them alone.

Each line is a file, a function or a function with its parameters, as pytest names them. A line that
begins with ``+`` names what stays in the fast tier whatever it costs.

A test costs what it and its own fixtures take, in this process and in those that it started and
waited for. What a shared fixture takes is divided by the tests that use it.

Options
-------
--cpu-file FILE  one JSON object a test, as it ends
--check-tiers    fail where a listed test is gone; name fast ones that take far more than they may
--write-tiers    write the list anew from this run
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "slow_tests.txt"

#: Seconds of processor time from which a test is slow.
SLOW = 0.25
#: Modules from which on a test paid for a library that the next one to use it would have paid for.
MANY_MODULES = 200
#: Seconds from which a fast test is named: machines differ, and so do two runs on one of them, so
#: that no run fails by a clock.
FAR_TOO_SLOW = 6.0


def cpu() -> float:
    """Return seconds of processor time of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@dataclass(frozen=True)
class Tiers:
    """What the list says."""

    slow: frozenset[str]
    kept: frozenset[str]

    @classmethod
    def read(cls, path: Path = LIST) -> Tiers:
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        said = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        kept = {line[1:].strip() for line in said if line.startswith("+")}
        return cls(frozenset(line for line in said if not line.startswith("+")), frozenset(kept))

    def names(self, test: str) -> set[str]:
        """Return the lines that a test answers to."""
        return (self.slow | self.kept) & set(prefixes(test))

    def is_slow(self, test: str) -> bool:
        """Decide by the line that says most of the test."""
        for name in prefixes(test):
            if name in self.kept:
                return False
            if name in self.slow:
                return True
        return False

    @property
    def files(self) -> set[str]:
        """Return the files that have a slow test."""
        return {name.partition("::")[0] for name in self.slow}

    def holds(self, file: str) -> bool:
        """Say whether a whole file is slow, and none of its tests kept."""
        return file in self.slow and not any(one.startswith(f"{file}::") for one in self.kept)


def prefixes(test: str) -> Iterator[str]:
    """Yield a test's name, its function's, its class's and its file's."""
    yield test
    name = test.partition("[")[0]
    while True:
        if name != test:
            yield name
        if "::" not in name:
            return
        name = name.rpartition("::")[0]


@dataclass
class Cost:
    """What one test took, and the shared fixtures that it uses."""

    test: str
    own: float
    made: dict[str, float] = field(default_factory=dict)
    shared: list[str] = field(default_factory=list)
    #: Modules that no test before it in the process had imported.
    imported: int = 0


def costs(found: Iterable[Cost]) -> dict[str, float]:
    """Return seconds by test, with its share of what it shares with others.

    What was the first to import a large library is left out: it says nothing of the test.
    """
    found = list(found)
    users = Counter(name for cost in found for name in cost.shared)
    made: Counter[str] = Counter()
    for cost in found:
        made.update(cost.made)
    return {
        cost.test: cost.own + sum(made[name] / users[name] for name in cost.shared)
        for cost in found
        if cost.imported < MANY_MODULES
    }


def listed(seconds: dict[str, float], tiers: Tiers) -> list[str]:
    """Return the lines for what was measured: a function's where all its parameters are slow."""
    by_function: dict[str, list[str]] = {}
    for test in seconds:
        by_function.setdefault(test.partition("[")[0], []).append(test)
    by_lines = (prefixes(test) for test in seconds if not tiers.kept & set(prefixes(test)))
    measured = {name for names in by_lines for name in names if "::" in name}
    # What was not measured stays, and so do whole files, whose import alone is slow.
    lines = {name for name in tiers.slow - measured if (ROOT / name.partition("::")[0]).is_file()}
    for function, tests in by_function.items():
        if lines & set(prefixes(function)):
            continue
        slow = [test for test in tests if seconds[test] >= SLOW]
        kept = [test for test in slow if tiers.kept & set(prefixes(test))]
        if len(slow) < len(tests) or kept == slow:
            lines.update(set(slow) - set(kept))
        elif slow:
            lines.add(function)
    return sorted(lines)


def written(lines: Iterable[str], path: Path = LIST) -> None:
    """Write the list, with the comments and the kept tests that stand at its top."""
    before = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    head = [line for line in before if line.startswith(("#", "+"))]
    path.write_text("\n".join([*head, "", *lines]) + "\n", encoding="utf-8")


class Plugin:
    """Marks, measures, and says at the end what is wrong with the list."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.tiers = Tiers.read()
        self.found: list[Cost] = []
        self.unknown: set[str] | None = None
        self.faults: list[str] = []
        file = config.getoption("cpu_file")
        worker = hasattr(config, "workerinput")
        self.stream = open(file, "a", encoding="utf-8") if file and not worker else None  # noqa: SIM115
        self.started, self.modules = 0.0, 0
        self.ended = 0.0
        self.made: dict[str, float] = {}
        self.within = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[object]:
        # What is collected stays to the end: to look through it again and again took a third.
        gc.disable()
        try:
            return (yield)
        finally:
            gc.freeze()
            gc.enable()

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out files of which the tier that is asked for has no test."""
        if collection_path.suffix != ".py" or not collection_path.is_relative_to(ROOT):
            return None
        name = collection_path.relative_to(ROOT).as_posix()
        tier = self.config.getoption("markexpr")
        if tier == "slow":
            return name not in self.tiers.files or None
        return (tier == "not slow" and self.tiers.holds(name)) or None

    @pytest.hookimpl(tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> pytest.CollectReport | None:
        # A module without an example holds no doctest: some import a framework for seconds.
        if isinstance(collector, DoctestModule) and ">>> " not in collector.path.read_text("utf-8"):
            return pytest.CollectReport(collector.nodeid, "passed", None, [])
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        unknown = set(self.tiers.slow | self.tiers.kept)
        files = set()
        for item in items:
            files.add(item.nodeid.partition("::")[0])
            unknown -= self.tiers.names(item.nodeid)
            if self.tiers.is_slow(item.nodeid):
                item.add_marker(pytest.mark.slow)
        # A file may skip itself, where a framework is missing; a whole run tells what is gone.
        self.unknown = {
            name
            for name in unknown
            if name.partition("::")[0] in files or not (ROOT / name.partition("::")[0]).is_file()
        }
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["unknown_tests"] = sorted(self.unknown)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.unknown = set(getattr(node, "workeroutput", {}).get("unknown_tests", []))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.made, self.ended = {}, 0.0
        teardown = item.teardown

        # The first that is to be torn down of a test is torn down last: its fixtures have ended.
        def ends() -> None:
            teardown()
            self.ended = cpu()

        item.teardown = ends  # type: ignore[method-assign]
        self.modules, self.started = len(sys.modules), cpu()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[Any]:
        if fixturedef.scope == "function":
            return (yield)
        before, outer, self.within = cpu(), self.within, 0.0
        try:
            return (yield)
        finally:
            took = cpu() - before
            name = f"{fixturedef.baseid}::{fixturedef.argname}"
            self.made[name] = self.made.get(name, 0.0) + took - self.within
            self.within = outer + took

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            own = (self.ended or cpu()) - self.started - sum(self.made.values())
            used = getattr(item, "_fixtureinfo", None)
            shared = [
                f"{one[-1].baseid}::{one[-1].argname}"
                for one in (used.name2fixturedefs.values() if used else ())
                if one[-1].scope != "function"
            ]
            made = {name: round(took, 3) for name, took in self.made.items()}
            shared = sorted({*shared, *made})
            imported = len(sys.modules) - self.modules
            report.user_properties.append(("cpu", [round(own, 3), made, shared, imported]))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "teardown":
            return
        for name, value in report.user_properties:
            if name == "cpu":
                cost = Cost(report.nodeid, *value)
                self.found.append(cost)
                if self.stream:
                    self.stream.write(json.dumps(vars(cost)) + "\n")
                    self.stream.flush()

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        result = yield
        if self.stream:
            self.stream.close()
        if hasattr(self.config, "workerinput"):
            return result
        seconds = costs(self.found)
        if self.config.getoption("write_tiers"):
            written(listed(seconds, self.tiers))
        if self.config.getoption("check_tiers"):
            gone = sorted(self.unknown or ())
            self.faults += [
                f"tests/slow_tests.txt names {test}, which is not there" for test in gone
            ]
            if gone and session.exitstatus == 0:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            for test, took in seconds.items():
                kept = any(name in self.tiers.kept for name in prefixes(test))
                if took > FAR_TOO_SLOW and not kept and not self.tiers.is_slow(test):
                    self.faults.append(
                        f"{test} took {took:.1f} s of processor time: make it cheaper, or list it "
                        f"in tests/{LIST.name}"
                    )
        return result

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.found:
            total = sum(cost.own + sum(cost.made.values()) for cost in self.found)
            terminalreporter.write_line(f"{total:.0f} s of processor time in tests")

    def pytest_unconfigure(self) -> None:
        # After the closing line of pytest, where a reader of a log looks for why it failed.
        for fault in self.faults:
            print(fault)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--cpu-file", help="write what each test costs as a line of JSON")
    group.addoption("--check-tiers", action="store_true", help="fail where the list names no test")
    group.addoption("--write-tiers", action="store_true", help="write the list of slow tests anew")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "slow: takes a quarter of a second of processor time or more"
    )
    config.addinivalue_line("markers", "painted: looks at figures, which others leave unpainted")
    config.pluginmanager.register(Plugin(config), "calibrail-tiers")
