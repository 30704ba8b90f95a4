"""The public data that pages and figures rest on, made of clones of its repositories.

``python benchmarks/public_sets.py`` writes what is not there yet into the folder that
CALIBRAIL_DATA names, from clones in its folder ``clones``, and says of each file whether its bytes
are those that the pages rest on (``TABLES``), or what to clone. Clones need their history: two
tables come from commits that later ones replaced.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

ROOT: Final = Path(__file__).resolve().parents[1]
#: FactCG-DeBERTa-L, and what others made of it by fine-tuning: P(supported).
FACTCG: Final = (
    "factcg_base",
    *(f"factcg_{name}" for name in ("anli", "docnli", "nca_synthetic", "qqp", "rte", "wanli")),
)
#: Columns of FRANK's metrics, by their published names; no file holds the third.
METRICS: Final[Mapping[str, str]] = {
    "factcc": "FactCC",
    "feqa": "FEQA",
    "dae": "DAE",
    "qags": "QAGS",
    "bertscore_p_article": "BertScore P Art",
    "rouge_l": "Rouge L",
}
#: Columns of FaithBench's detectors, by their published names.
DETECTORS: Final[Mapping[str, str]] = {
    "hhem_1": "hhemv1",
    "hhem_2_1": "hhem-2.1",
    "hhem_2_1_english": "hhem-2.1-english",
    "true_teacher": "trueteacher",
    "true_nli": "true_nli",
    "gpt_3_5_turbo": "gpt-3.5-turbo",
    "gpt_4_turbo": "gpt-4-turbo",
    "gpt_4o": "gpt_4o",
}
#: What annotators of FaithBench call a span, from the best.
ANNOTATED: Final = ("none", "benign", "questionable", "unwanted")
#: Sources of RAGTruth whose answers are there: 82 of the 150 that question answering tests ...
SOURCES: Final = frozenset(
    (
        *(12167, 12218, 12228, 12236, 12252, 12287, 12291, 12307, 12308, 12314, 12334, 12335),
        *(12342, 12344, 12358, 12372, 12391, 12414, 12422, 14323, 14327, 14334, 14355, 14357),
        *(14360, 14366, 14373, 14375, 14390, 14391, 14404, 14405, 14421, 14433, 14435, 14468),
        *(15092, 15103, 15108, 15112, 15124, 15135, 15138, 15143, 15149, 15158, 15164, 15168),
        *(15175, 15210, 15238, 15254, 15262, 15269, 15275, 15286, 15301, 15308, 15313, 15315),
        *(15338, 15339, 15379, 15383, 15388, 15390, 15395, 15442, 15450, 15454, 15466, 15478),
        *(15497, 15498, 15513, 15529, 15539, 15551, 15572, 15576, 15577, 15583),
    )
)
#: ... and their answers that are not.
LEFT_OUT: Final = frozenset(
    (
        *(12043, 12047, 12071, 12263, 12332, 12691, 12705, 12900, 12901, 12905, 13135, 14366),
        *(14804, 14805, 15176, 15709, 15781, 15782, 15783, 15785, 15931, 15932, 15968, 16358),
        *(16416, 16417, 16465, 16466, 16468, 17058, 17113, 17114, 17117, 17563),
    )
)
#: Attention heads and layers that ReDeEP's code sums for Llama-2-7B, and the weight of the former.
HEADS, LAYERS, WEIGHT = 3, 4, 0.6
#: Parts of ReDeEP's answers: heads and layers for one are chosen on the others.
FOLDS: Final = 5
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """A file of the data: what makes it of which clone, and the SHA-256 of that of the pages."""

    path: str
    repository: str
    made: Callable[[Path], str]
    sha256: str
    #: Why its bytes cannot be those of the pages.
    differs: str = ""

    @property
    def clone(self) -> str:
        """Where its repository lies below the folder of the data."""
        return f"clones/{self.repository.partition('/')[2]}"

    def write(self, data: Path) -> None:
        """Write the table where it is not there and its clone is."""
        path, clone = data / self.path, data / self.clone
        if clone.is_dir() and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.made(clone).encode())

    def said(self, data: Path) -> str:
        """Return what is to be said of the file."""
        if not (path := data / self.path).is_file():
            return f"not there: git clone https://github.com/{self.repository} {data / self.clone}"
        if hashlib.sha256(path.read_bytes()).hexdigest() == self.sha256:
            return "as the pages have it"
        return f"other bytes than the pages have{self.differs and ': '}{self.differs}"


def table(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as a CSV file."""
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows(rows)
    return stream.getvalue()


