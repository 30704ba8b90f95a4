"""When does a guardrail file that changed take over, and who learns of it?"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from calibrail.serve.announcing import identity
from calibrail.serve.bodies import fields_read
from calibrail.serve.problems import pointer
from calibrail.serve.service import Service
from calibrail.serve.watches import Statuses

#: Seconds between two looks at the files.
EVERY: Final = 1.0

_log: Final = logging.getLogger("calibrail.serve")
T = TypeVar("T")


async def watch(service: Service) -> None:
    """Look at the files until the task is cancelled; one that hangs holds up no other."""
    async with asyncio.TaskGroup() as group:
        for name in service.guardrails.names():
            group.create_task(_follow(service, name))
        if service.statuses is not None:
            group.create_task(_read(service.statuses))
        while True:
            await asyncio.sleep(EVERY)
            service.metrics.look()


async def _read(statuses: Statuses) -> None:
    while True:
        await _aside(statuses.read)
        await asyncio.sleep(2 * EVERY)


async def _follow(service: Service, name: str) -> None:
    while True:
        await asyncio.sleep(EVERY)
        if await _aside(lambda: service.guardrails.changed(name)):
            await reload(service, [name])


async def reload(service: Service, names: list[str] | None = None) -> None:
    """Load files anew, all where none is named; the event loop goes on meanwhile."""
    names = service.guardrails.names() if names is None else names
    await asyncio.gather(*(_reload_one(service, name) for name in names))


async def _reload_one(service: Service, name: str) -> None:
    guardrails = service.guardrails
    async with service.reloading[name]:
        before = guardrails.get(name)
        refusal = await _aside(lambda: guardrails.reload(name))
    service.metrics.reloaded(name, "swapped" if refusal is None else "refused")
    if refusal is None:
        after = guardrails.get(name)
        service.metrics.took_over(before, after)
        _log.warning("%s; decides from now on", identity(after))
        old, new = fields_read(before.guardrail), fields_read(after.guardrail)
        if set(new) != set(old):
            _log.error(
                "%s: the new file reads other fields than the old one; requests that lack one "
                "are refused from now on. They must have %s (before: %s)",
                name,
                *(", ".join(pointer(*path) for path in paths) for paths in (new, old)),
            )
    else:
        _log.error(
            "%s: the new file is refused, and %s goes on deciding: %s",
            name,
            before.digest,
            refusal.reason,
        )


async def _aside(work: Callable[[], T]) -> T:
    """Return what work returns, in a thread that neither the process nor other work waits for.

    A disk that hangs, or a detector that does while it is tried, would keep the process from
    ending in the threads of ``asyncio.to_thread``.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(settled: Callable[[], None]) -> None:
        if not done.done():
            settled()

    def run() -> None:
        settled: Callable[[], None]
        try:
            result = work()
        except BaseException as error:
            failure = error if isinstance(error, Exception) else RuntimeError(repr(error))
            settled = lambda: done.set_exception(failure)  # noqa: E731
        else:
            settled = lambda: done.set_result(result)  # noqa: E731
        # The loop may have ended meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, settled)

    threading.Thread(target=run, name="reloads", daemon=True).start()
    return await done
