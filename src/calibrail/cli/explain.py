"""``calibrail explain``: one answer, the decision about it, and what it rests on."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import calibrail
from calibrail.cli import options as opt
from calibrail.cli.output import DONE, FAILURE
from calibrail.settings.option import setting


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer, and what is known of it."""

    response: str = setting("The answer.", metavar="TEXT")
    question: str = setting("The question.", "", metavar="TEXT")
    contexts: tuple[str, ...] = setting(
        "A retrieved chunk. Repeatable, in their order.", (), flag="context", metavar="TEXT"
    )
    samples: tuple[str, ...] = setting(
        "A further answer to the question. Repeatable.", (), flag="sample", metavar="TEXT"
    )
    columns: Mapping[str, str] | None = setting(
        "A cell that the guardrail reads. Repeatable.", None, flag="column", metavar="COL=VALUE"
    )


@opt.takes_settings
def run(guardrail: opt.Guardrail, answer: Answer, trust: opt.Trust, show: opt.Show) -> None:
    """Decide about one answer and show why: which sentence, which chunk, with which weight.

    Exit code 0 whatever the decision is, and 1 where the detector failed.
    """
    loaded = trust.load(guardrail)
    example = calibrail.Example(**asdict(answer) | {"columns": dict(answer.columns or {})})
    (decision,) = loaded.decide([example], alone=True)
    code = FAILURE if decision.outcome == "error" else DONE
    content = {"schema": "calibrail.explain/1", **decision.to_dict(evidence=True)}
    show.finish("explain", content, code=code, score=loaded.scale.column or loaded.score.name)
