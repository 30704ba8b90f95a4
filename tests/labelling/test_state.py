"""Does a session that has seen everything say what one that reads the files anew says?"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import calibrail
from calibrail.labelling.folder import LabelFolder
from calibrail.labelling.ledger import LabelLedger
from calibrail.labelling.session import Session
from calibrail.options import Drawing
from tests.labelling.rows import frozen, traces, truth

PEOPLE = ("ada", "bob", "eva")


def state(ledger: LabelLedger) -> dict[str, Any]:
    test, standing = ledger.test, [(item.standing, item.label) for item in ledger.answers]
    # What a ledger keeps up to date is what its answers say.
    final = {at: label for at, (where, label) in enumerate(standing, 1) if where == "final"}
    different = [at for at, (where, _) in enumerate(standing, 1) if where == "disagreement"]
    waits = [at for at, (where, _) in enumerate(standing, 1) if where == "open" or at in different]
    assert (ledger.finals, ledger.disagreements(), ledger.unsettled) == (final, different, waits)
    return {
        "standing": standing,
        "counted": ledger.counted,
        "test": None if test is None else test.to_dict(),
        "lessons": [part.tobytes() for part in ledger.lessons()],
    }


def read_anew(folder: Path) -> LabelLedger:
    files = LabelFolder(folder)
    with files.lock():
        files.refresh()
    return files.ledger


def act(session: Session, settling: Session, chance: random.Random) -> None:
    """Let somebody do something, anything."""
    name, what = chance.choice(PEOPLE), chance.random()
    doing = settling if chance.random() < 0.15 else session
    if what < 0.12:
        doing.undo(name)
        return
    task = doing.next(name)
    if task is None:
        return
    if what < 0.22:
        doing.skip(name, task.order)
        return
    label = None if chance.random() < 0.05 else truth(task.id) ^ (chance.random() < 0.2)
    doing.put(name, task.order, label)


@pytest.mark.parametrize(
    ("seed", "drawing"),
    [
        (1, Drawing()),
        (2, Drawing("active", floor=0.3)),
        (3, Drawing("active", floor=0.3, whole_groups=True)),
    ],
)
def test_whatever_people_do_the_files_say_it(tmp_path: Path, seed: int, drawing: Drawing) -> None:
    chance = random.Random(seed)
    rows = traces(150, groups=50 if drawing.whole_groups else None)
    asked: dict[str, Any] = {"guardrail": frozen(), "max_fpr": 0.6, "drawing": drawing}
    session = calibrail.label(rows, tmp_path, shared=0.4, **asked)
    settling = calibrail.label(rows, tmp_path, settle=True)
    for number in range(240):
        act(session, settling, chance)
        if number % 12 == 0:
            counts = [session.counts(name) for name in PEOPLE]
            anew = calibrail.label(None, tmp_path)
            assert [anew.counts(name) for name in PEOPLE] == counts
            assert state(read_anew(tmp_path)) == state(_ledger_of(session))
            if chance.random() < 0.3:
                session.close()
                session = anew
    assert session.counts("ada").labelled > 20


def _ledger_of(session: Session) -> LabelLedger:
    return session._files.ledger
