"""Commands of operation: check, select, serve, cache, monitor, log."""

import gc
import shlex
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import click

import calibrail
from calibrail import options
from calibrail.cli import parameters as opt
from calibrail.cli.output import DONE, FAILURE, REJECTED, Showing, counting, echo, note, say
from calibrail.errors import InputError
from calibrail.formatting import count
from calibrail.options.fields import setting
from calibrail.serve import exit_on_signal
from calibrail.working_folder import environment


def check_command(
    guardrail: opt.Guardrail,
    traces: Annotated[list[str], opt.Word("TRACES...")],
    output: Annotated[Path, opt.to_file("decisions")],
    reading: opt.ReadingUnlabelled,
    work: Annotated[opt.Work, opt.Pick(without=("batch",))],
    trust: opt.TrustArguments,
    told: opt.DecisionDetails,
    show: Annotated[Showing, opt.Pick(without=("verbose",))],
    evidence: Annotated[bool, opt.Word("", ("--evidence",))] = False,
) -> None:
    """Decide about every answer of a file: pass, flag or review.

    A guardrail of sentences also writes what may be shown: the text without what it removes.

    Streams: memory does not grow with the file. Labels are not needed and not read. A row that
    cannot be read gets the outcome error, and stands in quarantine.jsonl beside the decisions.
    """
    from calibrail.data.sources import spoken
    from calibrail.models.llm.chat import RemoteModel
    from calibrail.pipelines.check import check_source
    from calibrail.pipelines.run import inherited_reading_with_flags

    to_stdout = str(output) == "-"
    folder = Path() if to_stdout else output.parent
    loaded = told.by(trust.load(guardrail))
    for model in getattr(loaded.score, "models", ()):
        if isinstance(model, RemoteModel):
            note(f"this guardrail sends the answers to {model.endpoint}")
    reading, taken_up = inherited_reading_with_flags(reading, loaded, traces)
    if taken_up:
        note(say("command.read_with", words=shlex.join(taken_up)))
    reading = replace(reading, quarantine=folder / "quarantine.jsonl")
    with counting("checking", work) as context:
        if show.dry_run:
            options = {"labelled": False, "unit": loaded.unit, "in_batches": False}
            show.planned(traces, loaded.score, reading=reading, **options)
        read: list[calibrail.Reading] = []
        within = Counter[bool]()
        results = check_source(
            loaded,
            traces,
            None if to_stdout else output,
            reading=reading,
            evidence=evidence,
            progress=context.progress,
            opened=read.append,
            within=within,
        )
    total, errors, outcomes = results.total(), results["error"], Counter(results)
    stated = loaded.config.headline
    trimmed = {name: outcomes.pop(name, 0) for name in ("trimmed", "emptied")}
    if flagged := sum(trimmed.values()):
        outcomes["flag"] += flagged
    show.finish(
        "check",
        {
            "schema": "calibrail.check/1",
            "source": spoken(traces),
            "guardrail": loaded.config.digest,
            "checked": total,
            "outcomes": dict(sorted(outcomes.items())),
            **({"trimmed": trimmed} if loaded.unit == "sentence" else {}),
            "left_out": dict(read[0].filtered),
            "part": read[0].part(),
            **({"beyond": within[False]} if within[False] > within[True] else {}),
            # Of a threshold that was given, of which nothing was asked.
            **({} if loaded.config.promise.coverage else {"goal": None}),
            # Where it states risks, or a cost, certify tests these.
            "max_false_alarms": stated.max_fpr,
            "states_more": bool(loaded.config.requirement.risks or stated.cost),
        },
        "" if to_stdout else f"wrote {output}",
        say("command.not_judged", n=errors) if errors else "",
        code=FAILURE if total and errors == total else DONE,
        names={"GUARDRAIL": guardrail, "DATA": traces, "DECISIONS": output},
        silent=to_stdout,
    )


