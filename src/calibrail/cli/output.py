"""Output of commands: progress, results and exit codes."""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
import tempfile
import textwrap
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn

import click

import calibrail
from calibrail import scores
from calibrail.errors import DataError, InputError, file_errors
from calibrail.formatting import spoken_time
from calibrail.options.fields import cli_spelling, setting
from calibrail.options.guarantee import FORMER_FLAGS, FORMER_OF_COMMANDS
from calibrail.serialization import encodable_json, harmless, logged_on_one_line

DONE: Final = 0
FAILURE: Final = 1
USAGE: Final = 2
REJECTED: Final = 3
INCONCLUSIVE: Final = 4

#: Exit code of a verdict that was asked for.
OF_VERDICT: Final = {"certified": DONE, "rejected": REJECTED, "inconclusive": INCONCLUSIVE}

#: Options that change how a result is shown, and nothing of it.
_OF_SHOWING: Final = ("--json", "--markdown", "--no-text")


@dataclass(frozen=True, eq=False)
class Showing:
    """How a command shows what came out, and whether it computes anything at all.

    Attributes
    ----------
    dry_run : bool
        Only say what would be asked of endpoints.
    page : tuple of Path
        Files for the result as a page, as Markdown (``.md``), or its verdict as JUnit (``.xml``).
    json : bool
        Print the machine-readable result.
    markdown : bool
        Print the result as Markdown that a comment on GitHub or GitLab holds.
    verbose : bool
        Print tables that one line stands for otherwise.
    """

    panel: ClassVar = "Output"

    dry_run: bool = setting(default=False)
    page: tuple[Path, ...] = setting(default=(), metavar="FILE", writes="page")
    json: bool = setting(default=False)
    markdown: bool = setting(default=False)
    verbose: bool = setting(default=False)

    def __post_init__(self) -> None:
        if self.json and self.markdown:
            raise InputError("--json and --markdown each print the result; give one of them")
        for path in self.page:
            file_to_write(path)

    def finish(
        self,
        words: str | list[str],
        content: Mapping[str, Any],
        *notes: str,
        code: int = DONE,
        names: Mapping[str, object] | None = None,
        silent: bool = False,
        **details: Any,
    ) -> NoReturn:
        """Print a result as JSON, as Markdown or in words, write its pages, and end.

        Parameters
        ----------
        words : str or list of str
            The command whose document, in ``report/documents``, says it; or the lines to print.
        content : mapping
            What ``--json`` prints.
        *notes : str
            What is said beside it; empty ones are left out.
        code : int
            The exit code.
        names : mapping of str to path or list of str, optional
            What the stand-ins of the document's next step stand for: RUN, GUARDRAIL, DATA.
        silent : bool
            Standard output holds something else already.
        **details
            What the document takes beside the content.
        """
        if self.json and not silent:
            text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
            echo(encodable_json(text, sys.stdout, indent=2))
        silent = silent or self.json
        if isinstance(words, list):
            if not silent:
                if self.markdown:
                    from calibrail.report.markdown import bullets

                    words = list(bullets(words))
                echo("\n".join(harmless(word, line=True) for word in words))
        elif self.page or not silent:
            self._say(words, content, details, names or {}, silent=silent)
        for item in filter(None, notes):
            note(item)
        raise click.exceptions.Exit(code)

    def _say(
        self, kind: str, content: Any, details: Any, names: Mapping[str, object], *, silent: bool
    ) -> None:
        # The renderers load numpy and rich: a command that refuses its input needs neither.
        from rich.console import Console

        from calibrail.pipelines.run import write_page
        from calibrail.report import print_document
        from calibrail.report.documents import build_document

        document = build_document(kind, content, **details).naming(**names)
        if self.markdown and not silent:
            from calibrail.report.markdown import render_comment

            echo(render_comment(document), nl=False)
        elif not silent:
            with listened_to():
                console = Console(highlight=False, soft_wrap=False, emoji=False)
                print_document(document, console, verbose=self.verbose)
        for path in self.page:
            with file_errors(f"--page {path} cannot be written"):
                write_page(document, path)
            note(f"wrote {path}")

    def planned(self, data: Any, scores: Any, **options: Any) -> NoReturn:
        """Print what a run would ask of endpoints, and end; the options are ``plan_calls``'s."""
        from calibrail.pipelines.estimate import plan_calls

        calls = plan_calls(data, scores, **options)
        sentences = [item.sentence() for item in calls] or [say("command.nothing_asked")]
        content = {"schema": "calibrail.dry_run/1", "calls": [item.to_dict() for item in calls]}
        self.finish([*sentences, "nothing was sent (--dry-run)"], content)


