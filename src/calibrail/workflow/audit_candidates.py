"""What does a log tell of the answers that can be drawn, and what is kept of those that are?"""

from collections.abc import Sequence
from dataclasses import replace
from math import isnan

from calibrail.data.example import Example
from calibrail.guardrail.decision_log.tail import Logged
from calibrail.labelling.folder import POOL_FILE, LabelFolder
from calibrail.labelling.lines import Draw
from calibrail.labelling.order import Order
from calibrail.labelling.pool import Pool, Waiting
from calibrail.labelling.tasks import has_text
from calibrail.labelling.urn import Candidate
from calibrail.workflow.audit_texts import logged_example, logged_lengths


def moment_of(item: Logged) -> str | None:
    """Return when a line was logged; None where that is not known, or lies in the future."""
    return None if isnan(item.moment) else item.time


def candidate_of(item: Logged) -> Candidate:
    """Return a decision of the log as what can be drawn."""
    content = item.content
    traffic, score = content.get("traffic"), content.get("score")
    language = traffic.get("language") if isinstance(traffic, dict) else None
    id = content.get("id")
    return Candidate(
        chain=item.chain,
        seq=item.seq,
        time=item.time,
        score=None if score is None else float(score),
        flagged=content["outcome"] != "pass",
        group=_text(content.get("group")),
        language=_text(language),
        # Who gave no id is found by the place of the line.
        example=logged_example(str(id) if id else f"{item.chain}:{item.seq}", content),
        lengths=logged_lengths(content),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def waiting_of(draw: Draw, item: Candidate, order: Order) -> Waiting:
    """Return what is kept of an answer drawn: of one that nobody is to label, no text."""
    unit, example = order.alone(draw.digest), item.example
    if not draw.handed_out:
        return Waiting(unit, draw.digest, Example(id=example.id))
    lengths = {} if has_text(example) else item.lengths
    return Waiting(unit, draw.digest, example, lengths=lengths)


def handed_out(waiting: Sequence[Waiting], draws: Sequence[Draw]) -> list[Waiting]:
    """Return those that the lot of their probability hands out to be labelled."""
    return [item for item, draw in zip(waiting, draws, strict=True) if draw.handed_out]


def lacking_texts(files: LabelFolder) -> list[Waiting]:
    """Return the answers handed out so far whose texts are not known, with their places."""
    pool = Pool(files.path / POOL_FILE)
    pool.refresh()
    places = [item.draw.order - 1 for item in files.ledger.answers if item.draw.handed_out]
    found = (replace(pool[place], fills=place) for place in places)
    return [item for item in found if not has_text(item.example)]
