"""The commands and main()."""

import errno
import gc
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module, machinery, util
from pathlib import Path
from typing import Any, Final

import click

from calibrail.cli.output import (
    DONE,
    FAILURE,
    USAGE,
    GroupHelp,
    degrade_output,
    echo,
    listened_to,
    note,
    say,
    told_warnings,
)
from calibrail.errors import CalibrailError, InputError, TooFewExamplesError
from calibrail.options.fields import cli_spelling, help_texts
from calibrail.serialization import harmless
from calibrail.working_folder import working_folder

#: The panels of the help, and in each the commands with the module of this package that has them.
_PANELS: Final = help_texts()["COMMANDS"]
#: Why nothing can be written, wherever it is tried.
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
#: What the actions of each noun are about.
_NOUNS: Final = help_texts()["NOUNS"]
COMMANDS: Final = {name: module for of in _PANELS.values() for name, module in of.items()}
_PANEL_OF: Final = {name.split()[0]: panel for panel, of in _PANELS.items() for name in of}
#: How the commands that most people need are used, below their help.
_EXAMPLES: Final = help_texts()["EXAMPLES"]
#: What scipy.special loads for documents and tests, or since it asks numpy for all that it has.
_LATE: Final = {f"numpy.{k}" for k in ("ctypeslib", "f2py", "ma", "random", "testing")} | {"pydoc"}


class Commands(GroupHelp):
    """The commands, which go by their former names, too; whoever uses one is told the new one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find a command by the words that follow ``calibrail``."""
        words = self._renamed(*args)
        if words != args:
            note(f"calibrail {args[0]} is now: calibrail {shlex.join(words)}")
        return super().resolve_command(ctx, words)

    def _renamed(self, name: str, *rest: str) -> list[str]:
        if name in ("card", "verify"):
            return ["guardrail", name, *rest]
        if name == "cache" and rest[:1] in ((), ("--clear",)):
            return ["cache", "clear", *rest[1:]] if rest else ["cache", "show"]
        if name != "audit-sample":
            return [name, *rest]
        options = (item for item in self.commands["label"].params if hasattr(item, "is_flag"))
        valued = {flag for item in options if not item.is_flag for flag in item.opts}
        for at, (before, word) in enumerate(zip(("", *rest), rest, strict=False)):
            if word[:1] != "-" and before not in valued:
                rest = (*rest[:at], *rest[at + 1 :], "--guardrail", word)
                break
        return ["label", "--from-log", *rest]


def _made(name: str) -> click.Command:
    """Return a command, or the group of a noun's actions."""
    about = {"name": name.rpartition(" ")[2], "panel": _PANEL_OF.get(name)}
    if name in _NOUNS:
        actions = [item for item in COMMANDS if item.startswith(f"{name} ")]
        return GroupHelp(_Made(actions), help=_NOUNS[name], no_args_is_help=True, **about)
    from calibrail.cli.parameters import command

    module = import_module(f"calibrail.cli.{COMMANDS.get(name, 'ship')}")
    run = getattr(module, f"{name.replace(' ', '_')}_command")
    example = f"Example: calibrail {_EXAMPLES[name]}" if name in _EXAMPLES else None
    return command(run, epilog=example, hidden=name not in COMMANDS, **about)