def read(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def committed(clone: Path, commit: str, path: str) -> Any:
    """Return the content of a JSON file as a commit has it."""
    command = ["git", "-C", str(clone), "show", f"{commit}:{path}"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def lines(path: Path) -> list[str]:
    """Return the lines of a file, which end at line feeds alone."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def claims(clone: Path) -> str:
    """Return the first half of the claims of each subset, with FactCG's scores."""
    names = [column.removeprefix("factcg_").replace("_", "-") for column in FACTCG]
    names = [name if name == "base" else f"factcg-{name}" for name in names]
    models = [read(clone / "benchmarks" / "scores" / f"{name}.json") for name in names]

    def rows() -> Iterator[list[Any]]:
        yield ["id", "subset", "label_supported", *FACTCG]
        for subset in models[0]:
            every = [*zip(*(scores[subset] for scores in models), strict=True)]
            for i, scored in enumerate(every[: len(every) // 2]):
                [label] = {label for label, _ in scored}
                yield [f"{subset}-{i}", subset, label, *(score for _, score in scored)]

    return table(rows())


def frank(clone: Path) -> str:
    """Return FRANK's summaries; hallucinated is one of which not every sentence is factual."""
    metrics, people = (
        read(clone / "data" / f"{name}.json")
        for name in ("baseline_factuality_metrics_outputs", "human_annotations")
    )
    factual = {(row["hash"], row["model_name"]): row["Factuality"] for row in people}

    def rows() -> Iterator[list[Any]]:
        yield ["id", "group", "dataset", "model", "label", *METRICS]
        for row in metrics:
            article, model = row["hash"][:12], row["model_name"]
            label = int(factual[row["hash"], model] < 1)
            scores = (row.get(name) for name in METRICS.values())
            yield [f"{article}-{model}", article, row["dataset"], model, label, *scores]

    return table(rows())


def batches(clone: Path) -> Iterator[tuple[str, Any]]:
    """Yield FaithBench's summaries with their ids; there is no batch 13."""
    for batch in (*range(1, 13), 14, 15, 16):
        for sample in read(clone / "data_for_release" / f"batch_{batch}.json")["samples"]:
            yield f"{batch}-{sample['sample_id']}", sample


def faithbench(clone: Path) -> str:
    """Return FaithBench's summaries with detectors' scores and the worst annotation."""
    groups: dict[str, str] = {}

    def rows() -> Iterator[list[Any]]:
        yield ["id", "group", "summarizer", "contexts", "response", "worst", "label", *DETECTORS]
        for key, sample in batches(clone):
            group = groups.setdefault(sample["source"], f"s{len(groups)}")
            said = [label for each in sample["annotations"] for label in each["label"]]
            worst = max(
                ("none", *(label.partition(".")[0].lower() for label in said)), key=ANNOTATED.index
            )
            label = int(worst in ANNOTATED[2:])
            about = sample["metadata"]
            summary = [about["summarizer"], sample["source"], sample["summary"], worst, label]
            yield [key, group, *summary, *(about[name] for name in DETECTORS.values())]

    return table(rows())


def faithbench_spans(clone: Path) -> str:
    """Return the spans that FaithBench's annotators marked."""

    def rows() -> Iterator[list[Any]]:
        yield ["id", "start", "end", "annotator", "label"]
        for key, sample in batches(clone):
            for each in sample["annotations"]:
                who, labels = each["annotator_id"][:8], "|".join(each["label"])
                yield [key, each["summary_start"], each["summary_end"], who, labels]

    return table(rows())


def sentences(columns: Sequence[str], passages: Iterable[tuple[Any, ...]]) -> str:
    """Return WikiBio's sentences: of a passage its key, sentences, grades and scores."""

    def rows() -> Iterator[list[Any]]:
        yield ["id", "group", "response", "label", "grade", *columns]
        for key, *of_each in passages:
            for i, (text, grade, *scores) in enumerate(zip(*of_each, strict=True)):
                yield [f"{key}-{i}", key, text, int(grade != "accurate"), grade, *scores]

    return table(rows())


def wikibio_119(clone: Path) -> str:
    """Return sentences with SelfCheckGPT's scores as of commit 2c16817."""
    names = ("nli", "bert", "prompt")
    passages = (
        (
            *(row[name] for name in ("wiki_bio_test_idx", "main_sentences", "annotation")),
            *(row["scores"][name] for name in names),
        )
        for row in committed(clone, "2c16817", "data/result-original-samples.json")
    )
    return sentences(["selfcheck_nli", "selfcheck_bertscore", "selfcheck_prompt"], passages)


def wikibio_237(clone: Path) -> str:
    """Return sentences as two models judged them, as of commit 15fb3ae; one lacks a passage."""
    qwen, gemma = (
        committed(clone, "15fb3ae", f"data/result-prompt-{name}-no-think.json")
        for name in ("qwen3.5-9B", "gemma4-31B")
    )
    by_key = {row["wiki_bio_test_idx"]: row["sent_scores"] for row in gemma}
    names = ("wiki_bio_test_idx", "sentences", "annotations", "sentence_scores")
    passages = ((*(row[name] for name in names), by_key[row[names[0]]]) for row in qwen)
    return sentences(["selfcheck_qwen_9b", "selfcheck_gemma_31b"], passages)


def halueval(clone: Path) -> str:
    """Return the first 1,000 questions of HaluEval QA, as they stand."""
    return "\n".join(lines(clone / "data" / "qa_data.json")[:1000]) + "\n"


def ragtruth(clone: Path, name: str) -> str:
    """Return RAGTruth's answers, or sources, that belong to ``SOURCES``."""
    rows = (json.loads(line) for line in lines(clone / "dataset" / f"{name}.jsonl"))
    kept = (
        row
        for row in rows
        if int(row["source_id"]) in SOURCES and int(row.get("id", 0)) not in LEFT_OUT
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept)


def natural_questions(clone: Path) -> str:
    """Return the first 1,500 questions with the passage that answers them."""
    text = gzip.decompress((clone / "qa_data" / "nq-open-oracle.jsonl.gz").read_bytes()).decode()
    found = [json.loads(line) for line in text.split("\n")[:1500] if line]
    rows = (
        {name: row[name] for name in ("question", "answers")}
        | {"passage": {name: row["ctxs"][0][name] for name in ("title", "text")}}
        for row in found
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def truthfulqa(clone: Path) -> str:
    """Return TruthfulQA as it stands."""
    return (clone / "TruthfulQA.csv").read_bytes().decode()


def redeep(clone: Path) -> str:
    """Return Llama-2-7B's answers with ReDeEP (chunk), heads chosen on all answers and on others.

    As its authors' code has it: the heads and layers of highest AUROC over chunks are summed,
    scaled to 0 to 1, subtracted and averaged over the chunks of an answer.
    """
    answers = read(clone / "ReDeEP" / "log" / "test_llama2_7B" / "llama2_7B_response_chunk.json")
    chunks = [(i, chunk) for i, answer in enumerate(answers) for chunk in answer["scores"]]
    owner = np.array([i for i, _ in chunks])
    labels = np.array([chunk["hallucination_label"] for _, chunk in chunks])
    attention, knowledge = (
        np.array([[*chunk[name].values()] for _, chunk in chunks])
        for name in ("prompt_attention_score", "parameter_knowledge_scores")
    )

    def scored(chosen_on: NDArray[np.bool_]) -> Floats:
        seen = labels[chosen_on] == 1
        layers = _scaled(_strongest(knowledge, chosen_on, seen, LAYERS))
        heads = _scaled(_strongest(attention, chosen_on, ~seen, HEADS))
        return np.bincount(owner, layers - WEIGHT * heads) / np.bincount(owner)

    everywhere = scored(np.ones(len(owner), bool))
    apart = [scored(owner % FOLDS != fold) for fold in range(FOLDS)]
    hallucinated = np.maximum.reduceat(labels, np.flatnonzero(np.diff(owner, prepend=-1)))
    names = ["redeep_heads_chosen_on_these_labels", "redeep_out_of_fold"]
    rows: list[list[Any]] = [["id", "group", "response", "label", *names]]
    for i, answer in enumerate(answers):
        scores = (float(everywhere[i]), float(apart[i % FOLDS][i]))
        rows.append([i, answer["source_id"], answer["response"], int(hallucinated[i]), *scores])
    return table(rows)


def _strongest(
    values: Floats, rows: NDArray[np.bool_], positive: NDArray[np.bool_], n: int
) -> Floats:
    """Return the sum of the n columns of highest AUROC among some rows, for all rows."""
    areas = [
        np.mean(column[positive][:, None] > column[~positive])
        + np.mean(column[positive][:, None] == column[~positive]) / 2
        for column in values[rows].T
    ]
    return values[:, np.argsort(areas)[::-1][:n]].sum(axis=1)


def _scaled(values: Floats) -> Floats:
    return (values - values.min()) / (values.max() - values.min())


TABLES: Final = (
    Table(
        "aggrefact/scores.csv",
        "anulum/director-ai",
        claims,
        "40f627c0acf31a55fd008143d6ebf6ada136c19010f8ef98b5bd7366187cec38",
    ),
    Table(
        "frank/metric_scores.csv",
        "artidoro/frank",
        frank,
        "63531c506df5d6d63475074e828d3b65633c1e1eac150c48f3e273d45bff74d8",
    ),
    Table(
        "faithbench/summaries.csv",
        "vectara/FaithBench",
        faithbench,
        "6414dab4506a83a93ea300e2605e3738177a2299e907d9c0ab40c0c62bb1e69a",
    ),
    Table(
        "faithbench/spans.csv",
        "vectara/FaithBench",
        faithbench_spans,
        "a492a4fbd63eaa8e5fc9decc255357a219d48035201860f2afe600fec9cafbf9",
    ),
    Table(
        "wikibio/sentences_119.csv",
        "KAIST-CS584-HCI/selfcheckgpt-replication",
        wikibio_119,
        "426d078bc93a41812781c83b3513dcde39b9f1e6812e2ce6839bb326686c842a",
    ),
    Table(
        "wikibio/sentences_237.csv",
        "KAIST-CS584-HCI/selfcheckgpt-replication",
        wikibio_237,
        "eaf62fb355c574f46943990d355659612c21b12762dfa5e4c6f97efdaf54eb2c",
    ),
    Table(
        "halueval/qa_data.json",
        "RUCAIBox/HaluEval",
        halueval,
        "0145ccea4e850a12fea28bdc27bdd8b26d0aa4dcfda28edf11b075a01802b96b",
    ),
    Table(
        "ragtruth/response.jsonl",
        "ParticleMedia/RAGTruth",
        lambda clone: ragtruth(clone, "response"),
        "f6393ffc959e0852e4f9c04dd725df9f7b5cbe99d4cbf2834e6a37773ac2d25d",
    ),
    Table(
        "ragtruth/source_info.jsonl",
        "ParticleMedia/RAGTruth",
        lambda clone: ragtruth(clone, "source_info"),
        "6fa2ace5f87fcff165246dc200466a30694e09931febe72293ac8d9c96fedc88",
    ),
    Table(
        "ragtruth/llama2_7b_redeep.csv",
        "Jeryi-Sun/ReDEeP-ICLR",
        redeep,
        "c6396b81083e705a2f4a38acfcc56b4e39e35e9741d9f046c691eb0a835894f2",
        f"redeep_out_of_fold has folds of its own (answer i is in fold i modulo {FOLDS}), since "
        "those of the pages are not known",
    ),
    Table(
        "natural_questions/nq_open_gold.jsonl",
        "nelson-liu/lost-in-the-middle",
        natural_questions,
        "0c12bd687ac84cd2c53bbbe58e9b50b4566f06165e2559c1c1dfacd410f7ab0f",
    ),
    Table(
        "truthfulqa/TruthfulQA.csv",
        "sylinrl/TruthfulQA",
        truthfulqa,
        "b8d8ef1e12f98b4f2a9f47abc9765da0640b182b6c5d9b92f0c1a1f2f1e02e5c",
    ),
)


def write_tables(data: Path) -> None:
    """Write the tables that are not there, of the clones that are."""
    for item in TABLES:
        item.write(data)


def data_folder() -> Path:
    """Return the folder that CALIBRAIL_DATA names."""
    return Path(os.environ.get("CALIBRAIL_DATA", ROOT / ".." / "shared" / "data"))


def main() -> None:
    data = data_folder()
    write_tables(data)
    said = {item.path: item.said(data) for item in TABLES}
    print("\n".join(f"{path}: {words}" for path, words in said.items()))
    sys.exit(0 if {*said.values()} == {"as the pages have it"} else 1)


if __name__ == "__main__":
    main()
