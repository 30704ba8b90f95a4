"""Does a file in a layout of public data sets get advice that, followed, reads it rightly?

The rows imitate layouts alone; no text or label is taken from a data set. Every hallucinated answer
holds one invented word, so that each label that comes out is checked.
"""

from __future__ import annotations

import csv
import json
import random
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from calibrail import diagnose
from calibrail.cli import app
from calibrail.data import Example, read_all
from calibrail.errors import DataError
from calibrail.options.fields import cli_spelling
from calibrail.report import document as parts
from calibrail.report.documents.doctor import document


@pytest.fixture(autouse=True)
def typed() -> Iterator[None]:
    """Say it as to who wrote a command."""
    with cli_spelling():
        yield


N: Final = 40
BAD: Final = "zork"
#: An article, a sentence of it, another one that is made up, and which of the two a row holds.
Make = Callable[[int, str, str, str, bool], dict[str, Any]]


def _votes(bad: bool) -> list[dict[str, Any]]:
    said = ["no", "no", "yes"] if bad else ["yes", "no", "yes"]
    return [{"worker_id": i, "response": word} for i, word in enumerate(said)]


def _thanked(chat: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*chat, {"role": "user", "content": "Thank you, that is all for now."}]


def _by_worker(bad: bool) -> dict[str, str]:
    said = ["yes", "no", "no"] if bad else ["yes", "no", "yes"]
    return dict(zip(("w1", "w2", "w3"), said, strict=True))


