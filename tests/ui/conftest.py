from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ui.driven import Pipe, Tab, browser


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipe]:
    with browser(tmp_path_factory.mktemp("browser")) as window:
        yield window


@pytest.fixture
def tab(window: Pipe) -> Iterator[Tab]:
    tab = Tab(window)
    tab.size(1200, 800)
    yield tab
    tab.close()
