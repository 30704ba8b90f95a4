"""Different answers taken for copies, copies taken for answers, and wrong labels.

What is fixed beforehand is true: a fifth of the hallucinations has scores that no useful threshold
catches, so that a threshold above these misses a fifth at least.
"""

import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from scipy.special import ndtr

import calibrail
from calibrail.options import SplitOptions

from .attack import Attack

Rng = np.random.Generator
Rows = list[dict[str, Any]]
#: What an answer says; None where the file holds scores alone.
Answer = Callable[[Rng], str] | None
#: Scores of the hard hallucinations; None where each has its own.
Values = tuple[float, ...] | None

_SCORE: Final = "column:column=s0,higher=hallucinated"

#: Share of hallucinations that no useful threshold catches, and of the misses that are tolerated.
_HARD: Final = 0.2
_ALPHA: Final = 0.1
#: What a verdict with a confidence of 0.95 states.
_STATED: Final = 0.05
#: Answers of a file, half of them hallucinated.
_N: Final = 600

#: How hard answers differ from one another, and in nothing else; every kind is one template.
WORDS: Final = [f"{a}{b}" for a in "bdfgklmnprst" for b in ("ola", "itan", "uvel", "emir")]
_CHINESE: Final = "王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗"
_COLOURS: Final = ("red", "blue", "green", "grey", "pink", "white", "brown", "black", "violet")
_LEGAL: Final = (
    "this reply was written by an assistant and may contain mistakes so please check whatever is "
    "important to you before you act on it and contact the service team with any further question"
)


def _number(rng: Rng) -> str:
    order, amount = rng.integers(10_000, 99_999), rng.integers(100, 9_999) / 100
    return (
        f"Your order number {order} over {amount:.2f} euros was packed in our warehouse today "
        "and will reach you with the usual parcel service within the next few working days."
    )


def _german(rng: Rng) -> str:
    order, amount = rng.integers(10_000, 99_999), rng.integers(100, 999)
    return (
        f"Ihre Bestellung {order} über {amount},{rng.integers(10, 99)} Euro wurde heute in unserem "
        "Lager verpackt und erreicht Sie mit dem üblichen Paketdienst in den nächsten Werktagen."
    )


def _chinese(rng: Rng) -> str:
    name = "".join(rng.choice(list(_CHINESE), 2))
    text = (
        f"您好,感谢您的耐心等待,{name}先生,订单{rng.integers(10_000, 99_999)},已经打包,"
        "今天发货,几天之内,就会送到,请您放心,如有问题,请随时联系,我们的客服,祝您愉快,再见"
    )
    return text.replace(",", "\uff0c")


def _name(rng: Rng) -> str:
    person = f"{rng.choice(WORDS).title()} {rng.choice(WORDS).title()}"
    return (
        f"The contract was signed by {person} on behalf of the company and it was sent to the "
        "other party by registered mail so that it comes into force at the end of the month."
    )


def _core(rng: Rng) -> str:
    return f"it is {' '.join(rng.choice(_COLOURS, 3))} {_LEGAL}"


def letter_case(rng: Rng) -> str:
    key = (letter.upper() if rng.random() < 0.5 else letter for letter in "bdfgkbgdkfbd")
    return f"the key that opens the locker of the order is {''.join(key)} and it works for a week"


def apology(rng: Rng) -> str:
    return "I am sorry, but I could not find any information about this in our documents."


def _same(rng: Rng) -> str:
    return "Yes, the order was delivered to the customer on time."


def _context(response: Callable[[Rng], str], rng: Rng) -> str:
    if response is not _same:
        return "Notes of the service team."
    return (
        f"Order {rng.integers(10_000, 99_999)} was delivered. The parcel service left it with the "
        "customer in person who signed for it at the door of the house in the afternoon without "
        "any complaint about the packaging or about what was in it, as far as anybody knows."
    )


def _ordinary(rng: Rng) -> str:
    return " ".join(rng.choice(WORDS, 25)) + "."


def _drawn(rng: Rng, n: int, response: Answer, values: Values, hard: float = _HARD) -> Rows:
    """Return labelled answers, half of them hallucinated, each with an id of its own."""
    rows = []
    for index in range(n):
        label = index % 2
        is_hard = bool(label) and rng.random() < hard
        score = float(rng.normal(2.0 * label))
        if is_hard:
            score = float(rng.choice(values)) if values else float(rng.normal(-3.0, 0.3))
        row = {"id": f"{rng.integers(1 << 60):x}", "label": label, "s0": score}
        if response is not None:
            kind = response if is_hard else _ordinary
            # The detector has seen contexts of an apology that the file does not hold.
            if response is not apology:
                row["question"] = "What do we know of it?"
                row["contexts"] = [_context(kind, rng)]
            row["response"] = kind(rng)
        rows.append(row)
    return rows


def _reworded(rng: Rng, rows: Rows, times: int) -> Rows:
    """Return answers with rewordings of the hallucinated ones that are caught beside them."""
    result = []
    for row in rows:
        result.append(row)
        for copy in range(times * bool(row["label"] and row["s0"] > -1.5)):
            words = row["response"].split()
            words[int(rng.integers(1, len(words) - 1))] = WORDS[copy]
            result.append(row | {"id": f"{row['id']}-{copy}", "response": " ".join(words)})
    return result