def _chat(i: int, c: str, answer: str) -> list[dict[str, Any]]:
    earlier = [
        {"role": "user", "content": "Hello there, who are you?"},
        {"role": "assistant", "content": "An assistant for questions about dams."},
    ]
    call = {"id": "c", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    return [
        {"role": "system", "content": "You are a helpful assistant for questions about dams."},
        *(earlier * (i % 3)),
        {"role": "user", "content": f"What about dam number {i}?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": c},
        {"role": "assistant", "content": answer},
    ]


LAYOUTS: Final[dict[str, tuple[str, Make]]] = {
    "qags": (
        "jsonl",
        lambda i, c, good, made, bad: {
            "article": c,
            "summary_sentences": [
                {"sentence": good, "responses": _votes(False)},
                {"sentence": made if bad else good, "responses": _votes(bad)},
            ],
        },
    ),
    "sentences with a word each": (
        "json",
        lambda i, c, good, made, bad: {
            "document": c,
            "sentences": [
                {"text": good, "verdict": "supported"},
                {"text": made if bad else good, "verdict": ["supported", "unsupported"][bad]},
            ],
        },
    ),
    "sentences beside a list of votes": (
        "jsonl",
        lambda i, c, good, made, bad: {
            "source": c,
            "summary_sentences": [good, made if bad else good],
            "annotations": [["yes", "yes"], ["no", "no"] if bad else ["yes", "yes"]],
        },
    ),
    "summedits": (
        "json",
        lambda i, c, good, made, bad: {
            "id": f"news_{i}",
            "doc": c,
            "summary": made if bad else good,
            "label": int(not bad),
            "original_summary": good,
            "edit_types": ["entity_modification"] if bad and i % 8 else [],
        },
    ),
    "kinds of errors beside labels": (
        "csv",
        lambda i, c, good, made, bad: {
            "passage": c,
            "answer": made if bad else good,
            "label": int(not bad),
            "error_type": ["none", "entity"][bad],
        },
    ),
    "bump": (
        "json",
        lambda i, c, good, made, bad: {
            "id": i,
            "article_id": i // 3,
            "article": c,
            "reference_summary": good,
            "edited_summary": made,
            "error_type": "Extrinsic Entity Error",
            "corrected_error_type": ["Extrinsic Entity Error", "Intrinsic Predicate Error"][i % 2],
            "scores": {"CoCo_edited": i / 50, "CoCo_reference": i / 40},
        },
    ),
    "a question with a right and a wrong answer": (
        "csv",
        lambda i, c, good, made, bad: {
            "question": f"What of dam {i}?",
            "evidence": c,
            "correct_response": good,
            "incorrect_response": made,
        },
    ),
    "anli": (
        "jsonl",
        lambda i, c, good, made, bad: {
            "uid": f"u{i}",
            "context": c,
            "hypothesis": made if bad else good,
            "label": "c" if bad and i % 4 == 1 else "n" if bad else "e",
            "model_label": "c",
            "emturk": True,
            "genre": "wiki",
            "reason": f"The {good} is what I looked at in this case.",
            "tag": "",
        },
    ),
    "hypotheses in a list": (
        "jsonl",
        lambda i, c, good, made, bad: {
            "premise": c,
            "hypotheses": [good, made, f"{made} again"],
            "labels": ["e", "n", "c"],
        },
    ),
    "hypotheses as objects": (
        "jsonl",
        lambda i, c, good, made, bad: {
            "premise": c,
            "hypotheses": [{"text": good, "label": "e"}, {"text": made, "label": "c"}],
        },
    ),
    "a column for each class of inference": (
        "csv",
        lambda i, c, good, made, bad: {
            "premise": c,
            "entailment": good,
            "neutral": made,
            "contradiction": f"Never {made}",
        },
    ),
    "fever": (
        "jsonl",
        lambda i, c, good, made, bad: {
            "id": i,
            "claim": made if bad else good,
            "evidence": c,
            "label": ["REFUTES", "NOT ENOUGH INFO"][i // 2 % 2] if bad else "SUPPORTS",
        },
    ),
    "llm-aggrefact": (
        "csv",
        lambda i, c, good, made, bad: {
            "dataset": "AggreFact-CNN",
            "doc": c,
            "claim": made if bad else good,
            "label": int(not bad),
            "contamination_identifier": "",
        },
    ),
    "a column for each model": (
        "csv",
        lambda i, c, good, made, bad: {
            "question": f"What of dam {i}?",
            "context": c,
            "gpt-4_answer": good,
            "gpt-4_label": 0,
            "llama2_answer": made if bad else good,
            "llama2_label": int(bad),
        },
    ),
    "an object for each model": (
        "jsonl",
        lambda i, c, good, made, bad: {
            "article": c,
            "outputs": {
                "bart": {"text": good, "is_faithful": True},
                "pegasus": {"text": made if bad else good, "is_faithful": not bad},
            },
        },
    ),
    "answers and labels by model": (
        "jsonl",
        lambda i, c, good, made, bad: {
            "document": c,
            "summaries": {"bart": good, "t5": made if bad else good},
            "labels": {"bart": 0, "t5": int(bad)},
        },
    ),
    "numbered answers": (
        "csv",
        lambda i, c, good, made, bad: {
            "source": c,
            "response_1": made if bad else good,
            "response_2": good,
            "label_1": ["faithful", "hallucinated"][bad],
            "label_2": "faithful",
        },
    ),
    "workers by their names in each sentence": (
        "jsonl",
        lambda i, c, good, made, bad: {
            "article": c,
            "sents": [
                {"text": good, "worker_votes": {"w1": "yes", "w2": "yes", "w3": "no"}},
                {"text": made if bad else good, "worker_votes": _by_worker(bad)},
            ],
        },
    ),
    "an answer that holds its sentences": (
        "jsonl",
        lambda i, c, good, made, bad: {
            "document": c,
            "summary": {
                "text": f"{good} {made if bad else good}",
                "sentences": [
                    {"text": good, "labels": ["consistent"] * 3},
                    {
                        "text": made if bad else good,
                        "labels": ["consistent", *[["consistent", "inconsistent"][bad]] * 2],
                    },
                ],
            },
        },
    ),
    "a sentence a row, a column for each worker": (
        "csv",
        lambda i, c, good, made, bad: {
            "sent_id": i % 3,
            "article": c,
            "sentence": made if bad else good,
            **{f"worker{name[1:]}": vote for name, vote in _by_worker(bad).items()},
        },
    ),
    "an edit beside its original": (
        "jsonl",
        lambda i, c, good, made, bad: {
            "document": c,
            "seed_summary": good,
            "edited_summary": made if bad else good,
            "consistent": not bad,
        },
    ),
    "texts that are edits, with a word": (
        "csv",
        lambda i, c, good, made, bad: {
            "document": c,
            "original_text": good,
            "edited_text": made if bad else good,
            "verdict": ["consistent", "inconsistent"][bad],
        },
    ),
    "a pair with a source by another name": (
        "json",
        lambda i, c, good, made, bad: {
            "source_article": c,
            "original_text": good,
            "hallucinated_text": made,
        },
    ),
    "hypotheses by their letters": (
        "csv",
        lambda i, c, good, made, bad: {
            "premise": c,
            "hyp_e": good,
            "hyp_n": made,
            "hyp_c": f"Never {made}",
        },
    ),
    "votes counted for each sentence": (
        "jsonl",
        lambda i, c, good, made, bad: {
            "doc": c,
            "sentences": [
                {"sentence": good, "votes": {"yes": 3, "no": 0}},
                {"sentence": made if bad else good, "votes": {"yes": 3 - 2 * bad, "no": 2 * bad}},
            ],
        },
    ),
    "snli": (
        "jsonl",
        lambda i, c, good, made, bad: {
            "gold_label": "contradiction" if bad else "-" if i == 4 else "entailment",
            "sentence1": c,
            "sentence2": made if bad else good,
            "annotator_labels": ["neutral", "entailment", "entailment"],
        },
    ),
    "inference as hugging face numbers it": (
        "jsonl",
        lambda i, c, good, made, bad: {
            "premise": c,
            "hypothesis": made if bad else good,
            "label": 1 + i // 2 % 2 if bad else 0,
        },
    ),
    "a column for each system, labelled by what it is": (
        "csv",
        lambda i, c, good, made, bad: {
            "document": c,
            "PtGen": good,
            "TConvS2S": made if bad else good,
            "PtGen_factual": 1,
            "TConvS2S_factual": int(not bad),
        },
    ),
    "a prompt that holds all": (
        "csv",
        lambda i, c, good, made, bad: {
            "prompt": f"Answer the question.\n\nContext: {c}\n\nQuestion: What of dam {i}?",
            "completion": made if bad else good,
            "is_hallucinated": bad,
        },
    ),
    "a chat of any length": (
        "jsonl",
        lambda i, c, good, made, bad: {
            "messages": _chat(i, c, made if bad else good),
            "label": int(bad),
        },
    ),
    "a chat as sharegpt has it": (
        "jsonl",
        lambda i, c, good, made, bad: {
            "conversations": [
                {"from": "system", "value": f"Answer from this text. {c}"},
                {"from": "human", "value": f"What of dam {i}?"},
                {"from": "gpt", "value": made if bad else good},
            ],
            "verdict": ["pass", "fail"][bad],
        },
    ),
}


def write(folder: Path, kind: str, make: Make) -> Path:
    rng, rows = random.Random(0), []
    words = [f"word{i}" for i in range(800)]
    for i in range(N):
        lines = [" ".join(rng.sample(words, 8)).capitalize() + "." for _ in range(6)]
        made = f"{' '.join(rng.sample(words, 7))} {BAD}."
        rows.append(make(i, " ".join(lines), lines[i % 6], made, bool(i % 2)))
    path = folder / f"rows.{kind}"
    with path.open("w", encoding="utf-8", newline="") as stream:
        if kind == "csv":
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        else:
            stream.write("\n".join(map(json.dumps, rows)) if kind == "jsonl" else json.dumps(rows))
    return path


def options_of(words: list[str]) -> dict[str, Any]:
    """Return what a command says of reading, as keywords of `read`."""
    how = dict(zip(words[::2], words[1::2], strict=True))
    pairs = {
        name: dict(pair.split("=", 1) for pair in how[flag].split(","))
        for flag, name in (("--map", "mapping"), ("--label-map", "label_map"), ("--pair", "pair"))
        if flag in how
    }
    single = {"--positive": "positive", "--label-column": "label_column"}
    return pairs | {single[flag]: value for flag, value in how.items() if flag in single}


def followed(path: Path) -> tuple[dict[str, Any], list[Example]]:
    """Do what doctor says until it would calibrate; return its last diagnosis, and the answers."""
    words = ["doctor", str(path)]
    for _ in range(4):
        done = CliRunner().invoke(app, [*words, "--json"])
        assert done.exit_code in (0, 1) and not done.stderr, done.output
        seen = json.loads(done.stdout)
        shown = document(seen)
        code = [b.text for b in parts.all_blocks(shown.blocks) if isinstance(b, parts.Code)]
        for lines in code:
            exec(re.sub(r"^python.*|^END$", "", lines, flags=re.MULTILINE), {})
        _, command = shown.steps_and_commands()[0]
        words = shlex.split(re.split(r"\s\((?:if|put) ", command)[0])[1:]
        if words[0] in ("calibrate", "compare"):
            break
    read = list(seen["reading"]["options"])
    # The dash of SNLI, where people did not agree, is no label.
    path = seen["inputs"][0]
    strict = "gold_label" not in Path(path).read_text("utf-8")
    examples, _ = read_all(path, strict=strict, require=("response",), **options_of(read))
    return seen, examples


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_advice_reads_every_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    seen, examples = followed(write(tmp_path, *LAYOUTS[name]))
    assert [item.label for item in examples] == [int(BAD in item.response) for item in examples]
    n_bad = sum(BAD in item.response for item in examples)
    assert (seen["n_hallucinated"], seen["usable"]) == (n_bad, len(examples))
    assert n_bad >= N // 2 and len(examples) >= N - 1 and len(examples) > n_bad
    assert all(item.contexts and "word" in item.contexts[0] for item in examples)
    if "chat" in name:
        assert all(re.search(r"dam (number )?\d", item.question) for item in examples)
        assert all("Hello" not in chunk for item in examples for chunk in item.contexts)
    # Answers of one row stay on one side of a split.
    if seen["usable"] > N:
        assert seen["groups"]["largest"] > 1


@pytest.mark.parametrize(
    ("row", "question", "unread"),
    [
        ({"prompt": "### Context\n{c}\n### Question\n{i}?", "answer": "{r}"}, False, ["prompt"]),
        ({"prompt": "What of dam {i}?", "docs": ["{c}"], "answer": "{r}"}, True, []),
        ({"prompt": "Read: {c} What of {i}?", "docs": ["{c}"], "answer": "{r}"}, False, ["prompt"]),
        ({"user_prompt": "What of {i}?", "chunks": ["{c}"], "llm_answer": "{r}"}, True, []),
        ({"query": "What of dam {i}?", "search_results": "{c}", "reply": "{r}"}, True, []),
        (
            {
                "question": "What of {i}?",
                "context": "{c}",
                "answer": "{r}",
                "note": "A note on {c}",
            },
            True,
            ["note"],
        ),
    ],
)
def test_what_is_read_by_its_name_and_what_is_not(
    tmp_path: Path, row: dict[str, Any], question: bool, unread: list[str]
) -> None:
    path = tmp_path / "rows.jsonl"
    lines = []
    for i in range(12):
        made = {
            "{i}": str(i),
            "{c}": f"Dam {i} holds back lake {i} and is high.",
            "{r}": f"It is {i}.",
        }
        spelt = json.dumps(row)
        for mark, text in made.items():
            spelt = spelt.replace(mark, text)
        lines.append(json.dumps(json.loads(spelt) | {"label": i % 2}))
    path.write_text("\n".join(lines), encoding="utf-8")
    seen = diagnose(path)
    assert {"response", "label"} <= seen.columns.keys()
    assert ("contexts" in seen.columns) is (len(row) > 2)
    assert ("question" in seen.columns) is question
    assert [text.name for text in seen.unread] == unread
    shown = dict(item for block in document(seen.to_dict()).blocks for item in _facts(block))
    assert ("Texts not read" in shown) is bool(unread)


def _facts(block: parts.Block | None) -> list[tuple[str, str]]:
    inside = parts.all_blocks([block])
    return [item for one in inside if isinstance(one, parts.Facts) for item in one.items]


def _answers(look: Callable[[int, str], str], n: int = 160) -> list[dict[str, Any]]:
    """Return answers of which every other one is hallucinated, and looks as it is told."""
    return [
        {
            "question": f"What of dam {i}?",
            "contexts": [f"Dam {i} holds back lake {i}."],
            "response": look(i, f"Lake {(i * 7) % n} lies behind dam {i}."),
            "label": i % 2,
        }
        for i in range(n)
    ]


ARTEFACTS: Final[dict[str, Callable[[int, str], str]]] = {
    "trailing_space": lambda i, text: text + " " * (i % 2),
    "leading_space": lambda i, text: "\n" * (i % 2 and i % 3) + text,
    "final_stop": lambda i, text: text.rstrip("." if i % 2 else ""),
    "ending": lambda i, text: text.rstrip(".") + ("!" if i % 2 else "."),
    "lower_case_start": lambda i, text: text[0].lower() + text[1:] if i % 2 else text,
    "capitals": lambda i, text: text.upper() if i % 2 else text,
    "boilerplate": lambda i, text: f"Based on the provided context, {text}" if i % 8 == 1 else text,
    "opening": lambda i, text: f"Soweit bekannt: {text}" if i % 4 == 0 else text,
    "markdown": lambda i, text: text.replace("dam", "**dam**") if i % 2 else text,
    "line_breaks": lambda i, text: text.replace(" lies", "\nlies") if i % 2 else text,
    "spacing": lambda i, text: text.replace(".", " .") if i % 2 == 0 else text,
    "signs": lambda i, text: text.replace("dam", "\u201cdam\u201d") if i % 2 else text,
    "": lambda i, text: f"As an AI, {text} " if i // 2 % 2 else text.lower(),
}


@pytest.mark.parametrize("code", ARTEFACTS)
def test_what_gives_a_label_away_is_told_and_chance_is_not(tmp_path: Path, code: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, _answers(ARTEFACTS[code]))), encoding="utf-8")
    seen = diagnose(path)
    told = {item.code: item for item in seen.artefacts}
    assert (code in told) if code else not told
    lines = [item.message for item in seen.warnings if item.code == "artefact"]
    assert len(lines) == len(told) and all("Labels are given away by" in line for line in lines)
    for item in told.values():
        assert 0.0 <= item.lower <= item.auroc <= item.upper <= 1.0
        assert not item.lower <= 0.5 <= item.upper


