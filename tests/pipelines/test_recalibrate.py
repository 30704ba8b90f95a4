"""Does a new threshold from audited answers keep its promise, and is its file a guardrail?"""

from __future__ import annotations

import dataclasses
import errno
import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

import calibrail
from calibrail import Example, Guardrail, Requirement
from calibrail.conformal import calibrate_threshold
from calibrail.conformal.sequential.audited_calibration import AuditedCalibration
from calibrail.errors import DataError, InputError, TooFewExamplesError
from calibrail.guardrail.signing import make_keys
from calibrail.labelling.log_sampling import read_sample
from calibrail.monitoring.promise import is_first_asked
from calibrail.options import Drawing, Promise, RecalibrateOptions
from calibrail.pipelines.recalibrate import Recalibration
from calibrail.working_folder import is_own_file
from tests.command_line import calibrail as command
from tests.labelling.logs import BEGIN, logged
from tests.labelling.rows import lines, write

ALPHA, DELTA, SHIFTED = 0.2, 0.2, 1.2
SCORE = "column:column=suspicion,higher=hallucinated"
OPTIONS = RecalibrateOptions(delta=DELTA)


@pytest.fixture(scope="module")
def guardrail() -> Guardrail:
    """A guardrail of spring, when hallucinations scored 2 on average and faithful answers 0."""
    rng = np.random.default_rng(1)
    rows = [
        {"id": f"c{i}", "response": f"Calibration answer {i}.", "suspicion": s, "label": i % 2}
        for i, s in enumerate(rng.normal(2.0 * (np.arange(400) % 2), 1.0).tolist())
    ]
    promise, required = Promise(ALPHA, "marginal"), Requirement(max_fpr=0.6, confidence=0.7)
    return calibrail.calibrate(rows, SCORE, promise, required).freeze()


class Product:
    """Answers of a product whose hallucinations score lower than in spring, logged and audited."""

    def __init__(self, place: Path, guardrail: Guardrail, seed: int, **audit: Any) -> None:
        self.place, self.guardrail, self.audit = place, guardrail, audit
        self.log, self.folder = place / "log", place / "audit"
        self.truth: dict[str, int] = {}
        self.days, self._rng = 0, np.random.default_rng([seed, 3])

    def week(self, n: int, days: int = 7, texts: bool = True, questions: int = 0) -> None:
        """Log and draw the answers of a week, to so many questions (0: each to its own)."""
        labels = (self._rng.random(n) < 0.4).astype(int)
        scores = self._rng.normal(SHIFTED * labels, 1.0)
        answers = []
        for label, score in zip(labels.tolist(), scores.tolist(), strict=True):
            id = f"a{len(self.truth)}"
            self.truth[id] = label
            text = f"Answer {id} of the product." if texts else ""
            question = f"Question {len(self.truth) % questions}?" if questions else ""
            answers.append(Example(question, (), text, id=id, columns={"suspicion": score}))
        begin = BEGIN + timedelta(days=self.days)
        logged(self.log, self.guardrail, answers, begin=begin, hours=24 * days - 1, texts=texts)
        self.days += days
        calibrail.audit_sample(self.guardrail, self.log, self.folder, **self.audit)

    def label(self, left_out: Callable[[Mapping[str, Any]], bool] = lambda draw: False) -> None:
        """Label everything that is handed out, as a person would; some later, or never."""
        path = self.folder / "labels.jsonl"
        done = {line["order"] for line in lines(path)} if path.exists() else set()
        with path.open("a", encoding="utf-8") as stream:
            for draw in lines(self.folder / "draws.jsonl"):
                if draw["handed_out"] and draw["order"] not in done and not left_out(draw):
                    line = {name: draw[name] for name in ("id", "order", "probability")}
                    line |= {"label": self.truth[draw["id"]], "annotator": "ann"}
                    stream.write(json.dumps(line | {"time": "2026-04-01T00:00:00Z"}) + "\n")

    def recalibrate(self, **more: Any) -> Recalibration:
        return calibrail.recalibrate(self.guardrail, self.folder, options=OPTIONS, **more)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory, guardrail: Guardrail) -> Product:
    made = Product(tmp_path_factory.mktemp("product"), guardrail, 0, per_day=60)
    made.week(600)
    made.label()
    return made


