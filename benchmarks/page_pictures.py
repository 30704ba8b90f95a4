"""The pictures of docs/ that show what commands write, for light pages and for dark ones.

``plan-*.svg`` is the figure of the plan in docs/planning.md. ``report-*.png`` is the first screen
of the report in docs/report.md with numbered marks, photographed by chromium; ``watch-*.png`` that
of a watch at the end of examples/year.py; ``*-narrow-*.png`` are both on a phone. A
photograph holds the words of its page up to the first figure, and that of the watch what these were
written from, so that tests see when it is of other words than today's. ``first_run-*.svg`` is drawn
by the README's own calibration.

    PYTHONPATH=. python benchmarks/page_pictures.py
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from results import both_modes, light_and_dark

from calibrail.report.figures.sequential import plan_svg

FIGURES: Final = Path(__file__).resolve().parents[1] / "docs" / "figures"
#: What is marked on the report's first screen, in the order of docs/report.md.
MARKED: Final = (
    ".verdict strong",
    ".verdict p:last-of-type",
    "main > .tiles",
    "[data-figure=target]",
    "#try",
)
#: Pixels of photographs, in width and height.
REPORT, NARROW_REPORT = (1000, 1225), (500, 1403)
WATCH, NARROW_WATCH = (1000, 1560), (500, 1700)
#: Colours of a photograph's palette: it shows text and plain areas.
N_COLOURS: Final = 64


def draw_plan(path: Path) -> None:
    """Write the figure of the plan, by the command of the page."""
    page = (FIGURES.parent / "planning.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"calibrail (plan .*) --figure", page)
    command = [sys.executable, "-m", "calibrail", *line.split(), "--json"]
    plan = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    light_and_dark(plan_svg(json.loads(plan)), path)


def marked_report(folder: Path) -> Path:
    """Write the report of docs/report.md with a number before each part."""
    text = (FIGURES.parent / "report.md").read_text(encoding="utf-8")
    line = re.findall(r"calibrail (calibrate .*) -o", text)[0]
    command = [sys.executable, "-m", "calibrail", *line.split(), "-o", folder]
    done = subprocess.run(command, check=False, capture_output=True)
    # A report that is rejected or inconclusive is one, too.
    assert done.returncode in (0, 3, 4), done.stderr
    page = folder / "report.html"
    rules = "".join(
        f'{part} {{ position: relative }} {part}::after {{ content: "{number}" }}\n'
        for number, part in enumerate(MARKED, start=1)
    )
    badge = (
        "{ position: absolute; left: -2.1rem; top: 0; width: 1.5rem; height: 1.5rem; "
        "border-radius: 50%; background: var(--moving); color: var(--ground); "
        "font: 600 .9rem/1.5rem sans-serif; text-align: center }"
    )
    every = ", ".join(f"{part}::after" for part in MARKED)
    style = f"<style>main {{ padding-left: 3rem }}\n{rules}{every} {badge}</style></head>"
    text = page.read_text(encoding="utf-8").replace("</head>", style, 1)
    page.write_text(text.replace(str(folder), "runs/report"), encoding="utf-8")
    return page


def year_watched(folder: Path) -> Path:
    """Write the page of a watch after a year, which an example simulates, by the command."""
    example = FIGURES.parents[1] / "examples" / "year.py"
    subprocess.run([sys.executable, example, folder], check=True, capture_output=True)
    line = "monitor guardrail.json log --labels audit -o watch"
    command = [sys.executable, "-m", "calibrail", *line.split()]
    done = subprocess.run(command, check=False, capture_output=True, cwd=folder)
    # The promise is broken in fall.
    assert done.returncode == 3, done.stderr
    return folder / "watch" / "watch.html"


def words(page: str) -> str:
    """Return the words of a page up to its first figure."""
    shown = page.partition("<main")[2].partition("<svg")[0].partition(">")[2]
    return html.unescape(" ".join(re.sub(r"<[^>]*>", " ", shown).split()))


def status(page: Path) -> str:
    """Return what the words of a watch were written from, without what its figures alone show."""
    found = json.loads(page.with_name("status.json").read_text(encoding="utf-8"))
    for rows in (found["timeline"], found["prevalence"]["periods"]):
        del rows[:-2]
    return json.dumps(found, separators=(",", ":"))


def photograph(page: Path, path: Path, size: tuple[int, int], made_of: str = "") -> None:
    """Write what chromium shows of the page, as NAME-light.png and NAME-dark.png."""
    kept = PngInfo()
    kept.add_itxt("words", words(page.read_text(encoding="utf-8")), zip=True)
    if made_of:
        kept.add_itxt("made of", made_of, zip=True)
    for scheme, number in (("dark", 0), ("light", 1)):
        target = path.with_stem(f"{path.stem}-{scheme}")
        command = [
            *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            f"--user-data-dir={page.parent / scheme}",
            f"--blink-settings=preferredColorScheme={number}",
            *(f"--window-size={size[0]},{size[1]}", f"--screenshot={target}", page.as_uri()),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        with Image.open(target) as seen:
            seen.convert("RGB").quantize(N_COLOURS).save(target, optimize=True, pnginfo=kept)


def draw_first_run(path: Path) -> None:
    """Write the target of the README's calibration, by its command."""
    readme = (FIGURES.parents[1] / "README.md").read_text(encoding="utf-8")
    line = re.findall(r"calibrail (calibrate .*) -o", readme)[0]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "calibrail", *line.split(), "-o", folder]
        subprocess.run(command, check=True, capture_output=True)
        both_modes((Path(folder) / "figures" / "target.svg").read_text(encoding="utf-8"), path)


def main() -> None:
    draw_first_run(FIGURES / "first_run.svg")
    draw_plan(FIGURES / "plan.svg")
    with tempfile.TemporaryDirectory() as folder:
        page = marked_report(Path(folder) / "report")
        for size, name in ((REPORT, "report.png"), (NARROW_REPORT, "report-narrow.png")):
            photograph(page, FIGURES / name, size)
        page = year_watched(Path(folder) / "year")
        for size, name in ((WATCH, "watch.png"), (NARROW_WATCH, "watch-narrow.png")):
            photograph(page, FIGURES / name, size, status(page))


if __name__ == "__main__":
    main()
