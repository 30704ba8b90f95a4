"""Is a guardrail's promise still kept, and has the traffic changed? From its decision log."""

from collections.abc import Sequence
from contextlib import nullcontext
from os import PathLike
from threading import Event
from typing import Any, Final, TypeAlias, Unpack

from calibrail.errors import DataError
from calibrail.guardrail.decision_log.tail import log_sources
from calibrail.guardrail.frozen import FrozenConfig
from calibrail.guardrail.runtime import Guardrail
from calibrail.guardrail.units import require_answers
from calibrail.settings import Requirement, checks
from calibrail.settings.short import WatchShort, from_keywords, refuse_unknown
from calibrail.settings.watch import WatchOptions
from calibrail.workflow.frozen import frozen_config
from calibrail.workflow.watch import Watch
from calibrail.workflow.watch_judge import JudgeLabels
from calibrail.workflow.watch_labels import WatchLabels
from calibrail.workflow.watching import Watched, Watching, alone

Logs: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]

_LIMITS: Final = ("max_fpr", "min_coverage")


class MonitorShort(WatchShort, total=False):
    """Keywords of a short call: those of a watch, and the limits of the promise."""

    max_fpr: float | None
    min_coverage: float | None


def monitor(
    guardrail: Guardrail | FrozenConfig | str | PathLike[str],
    logs: Logs,
    output: str | PathLike[str] | None = None,
    options: WatchOptions | None = None,
    *,
    labels: str | PathLike[str] | None = None,
    judge_labels: str | PathLike[str] | None = None,
    reference: Logs | int | None = None,
    follow: Event | None = None,
    **short: Unpack[MonitorShort],
) -> Watch:
    """Watch a guardrail by its decision log: traffic, promise, prevalence.

    Reads what the log holds since the last call with the same ``output``, and writes there what
    it found. A log that is read in parts gives the bytes of one that is read at once, where one
    process wrote it; where several did, they are merged by time within what each call finds.

    Parameters
    ----------
    guardrail : Guardrail or path
        The frozen guardrail that made the decisions; its detector is not needed, nor built.
    logs : path, "-", or sequence of them
        Folders of ``calibrail serve --log``, files of such a folder, or what ``calibrail check``
        wrote; ``-`` is standard input.
    output : path, optional
        Folder of the watch: ``state.json``, ``status.json``, ``watch.html`` and its figures. A
        later call goes on from there. Without it everything is read anew, and nothing is written.
    options : WatchOptions, optional
        What is compared with what, and how often a watch may be wrong. In a short call, give its
        fields by themselves: ``arl=50_000``; ``max_fpr`` and ``min_coverage``, too.
    labels : path, optional
        Folder of ``calibrail audit-sample``, in which people label.
    judge_labels : path, optional
        A judge's labels of logged answers, by ``id``: of all, or of some chosen without a look at
        any. They count only through bounds on its errors where people labelled, too.
    reference : path, sequence of paths, or int, optional
        A log that the traffic is compared with; or the number of its own first answers that it is.
    follow : threading.Event, optional
        Go on reading what is logged, and writing what is found, until it is set.

    Returns
    -------
    Watch
        What was found so far; ``to_dict`` gives the content of ``status.json``.

    Raises
    ------
    InputError
        An option is outside its domain, or the folder holds another watch.
    DataError
        A file cannot be read or written, or no line of the log can be used. Where it is labels
        that cannot count, what the log shows without them is written first; a watch that follows
        names that in its files, and goes on.
    """
    rest: dict[str, Any] = dict(short)
    limits = Requirement(**{name: rest.pop(name) for name in _LIMITS if name in rest})
    if isinstance(reference, int):
        rest["reference"], reference = reference, None
    options = from_keywords(WatchOptions, options, rest)
    refuse_unknown(rest, monitor)
    config, file = frozen_config(guardrail)
    require_answers(config, "monitor")
    sources = log_sources(logs, growing=follow is not None)
    compared = None if reference is None else log_sources(reference)
    folder = None if output is None else checks.path(output, "output")
    named = ("LOG" if item == "-" else str(item) for item in sources)
    names = str(file or "guardrail.json"), *named
    judge = None
    if judge_labels is not None:
        judge = JudgeLabels(checks.path(judge_labels, "judge_labels"), config, sources)
    drawn = None if labels is None else checks.path(labels, "labels")
    with nullcontext() if folder is None else alone(folder):
        given = WatchLabels(config, limits, drawn, judge)
        watching = Watching(Watched(config, sources, names), options, given, compared, folder)
        if follow is not None:
            return watching.follow(follow)
        watching.read_all()
        watch = watching.result()
        if folder is not None:
            watch.save(folder)
        if given.error is not None:
            where = (
                "" if folder is None else f". What the log shows without them stands in {folder}"
            )
            raise DataError(f"{given.error}{where}") from given.error
        return watch