def command_line() -> str:
    """Return the command that was run, with a stand-in for where its results went."""
    words = ["calibrail"]
    arguments = iter(sys.argv[1:])
    for argument in arguments:
        name, given, _ = argument.partition("=")
        if name in ("-o", "--output", "--page"):
            if not given:
                next(arguments, None)
            words += ["-o", "RUN"] * (name != "--page")
        elif argument not in _OF_SHOWING:
            words.append(argument)
    return shlex.join(words)


def note(message: str) -> None:
    """Say something that is not the result."""
    echo(harmless(message, line=True), err=True)


def echo(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print a text for whoever still reads; nothing in it acts on a terminal."""
    text = harmless(text)
    with listened_to():
        # Named, the stream is written to as it is: an ASCII one would get UTF-8 otherwise.
        click.echo(text, sys.stderr if err else sys.stdout, nl=nl)


@contextmanager
def listened_to() -> Iterator[None]:
    """Go on in silence where whoever read what is printed (head, a pager) has gone."""
    try:
        yield
    except (OSError, SystemExit) as error:
        # rich would end the process there.
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                # The interpreter must not try to flush into it again when it ends.
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise DataError(f"cannot print the result: {error.strerror}") from error


@contextmanager
def told_warnings() -> Iterator[None]:
    """Say what Python code warns of as a note, without the place that warned."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: note(f"warning: {message}")
        yield


def degrade_output() -> None:
    """Let consoles show a replacement for what their encoding does not have, or what they obey.

    A trace may name what a file or a library says, too.
    """
    sys.excepthook = _tell_trace
    threading.excepthook = lambda ended: _tell_trace(*ended[:3])
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)) is None:  # It was closed before the command began.
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _tell_trace(*error: Any) -> None:
    import traceback

    if issubclass(error[0], SystemExit):  # Of a thread, which ends nothing but itself.
        return
    trace = "".join(traceback.format_exception(*error)).strip()
    echo(trace.replace("\n", "\n  "), err=True)


def say(code: str, **parameters: Any) -> str:
    """Return a message of the catalogue, which is loaded when something is said."""
    from calibrail.report import messages

    return messages.say(code, **parameters)


def spent(table: scores.ScoreTable | None, names: Collection[str] | None = None) -> list[str]:
    """Return what each score cost: of all but the baselines, or of those named."""
    return [
        say("command.cost", cost=cost)
        for cost in (() if table is None else table.costs)
        if (cost.score not in scores.BASELINES if names is None else cost.score in names)
        if cost.seconds_per_1000 is not None
    ]


def unusable(n: int, path: Path | None) -> str:
    """Say how many rows were unusable, if any, and where they stand."""
    return say("command.unusable", n=n, path=path) if n else ""


def signature_note(output: Path, sign: Path | None) -> str:
    """Say where a guardrail's signature is, or that one of an earlier file lies there."""
    from calibrail.guardrail.signing import signature_path

    beside = signature_path(output)
    if sign is not None:
        return say("command.signed", path=beside)
    return say("command.earlier_signature", path=beside) if beside.exists() else ""


def folder_to_write(path: Path | None) -> Path | None:
    """Return a folder for results; refuse one that cannot be written before any work is done.

    Raises
    ------
    DataError
        If it is a file, or nothing can be written there.
    """
    if path is not None:
        if path.exists() and not path.is_dir():
            raise DataError(f"{path} is a file, and -o names a folder of results; name another one")
        _probe(path, path)
    return path


def file_to_write(path: Path | None) -> Path | None:
    """Return a file for results; refuse one that cannot be written before any work is done.

    None and ``-``, standard output, are no files. Errors are those of `folder_to_write`.
    """
    if path is not None and str(path) != "-":
        if path.is_dir():
            raise DataError(f"{path} is a folder; name a file in it, e.g. {path / 'out'}")
        _probe(path.parent, path)
    return path


