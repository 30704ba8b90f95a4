"""Every command and every Python block that README and docs show runs."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import os
import re
import shlex
import shutil
import signal
import textwrap
import tomllib
import zlib
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import ndtr, ndtri

from calibrail.cli import app
from calibrail.cli.output import INCONCLUSIVE, REJECTED
from calibrail.client._core import Asking
from calibrail.conformal.bounds import interval
from calibrail.conformal.threshold import rank
from calibrail.data.reading import read
from calibrail.guardrail import Decision, Guardrail
from calibrail.guardrail.decision_log import DecisionLog, Entry
from calibrail.labelling.session import Session
from calibrail.models.embeddings import Encoder, load_encoder
from calibrail.serve.process import serve
from tests.answers import rows, write
from tests.chat_server import ChatServer, predicate, sampled
from tests.data.traces.shapes import langfuse_trace
from tests.pipelines.test_versus import answers

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

#: Of prose, in all pages together.
MOST_WORDS = 25_000

#: Shown as an example of a name that the reader fills in.
PLACEHOLDERS = re.compile(
    r"\b(DATA|RUN|NAME|TRACES|LOG|ARCHIVE|HELDOUT|FILE|COL)\b|\bA --score B\b|\.\.\."
)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return commands, Python blocks and shown output in the order in which they stand."""
    found: list[tuple[str, str]] = []
    text = page.read_text(encoding="utf-8")
    # In a tab, and in an item of a list, both are four spaces further in.
    pattern = re.compile(
        r"^(?: {4})?```python\n(.*?)^(?: {4})?```"
        r"|^ {4}(?: {4})?(calibrail (?:[^\n]*\\\n)*[^\n]*)$"
        r"|^```text\n(.*?)^```",
        re.MULTILINE | re.DOTALL,
    )
    for match in pattern.finditer(text):
        if match[1] is not None:
            found.append(("python", textwrap.dedent(match[1])))
        elif match[3] is not None:
            found.append(("output", match[3]))
        else:
            command = re.sub(r"\\\n\s*", "", match[2]).strip()
            if not PLACEHOLDERS.search(command):
                found.append(("command", command.split("  #")[0]))
    return found


