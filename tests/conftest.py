from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from calibrail.pipelines.data_reuse import _HERE
from calibrail.report.figures.plot import Plot
from tests.rows import Write
from tests.served_models import chat_decoder, logprob_server, transformers_serve
from tests.tiers import pytest_addoption, pytest_configure

#: Fixtures of the whole session: a model is made, and a server started, once.
__all__ = ["chat_decoder", "logprob_server", "transformers_serve"]
__all__ += ["pytest_addoption", "pytest_configure"]

# A busy machine is slow: no property is about time. The same tree fails or passes every time;
# `make fuzz` searches further, with other examples on every run.
SEARCHING = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("searching", SEARCHING)
settings.register_profile("repeatable", SEARCHING, derandomize=True)
settings.load_profile("repeatable")

# A shell's background job ignores Ctrl-C, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]

_FRAME = '<path d="M 0 9 L 9 9 L 9 0 L 0 0 L 0 9 z"/>'
#: A figure of nothing, as pages hold figures: a background, and that of its axes.
EMPTY_FIGURE = f'<svg viewBox="0 0 9 9" role="img" aria-label="Nothing.">{_FRAME * 2}</svg>\n'
PAINTED = Plot.svg


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Spare tests that look at no figure what takes most of the time of a page.

    Figures are composed as ever, and never handed to matplotlib to be laid out and written down,
    unless the test bears the mark ``painted``.
    """
    painted = item.get_closest_marker("painted") is not None
    Plot.svg = PAINTED if painted else _unpainted  # type: ignore[method-assign]


def _unpainted(plot: Any, label: str) -> str:
    return EMPTY_FIGURE


@pytest.fixture(scope="session")
def repository() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of public data sets; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("CALIBRAIL_DATA", ROOT / ".." / "shared" / "data")).resolve()
    if not folder.is_dir():
        pytest.skip(f"no public data sets at {folder}; set CALIBRAIL_DATA")
    return folder


@pytest.fixture
def as_command_line() -> Iterator[None]:
    """Let messages name options and next steps as a command line does."""
    from calibrail.options.fields import cli_spelling

    with cli_spelling():
        yield


@pytest.fixture(autouse=True)
def no_endpoint_of_this_machine() -> Iterator[None]:
    """Keep tests away from the keys, the endpoints and the answer cache of who runs them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("OPENAI_")]:
            patch.delenv(name)
        patch.setenv("CALIBRAIL_CACHE", "off")
        yield


@pytest.fixture(scope="session", autouse=True)
def state_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Note which guardrails were made here in a folder of the tests, and not in the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.delenv("CALIBRAIL_OWN_CODE", raising=False)
        yield


@pytest.fixture(scope="session")
def tmp_path_factory(tmp_path_factory: pytest.TempPathFactory) -> pytest.TempPathFactory:
    """Make each folder of a test in a folder of its own: looks in folders beside it are read."""
    make = tmp_path_factory.mktemp

    def apart(basename: str, numbered: bool = True) -> Path:
        folder = make(basename, numbered) / "w"
        folder.mkdir(mode=0o700)
        return folder

    tmp_path_factory.mktemp = apart  # type: ignore[method-assign]
    return tmp_path_factory


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send again without waiting for long."""
    monkeypatch.setattr("calibrail.models.llm.transport.FIRST_WAIT", 0.002)
    monkeypatch.setattr("calibrail.models.llm.transport.LONGEST_WAIT", 0.01)


@pytest.fixture
def fresh_models() -> Iterator[None]:
    """Give a test models that have answered nothing yet, and an empty memory of answers."""
    from calibrail.models.batching import shared_models
    from calibrail.models.llm.chat import open_cache

    for cached in (shared_models, open_cache):
        cached.cache_clear()
    yield
    for cached in (shared_models, open_cache):
        cached.cache_clear()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write rows (objects, or raw bytes or text) as lines of a file."""

    def to_file(*rows: Any, name: str = "rows.jsonl") -> Path:
        path = tmp_path / name
        lines = []
        for row in rows:
            if isinstance(row, bytes):
                lines.append(row)
            else:
                text = row if isinstance(row, str) else json.dumps(row)
                lines.append(text.encode("utf-8"))
        path.write_bytes(b"\n".join(lines) + b"\n")
        return path

    return to_file


@pytest.fixture(autouse=True)
def no_looks_of_other_tests() -> Iterator[None]:
    """Let each test begin without the looks that this process keeps of guardrails in memory."""
    yield
    _HERE.clear()
