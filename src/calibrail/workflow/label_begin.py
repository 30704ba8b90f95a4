"""How do labels begin: what is read, what is agreed on, and what is written down of it?"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from calibrail.conformal import parse_risk
from calibrail.data.columns import ALL_COLUMNS
from calibrail.data.example import Example
from calibrail.data.reader import read
from calibrail.data.reading import Reading
from calibrail.data.sources import Source, is_named, names_of, open_source, spoken
from calibrail.errors import DataError, InputError, file_errors
from calibrail.guardrail.runtime import Guardrail
from calibrail.labelling.balance import balance
from calibrail.labelling.elsewhere import read_lots
from calibrail.labelling.enough import hallucinated_needed
from calibrail.labelling.folder import GUARDRAIL, POOL_FILE, QUARANTINE, write_plan
from calibrail.labelling.guess import GuessColumn
from calibrail.labelling.order import Order
from calibrail.labelling.plan import SessionPlan, Traces
from calibrail.labelling.pool import first_units, without_copies
from calibrail.labelling.store import encoded
from calibrail.settings import Drawing, LabelOptions, Promise, ReadOptions, Requirement
from calibrail.settings.checks import optional
from calibrail.settings.option import option_of
from calibrail.workflow.context import Progress
from calibrail.workflow.freshness import Fresh
from calibrail.workflow.inherited import inherited
from calibrail.workflow.sources import BLOCK
from calibrail.writing import write_atomically


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call says about how labelling goes; None is as it was."""

    requirement: Requirement | None
    guardrail: Guardrail | None
    promise: Promise | None
    drawing: Drawing | None
    options: LabelOptions
    reading: ReadOptions | None
    guardrail_file: str | None = None


def begin(
    folder: Path, traces: Source | None, asked: Asked, progress: Progress | None
) -> SessionPlan:
    """Read the traces, set the first answers aside, and write down what is agreed on."""
    if traces is None:
        raise InputError(f"{folder} holds no labels yet; name the traces to label")
    guardrail, options = asked.guardrail, asked.options
    drawing = optional(asked.drawing, Drawing, "drawing")
    _refuse_at_odds(asked, drawing)
    lots = None if options.elsewhere is None else read_lots(options.elsewhere, drawing)
    unknown, groups = set(lots.rows if lots else ()), dict[str, str | None]()
    needed = None if asked.promise is None else hallucinated_needed(asked.promise)
    requirement = None if guardrail is None else limits(guardrail, asked.requirement)
    seen, guess = Fresh(guardrail), _GuessCheck(options.guess)
    reading = replace(
        optional(asked.reading, ReadOptions, "reading"), quarantine=folder / QUARANTINE
    )
    files = file_states(traces, reading)
    examples = open_traces(traces, reading, guardrail, options.guess)
    order = Order(options.seed or 0)

    def usable() -> Iterator[Example]:
        for example in examples:
            if progress is not None and examples.n_examples % BLOCK == 0:
                progress(examples.n_examples)
            if example.id in unknown:
                unknown.discard(example.id)
                groups[example.id] = example.group
            if seen.admits(example):
                guess.add(example)
                yield example

    found = first_units(usable(), order, whole_groups=drawing.whole_groups)
    guess.finish(examples)
    if lots is not None and unknown:
        row = next(row for id, row in lots.rows.items() if id in unknown)
        raise InputError(
            f"{row['where']}: no trace has the id {row['id']!r}, nor "
            f"{len(unknown) - 1:,} other ids of that file; correct them, or take the rows out"
        )
    n = examples.n_examples
    weighed = None if lots is None else balance(lots, n, groups, drawing.floor)
    sha256 = examples.digest()
    freshness = seen.freshness(sha256, declared=options.fresh)
    if freshness == "calibration data" or not found:
        raise DataError(
            f"{spoken(traces)} holds the answers that set the guardrail's threshold; a verdict "
            "needs others: name traces that are new"
        )
    promise = asked.promise
    plan = SessionPlan(
        purpose="calibrate" if guardrail is None else "certify",
        traces=Traces(
            names_of(traces),
            files,
            sha256,
            examples.n_examples,
            examples.n_quarantined,
            seen.n_seen_before,
            freshness,
        ),
        drawing=drawing,
        seed=options.seed or 0,
        shared=options.shared or 0.0,
        guardrail=None if guardrail is None else guardrail.config.digest,
        requirement=requirement,
        promise=promise,
        needed=needed,
        guess=options.guess,
        reading=examples.how(),
        elsewhere=None if lots is None else lots.sha256,
        guardrail_file=asked.guardrail_file,
        balance=weighed,
    )
    with file_errors(f"cannot write into the folder {folder}", "; name another one"):
        pool = b"".join(encoded(item.to_dict()) for item in without_copies(found, ()))
        write_atomically(folder / POOL_FILE, pool, durable=True)
        if guardrail is not None:
            write_atomically(folder / GUARDRAIL, guardrail.config.to_bytes(), durable=True)
        # The last one: without it nothing has begun.
        write_plan(folder, plan)
    return plan


