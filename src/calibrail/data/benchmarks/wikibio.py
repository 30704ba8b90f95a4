"""How is the WikiBio GPT-3 hallucination set read?

Manakul et al., "SelfCheckGPT", 2023: passages that GPT-3 wrote about people, each sentence judged
``accurate``, ``minor_inaccurate`` or ``major_inaccurate`` by humans. A passage is hallucinated
when any sentence is inaccurate; its context is the person's Wikipedia text; there is no question.
``gpt3_sentences`` are the sentences that were judged.
"""

from itertools import zip_longest
from typing import Final

from calibrail.data.benchmarks.native import Made, Native, missing_field
from calibrail.data.example import FAITHFUL, HALLUCINATED
from calibrail.data.rows import Problem, Row, shorten

_VERDICTS: Final = frozenset({"accurate", "minor_inaccurate", "major_inaccurate"})


def _passage(row: Row) -> Made:
    annotation = row.values.get("annotation")
    if annotation is None:
        return missing_field(row, "label", "annotation")
    verdicts = annotation if isinstance(annotation, list) else [annotation]
    # Verdicts may be other JSON values in a broken row, which cannot be put into a set.
    unknown = [v for v in verdicts if not (isinstance(v, str) and v in _VERDICTS)]
    if unknown or not verdicts:
        remedy = f"annotation must be a list of {', '.join(sorted(_VERDICTS))}"
        return Problem(row.number, "label", "unknown annotation", shorten(annotation), "", remedy)
    wrong = sum(verdict != "accurate" for verdict in verdicts)
    index = row.values.get("wiki_bio_test_idx", row.number)
    texts = row.values.get("gpt3_sentences")
    # A text or a verdict too many is set aside where sentences are asked for.
    pairs = zip_longest(texts, verdicts) if isinstance(texts, list | tuple) else ()
    return {
        "contexts": row.values.get("wiki_bio_text"),
        "response": row.values.get("gpt3_text"),
        "label": HALLUCINATED if wrong else FAITHFUL,
        "group": f"wikibio-{index}",
        "id": f"wikibio-{index}",
        "samples": row.values.get("gpt3_text_samples"),
        "inaccurate_share": wrong / len(verdicts),
        "major_share": verdicts.count("major_inaccurate") / len(verdicts),
        "sentences": [{"text": text, "label": verdict} for text, verdict in pairs],
    }


WIKIBIO: Final = Native(
    name="wikibio",
    signatures=(frozenset({"gpt3_text", "wiki_bio_text", "annotation"}),),
    options=(),
    converter=lambda *_: lambda row: [_passage(row)],
)
