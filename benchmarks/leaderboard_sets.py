"""Which comparisons make the leaderboard, and what is said of their data?

Thresholds that authors ship, marks and notes, each with its source. What a data set's own
repository or paper does not say stands nowhere here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from claim_sets import BASE, BLOCKS, TOGETHER
from claim_sets import COLUMNS as FACTCG
from detectors import EMBEDDED, STRETCHES

#: The guarantee of every comparison. With delta 0.05 the smallest data set, RAGTruth QA, could not
#: be set to 90 %: that takes 29 groups with a hallucinated answer to calibrate, and it has 25.
PROMISE: Final[Mapping[str, Any]] = {"alpha": 0.1, "guarantee": "pac", "delta": 0.1}

#: Where the claims of LLM-AggreFact are written, a table a subset.
CLAIMS: Final = "runs/leaderboard/claims"
#: Where the answers of RAGTruth QA are written with scores out of fold beside them.
OUT_OF_FOLD: Final = "runs/leaderboard/ragtruth_qa.jsonl"
#: Detectors that learn, on RAGTruth QA, by the names of their columns.
LEARNT: Final = {
    "fused_out_of_fold": "fused",
    "dgi_out_of_fold": "dgi",
    "expected_response_deviation_out_of_fold": "expected_response_deviation",
    "tangent_residual_out_of_fold": "tangent_residual",
}
_MODEL: Final = "../shared/models/nli-minilm"
_NLI: Final = (
    *(f"{name}:model={_MODEL}" for name in ("nli", "sec", "claims")),
    f"provenance:model={_MODEL},relevance=cosine",
    f"crg:nli_model={_MODEL}",
)
_SMALL: Final = (
    "nli, sec, claims, provenance and crg rest on a small test model, far below what they are "
    "meant for."
)


@dataclass(frozen=True)
class Set:
    """A comparison: its answers, its detectors, and what a reader has to know."""

    name: str
    #: As from the root of a checkout.
    path: str
    note: str
    columns: tuple[str, ...] = ()
    higher: str = "hallucinated"
    scores: tuple[str, ...] = ()
    reading: Mapping[str, Any] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)
    #: What a threshold of 0.5 belongs to: all columns, or none.
    half: bool = False
    #: What may be missed: more where labels are too few to promise 90 %.
    alpha: float = PROMISE["alpha"]
    #: The detector of which the others were made, if they were made of one.
    base: str | None = None

    @property
    def promise(self) -> Mapping[str, Any]:
        """What the comparison promises."""
        return {**PROMISE, "alpha": self.alpha}

    @property
    def folder(self) -> str:
        """Where the comparison is kept."""
        words = "".join(c if c.isalnum() else " " for c in self.name.lower()).split()
        return "runs/leaderboard/" + "-".join(words)

    @property
    def command(self) -> str:
        """What makes the comparison on a command line."""
        words = ["calibrail compare", self.path]
        words += [f"--score {item}" for item in self.scores]
        words += [f"--score-column {item}" for item in self.columns]
        words += [f"--higher {self.higher}"] if self.columns else []
        words += [f"--{key.replace('_', '-')} {value}" for key, value in self.reading.items()]
        words += [f"--{key} {value}" for key, value in self.promise.items()]
        return " ".join([*words, f"-o {self.folder}"])


_FAITHBENCH: Final = (
    "FaithBench (Bao et al., NAACL 2025; github.com/vectara/FaithBench, CC BY-NC-SA 4.0), from "
    "the makers of HHEM: ten models' summaries of 75 articles, chosen because detectors, some of "
    "these among them, disagreed: rates on hard cases, not on everyday traffic. hhem_2_1 "
    "is the hosted, trilingual HHEM-2.1, not HHEM-2.1-Open; the last five say only yes or no. "
)
_FAITHBENCH_SET: Final[Mapping[str, Any]] = {
    "path": "../shared/data/faithbench/summaries.csv",
    "columns": (
        *("hhem_1", "hhem_2_1", "hhem_2_1_english", "true_teacher", "true_nli"),
        *("gpt_3_5_turbo", "gpt_4_turbo", "gpt_4o"),
    ),
    "higher": "faithful",
    "marks": {"": "selected"},
    # HHEM: docs.vectara.com, "we suggest starting with a setting of 0.5", and the repository's
    # eval/utils.py; the others give labels.
    "half": True,
}
_WIKIBIO: Final = (
    "WikiBio GPT-3 (Manakul et al., EMNLP 2023, CC BY-SA 3.0): sentences of biographies; "
    "hallucinated is one with any inaccuracy, and there is no context. The scores are those of a "
    "replication (github.com/KAIST-CS584-HCI/selfcheckgpt-replication), not of SelfCheckGPT's "
    "authors, who used 0.5 for one table and recommend no threshold. "
)

_AGGREFACT: Final = (
    "LLM-AggreFact (Tang et al., EMNLP 2024; github.com/Liyan06/MiniCheck): claims that people "
    "checked against a document, the first half of every subset. factcg_base is FactCG-DeBERTa-L "
    "(Lei et al., NAACL 2025), the others are fine-tuned from it; P(supported), so that 0.5 is "
    "where their own answer changes (scores: github.com/anulum/director-ai). The file does not say "
    "which claims share a document: blocks of neighbouring rows are one group, a guess."
)
#: What may be missed where labels are too few to promise 90 % (22 groups with a hallucinated claim
#: calibrate), and those groups in all of the subset, half of which calibrate.
_FEW: Final[Mapping[str, tuple[float, int]]] = {
    "AggreFact-CNN": (0.7, 6),
    "TofuEval-MediaS": (0.5, 9),
    "TofuEval-MeetB": (0.5, 10),
    "Wice": (0.2, 30),
    "FactCheck-GPT": (0.2, 33),
    "Lfqa": (0.2, 40),
}


def _claims(subset: str) -> Set:
    """Return the comparison on one subset of LLM-AggreFact, or on all of them."""
    alpha, groups = _FEW.get(subset, (PROMISE["alpha"], 0))
    note = _AGGREFACT
    if subset != TOGETHER:
        note = (
            f"Of the claims above those of {subset}; blocks of {BLOCKS[subset]} neighbouring rows "
            "are one group, a guess."
        )
    if groups:
        note += (
            f" Hallucinated claims lie in {groups} groups, too few to set 90%: compared at "
            f"{1 - alpha:.0%} caught."
        )
    return Set(
        f"LLM-AggreFact, {subset}",
        f"{CLAIMS}/{subset}.csv",
        note,
        FACTCG,
        "faithful",
        reading={"group_column": "block"},
        half=True,
        alpha=alpha,
        base=None if groups else BASE,
    )


#: Comparisons of scores that files hold: no model runs.
COLUMNS: Final = (
    _claims(TOGETHER),
    *(_claims(subset) for subset in BLOCKS),
    Set(
        "FaithBench",
        note=_FAITHBENCH + "Hallucinated: the worst annotation is questionable or unwanted.",
        **_FAITHBENCH_SET,
    ),
    Set(
        "FaithBench, unwanted alone",
        note=_FAITHBENCH + "Hallucinated: the worst annotation is unwanted.",
        reading={
            "label_column": "worst",
            "label_map": {"unwanted": "1", "questionable": "0", "benign": "0", "none": "0"},
        },
        **_FAITHBENCH_SET,
    ),
    Set(
        "WikiBio GPT-3, 119 passages",
        "../shared/data/wikibio/sentences_119.csv",
        _WIKIBIO + "951 of these 959 sentences are in the other file, too, and another model than "
        "the writer drew the samples.",
        ("selfcheck_nli", "selfcheck_bertscore", "selfcheck_prompt"),
    ),
    Set(
        "WikiBio GPT-3, 237 passages",
        "../shared/data/wikibio/sentences_237.csv",
        _WIKIBIO + "Judged by the two models that the columns name; shares 951 sentences with the "
        "other file, so the two are not independent data.",
        ("selfcheck_qwen_9b", "selfcheck_gemma_31b"),
    ),
    Set(
        "FRANK",
        "../shared/data/frank/metric_scores.csv",
        "FRANK (Pagnoni et al., NAACL 2021; github.com/artidoro/frank, MIT): news summaries of "
        "nine systems of 2021 and before, hallucinated where any annotated sentence is not "
        "factual, 92 % of them on XSum and 41 % on CNN/DailyMail. The file holds no texts, so that "
        "no baseline can stand beside; rouge_l is measured against the reference summary, the "
        "column dae is empty, and no shipped threshold is known.",
        ("factcc", "feqa", "qags", "bertscore_p_article", "rouge_l"),
        "faithful",
    ),
    Set(
        "RAGTruth, answers of Llama-2-7B",
        "../shared/data/ragtruth/llama2_7b_redeep.csv",
        "450 test answers of one model on all three tasks of RAGTruth (Niu et al., ACL 2024, MIT); "
        "ReDeEP (chunk) from the per-head values that its authors publish "
        "(github.com/Jeryi-Sun/ReDEeP-ICLR), which name no threshold. Once with attention heads "
        "chosen on these very labels, as published, and once chosen on the other folds; there are "
        "no contexts.",
        ("redeep_heads_chosen_on_these_labels", "redeep_out_of_fold"),
        marks={"redeep_heads_chosen_on_these_labels": "fitted"},
    ),
)

#: Comparisons of calibrail's own detectors.
OWN: Final = (
    Set(
        "RAGTruth QA",
        OUT_OF_FOLD,
        "RAGTruth QA (Niu et al., ACL 2024; github.com/ParticleMedia/RAGTruth, MIT): six models' "
        "answers from 82 of the 150 test sources, hallucinated where annotators marked any span. "
        "novel_stretch and novel_run, two members of fused, were designed while looking at these "
        "answers; columns out of fold were fitted on nine tenths of the sources and score the "
        f"rest. {_SMALL}",
        tuple(LEARNT),
        scores=(*STRETCHES, *EMBEDDED, *_NLI),
        marks=dict.fromkeys((*STRETCHES, "fused_out_of_fold"), "fitted"),
    ),
    Set(
        "HaluEval QA",
        "../shared/data/halueval",
        "HaluEval QA (Li et al., EMNLP 2023; github.com/RUCAIBox/HaluEval, MIT): the right answer "
        "to a question, and one that ChatGPT was told to make up and chose as the most plausible; "
        "nobody annotated them, and length alone tells them apart. Detectors that learn were "
        "fitted on three tenths of the questions, which count nowhere else; with one context each, "
        f"sgi:context=closest and local_sgi are sgi. {_SMALL}",
        scores=(*STRETCHES, *EMBEDDED, *_NLI, *LEARNT.values()),
        marks={"": "judged"},
    ),
)
#: Taken once more as if answers that share a source were independent.
ASSUMED: Final = ("WikiBio GPT-3, 237 passages", "FRANK")
