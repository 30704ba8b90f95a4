"""Which answers are trimmed in ``benchmarks/trimming.py``, and by which detectors?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from detectors import DATA, MODEL

from calibrail.data import read
from calibrail.data.sources import digest_files, open_source
from calibrail.options import ReadOptions
from calibrail.pipelines.splitting import BySentence
from calibrail.scores import build, parse_spec
from calibrail.scores.base import Score
from calibrail.scores.registry import build_column, key_of
from calibrail.scores.table import ScoreTable, SentenceTable

#: Where computed scores are kept.
KEPT: Final = Path(__file__).resolve().parents[1] / "runs" / "trimming"
SURFACE: Final = ("length", "rouge_l", "novelty", "novel_count", "novel_stretch")
ENTAILMENT: Final = ("nli", "sec", "claims")
#: What reads the contexts word by word: the least overlapping sentence is the one it removes.
OVERLAP: Final = "rouge_l"


@dataclass(frozen=True)
class Set:
    """Answers with marked sentences, and what scores them."""

    name: str
    #: Below the folder of the data.
    path: str
    note: str
    reading: Mapping[str, Any] = field(default_factory=dict)
    detectors: tuple[str, ...] = ()
    #: Columns that hold a score of each sentence.
    columns: tuple[str, ...] = ()
    #: What was designed while looking at these answers.
    designed_on: tuple[str, ...] = ()

    def scores(self) -> dict[str, Score]:
        """Return the detectors by the names that the table gives them."""
        made: dict[str, Score] = {}
        for name in self.detectors:
            if name not in self.designed_on and (name not in ENTAILMENT or MODEL.is_dir()):
                spec = f"{name}:model={MODEL}" if name in ENTAILMENT else name
                made[name] = build(parse_spec(spec))
        for column in self.columns:
            made[column] = build_column(column, higher="hallucinated")
        return made

    def read(self, scores: Mapping[str, Score], *, quick: bool) -> tuple[ScoreTable, SentenceTable]:
        """Return the answers and their scored sentences.

        Scores are kept in ``KEPT``, by data, detector and its fingerprint: remove it to compute all
        anew.
        Those of `ENTAILMENT` that are not kept have no column where it shall be ``quick``.
        """
        KEPT.mkdir(parents=True, exist_ok=True)
        path = DATA / self.path
        texts = {name for score in scores.values() for name in score.requires}
        require = tuple(name for name in ("contexts", "response") if name in texts) or ("response",)

        def scored(some: Sequence[Score]) -> tuple[ScoreTable, SentenceTable]:
            answers = read(
                path, by_sentence=True, keep=self.columns, require=require, **dict(self.reading)
            )
            return BySentence().score(answers, some)

        table, sentences = scored(())
        data = digest_files(open_source(path, ReadOptions(**self.reading)).files)
        files: dict[str, Path] = {}
        for score in scores.values():
            pinned = json.dumps(score.fingerprint(), sort_keys=True, default=str)
            name = f"{self.name} {data} {len(sentences)} {key_of(score)} {pinned}"
            digest = hashlib.sha256(name.encode()).hexdigest()
            files[key_of(score)] = KEPT / f"{digest[:16]}.npy"
        new = [score for score in scores.values() if not files[key_of(score)].is_file()]
        slow = [score for score in new if score.name in ENTAILMENT]
        for score in new:
            if score not in slow:
                np.save(files[key_of(score)], scored([score])[1].columns[key_of(score)])
        if slow and not quick:
            # Together: a pair of texts that two of them ask about is read once.
            for key, values in scored(slow)[1].columns.items():
                np.save(files[key], values)
        columns = {key: np.load(file) for key, file in files.items() if file.is_file()}
        return table, replace(sentences, columns=columns)


_WIKIBIO: Final = (
    "WikiBio GPT-3 (Manakul et al., EMNLP 2023): biographies, every sentence graded by people; "
    "unsupported is one with any inaccuracy. No context, so that nothing that reads one fits; the "
    "columns are those of a replication (github.com/KAIST-CS584-HCI/selfcheckgpt-replication). "
    "Nearly every passage holds an unsupported sentence, and most of its sentences are."
)
SETS: Final = (
    Set(
        "RAGTruth QA",
        "ragtruth",
        "RAGTruth (Niu et al., ACL 2024), question answering, test split: answers of six models, "
        "spans marked by people. `novel_stretch` was designed while looking at these answers and "
        "has no result here.",
        detectors=("rad", *SURFACE, *ENTAILMENT),
        designed_on=("novel_stretch",),
    ),
    Set(
        "FaithBench",
        "faithbench",
        "FaithBench (Bao et al., NAACL 2025): summaries of ten models, chosen because detectors "
        "disagreed; a sentence is unsupported where a span of any annotator is questionable or "
        "unwanted. The published columns are scores of whole summaries and cannot trim.",
        detectors=("rad", *SURFACE, *ENTAILMENT),
    ),
    Set(
        "WikiBio, 119 passages",
        "wikibio/sentences_119.csv",
        _WIKIBIO,
        detectors=("length",),
        columns=("selfcheck_nli", "selfcheck_bertscore", "selfcheck_prompt"),
    ),
    Set(
        "WikiBio, 237 passages",
        "wikibio/sentences_237.csv",
        "The same kind of passages, 951 sentences of them the same, with two further columns.",
        detectors=("length",),
        columns=("selfcheck_qwen_9b", "selfcheck_gemma_31b"),
    ),
)