def test_repeated_questions_count_all_and_once_each(tmp_path: Path, guardrail: Guardrail) -> None:
    """Ten answers each that are right or wrong together broke the promise in 72 % of runs."""
    made = Product(tmp_path, guardrail, 5, per_day=60)
    made.week(600, questions=60)
    made.label()
    content = made.recalibrate(max_false_alarms=0.99, confidence=0.7).to_dict()
    sample = read_sample(made.folder)
    first = is_first_asked(sample)
    assert content["labels"]["n_repeated"] == np.sum(~first) > 300
    bad = sample.label == 1.0
    promise = Promise(ALPHA, "anytime", DELTA)
    every, once = (calibrate_threshold(sample.score[r], promise) for r in (bad, bad & first))
    assert once.threshold < every.threshold
    assert content["threshold"]["new"] == pytest.approx(once.threshold, abs=1e-4)
    # The bounds reach as far as those of the first of each question, of which there are few.
    n_once = int(np.sum(first & (sample.label == 0.0)))
    assert content["fpr"]["upper"] - content["fpr"]["lower"] > 1.0 / n_once**0.5
    assert "from the first of each question" in str(
        made.recalibrate().save(tmp_path / "n.json").read_text()
    )


def test_a_week_of_labels_makes_a_guardrail_that_decides_and_is_saved(
    product: Product, tmp_path: Path
) -> None:
    made = product.recalibrate(logs=product.log)
    old, new = product.guardrail.config, made.config
    assert new.score == old.score and new.probes == old.probes and new.versions == old.versions
    assert old.traffic is not None and new.traffic is None
    assert new.policy == old.policy and new.digest != old.digest
    assert new.promise == Promise(ALPHA, "anytime", DELTA)
    page = made.save(tmp_path / "new.json")
    assert page == tmp_path / "new.html" and "anytime" in page.read_text(encoding="utf-8")
    beside = json.loads((tmp_path / "new.recalibration.json").read_text(encoding="utf-8"))
    assert beside == made.to_dict() and beside["new"] == new.digest
    loaded = Guardrail.load(tmp_path / "new.json")
    assert loaded.config == new
    threshold = beside["threshold"]["new"]
    assert threshold < beside["threshold"]["old"]
    # Better than the old one on truth, which the test knows; the promise is kept here.
    assert norm.cdf(threshold, SHIFTED) <= ALPHA < norm.cdf(beside["threshold"]["old"], SHIFTED)
    for shift, outcome in ((-0.01, "pass"), (0.0, "flag")):
        answer = {"suspicion": threshold + shift}
        assert loaded.check(response="x", columns=answer).outcome == outcome
    log, sides = beside["log"], beside["comparison"]
    scores = [line["score"] for line in _decisions(product.log)]
    assert log["n"] == 600 == len(scores)
    assert log["new"] == sum(score >= threshold for score in scores)
    assert sides["new_flags"] == "more"
    for rate in ("coverage", "fpr"):
        counts = [sides[name][rate]["count"] for name in ("old", "new", "changed")]
        assert counts[1] - counts[0] == counts[2] > 0
    assert {item["flagged"] for part in sides["answers"].values() for item in part} == {True}
    assert calibrail.card(loaded).markdown().count("anytime") >= 1


def _decisions(log: Path) -> list[dict[str, Any]]:
    found = [line for file in sorted(log.iterdir()) for line in lines(file)]
    return [line for line in found if "score" in line]


