"""What is agreed on before answers of a log are drawn, and how many are to be labelled?"""

from pathlib import Path

from calibrail.errors import InputError, file_errors
from calibrail.guardrail.frozen import FrozenConfig
from calibrail.labelling.batches import Batch, Batches, Budget
from calibrail.labelling.folder import (
    GUARDRAIL,
    POOL_FILE,
    LabelFolder,
    begun,
    read_plan,
    write_plan,
)
from calibrail.labelling.plan import SessionPlan, Traces
from calibrail.labelling.urn import Urn
from calibrail.settings import AuditOptions, Drawing
from calibrail.settings.checks import optional
from calibrail.settings.option import option_of
from calibrail.workflow.label_resume import changes
from calibrail.writing import write_atomically


def agreed_plan(
    folder: Path,
    config: FrozenConfig,
    file: Path | None,
    options: AuditOptions,
    drawing: Drawing | None,
) -> SessionPlan:
    """Return what was agreed on in the first call, or is in this one; refuse anything else."""
    if drawing is not None and optional(drawing, Drawing, "drawing").whole_groups:
        raise InputError(
            "each line of a log is drawn by itself; leave out "
            f"{option_of(Drawing, 'whole_groups', True)}"
        )
    if not begun(folder):
        return SessionPlan(
            purpose="watch",
            traces=Traces(),
            drawing=drawing or Drawing(),
            seed=options.seed or 0,
            shared=options.shared or 0.0,
            guardrail=config.digest,
            guardrail_file=None if file is None else str(file),
        )
    plan = read_plan(folder)
    if plan.purpose != "watch":
        raise InputError(
            f"the labels in {folder} are for a verdict or a threshold, and their answers come from "
            "traces; name another folder for those of a log"
        )
    others = []
    if config.digest != plan.guardrail:
        others.append(
            f"the guardrail is another one ({str(plan.guardrail)[:19]}... then, "
            f"{config.digest[:19]}... now)"
        )
    said = {"seed": options.seed, "shared": options.shared}
    others += changes(AuditOptions, said, plan.to_dict())
    if drawing is not None:
        others += changes(Drawing, drawing.to_dict(), plan.drawing.to_dict())
    if others:
        raise InputError(
            f"the answers in {folder} were drawn otherwise: {'; '.join(others)}. Leave that out to "
            "go on, or name another folder to begin anew; nothing was changed"
        )
    return plan


def budget_a_day(options: AuditOptions, plan: SessionPlan, last: Batch | None) -> float:
    """Return what this call says, or else the last one did, or the first one."""
    if options.per_day is not None:
        return options.per_day
    per_day = plan.per_day if last is None else last.per_day
    if per_day is None:
        raise InputError(
            f"{option_of(AuditOptions, 'per_day')} must be given: how many answers are people to "
            "label for each day of the log?"
        )
    return per_day


def begin(folder: Path, config: FrozenConfig, plan: SessionPlan) -> None:
    """Write down what was agreed on; the plan last, without which nothing has begun."""
    with file_errors(f"cannot write into the folder {folder}", "; name another one"):
        write_atomically(folder / POOL_FILE, b"", durable=True)
        write_atomically(folder / GUARDRAIL, config.to_bytes(), durable=True)
        write_plan(folder, plan)


def opened(folder: Path) -> tuple[LabelFolder, Batches]:
    """Return the folder's files, with what a crash has left out of the last batch."""
    files = LabelFolder(folder)
    batches = Batches(files)
    with files.lock():
        batches.refresh()
    return files, batches


def budget_of(per_day: float, urn: Urn, batches: Batches | None) -> Budget:
    """Return how many answers people are to label of what is new."""
    if urn.n and not urn.days and per_day < 1.0:
        raise InputError(
            "no line of the log bears a time, so that each call counts as one day, and "
            f"{option_of(AuditOptions, 'per_day')} must be at least 1; got {per_day:g}"
        )
    counted, left = (set[str](), 0.0) if batches is None else (batches.counted, batches.left)
    if not urn.n:
        return Budget((), 0, left)
    return Budget.of(per_day, urn.days, counted, left)
