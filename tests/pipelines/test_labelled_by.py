"""Are labels that a judge gave told from people's, from data to card, and never certified?"""

from __future__ import annotations

import csv
import json
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

import calibrail
from calibrail.data.aliases import Labellers, is_model
from calibrail.errors import InputError
from calibrail.guardrail import Guardrail
from calibrail.guardrail.file import FrozenConfig
from calibrail.labelling.exchange.transfer import export_answers, import_labels
from calibrail.options import ReadOptions
from calibrail.options.data import judge_of
from calibrail.pipelines.check import check_source
from calibrail.report.document import Document
from calibrail.report.documents import build_document
from calibrail.report.documents.compare import finding
from calibrail.report.documents.data import labellers_note
from tests.answers import rows, write
from tests.command_line import calibrail as command
from tests.labelling.rows import frozen, traces, truth
from tests.pipelines.test_recalibrate import Product, guardrail

__all__ = ["guardrail"]

JUDGE = "gpt-5, prompt 3"
LIMITS: dict[str, Any] = {"max_fpr": 0.5, "min_coverage": 0.5}


def headline(kind: str, content: Any, **details: Any) -> str:
    document = build_document(kind, content, **details)
    assert isinstance(document, Document)
    return document.headline


@pytest.fixture
def source(tmp_path: Path) -> Path:
    items = [{**item, "detector": 3 * item["label"] + item["detector"]} for item in rows(240)]
    return write(tmp_path / "answers.jsonl", items)


@pytest.fixture
def score() -> Any:
    return calibrail.scores.registry.build_column("detector", higher="hallucinated")


def test_what_agrees_with_a_judge_is_not_certified(source: Path, score: Any) -> None:
    for people, judged in (
        (calibrail.calibrate(source, score, **LIMITS, labelled_by=by) for by in (None, JUDGE)),
        (
            calibrail.test(
                source, score, threshold=3.0, min_caught=0.5, max_false_alarms=0.5, labelled_by=by
            )
            for by in ("people", JUDGE)
        ),
    ):
        assert (people.verdict, judged.verdict) == ("certified", "inconclusive")
        report = judged.report.to_dict()
        assert report["reason_code"] == "labels_of_judge"
        assert report["reason"].startswith(f"Agrees with {JUDGE}: ")
        assert headline("calibrate", report) == f"Inconclusive, on labels of {JUDGE}"
        assert headline("calibrate", people.report.to_dict()) == "Certified"
        assert judged.report.test.coverage == people.report.test.coverage


@pytest.mark.parametrize(
    ("renamed", "more", "whose"),
    [
        ("gpt_label", {}, "gpt_label"),
        ("label", {"labelled_by": "gpt-4o"}, "gpt-4o"),
        ("label", {"annotator": ["gpt-4o", "ada"]}, None),
        ("label", {"annotator": "ada"}, None),
        # Names of people, and what people say of a model's answer.
        ("label", {"annotator": "Claude Dupont <claude@mistral.ai>"}, None),
        ("llm_answer_label", {}, None),
    ],
)
def test_labels_that_name_a_program_are_its(
    tmp_path: Path, score: Any, renamed: str, more: dict[str, Any], whose: str | None
) -> None:
    """Nobody had said so: a column, or its neighbour, had."""
    items = [{**item, **more, "detector": 4 * item["label"]} for item in rows(60)]
    items = [{renamed if key == "label" else key: it for key, it in row.items()} for row in items]
    how: dict[str, Any] = {**LIMITS, "label_column": renamed, "baselines": False, "alpha": 0.3}
    path = write(tmp_path / "answers.jsonl", items)
    run = calibrail.calibrate(path, score, **how)
    assert judge_of(run.report.data["reading"]) == whose
    assert run.verdict == ("certified" if whose is None else "inconclusive")
    assert calibrail.calibrate(path, score, **how, labelled_by="people").verdict == "certified"


