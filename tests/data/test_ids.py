"""Is the set of seen ids exact, and small?"""

from __future__ import annotations

import sys

from calibrail.data.ids import SeenIds


def test_every_id_is_new_once() -> None:
    seen = SeenIds()
    names = [f"id-{i}" for i in range(10_000)]
    assert all(seen.add(name) for name in names)
    assert not any(seen.add(name) for name in names)
    assert len(seen) == 10_000
    assert seen.add("\ud800") and not seen.add("\ud800")


def test_an_id_takes_at_most_24_bytes() -> None:
    seen = SeenIds()
    for i in range(50_000):
        seen.add(str(i))
    assert sys.getsizeof(seen._slots) <= 24 * 50_000
