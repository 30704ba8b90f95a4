"""Do damaged files end in rows set aside or in calibrail's own error, for every reader?

A few hundred cases of the many that ``make fuzz`` tries.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.case import COMMANDS, command_case, read_case, run_folder_case
from tests.fuzz.frozen import frozen


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def test_damaged_sources_are_read_as_far_as_they_go_or_refused(folder: Path) -> None:
    ended = Counter(read_case(seed, folder) for seed in range(160))
    # The damage neither spares all files nor spoils all.
    assert min(ended["read"], ended["quarantined"], ended["refused"]) > 10


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_end_in_their_own_words(folder: Path, command: str) -> None:
    guardrail = frozen(folder)[1]
    for seed in range(2):
        command_case(seed, folder, guardrail, command)


def test_damaged_runs_and_guardrails_are_refused_by_name(folder: Path) -> None:
    ended = Counter(run_folder_case(seed, folder, *frozen(folder)) for seed in range(30))
    assert not any(ended[f"{command} 0"] for command in ("check", "certify", "select", "explain"))
    assert ended["export 1"] > 5