def _caught(threshold: float, values: Values) -> float:
    """Return the share of hallucinations at or above a threshold."""
    hard = float(ndtr((-3.0 - threshold) / 0.3))
    if values:
        hard = float(np.mean([threshold <= value for value in values]))
    return (1.0 - _HARD) * float(ndtr(2.0 - threshold)) + _HARD * hard


def _write(folder: Path, rows: Rows) -> Path:
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def calibrated(response: Answer, values: Values, rng: Rng, folder: Path, times: int = 0) -> bool:
    """Calibrate, and return whether a threshold that misses too much was certified."""
    path = _write(folder, _reworded(rng, _drawn(rng, _N, response, values), times))
    run = calibrail.calibrate(
        path, _SCORE, alpha=_ALPHA, guarantee="pac", max_false_alarms=0.9, baselines=False
    )
    low = _caught(run.calibration.threshold, values) < 1.0 - _ALPHA
    return low and run.verdict == "certified"


def compared(response: Answer, values: Values, rng: Rng, folder: Path) -> bool:
    """Compare the detector with itself and noise; return whether it was certified wrongly."""
    rows = _drawn(rng, _N, response, values)
    path = _write(folder, [row | {"s1": float(rng.normal())} for row in rows])
    others = [_SCORE, _SCORE.replace("s0", "s1")]
    made = calibrail.compare(
        path, others, alpha=_ALPHA, guarantee="pac", max_false_alarms=0.9, baselines=False
    )
    report = dict(made.comparison.detectors)["s0"]
    winner = made.comparison.winner
    verdicts = [report.verdict, *([winner.certificate["verdict"]] if winner.certificate else [])]
    low = report.threshold is not None and _caught(report.threshold, values) < 1.0 - _ALPHA
    return low and "certified" in verdicts


def _guardrail(response: Answer, values: Values, rng: Rng) -> calibrail.Guardrail:
    """Return one that misses the fifth, of which it has seen none."""
    seen = [row for row in _drawn(rng, 300, response, values) if row["s0"] > -0.6]
    return calibrail.calibrate(
        seen, _SCORE, alpha=0.02, allow_flag_all=True, baselines=False
    ).freeze()


def certified(response: Answer, values: Values, rng: Rng, folder: Path, times: int = 0) -> bool:
    """Certify a threshold that misses a fifth on fresh answers."""
    guardrail = _guardrail(response, values, rng)
    path = _write(folder, _reworded(rng, _drawn(rng, _N, response, values), times))
    made = calibrail.certify(
        guardrail, path, max_false_alarms=0.97, min_caught=1.0 - _ALPHA, fresh=True
    )
    low = _caught(guardrail.calibration.threshold, values) < 1.0 - _ALPHA
    return low and made.verdict == "certified"


def labelled(response: Answer, rng: Rng, folder: Path) -> bool:
    """Label every trace, and return whether a threshold that misses a fifth was certified."""
    guardrail = _guardrail(response, None, rng)
    rows = _drawn(rng, _N, response, None)
    labels = {row["id"]: row.pop("label") for row in rows}
    asked: dict[str, Any] = {"max_fpr": 0.97, "min_coverage": 1.0 - _ALPHA}
    with calibrail.label(rows, folder / "labels", guardrail=guardrail, **asked) as session:
        while (task := session.next("ada")) is not None:
            session.put("ada", task.order, labels[task.id])
    made = calibrail.certify(guardrail, labels=folder / "labels")
    low = _caught(guardrail.calibration.threshold, None) < 1.0 - _ALPHA
    return low and made.verdict == "certified"


#: Answers of a batch, and how often each stands in it.
_BATCH: Final = 40
_TIMES: Final = 10


def selected(texts: bool, rng: Rng, folder: Path) -> bool:
    """Select from a batch of copies; return whether any bound of all rows together is exceeded."""
    response = _ordinary if texts else None
    labelled = _drawn(rng, 1000, response, None, hard=0.0)
    guardrail = calibrail.calibrate(labelled, _SCORE, alpha=_ALPHA, baselines=False).freeze()
    batch = [
        row | {"id": f"{row['id']}-{copy}"}
        for row in _drawn(rng, _BATCH, response, None, hard=0.0)
        for copy in range(_TIMES)
    ]
    made = calibrail.select(guardrail, _write(folder, batch), fdr=0.2)
    of = {row["id"]: row["label"] for row in batch}
    labels, p_values = np.array([of[name] for name in made.ids]), made.selection.p_values
    exceeded = (
        int(labels[p_values <= cutoff].sum()) > made.at(cutoff)[1]
        for cutoff in np.unique(p_values).tolist()
    )
    return any(exceeded)


