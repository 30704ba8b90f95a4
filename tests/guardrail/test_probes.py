from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrail import Example, calibrate
from calibrail.errors import GuardrailError, ModelError
from calibrail.guardrail import Guardrail
from calibrail.guardrail.file import content_digest, render
from calibrail.guardrail.probes import ANSWERS, SET, compare_probes, freeze_probes
from calibrail.models.networks import Network
from calibrail.scores import Score, build, parse_spec
from calibrail.scores.base import Scores
from calibrail.scores.custom import CustomScore
from calibrail.scores.ensemble import Ensemble
from calibrail.scores.members import Hybrid
from calibrail.serve.guardrails import Guardrails
from calibrail.serve.process import describe_guardrail
from tests.command_line import calibrail

Make = Callable[..., Guardrail]


def answers(n: int = 60) -> list[Example]:
    said = ("It is {}.", "It is {} in Bergen.")
    return [
        Example(
            question=f"What is number {row}?",
            contexts=(f"The number is {row} and the town is Oslo.",),
            response=said[row % 2].format(row),
            label=row % 2,
            id=f"row-{row}",
            columns={"detector": float(row % 2) + row / 100},
        )
        for row in range(n)
    ]


def frozen(score: Any, path: Path) -> Path:
    calibrate(answers(), score, alpha=0.2).freeze().save(path)
    return path


def changed(path: Path, **probes: Any) -> Path:
    """Write other probes into a guardrail file, with a right digest."""
    content = json.loads(path.read_bytes())
    content["probes"] |= probes
    content["digest"] = content_digest(content)
    path.write_bytes(render(content))
    return path


def test_the_answers_never_change_under_their_name() -> None:
    digest = hashlib.sha256(json.dumps(ANSWERS, ensure_ascii=True).encode()).hexdigest()
    assert (SET, len(ANSWERS)) == ("calibrail-probes/1", 16)
    assert digest == "9479c00ac7cc6d2dadabdf364560854c5783643cc80ffcceed564fda52c7c0b4"


def test_a_machine_that_computes_the_same_loads_and_says_so(tmp_path: Path) -> None:
    loaded = Guardrail.load(frozen("novelty", tmp_path / "g.json"), probe=True)
    assert loaded.probed is not None
    assert (loaded.probed.state, loaded.probed.n, loaded.probed.n_undefined) == ("agree", 16, 1)
    assert loaded.probed.largest_difference == 0.0
    probes = loaded.config.probes
    assert probes is not None
    assert probes.reasons == {"9": "there is no context"}
    assert probes.scores[8] is None
    assert len({score for score in probes.scores if score is not None}) > 8
    assert Guardrail.load(tmp_path / "g.json").probed is None


def test_what_a_score_has_learnt_is_probed_too(tmp_path: Path) -> None:
    path = frozen(Ensemble(scores="rouge_l,novelty"), tmp_path / "g.json")
    assert Guardrail.load(path, probe=True).probed is not None
    other = calibrate("example:facts", Ensemble(scores="rouge_l,novelty"), alpha=0.2).freeze()
    with pytest.raises(GuardrailError, match="does not compute what was certified"):
        compare_probes(Guardrail.load(path).config.probes, other.score)


def test_another_score_is_refused_with_the_versions_of_both_sides(tmp_path: Path) -> None:
    path = frozen("novelty", tmp_path / "g.json")
    probes = json.loads(path.read_bytes())["probes"]
    scores = [0.25, *probes["scores"][1:]]
    changed(path, scores=scores, versions=probes["versions"] | {"numpy": "1.0.0", "cuda": "99"})
    with pytest.raises(GuardrailError) as refused:
        Guardrail.load(path, probe=True)
    message = str(refused.value)
    assert "1 of 16 probe scores differ by more than 0; probe 1: frozen 0.25, here 0." in message
    assert f"numpy: frozen 1.0.0, here {np.__version__}" in message
    assert "cuda: frozen 99, here none" in message
    assert "python 3" in message.partition("Alike")[2]
    assert Guardrail.load(path).config.probes is not None


@pytest.mark.parametrize(("row", "value"), [(8, 0.5), (0, None)])
def test_a_score_on_one_side_alone_is_refused(
    tmp_path: Path, row: int, value: float | None
) -> None:
    path = frozen("novelty", tmp_path / "g.json")
    scores = json.loads(path.read_bytes())["probes"]["scores"]
    scores[row] = value
    with pytest.raises(GuardrailError, match=rf"probe {row + 1}: .*undefined"):
        Guardrail.load(changed(path, scores=scores), probe=True)


