"""Which options do several commands share, and what do they mean?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from calibrail.errors import InputError

if TYPE_CHECKING:
    from calibrail.models.call_limits import CallLimits
    from calibrail.settings import ReadOptions, SplitOptions

Choice = TypeVar("Choice", bound=str)

Data = Annotated[
    str,
    typer.Argument(metavar="DATA", help="A file or folder of answers, or example:facts."),
]
ScoreNames = Annotated[
    list[str] | None,
    typer.Option(
        "--score",
        metavar="NAME[:KEY=VALUE,...]",
        help="Detector, e.g. sgi, rad, tfg, length, rad:weighting=question. Repeatable.",
    ),
]
ScoreColumn = Annotated[
    list[str] | None,
    typer.Option("--score-column", metavar="COL", help="Score that the data holds. Repeatable."),
]
Higher = Annotated[
    str | None,
    typer.Option(
        "--higher",
        metavar="hallucinated|faithful",
        help="What a higher value of --score-column means.",
    ),
]
Alpha = Annotated[
    float, typer.Option(help="Tolerated miss rate: 1 - alpha of hallucinations are caught.")
]
Guarantee = Annotated[
    str,
    typer.Option(
        metavar="marginal|pac|paper",
        help="marginal: on average over calibration draws. pac: for this very threshold, with "
        "probability 1 - delta.",
    ),
]
Delta = Annotated[float, typer.Option(help="Error probability of --guarantee pac.")]
MaxFpr = Annotated[
    float | None,
    typer.Option(help="Share of faithful answers that may be flagged; asks for a verdict."),
]
MinCoverage = Annotated[
    float | None, typer.Option(help="Coverage that the verdict requires (default: 1 - alpha).")
]
Confidence = Annotated[float, typer.Option(help="Level of every interval and of the verdict.")]
Undefined = Annotated[
    str,
    typer.Option(
        metavar="flag|review|pass", help="What happens to answers whose score is undefined."
    ),
]
AllowFlagAll = Annotated[
    bool,
    typer.Option(
        "--allow-flag-all", help="With too few examples, flag everything instead of failing."
    ),
]
By = Annotated[
    str | None,
    typer.Option(metavar="COL", help="Column of groups that get a threshold and a promise each."),
]
MinN = Annotated[
    int | None,
    typer.Option(
        "--min-n", metavar="N", help="Fewest hallucinated examples for a group's own threshold."
    ),
]
Clustered = Annotated[
    bool,
    typer.Option(
        "--clustered",
        help="Count each group (a question, a source) once: for answers that are alike within it.",
    ),
]
Beta = Annotated[
    float | None,
    typer.Option(
        help="Three-way decision: flag at most this share of faithful answers, review the rest."
    ),
]
Risks = Annotated[
    list[str] | None,
    typer.Option(
        "--risk",
        metavar="RISK",
        help="Thresholds that keep all of these at once, e.g. 'precision>=0.9'. Repeatable.",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Unlabelled production answers: how far do they differ, and so what?"
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="jsonl, csv, parquet, halueval, ragtruth, natural_questions, truthfulqa or wikibio; "
        "guessed where it can be.",
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Field names of ragas, deepeval, llamaindex, trulens or phoenix."
    ),
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="FIELD=COL", help="Read a field from your column, e.g. question=prompt."
    ),
]
LabelColumn = Annotated[
    str | None, typer.Option(help="Column of labels: 1 = hallucinated, 0 = faithful.")
]
GroupColumn = Annotated[
    str | None, typer.Option(help="Column of groups that a split must keep whole.")
]
IdColumn = Annotated[str | None, typer.Option(help="Column of ids.")]
ReaderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--reader-option", metavar="KEY=VALUE", help="For native readers, e.g. min_chars=20."
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first row that is unusable.")]
SplitColumn = Annotated[
    str | None, typer.Option(help="Column with your own split: fit, calibration or test.")
]
Seed = Annotated[int, typer.Option(help="Seed of the split.")]
CalibrationShare = Annotated[
    float | None, typer.Option(help="Share of the data used to calibrate (default: half the rest).")
]
FitShare = Annotated[
    float | None,
    typer.Option(help="Share of the data that scores learn from (default: 0.3 where one learns)."),
]
MaxCalls = Annotated[
    int | None,
    typer.Option(
        "--max-calls", metavar="N", help="For judges: most calls to endpoints, retries included."
    ),
]
Concurrency = Annotated[
    int, typer.Option(metavar="N", help="For judges: most calls at the same time.")
]
Timeout = Annotated[
    float, typer.Option(metavar="SECONDS", help="For judges: longest that one call may take.")
]
Price = Annotated[
    str | None,
    typer.Option(
        metavar="IN,OUT", help="For judges: US dollars per million tokens, e.g. 0.15,0.60."
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="For judges: print calls, tokens and cost, and send and write nothing."
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the machine-readable result on standard output.")
]


def pairs(items: list[str] | None, option: str) -> dict[str, str]:
    """Turn ``KEY=VALUE`` items into a mapping, naming the option of a malformed one."""
    result = {}
    for item in items or []:
        key, separator, value = item.partition("=")
        if not separator or not key or not value:
            raise InputError(f"{option} must look like KEY=VALUE; got {item!r}")
        result[key] = value
    return result


def one_of(value: str, choices: tuple[Choice, ...], option: str) -> Choice:
    """Return ``value`` if it is one of the choices, typed as such."""
    for choice in choices:
        if value == choice:
            return choice
    raise InputError(f"{option} must be one of {', '.join(choices)}; got {value!r}")


def score_specs(
    names: list[str] | None, columns: list[str] | None, higher: str | None
) -> list[Any]:
    """Turn --score and --score-column into what ``calibrate`` and ``compare`` take."""
    from calibrail.scores.registry import build_column

    if columns and higher not in ("hallucinated", "faithful"):
        raise InputError(
            "--higher must be hallucinated or faithful when --score-column is used: say what a "
            f"higher value means; got {higher!r}"
        )
    if not columns and higher is not None:
        raise InputError("--higher says what a --score-column means; name the column too")
    specs: list[Any] = list(names or [])
    specs.extend(build_column(column, higher=str(higher)) for column in columns or [])
    if not specs:
        raise InputError("name a detector: --score NAME, or --score-column COL --higher ...")
    return specs


def read_options(
    *,
    format: str | None,
    preset: str | None,
    mapping: list[str] | None,
    label_column: str | None,
    group_column: str | None,
    id_column: str | None,
    reader_option: list[str] | None,
    strict: bool,
    quarantine: Path | None,
) -> ReadOptions:
    """Collect the reading options of a command."""
    from calibrail.settings import ReadOptions

    return ReadOptions(
        format=format,
        preset=preset,
        mapping=pairs(mapping, "--map") or None,
        label_column=label_column,
        group_column=group_column,
        id_column=id_column,
        strict=strict,
        quarantine=quarantine,
        options=pairs(reader_option, "--reader-option"),
    )


def terms(
    max_calls: int | None, concurrency: int, timeout: float, price: str | None = None
) -> CallLimits:
    """Collect the limits of calls to endpoints."""
    from calibrail.models.call_limits import CallLimits, read_price

    cost = None if price is None else read_price(price)
    return CallLimits(concurrency=concurrency, timeout=timeout, max_calls=max_calls, price=cost)


def split_options(
    *, seed: int, calibration_share: float | None, fit_share: float | None, column: str | None
) -> SplitOptions:
    """Collect the splitting options of a command."""
    from calibrail.settings import SplitOptions

    return SplitOptions(
        seed=seed, calibration_share=calibration_share, fit_share=fit_share, column=column
    )