def test_it_is_recalibrated_from_the_command_line_and_signed(
    product: Product, tmp_path: Path
) -> None:
    product.guardrail.save(tmp_path / "g.json")
    make_keys(tmp_path / "key.pem")
    begin = ("recalibrate", tmp_path / "g.json", product.log, "--labels", product.folder)
    begin += ("--delta", DELTA, "-o", tmp_path / "new.json", "--force")
    said = command(*begin, "--max-fpr", 0.95, "--sign", tmp_path / "key.pem")
    assert said.returncode == 0, said.stderr
    for text in ("CERTIFIED", "On the same audited answers", "Nothing was replaced", "anytime"):
        assert text in " ".join(said.stdout.split())
    same = product.recalibrate(logs=product.log, max_fpr=0.95)
    assert (tmp_path / "new.json").read_bytes() == same.config.to_bytes()
    (public,) = tmp_path.glob("*.pub*")
    trusted = Guardrail.load(tmp_path / "new.json", trusted=[public])
    assert trusted.config.headline.verdict == "certified"
    assert command("guardrail", "verify", tmp_path / "new.json", "--key", public).returncode == 0
    refused = command(*begin, "--max-fpr", 0.05, "--json")
    assert refused.returncode == 3 and json.loads(refused.stdout)["reason"] == "fpr_refuted"
    assert "signature of an earlier file" in refused.stderr
    least = float(json.loads(refused.stdout)["fpr"]["estimate"]) + 0.02
    assert command(*begin, "--max-fpr", least).returncode == 4


