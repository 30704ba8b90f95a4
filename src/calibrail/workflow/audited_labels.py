"""What do people say of the answers of one guardrail that were drawn from its log?"""

from pathlib import Path

from calibrail.errors import InputError
from calibrail.guardrail.frozen import FrozenConfig
from calibrail.labelling.audited import Audited, audited
from calibrail.workflow.frozen import refuse_other_flags


def audited_labels(folder: Path, config: FrozenConfig) -> Audited:
    """Return the answers of a folder of ``calibrail audit-sample``, checked against a guardrail.

    Raises
    ------
    DataError
        A draw is not what it was, or bears a flag that the guardrail does not give to its score.
    InputError
        The answers are another guardrail's, or were not drawn from a log.
    """
    found = audited(folder)
    if found.guardrail != config.digest:
        raise InputError(
            f"the labels in {folder} are about another guardrail: their digest is "
            f"{found.guardrail[:19]}..., and that of the one given {config.digest[:19]}...; name "
            f"that one ({folder / 'guardrail.json'} is a copy), or draw answers of this one into "
            "another folder"
        )
    groups = found.group.tolist()
    refuse_other_flags(config, found.score, found.flagged, groups, folder / "draws.jsonl")
    return found
