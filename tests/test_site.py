"""Does the site of the docs keep its versions side by side, in a scheme that its reader chooses?"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import griffe
import yaml

from benchmarks.reference_pages import (
    as_code,
    commands,
    flowing,
    on_config,
    on_page_markdown,
    page,
    whole,
)
from calibrail.cli import COMMANDS
from tests.installed import need
from tests.report.browser import chromium
from tests.ui.driven import Tab, browser

ROOT = Path(__file__).resolve().parents[1]

need("mike")

#: What a newcomer searches for, and the page that answers.
RIGHT = {
    "install": "install.html",
    "quickstart": "quickstart.html",
    "groundedness": "glossary.html",
    "recall": "glossary.html",
    "0.5 threshold": "why-not-0.5.html",
    "LangChain": "integrations/langchain.html",
}


class Loader(yaml.SafeLoader):
    """Reads what MkDocs adds to YAML as it stands."""


Loader.add_multi_constructor("!", lambda loader, suffix, node: None)
Loader.add_multi_constructor("tag:yaml.org,2002:python", lambda loader, suffix, node: None)
CONFIG = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader=Loader)


def test_every_page_stands_in_the_navigation_once() -> None:
    def pages(items: object) -> list[str]:
        if isinstance(items, str):
            return [items]
        inner = items.values() if isinstance(items, dict) else items
        return [page for item in inner for page in pages(item)]  # type: ignore[attr-defined]

    shown = pages(CONFIG["nav"])
    docs = ROOT / "docs"
    files = [*docs.rglob("*.md"), *docs.glob("notebooks/*.ipynb")]
    written = {str(path.relative_to(docs)) for path in files}
    assert len(shown) == len(set(shown))
    assert written == set(shown)


def test_the_navigation_has_five_parts() -> None:
    parts = [part for item in CONFIG["nav"] for part in item]
    assert parts == ["Learn", "Do", "Understand", "Look up", "Evidence"]
    assert "navigation.tabs" in CONFIG["theme"]["features"]


def test_a_word_with_a_tooltip_stands_in_a_page() -> None:
    lines = (ROOT / "docs" / "abbreviations.txt").read_text(encoding="utf-8").splitlines()
    words = [line.removeprefix("*[").partition("]: ")[0] for line in lines]
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    assert [word for word in words if word not in text] == []


def test_a_reader_chooses_light_or_dark_and_may_search() -> None:
    schemes = CONFIG["theme"]["palette"]
    assert {item.get("scheme") for item in schemes} >= {"default", "slate"}
    assert all(item["toggle"]["name"] for item in schemes)
    (search,) = (item["search"] for item in CONFIG["plugins"] if "search" in item)
    # Other names of a thing stand in brackets: "(recall, ...)" is found by "recall".
    words = re.split(search["separator"], '(recall, sensitivity) is at least 0.5: "caught"')
    assert {"recall", "sensitivity", "0.5", "caught"} <= set(words)
    glossary = SimpleNamespace(file=SimpleNamespace(src_uri="glossary.md"), meta={})
    assert on_page_markdown("text", glossary) == "text" and glossary.meta["search"]["boost"] > 1
    command = SimpleNamespace(file=SimpleNamespace(src_uri="commands/label.md"), meta={})
    assert on_page_markdown("text", command) == "text" and command.meta["search"]["boost"] < 1


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder, and says nothing of it."""

    def log_message(self, *_: object) -> None:
        return


