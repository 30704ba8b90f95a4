"""``calibrail explain``: one answer, the decision about it, and what it rests on."""

from typing import Annotated

import typer

import calibrail
from calibrail.cli import options as opt
from calibrail.cli.output import DONE, FAILURE
from calibrail.settings.option import pairs


@opt.takes_settings
def run(
    guardrail: opt.Guardrail,
    *,
    response: Annotated[str, typer.Option(metavar="TEXT", help="The answer.")],
    question: Annotated[str, typer.Option(metavar="TEXT", help="The question.")] = "",
    context: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="A retrieved chunk. Repeatable, in their order."),
    ] = None,
    sample: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="A further answer to the question. Repeatable."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="COL=VALUE", help="A cell that the guardrail reads. Repeatable."),
    ] = None,
    show: opt.Show,
) -> None:
    """Decide about one answer and show why: which sentence, which chunk, with which weight.

    Exit code 0 whatever the decision is, and 1 where the detector failed.
    """
    loaded = calibrail.Guardrail.load(guardrail)
    decision = loaded.check(
        response=response,
        question=question,
        contexts=context or (),
        samples=sample or (),
        columns=pairs(column, "--column"),
    )
    code = FAILURE if decision.outcome == "error" else DONE
    show.finish("explain", decision.to_dict(evidence=True), code=code, score=loaded.score.name)