def select_command(
    guardrail: opt.Guardrail,
    traces: Annotated[list[str], opt.Word("TRACES...")],
    reading: opt.ReadingGrouped,
    calls: opt.FreeCalls,
    release: opt.Release,
    trust: opt.TrustArguments,
    *,
    output: Annotated[Path | None, opt.to_file("selection")] = None,
    show: opt.Show,
) -> None:
    """Release what a false discovery rate allows of a batch.

    Looks at the batch as a whole (Benjamini-Hochberg on conformal p-values, divided by what
    --method says of the share of hallucinated answers), where check decides answer by answer.
    Prints, for other cut-offs too, how many hallucinations may be among the released at most.
    """
    folder = Path() if output is None else output.parent
    with counting("scoring", calls) as context:
        result = calibrail.select(
            trust.load(guardrail),
            traces,
            **release.to_dict(),
            reading=replace(reading, quarantine=folder / "quarantine.jsonl"),
            progress=context.progress,
        )
    if output is not None:
        result.save(output)
    show.finish(
        "select",
        result.to_dict(),
        "" if output is None else f"wrote {output}",
        say("command.not_released", n=result.n_errors) if result.n_errors else "",
        names={"GUARDRAIL": guardrail, "DATA": traces, "OUTPUT": output},
        is_written=output is not None,
    )


def serve_command(
    guardrails: Annotated[list[str], opt.Word("[NAME=]GUARDRAIL...")],
    serving: options.ServeOptions,
    calls: opt.FreeCalls,
    trust: opt.TrustArguments,
) -> None:
    """Decide about answers that come by HTTP.

    Each guardrail must show first, by the probe answers that it holds, that this machine computes
    what was frozen. Serves until SIGTERM or Ctrl-C, and finishes what it accepted then. A guardrail
    file that changes is verified and takes over; one that must not decide leaves the old one at
    work.
    The keys of --trusted are read once, when it begins.
    Requests need the token in the environment variable CALIBRAIL_TOKEN, where there is one.
    """
    # Before anything else is imported, which takes a while. Other programs count together in a
    # folder, which prometheus_client looks for once, when it is imported; the service has its own.
    with exit_on_signal(), environment({"PROMETHEUS_MULTIPROC_DIR": None}):
        with opt.serving_packages("serve"):
            from calibrail.serve.guardrails import guardrail_files
            from calibrail.serve.process import serve

        # The keys are read once: what is trusted later does not depend on who may write these
        # files.
        load = partial(calibrail.Guardrail.load, trusted=trust.read_keys(), probe=True)
        # What requests leave behind is cleared away as usual.
        gc.set_threshold(700)
        with calibrail.limit_calls(calls):
            finished = serve(guardrail_files(guardrails), serving, load=load, tell=_tell, note=note)
        if not finished:
            note("not everything that was accepted was answered in time")
        raise click.exceptions.Exit(DONE if finished else FAILURE)


def _tell(address: str) -> None:
    echo(f"serving on {address}")


def cache_show_command(show: opt.ShowAlone) -> None:
    """Show the kept answers of language models, by model.

    They are stored in one SQLite file, in the user's cache folder or where CALIBRAIL_CACHE says:
    digests of the requests, and the replies. A request that is stored is never sent again.
    """
    _show_kept(show, None)


@dataclass(frozen=True, slots=True)
class Clearing:
    """What is removed."""

    model: str | None = setting(default=None, metavar="NAME")
    older_than: float | None = setting(default=None, metavar="DAYS")


def cache_clear_command(clearing: Clearing, show: opt.ShowAlone) -> None:
    """Remove kept answers of language models, and show what is left."""
    if (days := clearing.older_than) is not None and not 0.0 <= days < float("inf"):
        raise InputError(f"--older-than must be a number of days from 0; got {days!r}")
    _show_kept(show, lambda cache: cache.clear(clearing.model, days))


