"""Does a function or an estimator of the user's own work as a detector, and freeze?"""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import IsolationForest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from calibrail import Example, Guardrail, calibrate, compare
from calibrail.errors import GuardrailError, InputError
from calibrail.scores.custom import CustomScore
from calibrail.scores.registry import build, key_of, parse_spec

MODULE = """
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

def words(example):
    return len(example.response.split())

def many(examples):
    return [len(example.response.split()) for example in examples]

texts = ["the sea is blue", "snow is white", "the moon is cheese", "fish can fly"] * 3
pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, [0, 0, 1, 1] * 3)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return an importable module of detectors, and forget it afterwards."""
    (tmp_path / "own_detectors.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_detectors  # type: ignore[import-not-found]

    yield own_detectors
    sys.modules.pop("own_detectors", None)


def examples(*responses: str, **columns: Any) -> list[Example]:
    return [Example("q", ("c",), text, id=text, columns=columns) for text in responses]


def quiet(detector: Any, **options: Any) -> CustomScore:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CustomScore(detector, **options)


def test_one_run_from_a_function_to_a_guardrail_of_another_process(
    module: Any, tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = calibrate("example:facts", module.words, alpha=0.2)
        named = calibrate("example:facts", "own_detectors:words", alpha=0.2)
    assert run.report.test == named.report.test
    path = tmp_path / "guardrail.json"
    run.freeze().save(path)
    code = (
        "import calibrail; guardrail = calibrail.Guardrail.load('guardrail.json');"
        "print(guardrail.check(response='a b c').score)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "3.0"
    source = tmp_path / "own_detectors.py"
    source.write_text(MODULE.replace("split()", "split('a')"), encoding="utf-8")
    with pytest.raises(GuardrailError, match="source_sha256"):
        Guardrail.load(path)


def test_an_estimator_freezes_with_what_it_has_learnt(module: Any, tmp_path: Path) -> None:
    run = calibrate("example:facts", "own_detectors:pipeline", alpha=0.2)
    path = tmp_path / "guardrail.json"
    run.freeze().save(path)
    response = "the moon is made of green cheese"
    expected = module.pipeline.predict_proba([response])[0, 1]
    assert Guardrail.load(path).check(response=response).score == pytest.approx(expected)
    # Another process hashes the same state to the same digest, whatever its addresses are.
    code = "import calibrail; print(calibrail.Guardrail.load('guardrail.json').score.name)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "custom"
    module.pipeline[-1].coef_ = module.pipeline[-1].coef_ + 0.01
    with pytest.raises(GuardrailError, match="state"):
        Guardrail.load(path)


def test_what_cannot_be_frozen_says_so_before_the_work() -> None:
    called = []

    def local(example: Example) -> float:
        called.append(example.id)
        return len(example.response)

    with pytest.warns(UserWarning, match=r"local has no name that imports it.*cannot be exported"):
        score = CustomScore(local)
    assert not called and key_of(score) == "test_what_cannot_be_frozen_says_so_before_the_work." + (
        "<locals>.local"
    )
    run = calibrate("example:facts", score, alpha=0.2)
    assert any("cannot be exported" in note for note in run.report.notes)
    with pytest.raises(InputError, match="put it into a module"):
        run.freeze()
    guardrail = run.freeze(score=score)
    assert guardrail.check(response="four").score == 4.0


@pytest.mark.parametrize(
    ("detector", "options", "values"),
    [
        (lambda e: len(e.response), {}, [1, 2]),
        (lambda e: np.float32(len(e.response)), {"higher": "faithful"}, [-1, -2]),
        (lambda e: None if e.response == "a" else np.array([2.0]), {}, [np.nan, 2]),
        (lambda e: float("inf") if e.response == "a" else True, {}, [np.nan, 1]),
        (lambda batch: np.array([[len(e.response)] for e in batch]), {"batch": True}, [1, 2]),
        (lambda batch: [None, 1], {"batch": True}, [np.nan, 1]),
        (lambda e: e.columns["x"], {}, [0.5, 0.5]),
        (lambda e: np.float32(0.3), {}, [0.3, 0.3]),
        (lambda batch: np.full(len(batch), 0.3, np.float16), {"batch": True}, [0.3, 0.3]),
    ],
)
def test_what_a_function_may_return(detector: Any, options: Any, values: list[float]) -> None:
    result = quiet(detector, **options).score(examples("a", "bb", x=0.5))
    np.testing.assert_array_equal(result.values, values)


@pytest.mark.parametrize(
    ("detector", "options", "message"),
    [
        (lambda e: "high", {}, "one number for each of 1 answers, or None; it returned str 'high'"),
        (lambda e: [1, 2], {}, "batch=True"),
        (lambda batch: [x.id for x in batch], {}, "failed on answer 'a': TypeError.*batch=True"),
        (lambda e: 1 / 0, {}, "failed on answer 'a': ZeroDivisionError"),
        (lambda batch: [1.0], {"batch": True}, "one number for each of 2 answers"),
        (lambda batch: np.zeros((2, 2)), {"batch": True}, r"shape \(2, 2\)"),
        (lambda batch: "no", {"batch": True}, "one number for each of 2"),
    ],
)
def test_what_it_may_not(detector: Any, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        quiet(detector, **options).score(examples("a", "bb"))


TEXTS, LABELS = ["sea blue", "snow white", "moon cheese", "fish fly"] * 3, [0, 0, 1, 1] * 3


def test_estimators_get_texts_columns_or_a_frame_and_the_class_is_the_hallucinated_one() -> None:
    answers = examples("moon cheese", "sea blue", x=0.5, y=2.0)
    texts = [item.response for item in answers]
    proba = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(TEXTS, LABELS)
    assert quiet(proba).score(answers).values == pytest.approx(proba.predict_proba(texts)[:, 1])
    words = ["faithful" if label == 0 else "hallucinated" for label in LABELS]
    margin = make_pipeline(TfidfVectorizer(), LinearSVC()).fit(TEXTS, words)
    assert quiet(margin).score(answers).values == pytest.approx(margin.decision_function(texts))
    turned = make_pipeline(TfidfVectorizer(), LinearSVC()).fit(TEXTS, [1 - y for y in LABELS])
    by_name = quiet(turned, positive=0).score(answers).values
    assert by_name == pytest.approx(-turned.decision_function(texts))
    matrix = np.random.default_rng(0).normal(size=(12, 2))
    numbers = LogisticRegression().fit(matrix, LABELS)
    one = numbers.predict_proba([[2.0, 0.5]])[0, 1]
    assert quiet(numbers, features=["y", "x"]).score(answers).values == pytest.approx([one, one])
    frame = pd.DataFrame(matrix, columns=["y", "x"])
    framed = LogisticRegression().fit(frame, LABELS)
    assert quiet(framed).score(answers).values == pytest.approx([one, one])
    outliers = IsolationForest(random_state=0).fit(matrix)
    score = quiet(outliers, features="y,x", higher="faithful")
    assert score.score(answers).values == pytest.approx(-outliers.decision_function([[2, 0.5]] * 2))
    missing = quiet(numbers, features=["y", "x"]).score(examples("a", x=0.5, y=None))
    assert missing.reasons == {0: "column y is empty"}


@pytest.mark.parametrize(
    ("n", "classes", "positive", "message"),
    [
        (3, None, None, "returned 3 columns, and no classes_ say which"),
        (1, None, None, "returned 1 column, and no classes_ say which"),
        (2, None, 1, "positive=1 is one of the classes_ .* has none"),
        (3, [0, 1], None, "returned 3 columns, and its 2 classes_ do not say which"),
        (1, [0, 1], None, "returned 1 column, and its 2 classes_ do not say which"),
    ],
)
def test_columns_of_which_none_is_named_are_refused(
    n: int, classes: list[int] | None, positive: int | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        quiet(Proba(n, classes), positive=positive).score(examples("a", "bb"))


def test_of_two_columns_the_second_is_the_hallucinated_class_unless_named() -> None:
    answers = examples("a", "bb")
    assert quiet(Proba(2)).score(answers).values.tolist() == [1.0, 1.0]
    three = quiet(Proba(3, ["no", "maybe", "FAIL"])).score(answers).values
    named = quiet(Proba(3, ["no", "maybe", "x"]), positive="maybe").score(answers).values
    assert (three.tolist(), named.tolist()) == ([2.0, 2.0], [1.0, 1.0])


class Proba:
    """A model of another library: column i holds i."""

    def __init__(self, n: int, classes: list[Any] | None = None) -> None:
        self.n = n
        if classes is not None:
            self.classes_ = classes

    def predict_proba(self, texts: list[str]) -> np.ndarray:
        return np.tile(np.arange(self.n, dtype=float), (len(texts), 1))


@pytest.mark.parametrize(
    ("detector", "options", "message"),
    [
        (LogisticRegression(), {}, "not fitted"),
        (LogisticRegression, {}, "class LogisticRegression itself"),
        (None, {}, "got None"),
        (7, {}, "got int 7"),
        (LogisticRegression().fit([[0.0], [1.0]], [0, 1]), {}, "1 columns without names"),
        (
            make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(TEXTS, list("aabb") * 3),
            {},
            "which class of .* means hallucinated",
        ),
        (lambda e: 1.0, {"features": "x"}, "for estimators"),
        (lambda e: 1.0, {"higher": "up"}, "higher must be"),
        ("os:system", {}, "part of Python"),
        ("nowhere_at_all:score", {}, "cannot be imported"),
        ("__main__:score", {}, "script"),
        ("calibrail.formatting:nothing", {}, "no attribute"),
        ("words", {}, "module:attribute"),
    ],
)
def test_what_is_no_detector_is_refused_before_the_work(
    detector: Any, options: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        quiet(detector, **options)


def test_names_stand_among_specifications(module: Any) -> None:
    spec = parse_spec("own_detectors:words")
    assert (spec.name, spec.params) == ("custom", {"detector": "own_detectors:words"})
    assert (
        build(parse_spec("custom:detector=own_detectors:many,batch=true")).params["batch"] is True
    )
    run = compare("example:facts", ["novelty", module.words], alpha=0.2)
    assert {name for name, _ in run.comparison.detectors} == {"novelty", "own_detectors:words"}
    with pytest.raises(InputError, match="KEY=VALUE"):
        parse_spec("novelty:words")


def confidence(example: Example) -> float:
    """More words that the passage holds: more likely faithful; above 100, so signs are seen."""
    words = example.response.lower().split()
    return 100.0 + sum(word in " ".join(example.contexts).lower() for word in words) / len(words)


def test_one_in_which_higher_means_faithful_decides_in_its_own_numbers() -> None:
    score = CustomScore(confidence, higher="faithful")
    run = calibrate("example:facts", score, alpha=0.2)
    assert run.calibration.threshold > 100 > 0 > run.rule.calibration.threshold
    decision = run.freeze(score=score).check(response="x y", contexts=["a b"])
    assert decision.column_value == 100.0
    assert decision.reason.startswith("confidence 100 is at most the threshold 100.")
    assert "confidence=100, threshold=100.6" in repr(decision)


@pytest.mark.parametrize("tolerance", [np.nan, np.inf, -1, -np.inf, "1", True])
def test_a_tolerance_that_is_no_distance_is_refused(module: Any, tolerance: Any) -> None:
    with pytest.raises(InputError, match="tolerance must be a"):
        CustomScore(module.words, tolerance=tolerance)


RAN = "import pathlib\npathlib.Path(__file__).with_name('ran').write_text('x')\n"


@pytest.mark.parametrize("name", ["own_source:words", "own_package.inner:words"])
@pytest.mark.parametrize("combined", [False, True])
def test_another_source_is_refused_before_it_runs(
    name: str, combined: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = name.partition(":")[0]
    file = tmp_path / (module.replace(".", "/") + ".py")
    file.parent.mkdir(exist_ok=True)
    (file.parent / "__init__.py").touch()
    file.write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    score = build(parse_spec(f'ensemble:scores="rouge_l,{name}"')) if combined else name
    calibrate("example:facts", score, alpha=0.2).freeze().save(tmp_path / "g.json")

    def forget() -> None:
        for known in (module, module.partition(".")[0]):
            sys.modules.pop(known, None)

    forget()
    assert Guardrail.load(tmp_path / "g.json").config.digest
    forget()
    file.write_text(RAN + MODULE, encoding="utf-8")
    (file.parent / "__init__.py").write_text(RAN, encoding="utf-8")
    with pytest.raises(GuardrailError, match=r"SHA-256 [0-9a-f]{64}, frozen is [0-9a-f]{64}.*not"):
        Guardrail.load(tmp_path / "g.json")
    assert not (file.parent / "ran").exists()
    assert module not in sys.modules


def test_a_function_from_another_file_is_compared_before_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_inner.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "own_outer.py").write_text("from own_inner import words\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    score = CustomScore("own_outer:words")
    assert set(score.fingerprint()["sources"]) == {"own_outer", "own_inner"}
    calibrate("example:facts", score, alpha=0.2).freeze().save(tmp_path / "g.json")
    for known in ("own_outer", "own_inner"):
        sys.modules.pop(known)
    assert Guardrail.load(tmp_path / "g.json").config.digest
    sys.modules.pop("own_outer")
    (tmp_path / "own_outer.py").write_text(RAN, encoding="utf-8")
    with pytest.raises(GuardrailError, match="it was not imported"):
        Guardrail.load(tmp_path / "g.json")
    assert not (tmp_path / "ran").exists()