@pytest.fixture(scope="module")
def kept_vectors() -> Iterator[None]:
    """Encoders that keep their vectors: most pages embed the same example."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Encoder, "forget", lambda _: None)
        yield
    load_encoder().forget()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run and the guardrail that most pages begin with."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        run("calibrail calibrate example:facts --score novelty --alpha 0.2 -o runs/made")
        run("calibrail export runs/made -o guardrail.json")
    return folder


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_vectors: None) -> Iterator[Path]:
    """A folder with the files that the pages speak of, and an endpoint for their judges."""
    monkeypatch.chdir(tmp_path)
    with ChatServer(sampled(_suspicion), routes={"decisions": predicate(_suspicion)}) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        monkeypatch.setenv("CALIBRAIL_CACHE", str(tmp_path / "answers.sqlite"))
        yield _furnished(tmp_path, monkeypatch)


def _labels_some(session: Session, annotator: str, *_: object, **__: object) -> None:
    calibrate = session.plan.needed is not None
    while not session.counts(annotator).decided:
        task = session.next(annotator)
        assert task is not None
        session.put(annotator, task.order, (None, 0, 1)[task.order % 3])
        # Of a queue not every order is handed out.
        if not calibrate and task.order >= 3:
            break


def _suspicion(text: str) -> float:
    """P(hallucination) from a digest of the prompt, the same every time."""
    return zlib.crc32(text.encode()) / 2**32


def _furnished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write(tmp_path / "heldout.jsonl", rows(60, prefix="New "))
    # The judge is right about nine in ten.
    numbered = enumerate(rows(60, seed=5, prefix="Unlabelled "))
    said = [row | {"judge": int(row["label"]) ^ (i % 10 == 0)} for i, row in numbered]
    write(tmp_path / "traces.jsonl", said)
    chosen = rows(60, seed=5, prefix="Unlabelled ")[::2]
    known = (f"{row['id']},{row['label']},0.5" for row in chosen)
    (tmp_path / "known.csv").write_text("\n".join(["id,label,probability", *known]))
    # Whoever labels presses a few keys; a test of its own opens the page.
    monkeypatch.setattr("sys.stdin", io.StringIO("f\nh\nu\nq\n"))
    monkeypatch.setattr("calibrail.ui.server.serve", _labels_some)
    monkeypatch.setattr("calibrail.serve.process.serve", _starts_and_stops)
    monkeypatch.setattr(Asking, "options", _in_process)
    lines = [f"{row['label']},{row['detector']}" for row in rows()]
    with DecisionLog(tmp_path / "log") as log:
        log.write([Entry(Decision("1", "pass", 0.1, 0.2, 0.9, "low"), "sha256:...")])
    pq.write_table(pa.Table.from_pylist(rows(60, prefix="Stored ")), tmp_path / "answers.parquet")
    (tmp_path / "metric_scores.csv").write_text(summaries())
    (tmp_path / "claims.csv").write_text(claims())
    (tmp_path / "new.csv").write_text("id,factcg_base\nnew,0.03\n")
    for name, system in zip(("new", "old"), answers(1200, (0.1, 0.2), 150, words="!"), strict=True):
        write(tmp_path / f"{name}.jsonl", system)
    (tmp_path / "judged.csv").write_text(beside_people())
    edited = [row | {"label": 1 - int(row["label"])} for row in rows()]
    write(tmp_path / "summedits.jsonl", edited)
    votes = {0: ["Benign", "Questionable"], 1: ["Benign", "Unwanted"]}
    write(tmp_path / "annotated.jsonl", [row | {"label": votes[row["label"]]} for row in rows()])
    sentences = [
        {"passage": f"p{i}", "response": f"Part {i}, {j}.", "label": int(i % 2 and j == 1)}
        for i in range(40)
        for j in range(2)
    ]
    with (tmp_path / "sentences.csv").open("w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, sentences[0])
        table.writeheader()
        table.writerows(sentences)
    (tmp_path / "langfuse.json").write_text(json.dumps([_traced(row) for row in rows()]))
    (tmp_path / "scores.csv").write_text("\n".join(["label,my_detector", *lines]))
    return tmp_path


def _traced(row: dict[str, Any]) -> dict[str, Any]:
    """An answer as a trace of Langfuse, with a retriever's observation and a person's verdict."""
    trace = langfuse_trace(str(row["id"]), row["response"], ["faithful", "wrong"][row["label"]])
    trace["input"] = row["question"]
    trace["observations"][1]["output"] = row["contexts"]
    return trace | {"sessionId": row.get("group")}


def _logs_some(guardrail: Guardrail) -> None:
    """Log what a guardrail says of a few answers, as its service does."""
    answers = list(read("example:facts", labelled=False))[:40]
    decided = zip(answers, guardrail.decide(answers), strict=True)
    with DecisionLog("log", texts=True) as log:
        log.write([Entry.of(guardrail, *pair) for pair in decided])


def _in_process(asking: Asking) -> dict[str, Any]:
    """What a client is made with, so that the guardrail of the folder answers in the process."""

    def answers(request: httpx2.Request) -> httpx2.Response:
        guardrail, asked = Guardrail.load("guardrail.json"), json.loads(request.content)
        if "items" not in asked:
            return httpx2.Response(200, text=guardrail.check(**asked).line())
        lines = [guardrail.check(**item).line() for item in asked["items"]]
        return httpx2.Response(200, text=f'{{"items": [{", ".join(lines)}]}}')

    return {"base_url": asking.url, "transport": httpx2.MockTransport(answers)}


def _starts_and_stops(files: Any, options: Any, **given: Any) -> bool:
    """Serve on a free port, and stop as soon as the address is known."""

    def stop(_: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    return serve(files, replace(options, port=0), **{**given, "tell": stop})


def summaries() -> str:
    """A stand-in for FRANK of the worked example: two sources, five summaries an article."""
    rng = np.random.default_rng(0)
    lines = ["id,group,dataset,label,bertscore_p_article"]
    for index in range(2250):
        article, label = index // 5, int(rng.random() < 0.64)
        source = "bbc" if article % 2 else "cnndm"
        score = 0.88 - 0.024 * label - 0.01 * (source == "bbc") + rng.normal(0.0, 0.012)
        lines.append(f"{index},{article},{source},{label},{score:.6f}")
    return "\n".join(lines) + "\n"


def claims() -> str:
    """A stand-in for Reveal of the worked example: blocks of claims."""
    rng = np.random.default_rng(1)
    lines = ["id,block,label,factcg_base"]
    for index in range(1200):
        label = int(rng.random() < 0.1)
        score = np.clip(rng.normal(0.8 - 0.5 * label, 0.2), 0.0, 1.0)
        lines.append(f"{index},{index // 6},{label},{score:.6f}")
    return "\n".join(lines) + "\n"


def beside_people() -> str:
    """A judge that is right about 92 of 100 answers, of which people labelled a tenth."""
    rng = np.random.default_rng(7)
    truth, labelled = rng.random(4000) < 0.25, rng.random(4000) < 0.1
    judge = np.where(truth, rng.random(4000) < 0.92, rng.random(4000) < 0.08)
    lines = ["id,judge,human,lang,response"]
    for i in range(4000):
        human = int(truth[i]) if labelled[i] else ""
        lines.append(f"a{i},{int(judge[i])},{human},{('de', 'en')[i % 2]},Answer {i}.")
    return "\n".join(lines) + "\n"


def run(command: str) -> None:
    code = app(shlex.split(command)[1:], standalone_mode=False)
    assert code in (None, 0, REJECTED, INCONCLUSIVE), command


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name
)
def test_what_a_page_shows_runs(
    page: Path, made: Path, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = blocks(page)
    needs = "\n".join(block for kind, block in found if kind != "output")
    if "guardrail.json" in needs and "calibrail export" not in needs.split("guardrail.json")[0]:
        shutil.copytree(made / "runs", "runs")
        shutil.copy(made / "guardrail.json", "guardrail.json")
        _logs_some(Guardrail.load("guardrail.json"))
    if "runs/first" in needs and "-o runs/first" not in needs:
        shutil.copytree(made / "runs" / "made", "runs/first")
    names: dict[str, object] = {"__name__": "page"}
    for kind, block in found:
        if kind == "command":
            capsys.readouterr()
            run(block)
        elif kind == "output":
            printed = " ".join(capsys.readouterr().out.split())
            for paragraph in re.split(r"\n\s*\n|^\.\.\.$", block, flags=re.MULTILINE):
                assert " ".join(paragraph.split()) in printed
        # tests/integrations/test_spark.py runs these, where Spark is.
        elif "from pyspark" not in block:
            exec(compile(block, str(page), "exec"), names)


def test_the_pages_show_commands() -> None:
    assert sum(kind == "command" for page in PAGES for kind, _ in blocks(page)) >= 12


def test_what_calibrating_takes_is_quoted_as_it_was_measured() -> None:
    """Memory, and microseconds a row beyond those of a small file: pages quote the result page."""
    page = (ROOT / "benchmarks" / "results" / "calibrate_memory.md").read_text(encoding="utf-8")
    kind = "Parquet, no ids | calibrate"
    rows = [line.split(" | ") for line in page.splitlines() if kind in line]
    (_, *small), *_, (n, *large) = rows
    count = int(n.removeprefix("| ").replace(",", ""))
    each = 1e6 * (float(large[-1].rstrip(" |")) - float(small[-1].rstrip(" |"))) / count
    said = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    taken = f"{int(large[2]):,} MiB; {each:.0f} µs a row"
    assert count == 10**7 and f"10^7 rows of Parquet | memory; processor | {taken}" in said


def test_how_many_groups_are_certified_is_what_comes_out() -> None:
    """Five alike groups of 200 answers a class: thresholds, alarms and Holm's steps, drawn anew."""
    page = (ROOT / "docs" / "groups-and-clusters.md").read_text(encoding="utf-8")
    (stated,) = re.findall(r"about (\d+)% of\s+five groups are certified from 200", page)
    rng, error, runs = np.random.default_rng(0), 0.05 / 2.0, 2000
    k = rank(200, 0.1, "pac", error / 5)
    missed = rng.beta(k, 201 - k, (runs, 5))
    alarms = rng.binomial(200, 1.0 - ndtr(math.sqrt(2.0) * ndtri(0.92) + ndtri(missed)))
    certified, left = np.zeros((runs, 5), bool), np.full(runs, 5)
    for _ in range(5):
        level = 1.0 - 2.0 * error / np.maximum(1, left)
        certified |= interval(alarms, 200, level[:, None])[1] <= 0.5
        left = 5 - certified.sum(axis=1)
    assert abs(100.0 * certified.mean() - float(stated)) < 3.0


