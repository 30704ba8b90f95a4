from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from calibrail import Example
from calibrail.data.reading import read
from calibrail.errors import GuardrailError
from calibrail.guardrail import SCHEMA, FrozenConfig, Guardrail
from calibrail.guardrail.file import MIGRATIONS, NEWEST, content_digest, migrate, render
from calibrail.scores.registry import build, parse_spec
from calibrail.serialization import plain
from calibrail.text.sentences import answer_sentences

#: Files as each version wrote them: they are never written again.
GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.json"))
#: What each decided, as it was kept: they are never written again either.
EDITIONS = GOLDEN / "editions"
DECIDED = {
    line["file"]: line["decisions"]
    for line in map(json.loads, (GOLDEN / "decisions.jsonl").read_text().splitlines())
}
#: How far a neural network may differ from machine to machine, in the digits that are shown.
DIGITS = 2e-4
#: Its detector splits words otherwise than today's, and so is another one.
OTHER_DETECTOR = "1-early-words.json"
LOADED = [path for path in FILES if path.name != OTHER_DETECTOR]


def asked() -> list[Example]:
    """Answers of the kinds that the golden files know of, and one that has no score."""
    said = (
        ("It is 7.", -2.0, "a"),
        ("It is 9 in Bergen 63.", 2.5, "a"),
        ("It is 7 in Oslo, by the sea.", 0.4, "b"),
        ("It is 7.", 0.9, "unknown"),
        ("", None, "a"),
    )
    return [
        Example(
            question="What is number 7?",
            contexts=("The number is 7 and the town is Oslo.",),
            response=response,
            id=str(row),
            columns={"detector": value, "kind": kind},
        )
        for row, (response, value, kind) in enumerate(said)
    ]


def decided(guardrail: Guardrail) -> list[tuple[str, str]]:
    batch = asked()[:2]
    return [(item.outcome, item.reason) for item in guardrail.decide(batch)]


def test_every_schema_has_its_golden_files() -> None:
    schemas = {json.loads(path.read_bytes())["schema"] for path in FILES}
    assert schemas == {f"calibrail.guardrail/{number}" for number in range(1, NEWEST + 1)}
    assert set(MIGRATIONS) == set(range(1, NEWEST))
    assert f"calibrail.guardrail/{NEWEST}" == SCHEMA


@pytest.mark.parametrize("path", LOADED, ids=lambda path: path.stem)
def test_a_guardrail_of_every_schema_decides_as_it_did(path: Path) -> None:
    within = DIGITS if "model" in path.stem else 0.0
    kept = DECIDED[path.name]
    for here, there in zip(Guardrail.load(path).decide(asked()), kept, strict=True):
        assert (here.id, here.outcome) == (there["id"], there["outcome"])
        for name in ("score", "threshold", "p_value"):
            expected = there[name]
            value = getattr(here, name)
            assert value == (
                None if expected is None else pytest.approx(expected, rel=0, abs=within)
            )


@pytest.mark.parametrize("name", ["entities", "worst", "sentences"])
def test_a_guardrail_keeps_the_rules_for_texts_that_it_was_frozen_with(name: str) -> None:
    lines = map(json.loads, (EDITIONS / "decisions.jsonl").read_text("utf-8").splitlines())
    (kept,) = (line["decisions"] for line in lines if line["file"] == name)
    guardrail = pickle.loads(pickle.dumps(Guardrail.load(EDITIONS / f"{name}.json", probe=True)))
    answers = list(read(EDITIONS / "asked.jsonl", labelled=False, keep=guardrail.columns))
    for here, there in zip(guardrail.decide(answers), kept, strict=True):
        assert here.to_dict(evidence=True) | there == here.to_dict(evidence=True)
    if name == "worst":
        stream = guardrail.stream_check(question=answers[4].question, contexts=answers[4].contexts)
        verdicts = stream.feed(answers[4].response)
        assert verdicts[0].text == "Die Brücke wurde am 3."
        assert stream.close().score == kept[4]["score"]
    # Another text is read otherwise by a detector that is built today.
    today = build(parse_spec("worst_sentence:detector=novelty"))
    assert answer_sentences(answers[4].response)[0].text.endswith("eröffnet.")
    assert "calibrail-words/3" in json.dumps(plain(today.fingerprint()))


def test_every_golden_file_that_loads_has_its_decisions() -> None:
    assert set(DECIDED) == {path.name for path in LOADED}
    scores = [item["score"] for decisions in DECIDED.values() for item in decisions]
    assert len(set(scores)) > 8
    assert None in scores


@pytest.mark.parametrize("path", LOADED, ids=lambda path: path.stem)
def test_a_copy_of_an_older_file_is_the_same_bytes(path: Path, tmp_path: Path) -> None:
    loaded = Guardrail.load(path)
    loaded.save(tmp_path / "copy.json")
    assert (tmp_path / "copy.json").read_bytes() == path.read_bytes()
    other = pickle.loads(pickle.dumps(loaded))
    assert other.config.digest == loaded.config.digest
    assert decided(other) == decided(loaded)


@pytest.mark.parametrize("name", ["2-words", "2-learnt"])
def test_what_was_frozen_once_is_still_computed(name: str) -> None:
    probed = Guardrail.load(GOLDEN / f"{name}.json", probe=True).probed
    assert probed is not None
    assert (probed.state, probed.n) == ("agree", 16)


def test_a_copy_with_other_content_is_written_in_the_newest_schema() -> None:
    config = FrozenConfig.from_bytes((GOLDEN / "1-column.json").read_bytes())
    older = json.loads(config.model_copy(update={"versions": {}}).to_bytes())
    assert (older["schema"], older["versions"]) == (SCHEMA, {})


def test_what_an_older_detector_computed_is_refused_with_the_remedy() -> None:
    renew = r"or calibrate again.*calibrail calibrate DATA.*calibrail export RUN -o guardrail\.json"
    with pytest.raises(GuardrailError, match=renew):
        Guardrail.load(GOLDEN / OTHER_DETECTOR)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_changed_byte_in_an_older_file_is_refused(path: Path) -> None:
    raw = path.read_bytes()
    for position in range(0, len(raw), 37):
        changed = bytearray(raw)
        changed[position] ^= 1
        with pytest.raises(GuardrailError):
            FrozenConfig.from_bytes(bytes(changed))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("calibrail.guardrail/3", "of a later calibrail.*pip install -U"),
        ("calibrail.guardrail/0", "calibrail export RUN"),
        ("calibrail.guardrail/01", "calibrail export RUN"),
        ("calibrail.guardrail/²", "calibrail export RUN"),
        ("calibrail.guardrail/" + "9" * 5000, "calibrail export RUN"),
        ("calibrail.calibration/1", "calibrail export RUN"),
        ("calibrail-guardrail/1", "calibrail export RUN"),
        (2, "calibrail export RUN"),
        (None, "calibrail export RUN"),
    ],
)
def test_any_other_schema_is_refused_with_what_to_do(schema: object, message: str) -> None:
    with pytest.raises(GuardrailError, match=message):
        migrate({"schema": schema}, "g.json")


def test_a_field_that_the_schema_lacks_is_named_with_the_remedy() -> None:
    content = json.loads((GOLDEN / "1-column.json").read_bytes())
    del content["promise"]
    content["digest"] = content_digest(content)
    with pytest.raises(GuardrailError, match=r"promise.*calibrail export RUN"):
        FrozenConfig.from_bytes(render(content))
