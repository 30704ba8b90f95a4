"""Which data and which models are there for a reproduction?"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

SHARED: Final = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"

#: Short names of the papers' models.
MODELS: Final[Mapping[str, str]] = {
    "mpnet": "sentence-transformers/all-mpnet-base-v2",
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
    "bge": "BAAI/bge-base-en-v1.5",
    "e5": "intfloat/e5-base-v2",
    "gte": "thenlper/gte-base",
    "bart": "facebook/bart-large-mnli",
    "deberta": "cross-encoder/nli-deberta-v3-base",
    "bge-reranker": "BAAI/bge-reranker-v2-m3",
    "mxbai": "mixedbread-ai/mxbai-rerank-base-v1",
    "hhem": "vectara/hallucination_evaluation_model",
}

#: Files by data set, and where they are published.
PUBLISHED_AT: Final[Mapping[str, str]] = {
    "halueval": "github.com/RUCAIBox/HaluEval (data/)",
    "ragtruth": "github.com/ParticleMedia/RAGTruth (dataset/)",
    "natural_questions": "github.com/google-research-datasets/natural-questions",
    "truthfulqa": "github.com/sylinrl/TruthfulQA",
    "wikibio": "hub: potsawee/wiki_bio_gpt3_hallucination",
    "halubench": "hub: PatronusAI/HaluBench",
    "true": "github.com/google-research/true",
    "hotpotqa": "hotpotqa.github.io",
    "conformal_factuality": "github.com/tatsu-lab/conformal-factual-lm; clone it under this name",
    "conformal_rag": "github.com/n4feng/ResponseQualityAssessment; clone it under this name",
}


class Model(NamedTuple):
    """A model that may be loaded: what to hand to calibrail, and whose place it takes."""

    location: str
    #: Empty where it is the paper's own model.
    stand_in: str = ""


class Setup(NamedTuple):
    """The data folder, the models named, the sample size and the command that says all that."""

    data: Path
    named: Mapping[str, str]
    stand_ins: Mapping[str, str]
    most: int
    command: str
    judge: str = ""

    def file(self, name: str) -> Path | str:
        """Return a file or folder of the data, or why it cannot be read."""
        path = self.data / name
        if path.exists():
            return path
        return f"no {name} in the data folder; published at {PUBLISHED_AT[name.split('/')[0]]}"

    def model(self, name: str, role: str = "") -> Model | str:
        """Return the paper's model, else the stand-in for a role, else why there is none.

        Parameters
        ----------
        name : str
            Short name in ``MODELS``.
        role : str
            What may take its place: the embedded encoder for ``encoder``, or what
            ``--stand-in ROLE=FOLDER`` named.
        """
        from calibrail.errors import ModelError
        from calibrail.models.loading import DEFAULT_MODEL, locate

        place = self.named.get(name, MODELS[name])
        try:
            locate(place)
            return Model(place)
        except ModelError:
            if name in self.named:
                raise
        if role in self.stand_ins:
            locate(self.stand_ins[role])
            return Model(self.stand_ins[role], Path(self.stand_ins[role]).name)
        if role == "encoder":
            return Model(DEFAULT_MODEL, DEFAULT_MODEL.rpartition("/")[2])
        return f"no weights of {MODELS[name]}"


def parse(script: str, question: str, arguments: Sequence[str] | None = None) -> Setup:
    """Read the command line that all scripts share."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--data", default=os.environ.get("CALIBRAIL_DATA", str(SHARED)))
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help=f"a paper's model in a folder; NAME one of {', '.join(MODELS)}",
    )
    parser.add_argument(
        "--stand-in",
        action="append",
        default=[],
        metavar="ROLE=FOLDER",
        help="another model in its place: encoder, sec (entailment), factuality",
    )
    parser.add_argument("--most", type=int, default=5000, help="most answers of a data set")
    parser.add_argument(
        "--judge",
        default="",
        metavar="SPEC",
        help="a score that asks an endpoint, for the judge's cells",
    )
    given = parser.parse_args(arguments)
    named = pairs(parser, given.model, MODELS)
    stand_ins = pairs(parser, given.stand_in, ("encoder", "sec", "factuality"))
    options = [
        f"--{key} {value}"
        for key, values in (("model", given.model), ("stand-in", given.stand_in))
        for value in values
    ]
    if given.most != parser.get_default("most"):
        options.append(f"--most {given.most}")
    command = " ".join([f"python benchmarks/papers/{script}.py", *options])
    data = Path(given.data).resolve()
    return Setup(data, named, stand_ins, given.most, command, given.judge)


def pairs(
    parser: argparse.ArgumentParser, texts: Sequence[str], known: Sequence[str] | Mapping[str, str]
) -> dict[str, str]:
    """Return ``NAME=FOLDER`` texts as a dictionary, or end with a message."""
    found = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        if not equals or name not in known or not Path(folder).is_dir():
            parser.error(f"{text!r} is not NAME=FOLDER with NAME one of {', '.join(known)}")
        found[name] = folder
    return found