def _probe(folder: Path, path: Path) -> None:
    """Write a nameless file where a path is to stand, or where its folder is to be made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    remedy = "; name another place"
    with file_errors(f"cannot write {path}", remedy), suppress(FileNotFoundError):
        # Names that are too long and links that lead to themselves are errors.
        path.stat()
    with file_errors(f"cannot write {path}", remedy), tempfile.TemporaryFile(dir=folder):
        pass


def announce(score: calibrail.Score) -> None:
    """Say how many calls the probes take, and what they cost, before the first one is sent."""
    from calibrail.guardrail.probes import asked_anew, probe_examples
    from calibrail.pipelines.estimate import plan_calls

    with asked_anew():
        for planned in plan_calls(probe_examples(score), [score], labelled=False):
            note(f"asking about the probe answers: {planned.sentence()}")


def _write_panels(formatter: Any, panels: Mapping[str, Sequence[Any]]) -> None:
    """Write the rows of each panel that holds any.

    Plain text, whatever shows it: rich's boxes would cut long options off on 80 columns.
    """
    for name, rows in panels.items():
        if rows:
            with formatter.section(name):
                formatter.write_dl(rows)


#: Options that a page of help shows; of more, those of other panels are shown with --help-all.
MOST_OPTIONS: Final = 15
_HELP_ALL: Final = "--help-all"


# Help breaks lines at spaces alone: names of options stay whole. Click's wrapper is one of these.
textwrap.TextWrapper.wordsep_re = textwrap.TextWrapper.wordsep_simple_re


class CommandHelp(click.Command):
    """A command whose options are listed in panels: first those that nearly everyone needs.

    Options may go by their former names.
    """

    def __init__(self, *, panel: str | None, **about: Any) -> None:
        super().__init__(**about)
        self.panel = panel

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command; with --help-all show every option, and exit."""
        if _HELP_ALL in args:
            ctx.meta[_HELP_ALL] = True
            echo(ctx.get_help())
            ctx.exit()
        parts = (word.partition("=") for word in args)
        former = FORMER_FLAGS | FORMER_OF_COMMANDS.get(str(ctx.info_name), {})
        words = [former.get(name, name) + given + value for name, given, value in parts]
        rest = super().parse_args(ctx, [*words])
        given = () if ctx.resilient_parsing else self.make_parser(ctx).parse_args(words)[2]
        for item, n in Counter(given).items():
            if n > 1 and isinstance(item, click.Option) and not (item.multiple or item.is_flag):
                note(say("command.given_twice", flag=item.opts[-1], value=ctx.params[item.name]))
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command; its messages name options that it has.

        What a library logs that nobody listens to goes to standard error as one harmless line.
        """
        import logging

        if logging.lastResort is not None:
            logging.lastResort.addFilter(logged_on_one_line)
        with cli_spelling({name for it in self.params for name in (*it.opts, *it.secondary_opts)}):
            return super().invoke(ctx)

    def format_arguments(self, ctx: Any, formatter: Any) -> None:
        """Write nothing: `format_options` lists them, with every version of click."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, the options that are needed first, then the others by their panel."""
        panels: dict[str, list[Any]] = {"Arguments": [], "Options": []}
        for item in self.get_params(ctx):
            if (row := item.get_help_record(ctx)) is not None:
                argument = item.param_type_name == "argument"
                panel = "Arguments" if argument else getattr(item, "panel", None)
                panels.setdefault(panel or "Options", []).append(row)
        further = [name for name in panels if name not in ("Arguments", "Options")]
        n = sum(len(panels[name]) for name in further)
        if n + len(panels["Options"]) <= MOST_OPTIONS or ctx.meta.get(_HELP_ALL):
            _write_panels(formatter, panels)
            return
        _write_panels(formatter, {name: panels[name] for name in ("Arguments", "Options")})
        with formatter.section(f"{n} more options, shown with {_HELP_ALL}"):
            formatter.write_text(", ".join(further))


class GroupHelp(click.Group):
    """A group whose commands are listed in panels, each with its whole first sentence."""

    def __init__(self, commands: Any, *, panel: str | None = None, **about: Any) -> None:
        super().__init__(**about)
        self.commands, self.panel = commands, panel

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help."""
        return [*self.commands]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by their panel."""
        named = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        width = max(len(name) for name, _ in named)
        panels: dict[str, list[Any]] = {}
        for name, item in named:
            if item is not None and not item.hidden:
                panel = getattr(item, "panel", None) or "Commands"
                row = name.ljust(width), item.get_short_help_str(1_000)
                panels.setdefault(panel, []).append(row)
        _write_panels(formatter, panels)


#: Seconds of the past by which the rate goes: after as long without progress none is shown.
WINDOW: Final = 600.0
#: Seconds between two samples of the rate, and from the first example until the rate's first
#: sample is settled: what an earlier run or a judge's cache knows comes at once, and counts for
#: no rate.
SAMPLED: Final = 5.0
#: Seconds before anything is shown in a terminal: short commands stay silent.
PATIENCE = 2.0
#: Seconds between two updates in a terminal.
STEP: Final = 0.5
#: Seconds until the first line where nobody watches, and until the second, third, ... after that.
PAUSES: Final = (10.0, 20.0, 30.0, 60.0, 120.0, 300.0)


