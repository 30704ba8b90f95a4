"""A folder of labels as a data source."""

from collections.abc import Iterator
from pathlib import Path

from calibrail.data.rows import Filtered, LabelOrigin, SourceRow
from calibrail.errors import DataError
from calibrail.labelling.folder import POOL_FILE, LabelFolder
from calibrail.labelling.ledger import LabelLedger, LedgerAnswer
from calibrail.labelling.progress import has_text
from calibrail.labelling.sampling import Pool
from calibrail.options.fields import spell_option
from calibrail.options.labelling import Drawing


def labelled_answers(folder: Path) -> tuple[Iterator[SourceRow | Filtered], LabelOrigin]:
    """Return the answers of a folder with their final labels, and how they were drawn.

    Answers are taken in the order they were drawn, up to the first one that is not settled, as a
    verdict counts them: nobody chooses which ones by putting others off. What is left out is
    counted by its reason. Answers about which nobody could tell take no part, so what is promised
    and measured is about answers that can be judged.

    Raises
    ------
    DataError
        A line of a file is not what it should be, a text is missing, or the answers were drawn
        with different probabilities.
    """
    files = LabelFolder(folder)
    with files.lock():
        files.refresh()
    ledger, plan = files.ledger, files.plan
    if len({item.draw.probability for item in ledger.answers}) > 1:
        certify = "`calibrail certify GUARDRAIL --labels FOLDER` reads their verdict"
        raise DataError(
            f"the answers in {folder} were drawn with different probabilities (design "
            f"{plan.drawing.design}), so they do not count alike, and what reads labelled answers "
            f"counts them alike: {certify}. For anything else label answers that are drawn "
            f"uniformly: `calibrail label TRACES -o ANOTHER` without "
            f"{spell_option(Drawing, 'design', 'active')}"
        )
    origin = LabelOrigin(plan.purpose, plan.drawing.design, plan.seed, plan.guardrail)
    return _rows(ledger, Pool(folder / POOL_FILE)), origin


def _rows(ledger: LabelLedger, pool: Pool) -> Iterator[SourceRow | Filtered]:
    """Yield each answer drawn, numbered by its place in the order of drawing.

    Those on screens when labelling stopped, behind the last label, are not among them.
    """
    pool.refresh()
    counted = ledger.counted
    labelled = [place for place, item in enumerate(ledger.answers) if item.standing != "open"]
    for place, answer in enumerate(ledger.answers[: max(labelled, default=-1) + 1]):
        reason = _left_out(answer, counts=place < counted)
        if reason is not None:
            yield Filtered(answer.draw.order, reason)
            continue
        if place >= len(pool) or (item := pool[place]).digest != answer.draw.digest:
            raise DataError(
                f"{pool.path} does not hold the answer {answer.draw.id!r} as number "
                f"{answer.draw.order}; restore it from a copy: it holds the texts"
            )
        example = item.example
        if ledger.plan.purpose == "watch" and not (has_text(example) or example.columns):
            yield Filtered(answer.draw.order, "no text of it is known")
            continue
        fields = {
            "id": example.id,
            "group": example.group,
            "question": example.question,
            "contexts": list(example.contexts),
            "response": example.response,
            "samples": list(example.samples),
            "label": answer.label,
            "spans": answer.spans,
        }
        yield SourceRow(answer.draw.order, {**example.columns, **fields})


def _left_out(answer: LedgerAnswer, *, counts: bool) -> str | None:
    """Return why an answer takes no part; None where it does."""
    if answer.standing == "disagreement":
        return "annotators disagree, and nobody has settled it"
    if answer.standing != "final":
        return "drawn and not labelled yet"
    if not counts:
        return "labelled, but behind an answer that is not settled yet"
    return "nobody could tell" if answer.label is None else None