def test_a_threshold_from_labels_of_a_judge_is_told_where_people_test_it(
    source: Path, score: Any, tmp_path: Path
) -> None:
    made = {by: calibrail.calibrate(source, score, labelled_by=by).freeze() for by in (None, JUDGE)}
    items = [
        {**item, "detector": 3 * item["label"] + item["detector"]}
        for item in rows(240, seed=9, prefix="Upper ")
    ]
    later = write(tmp_path / "later.jsonl", items)
    for by, named in ((None, False), (JUDGE, True)):
        found = calibrail.certify(made[by], later, **LIMITS, labelled_by="people")
        assert any(JUDGE in text and "people's" in text for text in found.warnings) == named
    own = calibrail.certify(made[JUDGE], later, **LIMITS)
    assert own.verdict == "inconclusive" and not any("people's" in it for it in own.warnings)


def test_run_guardrail_and_card_keep_who_labelled(source: Path, score: Any, tmp_path: Path) -> None:
    run = calibrail.calibrate(source, score, labelled_by=JUDGE)
    assert run.report.data["reading"]["settings"]["labelled_by"] == JUDGE
    assert headline("calibrate", run.report.to_dict()) == f"Threshold found, on labels of {JUDGE}"
    file = tmp_path / "guardrail.json"
    run.freeze().save(file)
    card = calibrail.card(file).to_dict()
    assert card["guardrail"]["data"]["reading"]["settings"]["labelled_by"] == JUDGE
    assert headline("card", card) == f"Threshold found, on labels of {JUDGE}"
    asked = calibrail.calibrate(source, score, **LIMITS, labelled_by=JUDGE)
    asked.freeze().save(tmp_path / "asked.json")
    summary = build_document("card", calibrail.card(tmp_path / "asked.json").to_dict()).summary
    assert summary.startswith(f"Agrees with {JUDGE}: the bounds meet the requirement")
    fresh = [
        {**item, "detector": 3 * item["label"] + item["detector"]}
        for item in rows(240, seed=5, prefix="New ")
    ]
    heldout = write(tmp_path / "heldout.jsonl", fresh)
    again = calibrail.certify(file, heldout, **LIMITS, looks=False)
    assert again.verdict == "inconclusive"
    assert headline("certify", again.to_dict()) == f"Inconclusive, on labels of {JUDGE}"
    document = build_document("certify", again.to_dict())
    assert document.summary.startswith(f"Agrees with {JUDGE}: the bounds meet the requirement")
    assert document.next_step.startswith("Have people label answers")
    # People's labels may certify a threshold that a judge's set.
    by_people = calibrail.certify(file, heldout, **LIMITS, labelled_by="people", looks=False)
    assert by_people.verdict == "certified"
    assert headline("certify", by_people.to_dict()) == "Certified"


@pytest.mark.parametrize("by", [None, JUDGE])
def test_what_rests_on_labels_of_a_judge_says_so(
    source: Path, score: Any, tmp_path: Path, by: str | None
) -> None:
    """A selection bounds what the judge would call hallucinated; so does a watch by flags alone."""
    made = calibrail.calibrate(source, score, alpha=0.3, labelled_by=by).freeze()
    batch = write(tmp_path / "batch.jsonl", rows(100, seed=3, prefix="Batch "))
    made.save(tmp_path / "g.json")
    chosen = calibrail.select(tmp_path / "g.json", batch, fdr=0.3).to_dict()
    assert chosen["labelled_by"] == by
    document = build_document("select", chosen)
    assert isinstance(document, Document)
    assert document.headline.endswith(f", on labels of {JUDGE}") == (by is not None)
    notes = " ".join(str(note) for note in document.notes)
    assert (f"The labels behind the p-values came from {JUDGE}" in notes) == (by is not None)
    decisions = tmp_path / "decisions.jsonl"
    check_source(Guardrail.load(tmp_path / "g.json"), batch, decisions)
    watch = calibrail.monitor(tmp_path / "g.json", decisions, tmp_path / "watch")
    noted = watch.to_dict()["prevalence"]["flags"]["notes"]
    assert ("labels_of_judge" in noted) == (by is not None)
    page = (tmp_path / "watch" / "watch.html").read_text(encoding="utf-8")
    assert ("how many that judge would call hallucinated" in page) == (by is not None)