class ProgressLine:
    """How far the work is, how fast it goes, and how long what is left of it will take.

    No rate and no time left are shown where they are not known: until what was measured lasted as
    long as the first example took, models loaded (or shards under way) included; and after a
    standstill.

    Parameters
    ----------
    what : str
        What is done.
    clock : callable
        The time in seconds.
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.console import Console

        self._what, self._clock, self._lock = what, clock, threading.RLock()
        self._console = Console(stderr=True, highlight=False)
        self._reading: calibrail.Reading | None = None
        self._samples: deque[tuple[float, int]] = deque()
        self.answered, self._begun = 0, clock()
        self._restart()

    def _restart(self) -> None:
        self.done, self._started, self._first = 0, self._clock(), 0.0
        self._samples.clear()

    def reads(self, reading: calibrail.Reading) -> None:
        """Take another source, or another pass over the same."""
        with self._lock:
            self._reading = reading
            self._restart()

    def __call__(self, done: int) -> None:
        """Take how many examples are done; fewer than before begin anew."""
        with self._lock:
            if done < self.done:
                self._restart()
            if done == self.done:
                return
            samples, self.done, now = self._samples, done, self._clock()
            if not samples:
                self._first = now
            if now - self._first < SAMPLED:
                samples.clear()
            elif now - samples[-1][0] < SAMPLED:
                return
            samples.append((now, done))
            while len(samples) > 2 and samples[0][0] < now - WINDOW:
                samples.popleft()

    def _speed(self) -> float | None:
        """Return examples a second of the recent past; None where that is not known."""
        if len(self._samples) < 2:
            return None
        (begun, before), (last, after) = self._samples[0], self._samples[-1]
        needed = min(max(SAMPLED, self._first - self._started), WINDOW / 2.0)
        known = last - begun >= needed and self._clock() - last < WINDOW
        return (after - before) / (last - begun) if known else None

    def words(self) -> str:
        """Return what is known now, in one line."""
        with self._lock:
            done, known = self.done, self._reading is not None and self.done > 0
            total = self._reading.about_in_all() if known and self._reading else None
            speed, waited = self._speed(), self._clock() - self._begun
        of = f" of about {max(total, done):,}" if total else ""
        # The source is read, and models are loaded: nothing is scored yet.
        parts = [f"{self._what}: {done:,}{of} answers" if done or self.answered else "starting"]
        if self.answered:
            parts.append(f"{self.answered:,} answers of endpoints")
        if speed:
            parts.append(f"{speed:,.0f} a second" if speed >= 10.0 else f"{speed:.2g} a second")
            if total and total > done:
                parts.append(f"about {spoken_time((total - done) / speed)} left")
        elif not done:
            parts.append(f"{spoken_time(waited)} so far")
        return ", ".join(parts)

    def say(self, line: str) -> None:
        """Print a line on standard error, above the one that changes."""
        self._console.print(harmless(line, line=True), markup=False, soft_wrap=True)

    def draw(self, wait: Callable[[float], bool]) -> None:
        """Keep one line of a terminal up to date until ``wait`` says that the work is done."""
        from rich.text import Text

        if not wait(PATIENCE):
            with self._console.status(Text(self.words())) as status:
                while not wait(STEP):
                    status.update(Text(self.words()))

    def tell(self, wait: Callable[[float], bool]) -> None:
        """Print a line now and then until ``wait`` says that the work is done."""
        pauses = iter(PAUSES)
        while not wait(next(pauses, PAUSES[-1])):
            self.say(self.words())


@contextmanager
def counting(what: str, limits: calibrail.CallLimits | None = None) -> Iterator[calibrail.Context]:
    """Show on standard error how far the work is, once it has taken a while.

    Yields the context of the work: this command, and whom it tells how far it is. In a terminal
    that is one line that changes; elsewhere plain lines, the first after ten seconds and then ever
    fewer.

    Calls to endpoints within the block keep to the limits, and their answers are also counted; with
    them comes the engine that scores what is scored within the block.
    """
    from calibrail.data.reading import observe_readings

    line, finished = ProgressLine(what), threading.Event()

    def answered(count: int) -> None:
        line.answered = count

    show = line.draw if sys.stderr.isatty() else line.tell
    # Whatever takes long, scoring or what comes after it, is seen to be alive.
    thread = threading.Thread(target=show, args=(finished.wait,), daemon=True)
    thread.start()
    try:
        with ExitStack() as stack:
            stack.enter_context(calibrail.limit_calls(limits, answered))
            stack.enter_context(observe_readings(line.reads))
            engine: object = limits
            if isinstance(engine, calibrail.EngineOptions):
                stack.enter_context(calibrail.use_engine(engine, line.say))
            yield calibrail.Context(command_line(), line)
    finally:
        finished.set()
        thread.join()
