"""Do results of uqlm's own scorers become a threshold, a guardrail and decisions?

A chat model that follows a script answers. The NLI model is a small one, for which any two texts
that differ contradict each other.
"""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pydantic import Field

import calibrail
from calibrail.cli import app
from calibrail.integrations.uqlm import answers, detector
from tests.integrations.frameworks import need
from tests.integrations.pages import run_page
from tests.integrations.scenario import Scenario

need("uqlm")

from langchain_core.language_models.chat_models import BaseChatModel  # noqa: E402
from langchain_core.messages import AIMessage  # noqa: E402
from langchain_core.outputs import ChatGeneration, ChatResult  # noqa: E402
from uqlm import BlackBoxUQ, LLMPanel, UQEnsemble, WhiteBoxUQ  # noqa: E402

QUESTIONS = [f"What is fact {row}?" for row in range(160)]
LATER = [f"What is fact {row}?" for row in range(160, 200)]
#: Of the first: every other fact is made up.
LABELS = [row % 2 for row in range(160)]
#: At which the script tells a sample from an answer.
SAMPLING = 1.0


class Scripted(BaseChatModel):
    """Is less sure of a fact with an odd number, and says something else of it more often."""

    temperature: float = 0.5
    logprobs: bool = False
    seed: str = ""
    asked: dict[str, int] = Field(default_factory=dict)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: Any, *args: Any, **options: Any) -> ChatResult:
        said = self.says(str(messages[-1].content))
        content = [{"token": "A", "logprob": said[1], "top_logprobs": []}]
        metadata = {"logprobs": {"content": content}} if self.logprobs else {}
        answer = AIMessage(said[0], response_metadata=metadata)
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def says(self, question: str) -> tuple[str, float]:
        """Return an answer with the log-probability of its token."""
        turn = self.asked[question] = self.asked.get(question, 0) + 1
        row = int(question.partition("fact ")[2].partition("?")[0])
        chance = random.Random(f"{self.seed}{row} {turn}")
        if "Proposed Answer" in question:
            right = chance.random() < (0.2 if row % 2 else 0.8)
            return ("Correct." if right else "Incorrect."), 0.0
        other = self.temperature == SAMPLING and chance.random() < (0.7 if row % 2 else 0.2)
        doubt = chance.uniform(0.2, 2.0) if row % 2 else chance.uniform(0.0, 0.8)
        return f"Fact {row} is {'another' if other else 'this'}.", -doubt


@pytest.fixture(scope="module")
def nli(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Save a model for which the two texts contradict each other, whatever they say."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder = tmp_path_factory.mktemp("nli")
    words = folder / "words.txt"
    words.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "fact"]))
    BertTokenizerFast(vocab_file=str(words)).save_pretrained(folder)
    small = {"hidden_size": 8, "intermediate_size": 8}
    small |= {"num_hidden_layers": 1, "num_attention_heads": 1}
    model = BertForSequenceClassification(BertConfig(vocab_size=6, num_labels=3, **small))
    torch.nn.init.zeros_(model.classifier.weight)
    model.classifier.bias.data = torch.tensor([4.0, 0.0, 0.0])
    model.save_pretrained(folder)
    return str(folder)


def scored(scorer: str, questions: list[str], nli: str) -> Any:
    """Return the result of the class of uqlm that has a scorer."""
    llm, quiet = Scripted(), {"show_progress_bars": False}
    if scorer in ("exact_match", "noncontradiction", "semantic_negentropy"):
        sampled = BlackBoxUQ(llm, [scorer], nli_model_name=nli, sampling_temperature=SAMPLING)
        return asyncio.run(sampled.generate_and_score(questions, num_responses=4, **quiet))
    if scorer == "median":
        judges = [Scripted(seed=seed) for seed in "abc"]
        return asyncio.run(LLMPanel(judges, llm=llm).generate_and_score(questions, **quiet))
    if scorer == "ensemble_scores":
        mixed = UQEnsemble(llm, ["exact_match", "min_probability"], sampling_temperature=SAMPLING)
        return asyncio.run(mixed.generate_and_score(questions, num_responses=4, **quiet))
    white = WhiteBoxUQ(llm, scorers=[scorer], sampling_temperature=SAMPLING)
    return asyncio.run(white.generate_and_score(questions, num_responses=4, **quiet))


