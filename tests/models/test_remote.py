from __future__ import annotations

import threading
import time
from threading import Event

import pytest

from calibrail.models.batching import each


def test_every_item_comes_with_its_result() -> None:
    stop = Event()
    found = dict(each(lambda item: item * item, range(100), 8, stop))
    assert found == {item: item * item for item in range(100)}
    assert stop.is_set()


def test_at_most_so_many_at_once() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def work(item: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1

    list(each(work, range(30), 3, Event()))
    assert most == 3


def test_results_come_as_they_are_ready() -> None:
    came = Event()

    def work(item: int) -> bool:
        return item == 1 or came.wait(10)

    order = []
    for item, done in each(work, [0, 1], 2, Event()):
        assert done
        order.append(item)
        came.set()
    assert order == [1, 0]


@pytest.mark.parametrize("where", ["work", "loop"])
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_error_stops_what_has_not_begun(where: str, kind: type[BaseException]) -> None:
    stop, begun, ended = Event(), list[int](), list[int]()
    threads = threading.active_count()

    def work(item: int) -> None:
        begun.append(item)
        if item == 3 and where == "work":
            raise kind
        stop.wait(5 if item > 3 else 0)
        ended.append(item)

    with pytest.raises(kind):
        for item, _ in each(work, range(1000), 4, stop):
            if item == 3 and where == "loop":
                raise kind
    assert stop.is_set()
    assert len(begun) <= 12
    # What was under way has ended before the error is seen.
    assert len(ended) == len(begun) - (where == "work")
    assert threading.active_count() <= threads