def test_a_comparison_certifies_nothing_by_labels_of_a_judge(source: Path, score: Any) -> None:
    verdicts = [
        {
            report.verdict
            for _, report in calibrail.compare(
                source, [score, "novelty"], **LIMITS, labelled_by=by
            ).comparison.detectors
        }
        for by in (None, JUDGE)
    ]
    assert "certified" in verdicts[0] and "certified" not in verdicts[1]
    told = [
        calibrail.compare(source, [score, "novelty"], labelled_by=by).comparison.to_dict()
        for by in (None, JUDGE)
    ]
    leads = [headline("compare", content) for content in told]
    assert leads[1] == f"{leads[0]}, on labels of {JUDGE}"
    sentences = [finding(content) for content in told]
    assert sentences[1] == sentences[0].replace(leads[0], leads[1], 1)


def test_a_threshold_from_labels_of_people_is_not_told_as_a_judges(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    reading = {"columns": {"label": "label"}, "settings": {"labelled_by": JUDGE}}
    data = guardrail.config.data.model_copy(update={"reading": reading})
    judged = guardrail.config.model_copy(update={"data": data, "digest": ""})
    old = Guardrail(FrozenConfig.from_bytes(judged.to_bytes()))
    audited = Product(tmp_path, old, 0, per_day=60)
    audited.week(600)
    audited.label()
    new = audited.recalibrate().config.data.reading
    assert judge_of(old.config.data.reading) == JUDGE and judge_of(new) is None
    assert new["columns"] == reading["columns"]


def test_imported_labels_of_a_judge_only_agree_with_it(tmp_path: Path) -> None:
    """What labels of people would certify agrees with the judge, and a threshold says so, too."""
    verdicts = {}
    for labelled_by in ("people", JUDGE):
        folder, file = tmp_path / labelled_by, tmp_path / f"{labelled_by}.csv"
        with calibrail.label(
            traces(400), folder, guardrail=frozen(), max_fpr=0.6, min_coverage=0.6, looks=False
        ) as session:
            export_answers(session, file, "ada", 300)
            ids = {task.alias: task.id for task in session.hand_out("ada", 300)}
            with file.open(encoding="utf-8-sig", newline="") as stream:
                answers = list(csv.DictReader(stream))
            for row in answers:
                row["label"] = str(truth(ids[row["id"]]))
            with file.open("w", encoding="utf-8", newline="") as stream:
                written = csv.DictWriter(stream, [*answers[0]])
                written.writeheader()
                written.writerows(answers)
            reading = ReadOptions(labelled_by=labelled_by)
            assert import_labels(session, file, "ada", reading=reading).labelled == 300
        verdicts[labelled_by] = calibrail.certify(None, labels=folder, looks=False)
    assert verdicts["people"].verdict == "certified"
    judged = verdicts[JUDGE]
    assert judged.verdict == "inconclusive" and f"Agrees with {JUDGE}" in judged.certificate.reason
    assert judged.sequential is not None and judged.sequential["verdict"] == "certified"
    document = build_document("certify", judged.to_dict())
    assert document.headline == f"Inconclusive, on labels of {JUDGE}"
    assert document.next_step.startswith("Have people label answers")
    lines_of = (tmp_path / JUDGE / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["judge"] for line in lines_of} == {JUDGE}
    assert {json.loads(line)["annotator"] for line in lines_of} == {JUDGE}
    for labelled_by, whose in (("people", None), (JUDGE, JUDGE)):
        run = calibrail.calibrate(tmp_path / labelled_by, "length", alpha=0.3)
        assert judge_of(run.report.data["reading"]) == whose


def test_labels_of_a_log_are_for_people(tmp_path: Path, guardrail: Guardrail) -> None:
    audited = Product(tmp_path, guardrail, 0, per_day=60)
    audited.week(100)
    with (
        calibrail.label(None, audited.folder) as session,
        pytest.raises(InputError, match=f"labels of {JUDGE} are no labels of people"),
    ):
        import_labels(session, "judged.csv", "ada", reading=ReadOptions(labelled_by=JUDGE))
    with calibrail.label(None, audited.folder) as session:
        task = session.next("ada")
        assert task is not None
        with pytest.raises(InputError, match=f"labels of {JUDGE} are no labels of people"):
            session.put("ada", task.order, 1, judge=JUDGE)
    assert not (audited.folder / "labels.jsonl").exists() or JUDGE not in (
        audited.folder / "labels.jsonl"
    ).read_text(encoding="utf-8")


def test_labels_of_a_judge_that_were_made_elsewhere_only_agree_with_it(tmp_path: Path) -> None:
    """Who labelled is agreed on with the first label: it cannot be said, or unsaid, later."""
    write(tmp_path / "traces.jsonl", traces(300))
    known = [
        {"id": row["id"], "label": ("fine", "bad")[truth(row["id"])], "probability": 0.5}
        for row in traces(300)[::2]
    ]
    write(tmp_path / "known.jsonl", known)
    frozen().save(tmp_path / "g.json")

    def label(folder: str, *more: str) -> Any:
        words = ("--max-false-alarms", 0.9, "--min-caught", 0.4, "--elsewhere", "known.jsonl")
        words += ("--label-map", "fine=0", "--label-map", "bad=1", *more)
        return command("label", "traces.jsonl", "-o", folder, "--guardrail", "g.json", *words)

    with chdir(tmp_path):
        assert label("people").returncode == 0
        judged = label("judged", "--labelled-by", JUDGE)
        assert judged.returncode == 4 and f"Agrees with {JUDGE}" in " ".join(judged.stdout.split())
        (again,) = {label("judged", "--labelled-by", JUDGE).returncode, label("judged").returncode}
        assert again == 4
        for folder, whose in (("judged", "people"), ("people", JUDGE)):
            other = label(folder, "--labelled-by", whose)
            assert other.returncode == 2 and "--labelled-by was" in other.stderr
        assert command("certify", "g.json", "--labels", "judged").returncode == 4
        alone = label("third", "--label-column", "label")
        assert alone.returncode == 2 and "all but --label-column" in " ".join(alone.stderr.split())
        # Nor do they lose it on their way from one folder to another.
        (tmp_path / "known.jsonl").write_bytes((tmp_path / "judged" / "labels.jsonl").read_bytes())
        command(
            "label",
            "traces.jsonl",
            "-o",
            "fifth",
            "--guardrail",
            "g.json",
            "--max-false-alarms",
            0.9,
            "--min-caught",
            0.4,
            "--export",
            "e.jsonl",
            "--export-n",
            300,
        )
        command("label", "-o", "fifth", "--import", "known.jsonl")
        assert command("certify", "g.json", "--labels", "fifth").returncode == 4
    for folder in ("judged", "fifth"):
        text = (tmp_path / folder / "labels.jsonl").read_text(encoding="utf-8")
        assert {json.loads(line)["judge"] for line in text.splitlines()} == {JUDGE}


def test_a_judge_is_no_gate_for_a_judge(tmp_path: Path) -> None:
    from tests.pipelines.test_agree import COLUMNS, LIMITS, standing_in

    path, _ = standing_in(tmp_path, {"judge": (0.02, 0.02)})
    assert calibrail.agree(path, **COLUMNS, **LIMITS).verdict == "certified"
    judged = calibrail.agree(path, **COLUMNS, **LIMITS, labelled_by=JUDGE)
    assert judged.verdict == "inconclusive" and JUDGE in judged.judges[0]["reason"]
    assert headline("agree", judged.to_dict()) == f"Inconclusive, on labels of {JUDGE}"
    document = build_document("agree", judged.to_dict())
    text = f"{document.summary} {[*document.blocks]} {document.subject} {judged.warnings}"
    assert f"of what {JUDGE} calls hallucinated" in text
    assert f"{JUDGE} alone" in text and f"labels of {JUDGE}" in text
    for word in ("human label", "people call", "by people", "By people", "people alone"):
        assert word not in text
    assert document.next_step.startswith("Have people label answers")
    by_people = calibrail.agree(path, **COLUMNS, **LIMITS, labelled_by="people")
    assert by_people.verdict == "certified" and by_people.data["labelled_by"] is None


def test_people_whose_column_is_called_as_a_program_is_are_no_people(tmp_path: Path) -> None:
    from tests.pipelines.test_agree import LIMITS, standing_in

    path, _ = standing_in(tmp_path, {"judge": (0.02, 0.02)})
    lines = path.read_text(encoding="utf-8").replace("human", "gpt_label")
    path.write_text(lines, encoding="utf-8")
    how: dict[str, Any] = {"label_column": "gpt_label", "judge_column": "judge", **LIMITS}
    named, by_people = (calibrail.agree(path, **how, labelled_by=by) for by in (None, "people"))
    assert (named.verdict, named.data["labelled_by"]) == ("inconclusive", "gpt_label")
    assert (by_people.verdict, by_people.data["labelled_by"]) == ("certified", None)
    # A column beside them says so as well.
    told = [{**json.loads(line), "annotator": "gpt-4o"} for line in lines.splitlines()]
    told = [
        {("hallucinated" if key == "gpt_label" else key): it for key, it in row.items()}
        for row in told
    ]
    beside = calibrail.agree(
        write(tmp_path / "t.jsonl", told), **{**how, "label_column": "hallucinated"}
    )
    assert (beside.verdict, beside.data["labelled_by"]) == ("inconclusive", "gpt-4o")


def test_an_imported_label_is_its_annotators_also_where_that_is_a_model(tmp_path: Path) -> None:
    with calibrail.label(traces(20), tmp_path / "labels", looks=False) as session:
        export_answers(session, tmp_path / "a.csv", "gpt-4o", 5)
        lines = (tmp_path / "a.csv").read_text("utf-8-sig").splitlines()
        ids = [task.alias for task in session.hand_out("gpt-4o", 5)]
        rows_of = [f"{name},1,{by}" for name, by in zip(ids, ("gpt-4o", "ada"), strict=False)]
        assert len(lines) > 5
        (tmp_path / "b.csv").write_text("\n".join(["id,label,annotator", *rows_of]), "utf-8")
        assert import_labels(session, tmp_path / "b.csv", "ada").labelled == 2
    text = (tmp_path / "labels" / "labels.jsonl").read_text("utf-8")
    said = {row["annotator"]: row.get("judge") for row in map(json.loads, text.splitlines())}
    assert said == {"gpt-4o": "gpt-4o", "ada": None}


def held(kind: str, items: list[dict[str, Any]], folder: Path) -> Any:
    """Return rows as one of the sources that are read, by columns or row by row."""
    import pandas as pd

    frame = pd.DataFrame(items)
    if kind == "csv":
        frame.to_csv(folder / "a.csv", index=False)
    elif kind == "parquet":
        frame.to_parquet(folder / "a.parquet")
    elif kind == "jsonl":
        write(folder / "a.jsonl", items)
    return {"frame": frame, "rows": items}.get(kind, folder / f"a.{kind}")


@pytest.mark.parametrize(
    ("kind", "texts", "where"),
    [
        *((kind, False, "annotator") for kind in ("csv", "jsonl", "parquet", "frame", "rows")),
        *((kind, True, "annotator") for kind in ("csv", "jsonl", "parquet")),
        *(("csv", False, "Labelled By"), ("jsonl", True, "meta"), ("parquet", False, "meta")),
    ],
)
def test_a_model_that_labelled_the_last_rows_alone_is_seen(
    tmp_path: Path, score: Any, kind: str, texts: bool, where: str
) -> None:
    """Far behind the rows by which columns are told, whatever the file, with texts or without."""
    items = [{**item, "detector": 4 * item["label"]} for item in rows(150)]
    for place, item in enumerate(items):
        whose = "gpt-4o" if place >= len(items) - 5 else "ada"
        item |= {where: {"annotator": whose} if where == "meta" else whose}
        if not texts:
            item |= {"id": f"n{place}"}
            for name in ("question", "contexts", "response"):
                item.pop(name)
    how: dict[str, Any] = {**LIMITS, "baselines": False, "alpha": 0.3}
    source = held(kind, items, tmp_path)
    run = calibrail.calibrate(source, score, **how)
    reading = run.report.data["reading"]
    n = f"{len(items):,}"
    assert run.verdict == "inconclusive"
    assert judge_of(reading) == f"gpt-4o (5 of {n} labels)"
    assert run.report.to_dict()["reason"].startswith(f"Agrees with gpt-4o (5 of {n} labels): ")
    assert reading["labellers"] == {
        "column": "meta.annotator" if where == "meta" else where,
        "n": len(items),
        "models": {"gpt-4o": 5},
        "n_people": len(items) - 5,
        "first_names": [],
    }
    (note,) = (text for text in run.report.to_dict()["notes"] if "gpt-4o" in text)
    assert "gpt-4o (5), taken as a model, and people" in note
    again = calibrail.calibrate(held(kind, items, tmp_path), score, **how, labelled_by="people")
    assert again.verdict == "certified" and again.report.data["reading"]["labellers"] is None


@pytest.mark.parametrize(
    ("names", "judge", "note"),
    [
        (["Claude"], "Claude", "Where all are people's labels"),
        (
            ["ada", "claude"],
            "claude (1 of 2 labels)",
            "(1), taken as a model, and people (1)",
        ),
        (["Ada Lee", "Bo Su", "Claude"], "Claude (1 of 3 labels)", "taken as a model, and people"),
        (["ada@x.org", "bo@x.org", "claude@x.org"], None, None),
        (["ada", "bo", "Claude Dupont"], None, None),
        # Among first names it may be one: said all the same.
        (["ada", "bo", "claude"], None, "among them claude. Where that is a model"),
        (["ada", "bo", "claude", "o3"], "claude and o3 (2 of 4 labels)", "taken as models"),
        (["annotator_3", "human", "Max"], None, None),
    ],
)
def test_a_name_that_people_and_models_bear_is_told_by_the_others(
    names: list[str], judge: str | None, note: str | None
) -> None:
    labellers = Labellers([{"annotator": names[0]}])
    for name in names:
        labellers.add({"annotator": name})
    assert labellers.judge == judge
    said = labellers_note(labellers.found())
    assert (said == ()) if note is None else (note in " ".join(said))


def test_models_are_told_from_people_by_their_names() -> None:
    models = ["gpt-4o", "GPT4", "GPT", "claude-3-5-sonnet", "claude-3-5-sonnet@20240620", "Gemini"]
    models += [
        "Llama",
        "Mistral",
        "Qwen",
        "Grok",
        "DeepSeek",
        "llm-judge",
        "LLMJudge",
        "AI",
        "model",
    ]
    models += ["anthropic/claude-opus-4", "meta-llama/Llama-3.1-8B", "Command R", "Mistral Large"]
    models += ["LLM judge", "Claude Sonnet", "our AI assistant", "o3-mini", "HHEM"]
    people = ["alice", "annotator_3", "human", "Max", "Hellman", "A3KQ8", "17", "crowd", "O2", ""]
    people += ["Claude Dupont", "Ai Tanaka", "Nova Smith", "human judge", "claude@firm.com"]
    assert {name for name in models if not is_model(name)} == set()
    assert {name for name in people if is_model(name) is not False} == set()


def test_only_who_gave_a_human_label_counts_where_a_judge_labelled_all(tmp_path: Path) -> None:
    from tests.pipelines.test_agree import COLUMNS, LIMITS, standing_in

    path, _ = standing_in(tmp_path, {"judge": (0.02, 0.02)})
    items = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    labelled = [item for item in items if item["human"] not in (None, "")]
    for item in items:
        item["annotator"] = "gpt-4o"
    for item in labelled:
        item["annotator"] = "ada"
    result = calibrail.agree(write(tmp_path / "b.jsonl", items), **COLUMNS, **LIMITS)
    assert (result.verdict, result.data["labelled_by"]) == ("certified", None)
    labelled[-1]["annotator"] = "gpt-4o"
    result = calibrail.agree(write(tmp_path / "c.jsonl", items), **COLUMNS, **LIMITS)
    told = f"gpt-4o (1 of {len(labelled)} labels)"
    assert (result.verdict, result.data["labelled_by"]) == ("inconclusive", told)
    assert any("annotator says who gave" in text for text in result.warnings)


def test_a_name_that_may_be_a_persons_or_a_models_is_asked_for_before_labels_are_taken(
    tmp_path: Path,
) -> None:
    """Whose a label of a folder is cannot be unsaid."""
    with calibrail.label(traces(20), tmp_path / "labels", looks=False) as session:
        ids = [task.alias for task in session.hand_out("ada", 3)]
        lines = [f"{name},1,{by}" for name, by in zip(ids, ("ada", "bo", "Claude"), strict=True)]
        file = tmp_path / "b.csv"
        file.write_text("\n".join(["id,label,annotator", *lines]), "utf-8")
        taken = import_labels(session, file, "ada")
        assert taken.labelled == 2 and "'Claude' may be a person or a model" in taken.problems[0]
        people = ReadOptions(labelled_by="people")
        assert import_labels(session, file, "ada", reading=people).labelled == 1
        for name, judge in (("gpt-4o", None), ("gpt", "people")):
            (task,) = session.hand_out(name, 1)
            session.put(name, task.order, 1, judge=judge)
    text = (tmp_path / "labels" / "labels.jsonl").read_text("utf-8")
    said = {row["annotator"]: row.get("judge") for row in map(json.loads, text.splitlines())}
    assert said == {"ada": None, "bo": None, "Claude": None, "gpt-4o": "gpt-4o", "gpt": None}


def test_a_judge_that_a_folder_does_not_hold_is_looked_for_in_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "labels"
    with calibrail.label(traces(20), folder, looks=False) as session:
        task = session.next("ada")
        assert task is not None
        session.put("ada", task.order, 1)
    told = r"nope is no column of the answers in .*labels;.*calibrail agree FILE --labels .*labels"
    with pytest.raises(InputError, match=told):
        calibrail.agree(folder, judge_column="nope")


def test_fresh_data_says_itself_who_labelled_it(tmp_path: Path, score: Any) -> None:
    """Who gave the labels of the answers that set a threshold did not give those that test it."""
    items = [{**item, "detector": 4 * item["label"], "annotator": "ada"} for item in rows(150)]
    items[-1]["annotator"] = "gpt-4o"
    how: dict[str, Any] = {"baselines": False, "alpha": 0.3}
    run = calibrail.calibrate(write(tmp_path / "a.jsonl", items), score, **how)
    file = tmp_path / "g.json"
    run.freeze().save(file)
    kept = calibrail.card(file).to_dict()["guardrail"]["data"]["reading"]
    assert judge_of(kept) == f"gpt-4o (1 of {len(items)} labels)"
    assert kept["labellers"]["models"] == {"gpt-4o": 1}
    fresh = [
        {**item, "detector": 4 * item["label"], "annotator": "bo"}
        for item in rows(150, seed=5, prefix="New ")
    ]
    told = calibrail.certify(file, write(tmp_path / "b.jsonl", fresh), **LIMITS, looks=False)
    assert (told.verdict, judge_of(told.reading)) == ("certified", None)
    for item in fresh:
        item.pop("annotator")
    untold = calibrail.certify(file, write(tmp_path / "c.jsonl", fresh), **LIMITS, looks=False)
    assert (untold.verdict, judge_of(untold.reading)) == ("inconclusive", judge_of(kept))