def test_a_search_leads_to_the_right_page_first(tmp_path: Path) -> None:
    chromium()
    # What packages write from the code is left out: it weighs little, and takes long.
    search = [item for item in CONFIG["plugins"] if "search" in item]
    about = {"INHERIT": str(ROOT / "mkdocs.yml"), "docs_dir": str(ROOT / "docs"), "plugins": search}
    about["hooks"] = [str(ROOT / "benchmarks" / "reference_pages.py")]
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(about), encoding="utf-8")
    site = tmp_path / "site"
    build = [
        "-m",
        "mkdocs",
        "build",
        "--quiet",
        "-f",
        str(tmp_path / "mkdocs.yml"),
        "-d",
        str(site),
    ]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    subprocess.run([sys.executable, *build], cwd=ROOT, env=quiet, check=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    first = "document.querySelector('.md-search-result__item a')?.pathname"
    parts = "[...document.querySelectorAll('.whole')]"
    broken = f"{parts}.length ? {parts}.filter((it) => it.getClientRects().length > 1).length : -1"
    found = {}
    with browser(tmp_path) as pipe:
        for words in RIGHT:
            tab = Tab(pipe)
            tab.open(f"http://127.0.0.1:{server.server_port}/index.html?q={quote(words)}")
            tab.until(f"!!({first})")
            found[words] = tab.ask(first).removeprefix("/")
            tab.close()
        (tab := Tab(pipe)).size(390, 900, phone=True)
        for page in ("commands/calibrate", "compare", "certificates"):
            tab.open(f"http://127.0.0.1:{server.server_port}/{page}.html")
            tab.until(f"location.pathname == '/{page}.html' && document.readyState", "complete")
            assert tab.ask(broken) == 0
        if find_spec("axe_playwright_python") is not None:
            objected = tab.violations()
            assert objected == []
    server.shutdown()
    server.server_close()
    assert found == RIGHT


def test_no_line_ends_within_an_option_or_an_identifier() -> None:
    assert as_code("with --guarantee pac (-o RUN); well-known") == (
        "with `--guarantee` pac (`-o` RUN); well-known"
    )
    # What is code already is left as it is.
    assert as_code("of `calibrail serve --log`; `--all`") == "of `calibrail serve --log`; `--all`"
    assert whole("<code>--max-false-alarms</code> <code>calibrail calibrate DATA</code>") == (
        '<code class="whole">--max-false-alarms</code> <code>calibrail calibrate DATA</code>'
    )
    # Not where a command is longer than a line, either.
    assert whole('<code>log<span class="w"> </span>--per-day<span> </span>-o two-word</code>') == (
        '<code>log<span class="w"> </span><span class="whole">--per-day</span><span> </span>'
        '<span class="whole">-o</span> two-word</code>'
    )
    assert whole("<code>--higher hallucinated|faithful</code>") == (
        '<code><span class="whole">--higher</span> hallucinated|<wbr>faithful</code>'
    )


def test_prose_that_a_command_prints_is_as_wide_as_its_page() -> None:
    start = '<div class="language-text highlight"><pre><span></span>'
    told = f"CERTIFIED\n{'It keeps ' * 8}of\nfaithful answers.\n...\n"
    assert flowing(f"{start}<code>{told}</code></pre></div>") == (
        f'{start}<code class="prose">CERTIFIED\n{"It keeps " * 8}of faithful answers.\n...\n'
        "</code></pre></div>"
    )
    table = f"{start}<code>threshold   caught\n{'0.3333' * 12}\n0.5</code></pre></div>"
    assert flowing(table) == table


def test_versions_stand_side_by_side(tmp_path: Path) -> None:
    """The branch that is served holds each version, and says which is the latest."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A page\n", encoding="utf-8")
    (tmp_path / "docs" / "abbreviations.txt").touch()
    # The theme and its settings are those of the site; its pages take longer to build.
    small = f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: docs\nnav: [index.md]\n"
    small += "plugins: [search]\nhooks: []\n"
    (tmp_path / "mkdocs.yml").write_text(small, encoding="utf-8")
    git = {
        f"GIT_{who}_{what}": "calibrail@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    # mike calls mkdocs by its name.
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | git | {"NO_MKDOCS_2_WARNING": "1", "PATH": programs}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    run("git", "init", "--quiet", "--initial-branch", "main")
    run("git", "add", ".")
    run("git", "commit", "--quiet", "--message", "pages")
    mike = str(Path(sys.executable).parent / "mike")
    for version in ("0.1.0", "0.2.0"):
        run(mike, "deploy", "--update-aliases", version, "latest")
    run(mike, "set-default", "latest")
    versions = json.loads(run("git", "show", "gh-pages:versions.json"))
    assert {item["version"]: item["aliases"] for item in versions} == {
        "0.1.0": [],
        "0.2.0": ["latest"],
    }
    page = run("git", "show", "gh-pages:0.1.0/index.html")
    assert '"provider": "mike"' in page
    assert 'data-md-color-scheme="slate"' in page
    assert "latest" in run("git", "show", "gh-pages:index.html")


def test_every_command_has_a_page_with_all_its_options() -> None:
    pages = {name: page(name, *of) for name, of in commands().items()}
    assert pages.keys() == COMMANDS.keys()
    for name, (_, command) in commands().items():
        flags = {item.opts[0] for item in command.params if item.opts[0].startswith("--")}
        assert {flag for flag in flags if flag not in pages[name]} == set()
        # What a command does is prose, and no bar in code is shown with a backslash before it.
        told, _, _ = pages[name].partition("## Example")
        assert [line for line in told.splitlines() if line.startswith("    ")] == []
        assert re.findall(r"`[^`\n]*\\\|[^`\n]*`", told) == []
    nav = on_config(SimpleNamespace(nav=[{"Look up": [{"Command line": "cli.md"}]}])).nav
    listed = nav[0]["Look up"][0]["Command line"]
    assert listed[0] == "cli.md" and {"log verify": "commands/log-verify.md"} in listed


def test_the_reference_gives_each_parameter_its_own_default(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(
        "def f(a: int | None = None, b: str = 'x', c: float = 2.0):\n"
        '    """Do.\n\n    Parameters\n    ----------\n    a, b\n        Two.\n'
        '    c : {1.0, 2.0}\n        One.\n    """\n'
    )
    extensions = griffe.load_extensions(str(ROOT / "benchmarks" / "reference_parameters.py"))
    found = griffe.load(
        "small", search_paths=[tmp_path], docstring_parser="numpy", extensions=extensions
    )
    said = found["f"].docstring.parsed[1].value
    told = [(item.name, str(item.annotation), item.value) for item in said]
    assert told == [("a", "int | None", "None"), ("b", "str", "'x'"), ("c", "(1.0, 2.0)", "2.0")]