class Shifted:
    """A score with a tolerance, that some machine computes a little differently."""

    name, params, requires, tolerance = "shifted", {}, ("response",), 1e-3

    def __init__(self, shift: float = 0.0) -> None:
        self.shift, self.forgotten, self.batches = shift, 0, [0]

    def fingerprint(self) -> dict[str, Any]:
        return {}

    def forget(self) -> None:
        self.forgotten += 1

    def score(self, examples: Sequence[Example]) -> Scores:
        self.batches.append(len(examples))
        return Scores(np.array([len(item.response) / 7 + self.shift for item in examples]))


@pytest.mark.parametrize("shift", [0.0, 9e-4, -9e-4])
def test_a_difference_within_the_tolerance_is_the_same_score(shift: float) -> None:
    probed = compare_probes(freeze_probes(Shifted()), Shifted(shift))
    assert probed.state == "agree"
    assert probed.largest_difference == pytest.approx(abs(shift))


@pytest.mark.parametrize("shift", [1.1e-3, -1.1e-3, 5.0])
def test_a_difference_beyond_the_tolerance_is_refused(shift: float) -> None:
    with pytest.raises(GuardrailError, match=r"16 of 16 probe scores differ by more than 0\.001"):
        compare_probes(freeze_probes(Shifted()), Shifted(shift))


def test_nothing_that_is_remembered_answers_for_this_machine() -> None:
    score = Shifted()
    compare_probes(freeze_probes(score), score)
    assert score.batches == [0] + [1] * 32
    assert score.forgotten >= 32


def test_vectors_that_are_remembered_are_computed_anew(tmp_path: Path) -> None:
    score: Any = build(parse_spec("rad"))
    before = score.encoder.n_embedded
    probes = freeze_probes(score)
    between = score.encoder.n_embedded
    compare_probes(probes, score)
    assert score.encoder.n_embedded - between == between - before > 16
    assert probes is not None
    assert probes.versions["dtype"] == "float32"
    assert {"device", "torch", "tokenizers", "transformers", "blas"} <= probes.versions.keys()


def test_another_precision_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    score: Any = build(parse_spec("rad"))
    probes = freeze_probes(score)
    computed = Network.outputs

    def coarse(self: Network, *given: Any) -> list[Any]:
        return [part.half().float() for part in computed(self, *given)]

    monkeypatch.setattr(Network, "outputs", coarse)
    with pytest.raises(GuardrailError, match=r"differ by more than 1e-06.*dtype float32"):
        compare_probes(probes, score)
    score.forget()


def test_a_detector_that_reads_columns_alone_has_no_probes(
    make_guardrail: Make, tmp_path: Path
) -> None:
    make_guardrail().save(tmp_path / "g.json")
    loaded = Guardrail.load(tmp_path / "g.json", probe=True)
    assert loaded.config.probes is None
    assert loaded.probed is not None
    assert loaded.probed.state == "column"


def test_a_detector_that_raises_on_a_probe_has_no_score_there(tmp_path: Path) -> None:
    class Fails(Shifted):
        def score(self, examples: Sequence[Example]) -> Scores:
            if not all(item.contexts for item in examples):
                raise ZeroDivisionError
            return super().score(examples)

    score: Score = Fails()
    probes = freeze_probes(score)
    assert probes is not None
    assert probes.reasons == {"9": "the detector raised ZeroDivisionError"}
    assert compare_probes(probes, score).n_undefined == 1


def test_a_model_that_cannot_be_had_is_an_error() -> None:
    class Gone(Shifted):
        def score(self, examples: Sequence[Example]) -> Scores:
            raise ModelError("the model is not on this machine")

    with pytest.raises(ModelError, match="not on this machine"):
        freeze_probes(Gone())
    with pytest.raises(ModelError, match="not on this machine"):
        compare_probes(freeze_probes(Shifted()), Gone())


def broken(kind: type[Exception]) -> Any:
    class Broken(Shifted):
        def score(self, examples: Sequence[Example]) -> Scores:
            raise kind

    return Broken()


class Silent(Shifted):
    """Has no score for any probe, and does not fail."""

    def score(self, examples: Sequence[Example]) -> Scores:
        n = len(examples)
        return Scores(np.full(n, np.nan), dict.fromkeys(range(n), "there is none"))


