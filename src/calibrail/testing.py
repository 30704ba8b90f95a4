"""Check_score, assert_certified.

Call ``check_score`` in the tests of a package that adds a score:

    from calibrail.testing import check_score

    def test_my_score_conforms():
        check_score(MyScore)  # or check_score(MyScore(parameter=2))
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from os import PathLike
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.data.sentences import sentence_examples
from calibrail.data.sources import Source
from calibrail.errors import InputError, errors_as
from calibrail.guardrail.runtime import Guardrail
from calibrail.options import Requirement
from calibrail.pipelines.certify import certify
from calibrail.pipelines.certify_labels import Certification
from calibrail.scores.base import Fittable, Score, Scores, learns, state_bytes, with_state
from calibrail.scores.registry import BUILT_IN, Factory, ScoreSpec, build


class NotCertifiedError(AssertionError):
    """A guardrail that was to be certified is rejected, or the answers leave it open.

    Attributes
    ----------
    certification : Certification
        What was found, with its intervals.
    """

    def __init__(self, certification: Certification) -> None:
        super().__init__(repr(certification))
        self.certification = certification


def assert_certified(
    guardrail: Guardrail | str | PathLike[str],
    source: Source | None = None,
    requirement: Requirement | None = None,
    **options: Any,
) -> Certification:
    """Return the certification of a guardrail on fresh labelled answers, or fail.

    The verdict is that of ``calibrail certify``: looks at the same answers are counted in the same
    file beside the guardrail's.

    Parameters
    ----------
    guardrail, source, requirement
        As for `calibrail.certify`.
    **options
        Its further parameters, e.g. ``max_false_alarms=0.2``.

    Raises
    ------
    NotCertifiedError
        The verdict is ``rejected`` or ``inconclusive``; it is an ``AssertionError``.
    CalibrailError
        There is no verdict: a file is missing, or a class.
    """
    certification = certify(guardrail, source, requirement, **options)
    if certification.verdict != "certified":
        raise NotCertifiedError(certification)
    return certification


#: What the answers that are tried are made of.
_TRIED: Final = json.loads(files("calibrail").joinpath("conformance.json").read_text("utf-8"))


def grounded() -> list[Example]:
    """Return answers that repeat what their context says."""
    return [
        Example(
            question=f"When did the {thing} of {place} begin?",
            contexts=(passage, "An unrelated chunk about weather in spring."),
            response=f"The {thing} of {place} goes back to {year}.",
            label=0,
            id=f"grounded-{thing}",
        )
        for thing, place, year, passage in _TRIED["topics"]
    ]


def labelled() -> list[Example]:
    """Return enough examples of both classes to learn from."""
    return [
        replace(example, response=f"{lead}{example.response}", id=f"{example.id}-{lead}")
        for lead in ("", "Surely: ", "I think that ")
        for example in (*grounded(), *off_topic())
    ]


def off_topic() -> list[Example]:
    """Return answers that have nothing to do with their context."""
    # As long as the grounded answer, so that length alone explains nothing.
    return [
        replace(
            example,
            response=(_TRIED["astray"] * 2)[: len(example.response) - 1] + ".",
            label=1,
            id=f"off-topic-{example.id}",
        )
        for example in grounded()
    ]


def strange() -> list[Example]:
    """Return answers in strange characters, and examples that lack something."""
    passage = ("The lighthouse at Orla was lit in 1853.",)
    return [
        *(
            Example("When was it lit?", passage, text, id=name)
            for name, text in _TRIED["strange"].items()
        ),
        Example("", passage, "It was lit in 1853.", id="no question"),
        Example("When?", (), "It was lit in 1853.", id="no contexts"),
        Example("When?", ("", " "), "It was lit in 1853.", id="blank contexts"),
    ]


def long(characters: int) -> list[Example]:
    """Return an answer of so many characters, and a context of as many words, at most 20,000."""
    n_words = min(characters, 20_000)
    context = " ".join(f"word{index % 997}" for index in range(n_words))
    answer = "word5 " * (characters // 6)
    return [
        Example(
            "What is it?", (context,), "It is word5 and word9.", id=f"a {n_words:,}-word context"
        ),
        Example("What is it?", ("It is word5.",), answer, id="a huge answer"),
    ]


_Floats = NDArray[np.float64]


class ConformanceError(AssertionError):
    """A score breaks a rule; the message says which, with the input that shows it."""


def check_score(
    score: Score | Factory,
    *,
    polarity: bool = True,
    columns: Mapping[str, float] | None = None,
    huge: int = 1_000_000,
) -> None:
    """Check every rule that a score must keep.

    Parameters
    ----------
    score : Score or callable
        The score, or what makes it when called without arguments: its class.
    polarity : bool
        Whether grounded answers must score lower on average than answers on another topic. Off for
        a score that looks for something else, such as the answer's length, or SGI, which finds
        answers that stay with the question.
    columns : mapping, optional
        Cells that every example gets, for a score that reads a column.
    huge : int
        Characters of the largest answer tried, and words of the largest context, up to 20,000;
        fewer where a model reads every word.

    Raises
    ------
    ConformanceError
        At the first rule that is broken: the shape and type of the values, a reason for every
        undefined value, the same values again, in another order, alone and in a batch, whatever
        the labels; no failure on empty, huge or strange input; JSON-able parameters that rebuild
        the score; evidence whose places are right; all of this of single sentences, too, whose
        values must not change when the answer goes on; for a score that learns, no value before,
        and the same state from the same examples; polarity.
    """
    factory: Factory
    # A class has the members of its instances, so that it would pass for one.
    if isinstance(score, type) or (callable(score) and not isinstance(score, Score)):
        factory, score = score, score()
    else:
        factory = type(score)
    if not isinstance(score, Score):
        raise ConformanceError(f"{type(score).__name__} lacks a member of the Score protocol")

    def with_columns(examples: Iterable[Example]) -> list[Example]:
        return [replace(example, columns=dict(columns or {})) for example in examples]

    if learns(score):
        score = _learnt(score, with_columns(labelled()))
    supported = with_columns(grounded())
    everything = [*supported, *with_columns(strange())]
    _identity(score)
    _require(len(_scored(score, [])) == 0, score, "an empty batch must give no value")
    _fresh(score)
    values = _scored(score, everything)
    _repeated(score, everything, values)
    values = values[: len(supported)]
    relabelled = [replace(example, label=1, group="other", id="other") for example in supported]
    _agree(score, relabelled, values, "label, group and id must have no influence")
    _by_sentence(score, with_columns(grounded()))
    for example in with_columns(long(huge)):
        _scored(score, [example])
    _rebuilt(score, factory, supported, values)
    for what, lacking in (
        ("an empty response", replace(supported[0], response=" \n")),
        ("no contexts", replace(supported[0], contexts=())),
        ("an empty question", replace(supported[0], question="")),
    ):
        if what.split()[-1] in score.requires:
            value = _scored(score, [lacking])[0]
            _require(bool(np.isnan(value)), score, f"{what} must be undefined")
    if polarity:
        low = np.nanmean(_scored(score, supported))
        high = np.nanmean(_scored(score, with_columns(off_topic())))
        rule = "higher must mean more likely hallucinated: grounded answers average "
        _require(bool(high > low), score, f"{rule}{low:.4g}, off-topic ones {high:.4g}")


def _require(holds: bool, score: Score, rule: str) -> None:
    if not holds:
        raise ConformanceError(f"{score.name}: {rule}")


def _identity(score: Score) -> None:
    _require(bool(score.name), score, "name must not be empty")
    known = {"question", "contexts", "response", "samples"}
    _require(set(score.requires) <= known, score, f"requires may name {sorted(known)}")
    _require(0.0 <= score.tolerance < np.inf, score, "tolerance must be finite and at least 0")
    for what, content in (("params", score.params), ("fingerprint()", score.fingerprint())):
        again = _through_json(score, what, dict(content))
        _require(again == dict(content), score, f"{what} must survive JSON unchanged")
    _require(score.fingerprint() == score.fingerprint(), score, "fingerprint() must be stable")


def _through_json(score: Score, what: str, content: object) -> object:
    odd = (TypeError, ValueError)
    with errors_as(ConformanceError, odd, "score_not_jsonable", name=score.name, what=what):
        return json.loads(json.dumps(content, allow_nan=False))


def _scored(score: Score, examples: Sequence[Example]) -> _Floats:
    result = score.score(examples)
    _require(isinstance(result, Scores), score, "score() must return Scores")
    values = result.values
    n = len(examples)
    _require(values.shape == (n,), score, f"{n} examples gave {values.shape}")
    # Scores itself refuses other dtypes, infinities and NaN without a reason; it may be bypassed.
    _require(values.dtype == np.float64, score, f"values must be float64; got {values.dtype}")
    for row in np.flatnonzero(np.isnan(values)).tolist():
        _require(bool(result.reasons.get(row)), score, f"NaN without a reason at row {row}")
    if result.evidence is not None:
        _evidence(score, examples, result)
    return values


def _evidence(score: Score, examples: Sequence[Example], result: Scores) -> None:
    evidence = result.evidence or ()
    _require(len(evidence) == len(examples), score, "evidence must have one entry per example")
    for example, entry in zip(examples, evidence, strict=True):
        _through_json(score, "evidence", entry)
        for item in entry.get("items", ()):
            if "start" in item:
                text = example.response[item["start"] : item["end"]]
                _require(text == item["text"], score, f"{example.id}: evidence misplaces {item}")
            if "quote" in item:
                chunk = example.contexts[item["chunk"]]
                quote = chunk[item["chunk_start"] : item["chunk_end"]]
                _require(quote == item["quote"], score, f"{example.id}: evidence misquotes {item}")


def _learnt(score: Score, examples: Sequence[Example]) -> Score:
    """Return the score fitted, having checked that fitting is repeatable and comes first."""
    try:
        score.score(examples[:1])
    except InputError:
        pass
    else:
        raise ConformanceError(f"{score.name}: a score that learns must not score before it has")
    assert isinstance(score, Fittable)
    states = []
    for _ in range(2):
        _fresh(score)
        fitted = score.fit(examples)
        states.append(state_bytes(fitted))
    _require(states[0] == states[1], score, "the same examples must give the same state")
    _require(not learns(fitted) and learns(score), score, "fit() must return a fitted copy")
    return fitted


def _agree(score: Score, examples: Sequence[Example], values: _Floats, rule: str) -> None:
    """Require that the examples give these values, as far as rounding goes."""
    again, tolerance = _scored(score, examples), score.tolerance
    near = np.allclose(values, again, rtol=tolerance, atol=tolerance, equal_nan=True)
    _require(near, score, rule.format(value=values[:1], again=again[:1]))


def _repeated(score: Score, examples: Sequence[Example], values: _Floats) -> None:
    """Require the same values of the same batch, in another order, and alone."""
    _fresh(score)
    again = _scored(score, examples)
    same = np.array_equal(values, again, equal_nan=True)
    _require(same, score, "the same batch must give the same values")
    order = np.random.default_rng(0).permutation(len(examples))
    _fresh(score)
    shuffled = [examples[i] for i in order.tolist()]
    _agree(score, shuffled, values[order], "the order of the examples must not matter")
    for row, example in enumerate(examples):
        _fresh(score)
        alone = f"{{again[0]}} alone, {{value[0]}} in a batch; tolerance is {score.tolerance}"
        _agree(score, [example], values[row : row + 1], f"{example.id}: {alone}")


def _by_sentence(score: Score, examples: Sequence[Example]) -> None:
    """Require of sentences what is required of answers, and that they do not look ahead."""
    responses = [f"{example.response} It is what it is." for example in examples]
    chunks = tuple(chunk for example in examples for chunk in example.contexts)
    first, whole = (
        replace(examples[0], contexts=chunks, response=" ".join(responses[:n]), label=None)
        for n in (2, len(responses))
    )
    sentences = sentence_examples(first)
    _fresh(score)
    values = _scored(score, sentences)
    _repeated(score, sentences, values)
    _fresh(score)
    longer = _scored(score, sentence_examples(whole))[: len(sentences)]
    near = np.allclose(values, longer, rtol=score.tolerance, atol=score.tolerance, equal_nan=True)
    _require(near, score, "what an answer says after a sentence must not matter to its value")


def _rebuilt(score: Score, factory: Factory, examples: Sequence[Example], values: _Floats) -> None:
    params = json.loads(json.dumps(dict(score.params)))
    odd = (InputError, TypeError)
    with errors_as(ConformanceError, odd, "score_not_rebuilt", name=score.name):
        built_in = score.name in BUILT_IN
        again = build(ScoreSpec(score.name, params)) if built_in else factory(**params)
        again = with_state(again, state_bytes(score))
    _require(dict(again.params) == dict(score.params), score, "params must survive a rebuild")
    _agree(again, examples, values, "the rebuilt score must give the same values")


def _fresh(score: Score) -> None:
    forget = getattr(score, "forget", None)
    if callable(forget):
        forget()


__all__ = ["ConformanceError", "NotCertifiedError", "assert_certified", "check_score"]
