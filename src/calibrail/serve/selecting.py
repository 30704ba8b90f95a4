"""What of a batch that came by HTTP may be released?"""

import asyncio
import json
import re
from typing import Final

from calibrail.data.example import Example
from calibrail.errors import CalibrailError
from calibrail.guardrail.cause import SEEN, Cause
from calibrail.guardrail.decision import Decision
from calibrail.serve.bodies import Select
from calibrail.serve.guardrails import Loaded
from calibrail.serve.problems import Problem, pointer
from calibrail.serve.service import Service
from calibrail.settings import Release
from calibrail.workflow.select import NewAnswers, selected

#: What the batch is called in what is answered.
_SOURCE: Final = "request"


async def select(service: Service, loaded: Loaded, asked: Select) -> str:
    """Return the JSON of what ``calibrail select`` prints, with each answer's own line.

    An answer that set the guardrail's threshold is not released, and is marked.

    Raises
    ------
    Problem
        If a field is outside its domain, nothing can be promised of this batch, or its decisions
        cannot be written to the log.
    """
    try:
        release = Release(asked.fdr, asked.method, asked.confidence)
        batch = NewAnswers(loaded.guardrail)
    except CalibrailError as error:
        raise _refused(error) from None
    examples = [
        item.example(loaded.guardrail, ("items", place)) for place, item in enumerate(asked.items)
    ]
    new = [batch.admits(example) for example in examples]
    admitted = [example for example, is_new in zip(examples, new, strict=True) if is_new]
    decided = await service.batcher.decide(loaded, admitted, kept=False) if admitted else []
    try:
        result = await asyncio.to_thread(selected, batch, decided, release, _SOURCE)
    except CalibrailError as error:
        raise _refused(error) from None
    given = iter(decided)
    decisions = [
        next(given) if is_new else _withheld(example)
        for example, is_new in zip(examples, new, strict=True)
    ]
    released = iter(result.selection.released)
    await asyncio.to_thread(
        service.keep,
        loaded,
        list(zip(examples, decisions, strict=True)),
        kind="select",
        released=[is_new and bool(next(released)) for is_new in new],
    )
    chosen = iter(result.items())
    unreleased = {"released": False, "score": None, "p_value": None, "seen_before": True}
    items = [
        next(chosen) if is_new else {"id": example.id, **unreleased}
        for example, is_new in zip(examples, new, strict=True)
    ]
    return json.dumps({**result.to_dict(), "items": items}, ensure_ascii=False, allow_nan=False)


def _withheld(example: Example) -> Decision:
    """Return what the log says of an answer that the guardrail was calibrated on."""
    return Decision(example.id, "error", None, None, None, SEEN, cause=Cause("seen_before"))


def _refused(error: CalibrailError) -> Problem:
    """Return the problem that an error stands for, at the field that it begins with."""
    name = re.match(r"\w*", str(error))
    known = [name[0]] if name is not None and name[0] in Select.model_fields else []
    return Problem(422, "invalid-request", str(error), errors=[(pointer(*known), str(error))])