class _Made(Mapping[str, click.Command]):
    """Commands by name, each put together when it is first asked for, and its module loaded."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = {name.rpartition(" ")[2]: name for name in names}
        self._made = cache(_made)

    def __getitem__(self, name: str) -> click.Command:
        return self._made(self._names[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _root(version: bool) -> None:
    context = click.get_current_context()
    if version:
        from importlib.metadata import version as installed

        echo(f"calibrail {installed('calibrail')}")
        context.exit()
    context.with_resource(cli_spelling())
    context.with_resource(told_warnings())
    if context.invoked_subcommand is None:
        context.exit(_start_here())


app = Commands(
    _Made([*(name for name in COMMANDS if " " not in name), *_NOUNS, "keygen"]),
    name="calibrail",
    invoke_without_command=True,
    callback=_root,
    params=[click.Option(["--version"], is_flag=True, help="Print the version.")],
    **help_texts()["CALIBRAIL"],
)


def _start_here() -> int:
    """Show what stands in this folder, and run the first command on what is chosen of it.

    Nobody is asked anything where nobody watches.
    """
    from calibrail.pipelines.discover import SHOWN, discover, shown, words_of_file

    candidates = discover(Path.cwd())
    for line in shown(candidates):
        echo(line)
    listed = candidates[:SHOWN]
    if not listed or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return 0
    which = f"Which one? 1 to {len(listed)}, Enter for none"
    number = click.prompt(which, default=0, show_default=False, type=int)
    if not 1 <= number <= len(listed):
        return 0
    file, test, choices = words_of_file(listed[number - 1])
    words = ["doctor", *file]
    if choices:
        # Nobody but its owner knows.
        echo(say("command.next_here", path=shlex.join(file), test=shlex.join(test)))
        for choice in choices:
            echo(f"  {choice}")
        return 0
    if test[-1:] == ["YOURS"]:
        asked = "From which score on is an answer flagged? (Enter: look first)"
        if threshold := click.prompt(asked, default="", show_default=False).strip():
            words = ["test", *test[:-1], threshold]
    elif test:
        words = ["test", *test]
    note(f"calibrail {shlex.join(words)}")
    return int(app.main(words, "calibrail", standalone_mode=False) or 0)


class _WhereUsed:
    """Finds what no command uses; it runs where something of it is used, by whomever."""

    @staticmethod
    def find_spec(name: str, path: Any, _: object = None) -> machinery.ModuleSpec | None:
        """Return where a module is that is loaded late, None for others."""
        spec = machinery.PathFinder.find_spec(name, path) if name in _LATE else None
        if spec is not None and spec.loader is not None:
            spec.loader = util.LazyLoader(spec.loader)
        return spec


def main() -> None:
    """Run the command line; errors that calibrail raises on purpose print without a traceback."""
    degrade_output()
    # Next to nothing of what is loaded is ever freed, and looking for it takes time.
    gc.set_threshold(200_000)
    # A score in a column takes one thread, where what is loaded late is safe, and nobody's code.
    of_column = sys.argv[1:2] == ["test"] and "--score=" not in "=".join(sys.argv)
    if of_column and _WhereUsed not in sys.meta_path:
        sys.meta_path.insert(0, _WhereUsed)
    try:
        # Detectors of one's own are found there, too, and nothing else.
        with working_folder(Path.cwd()):
            sys.exit(int(app.main(prog_name="calibrail", standalone_mode=False) or 0))
    except click.Abort as stopped:
        # An interrupt is no failure; the end of what is typed, where something is asked, is none.
        if asked := stopped.__cause__ is None:
            echo("")
        sys.exit(DONE if asked and isinstance(stopped.__context__, EOFError) else 130)
    except click.ClickException as error:
        # Help has lines of its own, and nothing in it is of others.
        if not isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.__dict__["message"] = harmless(error.message, line=True)
        error.show()
        sys.exit(error.exit_code)
    except CalibrailError as error:
        note(f"error: {error}")
        wrong = isinstance(error, InputError) and not isinstance(error, TooFewExamplesError)
        sys.exit(USAGE if wrong else FAILURE)
    except BrokenPipeError as error:
        with listened_to():
            raise error
        sys.exit(FAILURE)
    except OSError as error:
        if not (is_full := error.errno in _FULL) and error.filename is None:
            raise
        verb = "cannot read or write " if error.errno == errno.EIO else "cannot write "
        what = is_full * verb + str(error.filename or "the result")
        remedy = is_full * "; make room, or name another place"
        note(f"error: {what}: {error.strerror or error}{remedy}")
        sys.exit(FAILURE)
    finally:
        # The process ends, and its memory with it: looking through it once more takes time, too.
        gc.freeze()