def digits(values: Any) -> list[float]:
    """Return numbers by their shortest digits: some of uqlm are of single precision."""
    return [float(str(value)) for value in values]


@pytest.mark.parametrize(
    "scorer",
    [
        *("exact_match", "noncontradiction", "semantic_negentropy"),
        *("sequence_probability", "monte_carlo_probability"),
        *("median", "ensemble_scores"),
    ],
)
def test_a_scorer_becomes_a_guardrail(scorer: str, nli: str, tmp_path: Path) -> None:
    result = scored(scorer, QUESTIONS, nli)
    found = answers(result, LABELS)
    assert [item.question for item in found] == QUESTIONS
    assert [item.response for item in found] == result.data["responses"]
    assert [item.columns[scorer] for item in found] == digits(result.data[scorer])
    # What is no score of an answer is no column.
    assert not {"prompts", "responses", "logprob", "sampled_logprob"} & found[0].columns.keys()
    if "sampled_responses" in result.data:
        assert [list(item.samples) for item in found] == result.data["sampled_responses"]
    run = calibrail.calibrate(found, detector(scorer), alpha=0.3, baselines=False)
    test = run.report.test
    assert test.n_hallucinated + test.n_faithful == 80
    assert test.auroc.lower > 0.5, test.auroc
    run.freeze().save(tmp_path / "guardrail.json")
    guardrail = calibrail.Guardrail.load(tmp_path / "guardrail.json")
    later = answers(scored(scorer, LATER, nli))
    outcomes = {"pass": 0, "flag": 0}
    for item, decision in zip(later, guardrail.decide(later), strict=True):
        risky = -float(item.columns[scorer]) >= run.report.threshold
        assert decision.outcome == ("flag" if risky else "pass")
        outcomes[decision.outcome] += 1
    assert all(outcomes.values()), outcomes


def test_a_sample_in_the_place_of_an_answer_is_the_answer(nli: str) -> None:
    result = scored("semantic_negentropy", QUESTIONS, nli)
    moved = [text.endswith("another.") for text in result.data["responses"]]
    assert any(moved)
    assert not all(moved)
    assert [item.response.endswith("another.") for item in answers(result)] == moved


def test_what_to_dict_returns_has_lost_the_questions(nli: str) -> None:
    result = scored("exact_match", LATER, nli)
    kept, lost = answers(result), answers(result.to_dict())
    assert [item.question for item in lost] == [""] * len(LATER)
    assert [item.columns for item in lost] == [item.columns for item in kept]


def test_the_page_runs_in_both_ways(nli: str, scenario: Scenario, tmp_path: Path) -> None:
    result = scored("noncontradiction", QUESTIONS, nli)
    names = run_page("uqlm", scenario, tmp_path, result=result, labels=LABELS)
    assert names["rows"] == answers(result, LABELS)
    table = tmp_path / "scored.csv"
    result.to_df().assign(label=LABELS).to_csv(table, index=False)
    words = ["--score-column", "noncontradiction", "--higher", "faithful", "--alpha", "0.2"]
    command = ["calibrate", str(table), *words, "--json", "-o", str(tmp_path / "run")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code in (0, 3, 4), done.output
    assert json.loads(done.stdout)["test"]["auroc"]["estimate"] > 0.5
    (column,) = pq.read_table(tmp_path / "run" / "scores.parquet", columns=["noncontradiction"])
    # A table holds all digits of single precision; risk is the confidence with its sign turned.
    risks = sorted(-float(value) for value in result.data["noncontradiction"])
    assert sorted(column.to_pylist()) == pytest.approx(risks)