def test_the_page_of_a_report_names_every_warning() -> None:
    texts = files("calibrail.report") / "catalogue" / "warning.toml"
    page = (ROOT / "docs" / "report.md").read_text(encoding="utf-8").split("## Warnings")[1]
    named = [code for row in page.splitlines() for code in re.findall(r"`(\w+)`", row[:80])]
    assert sorted(named) == sorted(tomllib.loads(texts.read_text(encoding="utf-8")))


def words(page: Path) -> int:
    """Return how many words a reader of the page reads: its tables count, its code blocks do not.

    What stands in a tab or in an item of a list counts, though it is indented as code is.
    """
    markdown = pytest.importorskip("markdown")
    pytest.importorskip("pymdownx")
    made = ["admonition", "attr_list", "tables", "pymdownx.superfences", "pymdownx.tabbed"]
    shown = markdown.markdown(page.read_text(encoding="utf-8"), extensions=made)
    text = re.sub(r"<pre.*?</pre>|<!--.*?-->|<[^>]*>", " ", shown, flags=re.DOTALL)
    return sum(re.search(r"\w", word) is not None for word in text.split())


def test_the_docs_keep_to_their_budget() -> None:
    """All pages together have at most 25,000 words of prose: a page that grows shortens another.

    Left out is what the code writes: pages of commands and metrics, which no file holds, and those
    under ``reference``, which docstrings fill.
    """
    docs = ROOT / "docs"
    pages = {page.relative_to(docs): words(page) for page in docs.rglob("*.md")}
    longest = sorted((n, str(page)) for page, n in pages.items() if page.parts[0] != "reference")
    assert sum(n for n, _ in longest) <= MOST_WORDS, longest[-10:]


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("# A head\n\nTwo words, `one` \u2013 [more](a-link.md).", 6),
        ("| a | b |\n| --- | --- |\n| c | d |", 4),
        ("Before\n\n```python\nx = 1\n```\n\n    in code\n\nafter <!-- a comment -->", 2),
        ('=== "Tab"\n\n    In the tab\n\n        in code', 4),
        ("- item\n\n    more of it\n\n    ```\n    in code\n    ```", 4),
    ],
)
def test_words_are_counted_as_they_are_read(text: str, n: int, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    assert words(tmp_path / "page.md") == n


def test_a_screen_reader_finds_its_way() -> None:
    """Headings skip no level, and every column of a table has a name."""
    for page in (ROOT / "docs").rglob("*.md"):
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        levels = [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)]
        assert all(b <= a + 1 for a, b in itertools.pairwise(levels)), page.name
        for head in re.findall(r"^(\|.*)\n\|[-| :]+\|?$", text, re.MULTILINE):
            assert all(cell.strip() for cell in head.strip().strip("|").split("|")), (page, head)


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
