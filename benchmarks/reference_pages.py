"""Hooks of MkDocs: the site's pages of commands and tables of metrics, written from the code."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

SERVE: Final = Path(__file__).resolve().parents[1] / "src" / "calibrail" / "serve"

#: How much more than others a page, or a folder's pages, weigh in a search.
BOOSTS: Final = {
    **{"glossary.md": 4, "data.md": 4, "planning.md": 4, "guarantees.md": 4},
    **{"commands": 0.1, "reference": 0.1, "integrations": 0.5},
}
#: Below which page of the navigation the commands stand.
ABOVE: Final = "cli.md"
#: The histogram that a service makes for each guardrail, of which metrics.toml knows nothing.
SCORES: Final = (
    "score",
    {"help": "Scores, in buckets at the calibration quantiles and the thresholds."},
)


def commands() -> dict[str, tuple[click.Context, click.Command]]:
    """Return every command by the words that call it, in the order of the help."""
    from calibrail.cli import COMMANDS, app

    found: dict[str, tuple[click.Context, click.Command]] = {}
    for name in COMMANDS:
        command: Any = app
        context = click.Context(command, info_name="calibrail")
        for word in name.split():
            command = command.commands[word]
            context = click.Context(command, info_name=word, parent=context)
        found[name] = (context, command)
    return found


def page(name: str, context: click.Context, command: click.Command) -> str:
    """Return the page of a command: its help, with a table of each panel's options."""
    panels: dict[str, list[str]] = {"Arguments": [], "Options": []}
    for item in command.get_params(context):
        if (record := item.get_help_record(context)) is not None:
            kind = "Arguments" if item.param_type_name == "argument" else "Options"
            panel = getattr(item, "panel", None) or kind
            said, meant = (" ".join(part.split()) for part in record)
            # A bar within code parts no cells.
            meant = as_code(meant).replace("|", "\\|")
            panels.setdefault(panel, []).append(f"| `{said}` | {meant} |")
    usage = " ".join(["calibrail", name, *command.collect_usage_pieces(context)])
    parts = [
        f"# calibrail {name}",
        f"```text\n{usage}\n```",
        as_code(inspect.cleandoc(command.help or "")),
    ]
    for panel, rows in panels.items():
        if rows:
            head = f"| {'argument' if panel == 'Arguments' else 'option'} | meaning |"
            parts.append("\n".join([f"## {panel}\n", head, "|---|---|", *rows]))
    if command.epilog:
        parts.append(f"## Example\n\n    {command.epilog.removeprefix('Example: ')}")
    return "\n\n".join(parts) + "\n"


def as_code(text: str) -> str:
    """Return help in which options are code, so that no line ends within one."""
    option = r"`[^`]*`|(?<![\w`-])--?[a-z][a-z-]*"
    return re.sub(option, lambda found: f"`{found[0].strip('`')}`", text)


def whole(html: str) -> str:
    """Return a page on which no line ends within an option, or an identifier that fits a phone."""
    html = re.sub(r"<code>([^<\s]{1,28})</code>", r'<code class="whole">\1</code>', html)
    option = r"(?<![\w<-])(--?[a-z][a-z-]*)"

    def parted(code: re.Match[str]) -> str:
        # A line may end between choices.
        listed = re.sub(r"(?<=\w)([|,])(?=\w)", r"\1<wbr>", code[1])
        kept = re.sub(option, r'<span class="whole">\1</span>', listed)
        return f"<code>{kept}</code>"

    return re.sub(r"<code>(.*?)</code>", parted, html, flags=re.DOTALL)


def flowing(html: str) -> str:
    """Return a page on which prose that a command prints has lines as long as there is room.

    Prose has no columns; a line of it that is full goes on in the next.
    """

    def prose(block: re.Match[str]) -> str:
        if re.search(r"\S {3,}\S", block[2]):
            return block[0]
        joined = re.sub(r"(?m)^(.{60,}[^.:\n])\n(?=\S)", r"\1 ", block[2])
        return f'{block[1]}<code class="prose">{joined}</code>'

    start = r'(<div class="language-text highlight"><pre><span></span>)'
    return re.sub(start + r"<code>(.*?)</code>", prose, html, flags=re.DOTALL)


def metrics(kind: str) -> Iterator[str]:
    """Yield the rows of a table: the metrics of ``"service"`` or ``"watch"``."""
    defined = tomllib.loads((SERVE / "metrics.toml").read_text(encoding="utf-8"))[kind]
    prefix = "calibrail_watch_" if kind == "watch" else "calibrail_"
    items = [*defined.items(), *([SCORES] if kind == "service" else [])]
    for name, item in items:
        counts = item.get("counts", kind == "service" and not {"merged", "buckets"} & {*item})
        total = "_total" if counts and item is not SCORES[1] else ""
        labels = [*item.get("labels", ())]
        if kind == "watch" or item is SCORES[1]:
            labels.insert(0, "guardrail")
        shown = ", ".join(f"`{label}`" for label in labels)
        yield f"| `{prefix}{name}{total}` | {shown} | {item['help']} |"


def filled(markdown: str) -> str:
    """Put the tables of metrics where a page has a comment such as ``<!-- metrics: watch -->``."""

    def table(found: re.Match[str]) -> str:
        return "\n".join(["| name | labels | meaning |", "|---|---|---|", *metrics(found[1])])

    return re.sub(r"<!-- metrics: (service|watch) -->", table, markdown)


def on_config(config: Any) -> Any:
    """Put the commands below their page in the navigation."""
    pages = [{name: f"commands/{_file(name)}"} for name in commands()]

    def put(items: list[Any]) -> None:
        for at, item in enumerate(items):
            for title, inner in item.items() if isinstance(item, dict) else ():
                if inner == ABOVE:
                    items[at] = {title: [ABOVE, *pages]}
                elif isinstance(inner, list):
                    put(inner)

    put(config.nav)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each command."""
    from mkdocs.structure.files import File

    for name, (context, command) in commands().items():
        text = page(name, context, command)
        files.append(File.generated(config, f"commands/{_file(name)}", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill a page's tables; what a newcomer's words mean is found before where they also stand."""
    uri = page.file.src_uri
    page.meta["search"] = {"boost": BOOSTS.get(uri, BOOSTS.get(uri.rpartition("/")[0], 1))}
    return filled(markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Keep options whole, and let prose flow."""
    return whole(flowing(html))


def _file(name: str) -> str:
    return f"{name.replace(' ', '-')}.md"
