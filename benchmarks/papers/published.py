"""What do the papers print?

Figures only, each with its table, row and column; ``n`` is the number of answers behind it as far
as it is stated or follows from other figures.

- SGI: Marin, arXiv 2512.13771, tables 1 to 5, sections 5.2 and 5.5.
- ILLUSION: Sinha, arXiv 2512.15068, tables 1 to 6 and section 4.6. Test sizes: the result files of
  its repository (800 for Natural Questions and HaluEval), the fractions that give the printed
  shares for RAGTruth (52 of 55, 57 of 65), a split of 60 to 40 for WikiBio, and the printed
  Wilson intervals in table 5.
- PROVENANCE: Sankararaman et al., arXiv 2411.01022, tables 3 and 5, sizes from its table 2.
- DISPLACEMENT: the README of github.com/Javihaus/SEMANTIC_GROUNDING_INDEX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cells import Published


def table(
    number: str, columns: Sequence[str], rows: Mapping[str, str], n: object = None
) -> list[Published]:
    """Return a table's figures, row by row; ``-`` is a blank.

    ``n`` is a number, or numbers by row or by column, or by row and then by column.
    """
    found = []
    for row, texts in rows.items():
        for column, text in zip(columns, texts.split(), strict=True):
            if text != "-":
                found.append(Published(number, row, column, text, _size(n, row, column)))
    return found


def _size(n: object, row: str, column: str) -> int | None:
    for key in (row, column):
        if isinstance(n, Mapping):
            n = n.get(key, n)
    return n if isinstance(n, int) else None


_STRATA = ("d", "AUC")
SGI: Final = (
    *table(
        "1",
        ("SGI valid", "SGI halluc", "d", "AUC", "p"),
        {
            "mpnet": "1.142 0.921 +0.92 0.776 <0.01",
            "minilm": "1.203 0.856 +1.28 0.824 <0.01",
            "bge": "1.231 0.948 +1.27 0.823 <0.01",
            "e5": "1.138 0.912 +1.03 0.794 <0.01",
            "gte": "1.224 0.927 +1.13 0.811 <0.01",
            "mean": "1.188 0.913 +1.13 0.806 -",
        },
        5000,
    ),
    *table(
        "2",
        ("theta(q,c) up to", "SGI valid", "SGI halluc", *_STRATA),
        {
            "low theta(q,c)": "0.89 1.08 0.94 +0.61 0.721",
            "medium theta(q,c)": "1.12 1.19 0.91 +0.90 0.768",
            "high theta(q,c)": "- 1.31 0.88 +1.27 0.832",
        },
        1667,
    ),
    *table(
        "3",
        _STRATA,
        {
            "short question": "+1.22 0.812",
            "medium question": "+0.99 0.781",
            "long question": "+0.65 0.714",
            "short context": "+0.91 0.763",
            "medium context": "+0.92 0.768",
            "long context": "+1.00 0.782",
            "short response": "+0.95 0.771",
            "medium response": "+1.18 0.804",
            "long response": "+2.05 0.893",
        },
        1667,
    ),
    *table(
        "4",
        ("truthful", "false", "difference", "d", "p", "AUC"),
        {"theta(r,q)": "0.782 0.763 -0.019 -0.14 0.045 0.478"},
        800,
    ),
    *table(
        "5",
        ("d of theta(r,q)", "d of theta(r,c)"),
        {
            "mpnet": "+1.50 +0.43",
            "minilm": "+1.62 +0.38",
            "bge": "+1.48 +0.41",
            "e5": "+1.39 +0.45",
            "gte": "+1.44 +0.40",
        },
        5000,
    ),
    *table(
        "section 5.2",
        ("mean r", "lowest r", "highest r", "mean rho"),
        {"five encoders": "0.85 0.80 0.95 0.87"},
        5000,
    ),
    *table(
        "section 5.5",
        ("ECE", "lowest decile", "highest decile"),
        {"calibration": "0.10 100% 65%"},
        5000,
    ),
)


def _tested(hallucinated: int, faithful: int) -> dict[str, int]:
    """Return the answers behind each column of a row."""
    return {
        "coverage": hallucinated,
        "FPR": faithful,
        "accuracy": hallucinated + faithful,
        "overlap": hallucinated + faithful,
        "mean halluc": hallucinated + faithful,
        "mean faithful": hallucinated + faithful,
    }


_NQ, _HALUEVAL, _HUNDRED = _tested(405, 395), _tested(402, 398), _tested(100, 100)
_SETS = {
    "NQ": _NQ,
    "HaluEval": _HALUEVAL,
    "RAGTruth": _tested(55, 65),
    "WikiBio": _tested(86, 10),
}
_RATES = ("coverage", "FPR", "accuracy")
ILLUSION: Final = (
    *table(
        "1",
        ("coverage", "FPR", "overlap", "accuracy"),
        {
            "NQ": "95.80% 0.00% 0.00% 97.87%",
            "HaluEval": "94.53% 100.00% 28.37% 47.50%",
            "WikiBio": "96.53% 50.00% 67.89% 91.60%",
            "RAGTruth": "94.50% 87.70% 41.40% 50.00%",
        },
        _SETS,
    ),
    *(
        figure
        for name, rows in {
            "NQ": ("98.5% 0% 99.2%", "94.3% 0% 97.1%", "91.6% 0% 95.8%", "81.0% 0% 90.4%"),
            "HaluEval": (
                "99.0% 100% 49.5%",
                "94.3% 100% 47.4%",
                "90.6% 99.5% 45.6%",
                "80.6% 90.2% 45.3%",
            ),
        }.items()
        for alpha, row in zip(("0.01", "0.05", "0.10", "0.20"), rows, strict=True)
        for figure in table("2", _RATES, {f"{name}, alpha {alpha}": row}, _SETS[name])
    ),
    *table(
        "3",
        ("FPR", "coverage"),
        {"rad": "100% 94.5%", "sec": "100% 94.2%", "tfg": "98% 95.1%", "crg": "100% 94.5%"},
        _HALUEVAL,
    ),
    *table(
        "4",
        _RATES,
        {
            "NQ, crg": "95.80% 0.00% 97.87%",
            "NQ, nli": "99.51% 0.00% 99.75%",
            "HaluEval, crg": "94.53% 100.00% 47.50%",
            "HaluEval, nli": "94.53% 100.00% 47.50%",
        },
        {"NQ, crg": _NQ, "NQ, nli": _NQ, "HaluEval, crg": _HALUEVAL, "HaluEval, nli": _HALUEVAL},
    ),
    *table(
        "5",
        _RATES,
        {
            "BGE-base-en-v1.5": "94.3% 100% 47.4%",
            "text-embedding-3-large": "94.9% 100% 46.0%",
            "BGE-Reranker-v2-m3": "94.9% 99% 46.5%",
            "HALT-RAG style": "93.2% 57% 67.3%",
            "ReDeEP style": "98.6% 100% 48.0%",
            "GPT-4o-mini judge": "67.0% 7% 80.0%",
        },
        {
            "BGE-base-en-v1.5": _HALUEVAL,
            "text-embedding-3-large": _HUNDRED,
            "BGE-Reranker-v2-m3": _HUNDRED,
            "HALT-RAG style": _tested(78, 78),
            "ReDeEP style": _tested(76, 76),
            "GPT-4o-mini judge": _HUNDRED,
        },
    ),
    *table("section 4.6", ("FPR",), {"HaluEval, coverage 67%": "78%"}, _HALUEVAL),
    *table(
        "6",
        ("threshold", "mean halluc", "mean faithful", "overlap"),
        {"NQ": "0.474 0.493 0.110 0.00%", "HaluEval": "0.060 0.332 0.302 28.37%"},
        {"NQ": {**_NQ, "threshold": 595}, "HaluEval": {**_HALUEVAL, "threshold": 629}},
    ),
)

_RELEVANT = ("top p, min", "top p, max", "top p, weighted", "top k, min", "top k, max")
PROVENANCE: Final = (
    *table(
        "3",
        ("AUC",),
        {
            "PAWS": "0.94",
            "BEGIN": "0.80",
            "DIALFACT": "0.92",
            "Q2": "0.86",
            "HaluEval Dialogue": "0.69",
            "FRANK": "0.89",
            "MNBM": "0.79",
            "QAGS_CNNDM": "0.76",
            "QAGS_XSUM": "0.80",
            "SUMMEVAL": "0.70",
            "HaluEval Summarization": "0.66",
            "VITAMIN C": "0.96",
            "FEVER": "0.92",
            "TruthfulQA": "0.59",
            "MS MARCO": "0.84",
            "HaluBench": "0.71",
            "HaluEval QA": "0.74",
            "HaluEval General": "0.54",
        },
        {
            "PAWS": 8000,
            "BEGIN": 836,
            "DIALFACT": 8689,
            "Q2": 1088,
            "HaluEval Dialogue": 20000,
            "FRANK": 671,
            "MNBM": 2500,
            "QAGS_CNNDM": 235,
            "QAGS_XSUM": 239,
            "SUMMEVAL": 1600,
            "HaluEval Summarization": 20000,
            "VITAMIN C": 63054,
            "FEVER": 18209,
            "TruthfulQA": 2976,
            "MS MARCO": 504,
            "HaluBench": 14900,
            "HaluEval QA": 20000,
            "HaluEval General": 4507,
        },
    ),
    *table(
        "5",
        (*_RELEVANT, "top k, weighted"),
        {
            "HotpotQA": "0.227 0.809 0.252 0.440 0.688 0.372",
            "HaluBench": "0.645 0.680 0.664 0.644 0.714 0.676",
        },
        {"HotpotQA": 110447, "HaluBench": 14900},
    ),
)

DISPLACEMENT: Final = table(
    "displacement",
    ("cross-domain", "within-domain"),
    {
        "displacement_consistency": "1.0 1.0",
        "expected_response_deviation": "1.0 1.0",
        "displacement_magnitude": "0.9999 0.9998",
        "tangent_residual": "0.9990 0.9961",
        "local_sgi": "0.914 0.807",
    },
)
