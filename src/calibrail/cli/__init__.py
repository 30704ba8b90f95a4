"""The typer app and main()."""

import errno
import shlex
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import typer

from calibrail.cli.output import (
    FAILURE,
    USAGE,
    CommandHelp,
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
from calibrail.working_folder import working_folder

#: The panels of the help, and in each the commands with the module of this package that has them.
_PANELS: Final = help_texts()["COMMANDS"]
#: Why nothing can be written, wherever it is tried.
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
#: What the actions of each noun are about.
_NOUNS: Final = help_texts()["NOUNS"]
COMMANDS: Final = {name: module for of in _PANELS.values() for name, module in of.items()}
#: How the commands that most people need are used, below their help.
_EXAMPLES: Final = help_texts()["EXAMPLES"]


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


app = typer.Typer(
    name="calibrail",
    help=help_texts()["CALIBRAIL"]["help"],
    epilog=help_texts()["CALIBRAIL"]["epilog"],
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    cls=Commands,
)
_groups = {"": app} | {
    noun: typer.Typer(help=about, no_args_is_help=True, rich_markup_mode=None, cls=GroupHelp)
    for noun, about in _NOUNS.items()
}
#: The one command that a process runs: others are not put together, nor their modules loaded.
_only = "".join(sys.argv[1:2]) if "calibrail" in Path(sys.argv[0]).parts[-2:] else ""
for _panel, _of in _PANELS.items():
    for _name, _module in _of.items():
        if _only in COMMANDS and _name != _only:
            continue
        _commands = import_module(f"calibrail.cli.{_module}")
        _shown = f"Example: calibrail {_EXAMPLES[_name]}" if _name in _EXAMPLES else None
        _noun, _, _action = _name.rpartition(" ")
        _register = _groups[_noun].command(
            _action, cls=CommandHelp, rich_help_panel=None if _noun else _panel, epilog=_shown
        )
        _register(getattr(_commands, f"{_name.replace(' ', '_')}_command"))
if _only not in COMMANDS:
    for _noun in _NOUNS:
        app.add_typer(_groups[_noun], name=_noun, rich_help_panel="Guardrails in production")
    _keygen = import_module("calibrail.cli.ship").keygen_command
    app.command("keygen", cls=CommandHelp, hidden=True)(_keygen)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version."),
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"calibrail {installed('calibrail')}")
        raise typer.Exit
    context.with_resource(cli_spelling())
    context.with_resource(told_warnings())
    if context.invoked_subcommand is None:
        raise typer.Exit(_start_here())


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
    number = typer.prompt(which, default=0, show_default=False, type=int)
    if not 1 <= number <= len(listed):
        return 0
    chosen = listed[number - 1]
    file, test, choices = words_of_file(chosen)
    words = ["doctor", *file]
    if choices:
        # Nobody but its owner knows.
        echo(say("command.next_here", path=shlex.join(file), test=shlex.join(test)))
        for choice in choices:
            echo(f"  {choice}")
        return 0
    if test[-1:] == ["YOURS"]:
        asked = "From which score on is an answer flagged? (Enter: look first)"
        if threshold := typer.prompt(asked, default="", show_default=False).strip():
            words = ["test", *test[:-1], threshold]
    elif test:
        words = ["test", *test]
    note(f"calibrail {shlex.join(words)}")
    return int(typer.main.get_command(app).main(words, "calibrail", standalone_mode=False) or 0)


def main() -> None:
    """Run the command line; errors that calibrail raises on purpose print without a traceback."""
    degrade_output()
    try:
        # Detectors of one's own are found there, too, and nothing else.
        with working_folder(Path.cwd()):
            app()
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