def test_no_agreement_is_claimed_where_no_probe_has_a_score() -> None:
    for score in (broken(KeyError), Silent()):
        probed = compare_probes(freeze_probes(score), score)
        assert (probed.state, probed.n, probed.n_undefined) == ("unprobed", 16, 16)
        assert "NOT PROBED" in str(probed.unproven())
    assert "there is none" in str(probed.unproven())


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (Silent(), broken(KeyError)),
        (broken(KeyError), Silent()),
        (broken(KeyError), broken(ImportError)),
        (broken(KeyError), Shifted()),
    ],
)
def test_a_detector_that_fails_has_not_the_same_reason_as_one_without_a_score(
    there: Any, here: Any
) -> None:
    with pytest.raises(GuardrailError, match=r"does not compute what was certified.*16 of 16"):
        compare_probes(freeze_probes(there), here)


@pytest.mark.parametrize("tolerance", [1e9, 100.0])
def test_a_tolerance_within_which_all_agree_is_refused(
    tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes = freeze_probes(Shifted())
    monkeypatch.setattr(Shifted, "tolerance", tolerance)
    with pytest.raises(GuardrailError, match="a machine that computes something else would agree"):
        freeze_probes(Shifted())
    with pytest.raises(GuardrailError, match="a machine that computes something else would agree"):
        compare_probes(probes, Shifted())


OWN = """
import os

K = float(os.environ.get("SKEW", "1"))

def words(example):
    return K * len(example.response.split())

def column(example):
    return K * example.columns["detector"]

class Columns:
    classes_ = [0, 1]
    def predict_proba(self, rows):
        return [[1 - K * row[0] / 9, K * row[0] / 9] for row in rows]

columns = Columns()
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "own_probed.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("own_probed")
    sys.modules.pop("own_probed", None)


@pytest.mark.parametrize("features", [None, ["detector"]])
def test_a_detector_of_ones_own_is_probed(
    own: Any, features: list[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "own_probed:words" if features is None else "own_probed:columns"
    path = frozen(CustomScore(name, features=features), tmp_path / "g.json")
    loaded = Guardrail.load(path, probe=True)
    assert loaded.probed is not None
    assert (loaded.probed.state, loaded.probed.n_undefined) == ("agree", 0)
    monkeypatch.setattr(own, "K", 0.5)
    with pytest.raises(GuardrailError, match="does not compute what was certified"):
        Guardrail.load(path, probe=True)


def test_a_function_of_columns_that_probes_lack_is_said_to_be_unprobed(
    own: Any, tmp_path: Path
) -> None:
    run = calibrate(answers(), "own_probed:column", alpha=0.2)
    run.save(tmp_path / "run")
    path = tmp_path / "g.json"
    done = calibrail("export", "run", "-o", path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    reason = "NOT PROBED: none of the 16 probe answers has a score (the detector raised KeyError)"
    assert reason in " ".join(done.stdout.split())
    done = calibrail("guardrail", "verify", path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert reason in " ".join(done.stdout.split())
    assert "no machine computes it" not in done.stdout
    done = calibrail("guardrail", "card", path, "-o", tmp_path / "card.md", cwd=tmp_path)
    assert "NOT PROBED" in (tmp_path / "card.md").read_text(encoding="utf-8")
    with pytest.warns(UserWarning, match=r"NOT PROBED.*KeyError"):
        assert Guardrail.load(path, probe=True).probed is not None
    # What a service says when it starts.
    with pytest.warns(UserWarning, match="NOT PROBED"):
        service = Guardrails({"own": path}, partial(Guardrail.load, probe=True))
    assert reason in describe_guardrail(service.get("own"))
    # A file that does not say so is refused.
    content = json.loads(path.read_bytes())
    content["probes"] = None
    content["digest"] = content_digest(content)
    path.write_bytes(render(content))
    with pytest.raises(GuardrailError, match="holds no probes"):
        Guardrail.load(path, probe=True, own_code=True)


def test_members_that_ask_no_endpoint_are_probed_in_any_case() -> None:
    score: Any = Hybrid(
        expensive='judge:model="m",base_url="http://127.0.0.1:9/v1"',
        cheap="rouge_l",
        low=-0.5,
        high=-0.2,
    )
    probes = freeze_probes(score)
    assert probes is not None
    assert probes.scores is None
    assert list(probes.members or {}) == ["cheap"]
    probed = compare_probes(probes, score)
    assert (probed.state, probed.n, probed.members) == ("members", 16, ("cheap",))
    other: Any = Hybrid(
        expensive='judge:model="m",base_url="http://127.0.0.1:9/v1"',
        cheap="novelty",
        low=-0.5,
        high=-0.2,
    )
    with pytest.raises(GuardrailError, match="probe scores of cheap differ"):
        compare_probes(probes, other)
    with pytest.raises(GuardrailError, match=r"holds no probes.*--probe-endpoint"):
        compare_probes(probes, score, endpoint=True)
    with pytest.raises(GuardrailError, match="holds no probes"):
        compare_probes(None, score)
