"""How far are the labels, for one who labels?"""

from calibrail.labelling.desk import Seat
from calibrail.labelling.drawer import Drawer
from calibrail.labelling.enough import FAITHFUL_NEEDED, found, labels_to_expect
from calibrail.labelling.folder import LabelFolder
from calibrail.labelling.tasks import Counts


def counts_of(files: LabelFolder, drawer: Drawer, seat: Seat) -> Counts:
    """Return the counts for who sits on a seat; the files are up to date, and locked."""
    ledger, desk = files.ledger, files.desk
    test, needed = ledger.test, files.plan.needed
    verdict = None if test is None else test.verdict
    fallen = verdict in ("certified", "rejected")
    n_final = sum(ledger.tally.values())
    counted = ledger.counted
    n_found = missing = to_expect = None
    enough = False
    if needed is not None:
        n_found, (n_hallucinated, n_faithful) = found(ledger)[0], found(ledger, counted)
        missing = max(0, needed - n_hallucinated)
        enough = missing == 0 and n_faithful >= FAITHFUL_NEEDED
        to_expect = labels_to_expect(needed - n_found, ledger.tally[1], n_final)
    return Counts(
        by_you=len(ledger.of_annotator[seat[0]]),
        labelled=n_final,
        hallucinated=ledger.tally[1],
        faithful=ledger.tally[0],
        unsure=ledger.tally[None],
        drawn=len(ledger.answers),
        counted=counted,
        skipped=len(ledger.unsettled & desk.put_off[seat].keys()),
        disagreements=sum(1 for _ in ledger.disagreements()),
        waiting=len(ledger.unsettled),
        # What a watch takes in counts at once: late labels have their place in the order drawn.
        holding=0
        if files.plan.purpose == "watch"
        else sum(item.standing == "final" for item in ledger.answers[counted:]),
        copies=drawer.pool.copies_before(len(ledger.answers)),
        needed=needed,
        found=n_found,
        missing=missing,
        to_expect=to_expect,
        exhausted=drawer.exhausted,
        lost=sum(files.lost().values()),
        decided=fallen or enough,
        verdict=verdict if fallen else None,
    )