@pytest.mark.parametrize(
    ("name", "higher"),
    [
        ("p_supported", "faithful"),
        ("hallucination_score", "hallucinated"),
        ("score.Faithfulness", "faithful"),
        ("nliContradiction", "hallucinated"),
        ("trustworthiness_score", "faithful"),
        ("mydet", None),
        ("not_supported", None),
        ("hallucination_free", None),
        ("faithful_vs_hallucinated", None),
        ("supported_label_error", None),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_labels_never_choose_what_a_higher_score_means(
    tmp_path: Path, name: str, higher: str | None, turned: bool
) -> None:
    rng = random.Random(3)
    path = tmp_path / "scores.csv"
    rows = [f"{i},{i % 2},{rng.random() + (i % 2 ^ turned) * 0.5:.4f}" for i in range(200)]
    path.write_text("\n".join([f"id,label,{name}", *rows]) + "\n", encoding="utf-8")
    steps = document(diagnose(path).to_dict()).steps_and_commands()
    directions = [re.findall(r"--higher (\w+)", command) for _, command in steps]
    if higher is not None:
        assert directions == [[higher]]
        return
    assert directions == [["hallucinated"], ["faithful"]]
    text = " ".join(said for said, _ in steps)
    for part in ("Do not take the direction", "documentation of the detector"):
        assert part in text
    areas = [float(area) for area in re.findall(r"AUROC (\d\.\d+)", text)]
    assert sum(areas) == pytest.approx(1.0) and (areas[0] < 0.5) is turned


def test_an_answer_spelt_by_its_sentences_has_baselines(tmp_path: Path) -> None:
    path, rng = tmp_path / "rows.jsonl", random.Random(1)
    rows = [
        {
            "contexts": [f"Dam {i} holds back lake {i}."],
            "sentences": [
                {"text": f"Dam {i} is high.", "label": 0},
                {"text": "So.", "label": i % 2},
            ],
            "mine": i % 2 + rng.random(),
        }
        for i in range(80)
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ["calibrate", str(path), "--score-column", "mine", "--higher", "hallucinated"]
    done = CliRunner().invoke(app, [*words, "--alpha", "0.2", "-o", str(tmp_path / "run")])
    report = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))
    assert "No baselines" not in " ".join(done.stdout.split())
    assert {item["name"] for item in report["baselines"]} >= {"length", "novelty"}
    assert "No baselines" not in " ".join(report["notes"])


def test_an_edit_beside_what_goes_by_the_name_of_an_answer_is_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    rows = [f"Dam {i}.,It is {i}.,It is not {i} at all.,{i % 2}" for i in range(9)]
    path.write_text("\n".join(["document,summary,edited_summary,label", *rows]), "utf-8")
    with pytest.raises(DataError, match="may be in 'edited_summary', beside which 'summary'"):
        diagnose(path)
    assert diagnose(path, mapping={"response": "summary"}).usable == 9
    bare = path.read_text("utf-8").replace(",label", ",place")
    path.write_text(bare, "utf-8")
    assert diagnose(path).columns["response"] == "summary"


def test_a_turn_of_the_user_is_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    chats = [_thanked(_chat(i, f"Dam {i} is a high one.", f"It is {i} m high.")) for i in range(9)]
    rows = [json.dumps({"messages": chat, "label": i % 2}) for i, chat in enumerate(chats)]
    path.write_text("\n".join(rows), encoding="utf-8")
    how = {"question": "messages.user.-1.content", "contexts": "messages.tool.content"}
    assert "response" not in str(diagnose(path, mapping=how).suggested)