def _refuse_at_odds(asked: Asked, drawing: Drawing) -> None:
    """Refuse choices that do not go together."""
    if asked.promise is not None and asked.guardrail is not None:
        raise InputError("labels are for the verdict on a guardrail or for a promise; give one")
    if asked.guardrail is None and asked.requirement is not None:
        raise InputError("a requirement is for the verdict on a guardrail; give the guardrail, too")
    active = option_of(Drawing, "design", "active")
    if asked.guardrail is None and drawing.design == "active":
        raise InputError(
            "answers to calibrate on are drawn uniformly: a report counts them alike, and drawn by "
            "a guess and weighed, a threshold of the same promise and cost was measured to need "
            f"1.8 to 3.5 times as many labels; leave out {active}, or give the guardrail to "
            "certify"
        )
    if asked.options.elsewhere is not None and asked.guardrail is None:
        raise InputError(
            "labels made elsewhere are for the verdict on a guardrail; give the guardrail, or "
            "calibrate on the file itself"
        )
    if asked.options.fresh and asked.guardrail is None:
        raise InputError(
            "fresh says that the answers did not set the threshold of a guardrail; give it, too"
        )
    if asked.options.guess is not None and drawing.design == "uniform":
        guess = option_of(LabelOptions, "guess")
        raise InputError(f"{guess} decides how often answers are labelled; add {active}")


class _GuessCheck:
    """Refuses a column of guesses that is not there, or that holds something else."""

    def __init__(self, name: str | None) -> None:
        self._column = None if name is None else GuessColumn(name)
        self._n = 0

    def add(self, example: Example) -> None:
        """Look at the guess for one answer."""
        if self._column is not None:
            self._n += self._column.of(example) is not None

    def finish(self, examples: Reading) -> None:
        """Refuse a column without a single guess."""
        if self._column is not None and not self._n and examples.n_examples:
            raise InputError(
                f"no trace has a guess in the column {self._column.name!r}; columns seen: "
                f"{', '.join(examples.fields[:30])}"
            )


def open_traces(
    traces: Source, reading: ReadOptions, guardrail: Guardrail | None, guess: str | None
) -> Reading:
    """Open traces: each needs a response, and is otherwise read as the guardrail's own data was."""
    if guardrail is not None:
        reading = inherited(reading, guardrail, traces, labelled=False)
    columns, texts = (guardrail.columns, guardrail.texts) if guardrail else ((), ())
    # Which columns a threshold will be calibrated on is known later.
    keep = (*(columns if guardrail else (ALL_COLUMNS,)), *(() if guess is None else (guess,)))
    return read(
        traces,
        reading,
        keep=tuple(dict.fromkeys(keep)),
        require=("response",),
        expect=texts,
        labelled=False,
    )


def file_states(traces: Source, reading: ReadOptions) -> tuple[str, ...]:
    """Return size and time of change of each file, by which an unchanged one is known at once."""
    if not is_named(traces):
        return ()
    states = (path.stat() for path in open_source(traces, reading).files)
    return tuple(f"{state.st_size} bytes, changed at {state.st_mtime_ns}" for state in states)


def limits(guardrail: Guardrail, requirement: Requirement | None) -> Requirement:
    """Return the requirement with the coverage and the FPR that are meant where it leaves them."""
    requirement = optional(requirement, Requirement, "requirement")
    kept = {risk.name: risk.level for risk in map(parse_risk, _risks(guardrail))}
    if requirement.risks:
        raise InputError("a verdict at any time is about max_fpr and min_coverage; leave out risks")
    max_fpr = kept.get("fpr") if requirement.max_fpr is None else requirement.max_fpr
    if max_fpr is None:
        raise InputError(
            f"{option_of(Requirement, 'max_fpr')} must be given: how many faithful answers may be "
            "held back?"
        )
    coverage = requirement.min_coverage
    if coverage is None:
        promised = guardrail.config.promise
        coverage = kept.get("recall") if kept else requirement.coverage(promised)
    if coverage is None:
        raise InputError("min_coverage must be given: this guardrail promises none")
    return replace(requirement, max_fpr=max_fpr, min_coverage=coverage)


def _risks(guardrail: Guardrail) -> tuple[str, ...]:
    return tuple(guardrail.config.requirement.risks)
