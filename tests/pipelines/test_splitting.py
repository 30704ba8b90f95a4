"""Do scores that learn stay apart from what calibrates and tests them, and are they kept whole?"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from calibrail import Guardrail, SplitOptions, calibrate, certify, compare, read
from calibrail.data.splits import FIT
from calibrail.errors import DataError, GuardrailError, InputError
from calibrail.pipelines.run import Run
from calibrail.pipelines.scoring import score_only, score_source
from calibrail.scores import build, parse_spec
from tests.answers import rows, write

SPEC = 'fused:scores="novelty,novel_count,length"'


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    items = [
        {**item, "part": ("fit", "calibration", "test")[index // 2 % 3]}
        for index, item in enumerate(rows(150))
    ]
    return write(tmp_path_factory.mktemp("learning") / "answers.jsonl", items)


@pytest.fixture(scope="module")
def run(answers: Path) -> Run:
    return calibrate(answers, SPEC, alpha=0.2, guarantee="marginal", max_fpr=0.9)


def test_a_split_is_set_aside_and_learnt_from(run: Run, answers: Path) -> None:
    assert run.codes is not None and run.table is not None
    split = run.data["split"]
    assert (split["fit_share"], split["calibration_share"]) == (0.3, 0.35)
    fit = run.codes == FIT
    assert 0.25 < fit.mean() < 0.35
    groups = np.array(run.table.groups.to_pylist())
    assert not set(groups[fit]) & set(groups[~fit])
    # The very same examples, and no others, give the state.
    examples = [item for item, own in zip(read(answers), fit, strict=True) if own]
    state = build(parse_spec(SPEC)).fit(examples).state()
    scored = score_source(answers, SPEC)
    for name, array in scored.detectors[0].state().items():
        assert array.tobytes() == state[name].tobytes()


def test_without_a_score_that_learns_nothing_is_set_aside(answers: Path) -> None:
    scored = score_source(answers, "length")
    assert not (scored.codes == FIT).any()
    assert scored.data["split"]["calibration_share"] == 0.5


def test_the_shares_can_be_given(answers: Path) -> None:
    options = SplitOptions(fit_share=0.5, calibration_share=0.2)
    scored = score_source(answers, SPEC, splitting=options)
    shares = np.bincount(scored.codes, minlength=3) / len(scored.codes)
    assert shares == pytest.approx([0.5, 0.2, 0.3], abs=0.02)


def test_ones_own_fit_rows_are_learnt_from(answers: Path) -> None:
    scored = score_source(answers, SPEC, splitting=SplitOptions(column="part"))
    assert (scored.codes == FIT).sum() == 100


def test_no_fit_rows_is_an_error_with_the_remedy(answers: Path) -> None:
    with pytest.raises(InputError, match=r"give it a share with fit_share=0\.3"):
        score_source(answers, SPEC, splitting=SplitOptions(fit_share=0.0))


def test_examples_in_memory_are_read_once_and_serve_all_passes(run: Run, answers: Path) -> None:
    again = calibrate(iter(list(read(answers))), SPEC, alpha=0.2, max_fpr=0.9)
    assert again.state == run.state
    assert again.calibration.threshold == run.calibration.threshold


def test_the_same_data_gives_the_same_folder(run: Run, answers: Path, tmp_path: Path) -> None:
    first = run.save(tmp_path / "first")
    second = calibrate(answers, SPEC, alpha=0.2, guarantee="marginal", max_fpr=0.9).save(
        tmp_path / "second"
    )
    for path in sorted(item for item in first.rglob("*") if item.is_file()):
        if path.name != "cost.json":
            same = second / path.relative_to(first)
            assert path.read_bytes() == same.read_bytes(), path.name
    cost = json.loads((first / "cost.json").read_text())
    assert cost["schema"] == "calibrail.cost/1"
    assert cost["scores"][0]["n"] == 300


def test_the_guardrail_decides_as_the_run_counted(run: Run, answers: Path, tmp_path: Path) -> None:
    loaded = Run.load(run.save(tmp_path / "run"))
    loaded.freeze().save(tmp_path / "g.json")
    guardrail = Guardrail.load(tmp_path / "g.json")
    decided = guardrail.decide(list(read(answers)))
    values = next(iter(run.table.columns.values()))
    assert [decision.score for decision in decided] == values.tolist()
    assert guardrail.config.score.state is not None


def test_a_changed_or_missing_state_is_refused(run: Run, tmp_path: Path) -> None:
    folder = run.save(tmp_path / "run")
    state = folder / "state.safetensors"
    raw = state.read_bytes()
    state.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    with pytest.raises(DataError, match="was changed after the run"):
        Run.load(folder)
    state.unlink()
    with pytest.raises(DataError, match="what the detector has learnt"):
        Run.load(folder)


def test_another_state_is_another_detector(run: Run, answers: Path) -> None:
    other = build(parse_spec(SPEC)).fit(list(read(answers))[:60])
    with pytest.raises(GuardrailError, match="what the score fused has learnt is not"):
        Guardrail(run.freeze().config, other)


def test_certify_leaves_out_what_was_learnt_from(run: Run, answers: Path) -> None:
    result = certify(run.freeze(), answers, max_fpr=0.9)
    fit = int((run.codes == FIT).sum())
    used = result.to_dict()
    n = used["coverage"]["n"] + used["fpr"]["n"]
    assert n <= 300 - fit


def test_compare_fits_every_score_on_the_same_split(answers: Path, tmp_path: Path) -> None:
    result = compare(answers, [SPEC, "novelty", 'ensemble:scores="novelty,length"'], alpha=0.2)
    assert (result.scored.codes == FIT).any()
    names = {item["name"] for item in result.to_dict()["detectors"]}
    assert len(names) == 3
    assert json.loads((result.save(tmp_path / "c") / "cost.json").read_text())["scores"]


def test_score_alone_cannot_learn(answers: Path) -> None:
    with pytest.raises(InputError, match="fused learns from labelled answers before it can score"):
        score_only(answers, SPEC)


def test_a_reversed_member_stands_in_the_notes(tmp_path: Path) -> None:
    items = [
        {**item, "odd": -float(item["label"]) + index % 7 / 10}
        for index, item in enumerate(rows(100))
    ]
    source = write(tmp_path / "a.jsonl", items)
    spec = 'fused:scores="novelty,column:column=odd,higher=hallucinated"'
    report = calibrate(source, spec, alpha=0.2).report.to_dict()
    assert any("odd points the wrong way on the fit split" in note for note in report["notes"])
