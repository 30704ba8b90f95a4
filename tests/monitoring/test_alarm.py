"""Does an alarm name the answers that made it, and say from what to what values went?"""

from __future__ import annotations

import numpy as np

from calibrail.monitoring.history import Bins, Blocks, Ref
from calibrail.monitoring.monitor import MOST_EXAMPLES, N_RECENT, Recent, alarm

NOBODY = np.full(1, np.nan)
LAST = {"row": 163, "time": "1970-01-01T02:43:00Z"}


def history(*counts: list[int]) -> Blocks:
    """Return a reference and blocks of 16 rows from row 100 on, a minute each."""
    held = np.array(counts)
    rows = 100 + 16 * np.maximum(np.arange(len(counts)) - 1, 0)
    totals = held.sum(axis=1, keepdims=True).astype(float)
    return Blocks(rows, np.append(NOBODY, 60.0 * rows[1:]), held, totals)


def test_examples_are_the_latest_since_the_change_of_the_bins_that_gained() -> None:
    blocks = history([90, 10], [15, 1], [14, 2], [6, 10], [5, 11])
    bins = Bins("undefined", (0.5,))
    fell = np.array([[1, 0, 1] * 16 + [0, 1] * 8])
    refs: list[Ref | None] = [("c", row, f"id {row}") for row in range(100, 164)]
    event = alarm([bins], 0, blocks, Recent.empty().extend(100, fell, refs), LAST)
    assert event["since"]["row"] == 132 and event["since"]["time"] == "1970-01-01T02:12:00Z"
    # The change may lie within the block before, or within the one that looks changed.
    ends = event["since"]["lower"]["row"], event["since"]["upper"]["row"]
    assert event["since"]["row"] == 132 and ends == (116, 148)
    assert event["before"] == {"n": 132, "share": 13 / 132}
    assert event["after"] == {"n": 32, "share": 21 / 32}
    assert event["histogram"]["before"] == [119, 13] and event["histogram"]["after"] == [11, 21]
    found = [example["row"] for example in event["examples"]]
    assert found == [row for row in range(163, 131, -1) if fell[0, row - 100]][:MOST_EXAMPLES]
    assert event["examples"][0] == {"row": 163, "chain": "c", "seq": 163, "id": "id 163"}


def test_rows_without_a_place_in_a_log_are_named_by_their_number() -> None:
    blocks = history([90, 10], [15, 1], [0, 16])
    recent = Recent.empty().extend(100, np.array([[0] * 16 + [1] * 16]), [None] * 32)
    event = alarm([Bins("undefined", (0.5,))], 0, blocks, recent, LAST)
    assert event["since"]["upper"] == LAST
    assert event["examples"][0] == {"row": 131} and len(event["examples"]) == MOST_EXAMPLES


def test_the_latest_rows_are_kept_and_no_others() -> None:
    recent = Recent.empty()
    for row in range(0, 3 * N_RECENT, 100):
        bins = np.arange(row, row + 100)[None]
        recent = recent.extend(row, bins, [("c", at, "") for at in range(row, row + 100)])
    assert len(recent.refs) == N_RECENT and recent.row + N_RECENT == 800
    assert recent.bins[0].tolist() == list(range(recent.row, 800))
    assert recent.refs[0] == ("c", recent.row, "")
    again = Recent.from_dict(recent.to_dict())
    assert again.refs == recent.refs and again.bins.tolist() == recent.bins.tolist()
