"""Pytest plug-in: a fixture that asserts a certificate.

It loads nothing of calibrail until a test asks for its fixture.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

import calibrail

_SEEN: pytest.StashKey[list[tuple[str, str]]] = pytest.StashKey()


@pytest.fixture
def assert_certified(request: pytest.FixtureRequest) -> Callable[..., calibrail.Certification]:
    """Return `calibrail.testing.assert_certified`; what it finds stands in the closing summary."""
    from calibrail.testing import NotCertifiedError
    from calibrail.testing import assert_certified as check

    seen = request.config.stash.setdefault(_SEEN, [])

    @wraps(check)
    def checked(*args: Any, **options: Any) -> calibrail.Certification:
        __tracebackhide__ = True
        try:
            certification = check(*args, **options)
        except NotCertifiedError as error:
            seen.append((request.node.nodeid, repr(error.certification)))
            raise
        seen.append((request.node.nodeid, repr(certification)))
        return certification

    return checked


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say for each guardrail that was tried what its verdict rests on."""
    seen = terminalreporter.config.stash.get(_SEEN, [])
    if seen:
        terminalreporter.section("guardrails")
    for name, said in seen:
        terminalreporter.write_line(f"{name}\n{said}")