def _show_kept(show: Showing, clear: Callable[[Any], int] | None) -> None:
    from datetime import UTC, datetime

    from calibrail.models.llm.chat import AnswerCache
    from calibrail.models.llm.transport import default_cache

    path = default_cache()
    if path is None:
        raise InputError("CALIBRAIL_CACHE=off: no answers are kept")
    cache = AnswerCache(path) if path.exists() else None
    removed = clear(cache) if cache is not None and clear is not None else 0
    kept = [] if cache is None else cache.contents()
    content = {
        "schema": "calibrail.cache/1",
        "path": str(path),
        "bytes": 0 if cache is None else cache.size(),
        "removed": removed,
        "models": [item.to_dict() for item in kept],
    }
    lines = [] if clear is None else [f"removed {count(removed, 'answer')}"]
    n_kept = sum(item.n for item in kept)
    lines.append(say("command.cache", path=path, n=n_kept, bytes=content["bytes"]))
    for item in kept:
        days = {
            end: datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")
            for end, moment in (("first", item.oldest), ("last", item.newest))
        }
        lines.append(f"  {say('command.cached', **item.to_dict(), **days)}")
    show.finish(lines, content)


@dataclass(frozen=True, slots=True)
class MonitorArguments:
    """What a watch takes beside the log."""

    labels: Path | None = setting(default=None, metavar="AUDIT")
    judge_labels: Path | None = setting(default=None, metavar="FILE")
    reference_log: Path | None = setting(default=None, metavar="LOG")


def monitor_command(
    guardrail: opt.Guardrail,
    logs: Annotated[list[str], opt.Word("LOG...")],
    output: Annotated[Path, opt.to_folder("WATCH")],
    *,
    watch: options.WatchOptions,
    limits: Annotated[opt.Requirement, opt.Pick(only=("max_fpr", "min_coverage"))],
    evidence: MonitorArguments,
    trust: opt.TrustArguments,
    show: opt.ShowAlone,
    follow: Annotated[bool, opt.Word("", ("--follow",))] = False,
) -> None:
    """Say whether traffic has changed and the promise is kept.

    Reads what was logged since the last call, and writes status.json, watch.html and state.json
    into WATCH; the same command again goes on from there. Exit code 0, also where traffic has
    changed or labels decide nothing yet; 3 where labels show that the promise is broken.
    """
    from calibrail.guardrail.file import read_file

    # The detector, which may be a large model, is not built.
    read_file(guardrail, trust.keys)
    stop = Event()
    if follow:
        # A watch is written to its end.
        for kind in (signal.SIGTERM, signal.SIGINT):
            signal.signal(kind, lambda *_: stop.set())
    found = calibrail.monitor(
        guardrail,
        logs,
        output,
        watch,
        labels=evidence.labels,
        judge_labels=evidence.judge_labels,
        reference=evidence.reference_log,
        follow=stop if follow else None,
        max_false_alarms=limits.max_fpr,
        min_caught=limits.min_coverage,
    )
    show.finish(
        "watch",
        found.to_dict(),
        f"wrote {output}",
        code=REJECTED if found.promise == "broken" else DONE,
        **found.details(),
    )


Folders = Annotated[list[Path], opt.Word("LOG...")]


def log_verify_command(
    folders: Folders,
    show: opt.Show,
    archived: Annotated[bool, opt.Word("", ("--archived",))] = False,
    noted: Annotated[list[str] | None, opt.Word("HASH|FILE", ("--noted",))] = None,
) -> None:
    """Say whether every logged decision is there, as it was written.

    Exits with 0 where the log is whole, and with 1 where a line was changed, moved or is missing;
    file and line are named. Files may grow meanwhile.
    """
    from calibrail.guardrail.decision_log.verify import verify_log

    check = verify_log(folders if isinstance(folders, list) else [folders], noted=noted or ())
    allowed = {"whole", "beginning missing"} if archived else {"whole"}
    show.finish("log", check.to_dict(), code=DONE if check.verdict in allowed else FAILURE)


def log_export_command(
    folders: Folders, output: Annotated[Path, opt.to_file("log_export")], show: opt.ShowAlone
) -> None:
    """Write every logged decision as a row of one Parquet file; memory does not grow with it."""
    from calibrail.guardrail.decision_log.verify import export_log

    n, unreadable = export_log(folders if isinstance(folders, list) else [folders], output)
    content = {
        "schema": "calibrail.log_export/1",
        "output": str(output),
        "decisions": n,
        "unreadable": unreadable,
    }
    left_out = say("command.unreadable", n=unreadable) if unreadable else ""
    code = FAILURE if unreadable else DONE
    show.finish([f"{output}: {count(n, 'decision')}"], content, left_out, code=code)
