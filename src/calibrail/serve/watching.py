"""When does a guardrail file that changed take over, and who learns of it?"""

import asyncio
import logging
from typing import Final

from calibrail.serve.announcing import identity
from calibrail.serve.bodies import fields_read
from calibrail.serve.problems import pointer
from calibrail.serve.service import Service

#: Seconds between two looks at the files.
EVERY: Final = 1.0

_log: Final = logging.getLogger("calibrail.serve")


async def watch(service: Service) -> None:
    """Look at the files until the task is cancelled."""
    while True:
        await asyncio.sleep(EVERY)
        service.metrics.look()
        await reload(service, await asyncio.to_thread(service.guardrails.changed))


async def reload(service: Service, names: list[str] | None = None) -> None:
    """Load files anew, all where none is named; the event loop goes on meanwhile."""
    guardrails = service.guardrails
    for name in guardrails.names() if names is None else names:
        async with service.reloading:
            before = guardrails.get(name)
            refusal = await asyncio.to_thread(guardrails.reload, name)
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
