"""Do the reproductions of the papers judge, print and skip as they say?"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def script(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(repository / "benchmarks" / "papers"))
    return importlib.import_module


@pytest.fixture
def cells(script: Any) -> ModuleType:
    return script("cells")


def measure(
    cells: ModuleType,
    text: str,
    *numbers: float,
    n: int = 100,
    m: int | None = None,
    stand_in: str = "",
) -> Any:
    figure = cells.Published("1", "row", "AUC", text, m)
    return cells.Cell(figure, cells.Measured(*numbers, n, stand_in))


class TestTheRule:
    def test_a_figure_is_read_as_printed(self, cells: ModuleType) -> None:
        figure = cells.Published("1", "row", "FPR", "95.80%")
        assert figure.value == pytest.approx(0.958)
        assert figure.rounding == pytest.approx(0.00005)
        assert figure.like(0.9) == "90.00%"
        assert cells.Published("1", "row", "d", "+1.28").like(1.0) == "+1.00"

    @pytest.mark.parametrize(
        ("text", "agrees"),
        # From 0.70 it is 0.10 down and 0.20 up to the ends, and half a hundredth for the rounding.
        [("0.60", True), ("0.595", False), ("0.90", True), ("0.91", False), ("0.90500", False)],
    )
    def test_without_the_papers_size_the_interval_decides(
        self, cells: ModuleType, text: str, agrees: bool
    ) -> None:
        assert measure(cells, text, 0.70, 0.60, 0.90).agrees is agrees

    def test_the_papers_own_sampling_error_widens_it(self, cells: ModuleType) -> None:
        # As many answers in the paper: the half width of 0.1 grows to 0.1414.
        assert measure(cells, "0.841", 0.70, 0.60, 0.80, m=100).verdict == "reproduced"
        assert measure(cells, "0.843", 0.70, 0.60, 0.80, m=100).verdict == "not reproduced"
        # A hundred times as many: hardly.
        assert measure(cells, "0.802", 0.70, 0.60, 0.80, m=10_000).verdict == "not reproduced"

    def test_a_limit_is_kept_below(self, cells: ModuleType) -> None:
        assert measure(cells, "<0.01", 0.009, 0.0, 0.5).verdict == "reproduced"
        assert measure(cells, "<0.01", 0.01, 0.0, 0.5).verdict == "not reproduced"

    @pytest.mark.parametrize("estimate", [0.70, 0.20])
    def test_a_stand_in_never_reproduces(self, cells: ModuleType, estimate: float) -> None:
        cell = measure(cells, "0.70", estimate, 0.1, 0.8, stand_in="other")
        assert cell.verdict == "not runnable here"
        assert "stand-in other" in cell.why

    def test_a_cell_has_a_measurement_or_a_reason(self, cells: ModuleType) -> None:
        figure = cells.Published("1", "row", "AUC", "0.70")
        with pytest.raises(ValueError, match="never both"):
            cells.Cell(figure)
        with pytest.raises(ValueError, match="does not hold"):
            cells.Measured(0.5, 0.6, 0.7, 10)


class TestRendering:
    @pytest.fixture
    def section(self, cells: ModuleType) -> Any:
        figure = cells.Published("1", "row", "FPR", "50.0%")
        found = [
            measure(cells, "0.70", 0.71, 0.60, 0.80),
            measure(cells, "0.70", 0.21, 0.10, 0.30),
            measure(cells, "0.70", 0.71, 0.60, 0.80, stand_in="other"),
            cells.Cell(figure, reason="no file.csv"),
        ]
        return cells.Section("A title", "A text.", found)

    def test_markdown_has_one_line_a_cell(self, cells: ModuleType, section: Any) -> None:
        lines = cells.markdown([section])
        rows = [line for line in lines if line.startswith("| 1 |")]
        assert len(rows) == 4
        assert rows[0] == "| 1 | row | AUC | 0.70 | 0.71 (0.60 to 0.80) | 100 | reproduced |  |"
        assert "not runnable here | no file.csv |" in rows[3]
        assert {line.count("|") for line in lines if line.startswith("|")} == {9}

    def test_the_terminal_counts(self, cells: ModuleType, section: Any) -> None:
        text = cells.terminal([section])
        assert "table 1: 1 cells not runnable here: no file.csv" in text
        assert text.splitlines()[-1] == (
            "4 cells: 1 reproduced, 1 not reproduced, 2 not runnable here (1 of these measured "
            "with a stand-in, 1 of which would agree)."
        )


class TestPublished:
    def test_every_figure_has_one_place(self, script: Any) -> None:
        published = script("published")
        for name, n in (
            ("SGI", 78 + 6),
            ("ILLUSION", 87),
            ("PROVENANCE", 30),
            ("DISPLACEMENT", 10),
        ):
            figures = getattr(published, name)
            assert len({(f.table, f.row, f.column) for f in figures}) == len(figures) == n, name
            assert all(np.isfinite(figure.value) for figure in figures)

    def test_sizes_by_row_and_column(self, script: Any) -> None:
        places = {(f.table, f.row, f.column): f.n for f in script("published").ILLUSION}
        assert places["1", "NQ", "coverage"] == 405
        assert places["1", "RAGTruth", "FPR"] == 65
        assert places["5", "GPT-4o-mini judge", "FPR"] == 100


class TestResampling:
    def test_the_interval_is_that_of_whole_groups(self, script: Any) -> None:
        # 25 groups of 4 equal values: as wide as for 25 values, not for 100.
        groups = [str(i // 4) for i in range(100)]
        values = np.repeat(np.arange(25.0), 4)
        resampling = script("resampling")
        (found,) = resampling.bootstrap(
            lambda rows: [values[rows].mean()], resampling.members(groups)
        )
        error = values.std() / 5
        assert found.estimate == 12.0
        # The half width is 1.96 standard errors, known from 500 resamples to some 10 %.
        assert (found.upper - found.lower) / 2 == pytest.approx(1.96 * error, rel=0.2)

    def test_no_group_is_on_both_sides(self, script: Any) -> None:
        resampling = script("resampling")
        owner = np.arange(60) // 2
        sizes = []

        def statistics(calibrating: Any, testing: Any) -> list[float]:
            assert not set(owner[calibrating]) & set(owner[testing])
            sizes.append(len(set(owner[calibrating])) / len(set(owner)))
            return [float(np.mean(testing))]

        groups = resampling.members([str(i) for i in owner])
        mean, lower, upper = resampling.splits(statistics, groups, share=0.4, replicates=20)
        assert lower[0] <= mean[0] <= upper[0]
        assert max(sizes) == 0.4

    def test_a_share_of_nothing_has_an_interval(self, script: Any) -> None:
        found = script("resampling").share(0.0, 0.0, 0.0, 100)
        assert found.lower == 0.0 and 0.03 < found.upper < 0.05


SCRIPTS = ("sgi", "semantic_illusion", "provenance", "displacement")


@pytest.mark.parametrize("name", SCRIPTS)
def test_without_data_nothing_is_runnable(
    name: str,
    script: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(script("page"), "FOLDER", tmp_path)
    script(name).main(["--data", str(tmp_path / "none")])
    page = (tmp_path / f"papers_{name}.md").read_text(encoding="utf-8")
    assert " 0 reproduced, 0 not reproduced" in page.splitlines()[6]
    assert "halueval/qa_data.json in the data folder; published at" in page
    assert "Written to" in capsys.readouterr().out


def test_tables_of_sentences_are_not_the_passages_of_wikibio(script: Any, tmp_path: Path) -> None:
    (tmp_path / "wikibio").mkdir()
    (tmp_path / "wikibio" / "sentences_119.csv").write_text("group,label\n1,1\n", encoding="utf-8")
    setup = script("sources").parse("semantic_illusion", "?", ["--data", str(tmp_path)])
    section = script("semantic_illusion").wikibio(setup)
    assert {cell.reason for cell in section.cells} == {
        "no passages in the data folder's wikibio; published at "
        "hub: potsawee/wiki_bio_gpt3_hallucination"
    }


def test_an_unknown_model_is_refused(script: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        script("sources").parse("sgi", "?", ["--model", f"nothing={tmp_path}"])


class TestRealData:
    def test_a_piece_of_the_sgi_table(self, script: Any, real_data: Path) -> None:
        sgi, sources = script("sgi"), script("sources")
        examples, _ = sgi.read_all(real_data / "halueval/qa_data.json", options={"min_chars": 20})
        few = sgi.sample(examples, 80)
        view = sgi.measure_angles(few, sources.Model(sources.MODELS["minilm"]))
        found = sgi.by_encoder(few, view, "minilm")
        assert found["1", "minilm", "d"].lower > 0.3
        assert found["1", "minilm", "SGI valid"].estimate > 1.0
        cell = sgi.cell(next(f for f in sgi.SGI if f.row == "minilm"), found, {})
        assert cell.verdict in ("reproduced", "not reproduced")

    def test_refusals_as_the_code_makes_them(self, script: Any, real_data: Path) -> None:
        illusion = script("semantic_illusion")
        path = real_data / "natural_questions" / "nq_open_gold.jsonl"
        made = illusion.refusals(illusion.swapped_answers(path)[:100])
        assert [example.label for example in made[:4]] == [0, 1, 0, 1]
        assert made[0].contexts == made[1].contexts
        assert made[0].response in made[0].contexts[0]
        assert {example.response for example in made[1::2]} == set(illusion.REFUSALS)
        assert len({example.id for example in made}) == len(made)


NQ = [
    ("who wrote it", ["Ada Lovelace", "Lovelace"], "It was written by Ada Lovelace."),
    ("who painted it", ["Claude Monet"], "Painted by Claude Monet, a friend of Ada Lovelace."),
    ("who sang it", ["Nina Simone"], "Nina Simone sang it."),
    ("who is she", ["lovelace"], "Lovelace of course."),
    ("when did it open", ["May 18, 2018"], "It opened on May 18, 2018."),
    ("when did it close", ["1999"], "It closed in 1999."),
    ("how many are there", ["14"], "There are 14."),
]


def _nq(folder: Path) -> Path:
    rows = [{"question": q, "answers": a, "passage": {"title": "T", "text": t}} for q, a, t in NQ]
    (folder / "nq.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder / "nq.jsonl"


def test_natural_questions_swaps_answers_of_the_same_kind(script: Any, tmp_path: Path) -> None:
    examples = script("natural_questions").swapped_answers(_nq(tmp_path))
    right = {e.question: e for e in examples if e.label == 0}
    swapped = {e.question: e for e in examples if e.label == 1}
    assert len(right) == 7
    assert right["who wrote it"].response == "Ada Lovelace"
    assert right["who wrote it"].contexts == ("It was written by Ada Lovelace.",)
    assert all(e.group == e.question for e in examples)
    # No question is given one of its answers, part of one, or a name from the passage.
    assert swapped["who wrote it"].response in ("Claude Monet", "Nina Simone")
    assert swapped["who painted it"].response == "Nina Simone"
    assert swapped["when did it open"].response == "1999"
    assert swapped["when did it close"].response == "May 18, 2018"
    assert "how many are there" not in swapped


def test_the_seed_of_the_swap_matters(script: Any, tmp_path: Path) -> None:
    swapped, path = script("natural_questions").swapped_answers, _nq(tmp_path)
    drawn = {
        next(e.response for e in swapped(path, s) if e.id == "nq-1-swapped") for s in range(12)
    }
    assert drawn == {"Claude Monet", "Nina Simone"}


@pytest.mark.parametrize(
    ("question", "answer", "kind"),
    [
        ("when is it", "2017", "date"),
        ("who won", "2017", "date"),
        ("how long is it", "April 4", "date"),
        ("how many episodes", "291 episodes", "number"),
        ("how many", "seven", "number"),
        ("where is it", "Oak Island", "place"),
        ("whose is it", "Cyrus", "person"),
        ("what is it", "a gas", "other"),
    ],
)
def test_kinds_of_answers(script: Any, question: str, answer: str, kind: str) -> None:
    assert script("natural_questions").answer_kind(question, answer) == kind


def test_a_swapped_answer_never_is_in_the_real_passage(script: Any, real_data: Path) -> None:
    path = real_data / "natural_questions" / "nq_open_gold.jsonl"
    made = script("natural_questions").swapped_answers(path)
    assert [sum(it.label == label for it in made) for label in (0, 1)] == [1500, 1500]
    for example in made:
        if example.label == 1:
            assert f" {example.response} " not in f" {example.contexts[0]} "
