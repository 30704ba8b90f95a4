"""``calibrail explain``: one answer, the decision about it, and what it rests on."""

from functools import partial
from typing import Annotated

import typer

from calibrail.cli import options as opt


def run(
    guardrail: opt.Guardrail,
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
    page: opt.Page = None,
    json: opt.AsJson = False,
) -> None:
    """Decide about one answer and show why: which sentence, which chunk, with which weight.

    Exit code 0 whatever the decision is, and 1 where the detector failed.
    """
    from calibrail.cli.exits import DONE, FAILURE
    from calibrail.cli.output import print_result
    from calibrail.guardrail import Guardrail
    from calibrail.report.documents.explain import document

    loaded = Guardrail.load(guardrail)
    decision = loaded.check(
        response=response,
        question=question,
        contexts=context or (),
        samples=sample or (),
        columns=opt.pairs(column, "--column"),
    )
    content = decision.to_dict(evidence=True)
    print_result(content, partial(document, score=loaded.score.name), json, page)
    raise typer.Exit(FAILURE if decision.outcome == "error" else DONE)