def test_where_the_guardrail_cannot_stand_its_pages_do_not(
    product: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*about: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    made = product.recalibrate()
    monkeypatch.setattr("calibrail.pipelines.recalibrate.write_file", full)
    with pytest.raises(DataError, match="No space left"):
        made.save(tmp_path / "new" / "g.json")
    assert not (tmp_path / "new").exists()


def test_what_is_made_of_a_strangers_guardrail_is_not_ones_own(
    product: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its code would run unasked, with another threshold."""
    monkeypatch.setattr("calibrail.guardrail.file.runs_code", lambda spec: True)
    path, new = tmp_path / "g.json", tmp_path / "new.json"
    line = ("recalibrate", path, "--labels", product.folder, "--delta", DELTA, "-o", new, "--force")
    product.guardrail.save(path)
    for state, options, own in ((0, (), False), (1, ("--own-code",), True)):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / f"{state}"))
        said = command(*line, *options)
        assert said.returncode == 0, said.stderr
        assert is_own_file(sha256(new.read_bytes()).hexdigest()) is own


@pytest.mark.parametrize(
    ("held", "confidence", "delta"),
    [
        (Promise(ALPHA, "marginal", 0.1), 0.7, 0.15),
        (Promise(ALPHA, "pac", 0.1), 0.7, 0.1),
        # A file of before 1 - confidence held for the threshold and the verdict together.
        (Promise(ALPHA, "pac", 0.1), 0.9, 0.05),
    ],
)
def test_one_confidence_holds_for_the_threshold_and_its_verdict(
    product: Product, tmp_path: Path, held: Promise, confidence: float, delta: float
) -> None:
    limits = Requirement(max_fpr=0.95, confidence=confidence)
    frozen = {"promise": held, "requirement": limits}
    config = product.guardrail.config.model_copy(update=frozen)
    made = calibrail.recalibrate(config, product.folder)
    assert made.config.promise == Promise(ALPHA, "anytime", delta)
    assert (made.verdict, made.content["confidence"]) == ("certified", confidence)
    page = made.save(tmp_path / "new.json").read_text(encoding="utf-8")
    assert f"With {confidence:.0%} confidence neither" in " ".join(page.split())


def test_a_threshold_that_was_given_is_recalibrated_for_what_is_asked(product: Product) -> None:
    given = {"promise": Promise(1.0, "fixed", 0.1), "requirement": Requirement()}
    config = product.guardrail.config.model_copy(update=given)
    with pytest.raises(InputError, match=r"nothing was asked .* say how much must be caught"):
        calibrail.recalibrate(config, product.folder)
    made = calibrail.recalibrate(config, product.folder, min_coverage=1.0 - ALPHA)
    assert made.config.promise.alpha == pytest.approx(ALPHA)


def test_the_answers_that_set_it_are_known_to_certify(product: Product, tmp_path: Path) -> None:
    made = product.recalibrate()
    labelled = lines(product.folder / "draws.jsonl")
    hallucinated = {line["id"] for line in labelled if product.truth[line["id"]]}
    assert len(made.config.data.calibration_examples) == len(hallucinated)
    assert made.config.data.n_examples == len(labelled)
    texts = {item["id"]: item for item in lines(product.folder / "pool.jsonl")}
    rows = [
        {"response": texts[line["id"]]["response"], "suspicion": line["score"]}
        | {"id": f"x{line['id']}", "label": product.truth[line["id"]]}
        for line in labelled
    ]
    rows += [
        {"response": f"Fresh {i}.", "id": f"f{i}", "label": i % 2, "suspicion": 2.0 * (i % 2)}
        for i in range(40)
    ]
    made.save(tmp_path / "new.json")
    said = calibrail.certify(tmp_path / "new.json", rows, max_fpr=0.9)
    assert said.n_seen_before == len(hallucinated)
    assert said.certificate.coverage.n == 20
    # Its own report looked at the faithful ones.
    assert any(look["reported"] for look in said.looks) and said.verdict == "inconclusive"


def test_labels_that_are_late_or_unsure_only_lower_the_threshold(
    guardrail: Guardrail, tmp_path: Path
) -> None:
    late = Product(tmp_path, guardrail, 1, per_day=60)
    late.week(600)
    late.label(lambda draw: draw["score"] < 0.5 and late.truth[draw["id"]] and draw["order"] % 2)
    waiting = late.recalibrate()
    assert waiting.content["labels"]["n_waiting"] > 0 < waiting.content["n_open_missed"]
    assert isinstance(Guardrail(waiting.config).calibration, AuditedCalibration)
    late.label()
    known = late.recalibrate()
    assert waiting.content["threshold"]["new"] <= known.content["threshold"]["new"]
    waiting.save(tmp_path / "new.json")
    loaded = Guardrail.load(tmp_path / "new.json")
    assert loaded.config == waiting.config
    decided = loaded.check(response="x", columns={"suspicion": 0.9})
    assert decided.p_value is not None and 0.0 < decided.p_value < 1.0
    calibrail.card(loaded).save(tmp_path / "card.html")
    with pytest.raises(InputError, match="do not all count alike"):
        calibrail.select(loaded, [{"id": "q", "response": "x", "suspicion": 0.1}], fdr=0.1)


def test_the_active_design_sets_a_threshold_from_weighted_answers(
    guardrail: Guardrail, tmp_path: Path
) -> None:
    active = Product(tmp_path, guardrail, 2, per_day=60, drawing=Drawing("active", 0.25))
    active.week(1500)
    active.label()
    active.audit.pop("drawing")
    active.week(1500)
    active.label()
    made = active.recalibrate(max_fpr=0.95)
    threshold = made.content["threshold"]["new"]
    assert norm.cdf(threshold, SHIFTED) <= ALPHA
    assert made.content["labels"]["design"] == "active" and made.verdict == "certified"
    made.save(tmp_path / "new.json")
    assert Guardrail.load(tmp_path / "new.json").config == made.config
    for name, where in (("old", made.content["threshold"]["old"]), ("new", threshold)):
        bounds = made.content["comparison"][name]
        assert bounds["coverage"]["lower"] <= norm.sf(where, SHIFTED) <= bounds["coverage"]["upper"]
        assert bounds["fpr"]["lower"] <= norm.sf(where) <= bounds["fpr"]["upper"]


def test_only_answers_logged_since_a_time_take_part(guardrail: Guardrail, tmp_path: Path) -> None:
    long = Product(tmp_path, guardrail, 4, per_day=30)
    for _ in range(2):
        long.week(300)
    long.label()
    since = (BEGIN + timedelta(days=7)).isoformat()
    options = dataclasses.replace(OPTIONS, since=since)
    made = calibrail.recalibrate(guardrail, long.folder, options=options)
    labels = made.content["labels"]
    assert labels["n_earlier"] + labels["n_drawn"] == len(lines(long.folder / "draws.jsonl"))
    assert labels["n_earlier"] > 0 and labels["from"] >= (BEGIN + timedelta(days=7)).timestamp()
    with pytest.raises(InputError, match="no audited answer was logged since 2031"):
        calibrail.recalibrate(
            guardrail, long.folder, options=RecalibrateOptions(since="2031-01-01")
        )
    with pytest.raises(InputError, match="since must be a time"):
        RecalibrateOptions(since="yesterday")


def test_without_texts_answers_are_known_by_their_ids(guardrail: Guardrail, tmp_path: Path) -> None:
    bare = Product(tmp_path, guardrail, 6, per_day=40)
    bare.week(300, texts=False)
    bare.label()
    made = bare.recalibrate()
    draws = lines(bare.folder / "draws.jsonl")
    rows = [
        {"id": line["id"], "suspicion": line["score"], "label": bare.truth[line["id"]]}
        for line in draws
    ]
    rows += [{"id": f"f{i}", "label": i % 2, "suspicion": 2.2 * (i % 2)} for i in range(20)]
    said = calibrail.certify(made.config, rows, max_fpr=0.9)
    assert said.n_seen_before == sum(bare.truth[line["id"]] for line in draws)


def test_what_cannot_be_recalibrated_is_said(
    product: Product, guardrail: Guardrail, tmp_path: Path
) -> None:
    # Seven answers are drawn, whichever; the promise takes more of one class.
    few = Product(tmp_path / "few", guardrail, 7, per_day=1)
    few.week(100)
    few.label()
    with pytest.raises(TooFewExamplesError, match=r"label until .* more are found"):
        few.recalibrate()
    rows = [
        {"id": f"g{i}", "response": f"Answer {i}.", "suspicion": i % 2 + 0.01 * i, "label": i % 2}
        | {"topic": f"t{i % 4 // 2}"}
        for i in range(400)
    ]
    for promise, why in (
        (Promise(ALPHA, by="topic"), "groups have thresholds of their own"),
        (Promise(ALPHA, beta=0.2), "reviewed between two thresholds"),
    ):
        other = calibrail.calibrate(rows, SCORE, promise).freeze()
        with pytest.raises(InputError, match=why):
            calibrail.recalibrate(other, product.folder)
    other = calibrail.calibrate(rows, SCORE, Promise(ALPHA)).freeze()
    with pytest.raises(InputError, match="about another guardrail"):
        calibrail.recalibrate(other, product.folder)
    logged(tmp_path / "log", other, [Example("", (), "x", id="x", columns={"suspicion": 0.1})])
    with pytest.raises(DataError, match="can be used: 1 of other guardrails; they are of sha256"):
        product.recalibrate(logs=tmp_path / "log")
    write(tmp_path / "traces.jsonl", [{"id": "a", "response": "b", "suspicion": 0.3}])
    calibrail.label(tmp_path / "traces.jsonl", tmp_path / "labels", promise=Promise(ALPHA))
    with pytest.raises(InputError, match="not drawn from a decision log"):
        calibrail.recalibrate(guardrail, tmp_path / "labels")
    with pytest.raises(DataError, match="name a folder that `calibrail label --from-log` made"):
        calibrail.recalibrate(guardrail, tmp_path / "nowhere")


def test_no_week_of_a_product_makes_a_threshold_that_misses_too_much(
    guardrail: Guardrail, tmp_path: Path
) -> None:
    runs, bad, thresholds = 10, 0, 0
    for run in range(runs):
        made = Product(tmp_path / str(run), guardrail, 100 + run, per_day=12)
        missed = []
        for week in range(1, 4):
            made.week(90)
            # Hard answers wait for a week.
            made.label(lambda draw, week=week: draw["batch"] == week and draw["score"] < 0.5)
            try:
                missed.append(norm.cdf(made.recalibrate().content["threshold"]["new"], SHIFTED))
            except TooFewExamplesError:
                continue
        thresholds += len(missed)
        bad += any(share > ALPHA for share in missed)
    assert thresholds > runs
    assert binom.sf(bad - 1, runs, DELTA) > 1e-3