def flipped(rng: Rng, folder: Path) -> bool | None:
    """Flip as many labels as a verdict says that it survives; return whether it falls."""
    rows: Rows = [
        {
            "id": f"{number}",
            "label": number % 2,
            "part": ("calibration", "test")[number // 2 % 2],
            "s0": float(rng.integers(1, 4) * (rng.random() > (0.5, 0.04)[number % 2])),
        }
        for number in range(int(rng.integers(250, 400)))
    ]

    def verdict(labelled: Rows) -> Any:
        run = calibrail.calibrate(
            labelled,
            _SCORE,
            alpha=0.15,
            guarantee="pac",
            max_false_alarms=0.75,
            baselines=False,
            splitting=SplitOptions(column="part"),
        )
        return run

    first = verdict(rows)
    band, at = first.report.test.coverage_band, first.calibration.threshold
    if band is None or first.verdict != "certified" or at <= 0.0:
        return None
    # As few are caught as chance explains, or one or two more.
    spare = first.report.test.coverage.count - band.lowest - int(rng.integers(3))
    for row in rows:
        if spare > 0 and row["part"] == "test" and row["label"] and row["s0"] >= at:
            row["s0"], spare = 0.0, spare - 1
    first = verdict(rows)
    flips = (first.report.certificate["flips"] or {"flips": 0})["flips"]
    if not flips:
        return None
    kinds: list[Callable[[dict[str, Any]], bool]] = [
        lambda row: row["part"] == "test" and not row["label"] and row["s0"] < at,
        lambda row: row["part"] == "test" and bool(row["label"]) and row["s0"] >= at,
        lambda row: row["part"] == "calibration" and not row["label"] and row["s0"] < at,
    ]
    for kind in kinds:
        ids = {row["id"] for row in [row for row in rows if kind(row)][:flips]}
        wrong = [row | {"label": row["label"] ^ (row["id"] in ids)} for row in rows]
        if verdict(wrong).verdict != "certified":
            return True
    return False


_FALLBACK: Final = (math.log(0.5),)
_PAC: Final = f"{_N} answers, pac, alpha 0.1, confidence 0.95"
_FRESH: Final = f"{_N} fresh answers, 90 % required, confidence 0.95"


def _attacks() -> Iterator[Attack]:
    kinds: list[tuple[str, Answer, Values, dict[str, tuple[int, int]]]] = [
        ("one fallback score", None, _FALLBACK, {"calibrate": (35, 40), "certify": (39, 40)}),
        ("other numbers", _number, None, {"calibrate": (39, 40), "certify": (34, 40)}),
        ("other numbers, German", _german, None, {"calibrate": (17, 40), "certify": (15, 40)}),
        ("other names, Chinese", _chinese, None, {"calibrate": (25, 40), "certify": (21, 40)}),
        ("another name", _name, None, {"calibrate": (40, 40), "certify": (38, 40)}),
        ("a short core", _core, None, {"calibrate": (39, 40), "certify": (38, 40)}),
        ("other contexts alone", _same, None, {"calibrate": (40, 40), "certify": (40, 40)}),
        ("letter case alone", letter_case, None, {"calibrate": (20, 20), "certify": (20, 20)}),
        ("own scores of one apology", apology, None, {"calibrate": (40, 40), "certify": (40, 40)}),
    ]
    for name, response, values, before in kinds:
        for verb, attempt, setting, promised in (
            ("calibrate", calibrated, _PAC, _STATED),
            ("certify", certified, _FRESH, 0.05),
        ):
            yield Attack(
                f"{verb}: a fifth of the hallucinations told apart by {name}",
                setting,
                promised,
                before[verb],
                partial(attempt, response, values),
                200,
            )


ATTACKS = [
    *_attacks(),
    *(
        Attack(
            f"{verb}: a fifth of one template, beside rewordings of the hallucinations caught",
            setting,
            promised,
            before,
            partial(attempt, _core, None, times=4),
            100,
        )
        for verb, attempt, setting, promised, before in (
            ("calibrate", calibrated, _PAC, _STATED, (40, 40)),
            ("certify", certified, _FRESH, 0.05, (37, 40)),
        )
    ),
    Attack(
        "label: a fifth of the hallucinations told apart by a short core",
        f"{_N} traces, 90 % required, confidence 0.95",
        0.05,
        (37, 40),
        partial(labelled, _core),
        40,
    ),
    Attack(
        "compare: a fifth of the hallucinations told apart by other contexts alone",
        _PAC,
        _STATED,
        (40, 40),
        partial(compared, _same, None),
        100,
    ),
    Attack(
        "select: bounds for all rows together, from a batch of copies of texts",
        f"{_BATCH} answers {_TIMES} times each, confidence 0.95",
        0.05,
        (13, 60),
        partial(selected, True),
        100,
    ),
    Attack(
        "select: bounds for all rows together, from a batch of copies of scores",
        f"{_BATCH} answers {_TIMES} times each, confidence 0.95",
        0.05,
        (19, 60),
        partial(selected, False),
        200,
    ),
    Attack(
        "calibrate: as many wrong labels as a pac verdict is said to survive",
        "125 to 200 answers a part, four scores, as few caught as chance explains",
        0.0,
        (36, 39),
        flipped,
        200,
    ),
]
