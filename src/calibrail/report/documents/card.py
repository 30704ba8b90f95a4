"""Card."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from calibrail.conformal.groups import spelled
from calibrail.formatting import Scale, count, listed, number, percent
from calibrail.report.document import (
    Bullet,
    Code,
    Document,
    Facts,
    Json,
    Table,
    listing,
    numbers,
    section,
    texts,
)
from calibrail.report.documents import guardrail, measures
from calibrail.report.documents.calibrate_messages import verdict_summary
from calibrail.report.messages import title
from calibrail.report.text import capital, group_label, group_of, plain, short


def trims(config: Json) -> bool:
    """Return whether sentences are removed, and not whole answers flagged."""
    return bool(config["promise"].get("unit") == "sentence")


def seen_on(config: Json) -> str:
    """Return what the answers are called that the figures of the file are about."""
    return "audited answers" if config["data"]["format"] == "audit" else "held-out answers"


def promises(config: Json) -> Iterator[str]:
    """Say in plain words what the thresholds keep, whatever the detector."""
    promise, risks = config["promise"], config["requirement"]["risks"]
    if risks:
        sure = percent(config["requirement"]["confidence"])
        yield (
            f"With {sure} confidence its threshold keeps all of these at once, on answers like "
            f"those it was calibrated on: {listed([plain(risk) for risk in risks])}."
        )
        return
    caught = percent(1.0 - promise["alpha"])
    catches = (
        "It removes every unsupported sentence of at least"
        if trims(config)
        else "It catches at least"
    )
    done = "freed" if trims(config) else "caught"
    where = ""
    if promise["by"] is not None:
        own = "a threshold of its own" if isinstance(promise["by"], str) else "enough examples"
        where = f" in each group of {plain(spelled(promise['by']))} with {own}"
    elif promise["clustered"] or "clusters" in config["calibration"]:
        where = ", for an answer from a new group (a question, a source)"
    match promise["guarantee"]:
        case "pac":
            sure = percent(1.0 - (promise["delta"] or 0.0))
            yield (
                f"{catches} {caught} of hallucinated answers{where}. This holds for "
                f"this very threshold with {sure} confidence (guarantee: pac)."
            )
        case "anytime":
            sure = percent(1.0 - (promise["delta"] or 0.0))
            yield (
                f"{catches} {caught} of hallucinated answers{where}. This holds with "
                f"{sure} confidence for this very threshold and for every other one that was or "
                "will be made as more labels come in (guarantee: anytime)."
            )
        case "paper":
            yield (
                f"It follows the paper's rule for catching {caught} of hallucinated answers"
                f"{where}, which catches slightly less on average (guarantee: paper)."
            )
        case _:
            yield (
                f"{catches} {caught} of hallucinated answers{where}, on average over "
                "calibrations like this one (guarantee: marginal). This very threshold may catch "
                f"somewhat more or less; what it {done} on held-out answers stands below."
            )
    if promise["beta"] is not None:
        yield (
            f"It flags at most {percent(promise['beta'])} of faithful answers, in the same sense; "
            "what it sends to review comes on top."
        )
    price = "removing more sentences" if trims(config) else "flagging more answers"
    yield f"This holds whatever the detector is: a poor one keeps it, too, by {price}."


def limits(config: Json) -> Iterator[str]:
    """Say what must not be read into the promise."""
    promise, headline = config["promise"], config["headline"]
    yield (
        "Nothing for answers from elsewhere: it holds where the model, the retriever, the prompts, "
        "topics and language are those it was calibrated on, answers are independent of each "
        "other, and labels are right. When one of these changes, certify it again on fresh labels."
    )
    if trims(config):
        yield (
            "Nothing about a single answer: it is about the share of hallucinated answers that are "
            "freed of all unsupported sentences, and what is shown of one may hold another."
        )
        yield (
            "Nothing about how much is left: supported sentences go, too, and how many was "
            f"measured on {seen_on(config)} alone."
        )
        if headline["verdict"] != "certified":
            yield _uncertified(config)
        return
    yield (
        "Nothing about a single answer: it is about the share of hallucinated answers that are "
        "caught, and one that passes may be hallucinated. How many of those that pass are depends "
        "on how many answers are hallucinated in the first place."
    )
    if promise["beta"] is None and not config["requirement"]["risks"]:
        measured = f"they were measured on {seen_on(config)} alone"
        if headline["max_fpr"] is not None and headline["verdict"] == "certified":
            measured = f"what is known of them is the verdict above, on {seen_on(config)}"
        yield f"False alarms are not part of the promise: {measured}."
    if headline["verdict"] != "certified":
        yield _uncertified(config)


def _uncertified(config: Json) -> str:
    return f"It is not certified: {seen_on(config)} do not show that it meets what was asked."


#: Groups with a threshold of their own that the page shows; all of them stand in the JSON.
MOST_GROUPS: Final = 20

#: What becomes of an answer, by outcome.
_DONE: Final = {
    "flag": "is flagged",
    "review": "goes to review",
    "pass": "passes",
    "error": "gets the outcome error, and so does not pass",
}

#: What becomes of a sentence without a score, by policy.
_KEPT: Final = {
    "flag": "is removed",
    "review": "sends its answer to review",
    "pass": "stays",
}

_FIELDS: Final = {
    "question": "the question",
    "contexts": "the retrieved contexts",
    "response": "the answer",
    "samples": "further answers sampled for the question",
}


def document(card: Json) -> Document:
    """Return a guardrail on one page: what it does, promises and does not promise, and its origin.

    Parameters
    ----------
    card : mapping
        What ``calibrail card --json`` prints.
    """
    config, name = card["guardrail"], card["file"]["name"] or "guardrail.json"
    headline = config["headline"]
    return replace(
        guardrail.guardrail_document(config),
        title="card of the guardrail",
        subject=f"{plain(name)} ({detector(config)})",
        summary=verdict_summary(headline),
        blocks=(
            listing("What it does", list(_does(card))),
            section("Thresholds of groups", _groups(config, Scale.of(config["score"]))),
            listing("What it promises", list(promises(config))),
            listing("What it does not promise", list(limits(config))),
            section(
                f"What the {seen_on(config)} show",
                measures.table(
                    f"What the {seen_on(config)} show",
                    _rates(config),
                    headline["coverage"]["confidence"],
                ),
            ),
            section("Its data", Facts(list(_data(config)))),
            section("Its detector", Facts(list(_detector_facts(config)))),
            section("Its file", Facts(list(_file(card)))),
            section("Check it", Code(_commands(config, name))),
        ),
        warnings=[Bullet(f"{capital(title(f'warning.{code}'))}.") for code in headline["warnings"]],
        footer="Every figure on this page is in the guardrail's file.",
    )


def _rates(config: Json) -> list[measures.Line]:
    """Return what was measured, beside what was asked."""
    headline = config["headline"]
    if trims(config):
        asked = {**headline, "min_kept": config["requirement"].get("min_kept")}
        return measures.trim_rates(headline, asked)
    return measures.rates(headline, headline)


def detector(config: Json) -> str:
    """Return what a guardrail's detector is called: a column by its own name."""
    return plain(Scale.of(config["score"]).column or config["score"]["name"])


def _does(card: Json) -> Iterator[str]:
    """Say what goes in, what comes out, and what happens where something fails."""
    config, reads = card["guardrail"], card["reads"]
    scale, policy = Scale.of(config["score"]), config["policy"]
    name = scale.named(detector(config))
    if reads is not None:
        fields = [_FIELDS.get(item, item) for item in reads["texts"]]
        fields += [f"the column {plain(item)}" for item in reads["columns"]]
        yield f"It reads {listed(fields)} and decides by the {name} ({scale.meaning})."
    yield decides(config)
    if trims(config):
        yield (
            "What is left is mended: a connective that has lost what it connected, the mark of an "
            "item, a heading without anything below it go, too. What cannot be mended (it refers "
            "to what has gone; code, a quotation or a row of a table would be torn) goes to review."
        )
        yield (
            f"A sentence whose score cannot be computed {_KEPT[policy['undefined']]}; the "
            "calibration counted such sentences in the same way. An answer on which the detector "
            f"fails {_DONE[policy['failure']]}."
        )
    else:
        yield (
            f"An answer whose score cannot be computed {_DONE[policy['undefined']]}; the "
            f"calibration counted such answers in the same way. One on which the detector fails "
            f"{_DONE[policy['failure']]}."
        )
    if reads is None:
        yield (
            "Its detector is not part of calibrail, so this card does not say what it reads or "
            "whether it sends anything over a network; look at its code."
        )
    elif reads["endpoints"]:
        yield (
            f"It sends what it reads to {listed([plain(item) for item in reads['endpoints']])}: "
            "texts leave the machine, and calls may cost money."
        )
    else:
        yield "It decides on the machine that it runs on, and sends nothing over a network."


def decides(config: Json) -> str:
    """Say at which values an answer passes, is flagged or goes to review."""
    scale, chosen, upper = Scale.of(config["score"]), config["chosen"], config["upper"]
    name, by = scale.named(detector(config)), spelled(config["promise"]["by"])
    edge = config["calibration"]["threshold"] if chosen is None else chosen
    groups = config["groups"] or {}
    own = bool(groups.get("groups") or groups.get("columns"))
    if edge is None and not own:
        if trims(config):
            return "It removes every sentence: there were too few calibration answers."
        return "It flags every answer: there were too few calibration examples for a threshold."
    limit = scale.text(edge)
    if own:
        limit = (
            f"the threshold that follows from its groups of {plain(by)}"
            if "columns" in groups
            else f"the threshold of its group of {plain(by)} (the table shows them)"
        )
    if trims(config):
        return (
            f"It removes each sentence of an answer whose {name} is {scale.reaching} {limit}, and "
            "says what may be shown in the answer's place; an answer without one passes as it is."
        )
    if upper is None:
        return (
            f"It flags an answer when its {name} is {scale.reaching} {limit}, and passes it "
            "otherwise."
        )
    passes = f"It passes an answer when its {name} is {scale.harmless} {limit}"
    if upper["threshold"] is None:
        return f"{passes}, and sends every other one to review."
    return (
        f"{passes}; of the others it flags those {scale.suspicious} "
        f"{scale.text(-upper['threshold'])}, and sends the rest to review."
    )


def _groups(config: Json, scale: Scale) -> Table | None:
    """Show the thresholds of groups, the largest groups first."""
    if config["groups"] is None:
        return None
    if "columns" in config["groups"]:
        return _overlapping(config["groups"])
    own = sorted(config["groups"]["groups"].items(), key=lambda item: (-item[1]["n"], item[0]))
    rows = [
        (group_label(name), scale.text(group["threshold"], "flags everything"), f"{group['n']:,}")
        for name, group in own[:MOST_GROUPS]
    ]
    if (more := len(own) - MOST_GROUPS) > 0:
        rows.append((f"and {more:,} more", "", ""))
    rest = config["calibration"]
    rows.append(("all others", scale.text(rest["threshold"], "flags everything"), f"{rest['n']:,}"))
    columns = (*texts("Group"), *numbers("Threshold", "Hallucinated calibration answers"))
    return Table("Thresholds of groups", columns, rows)


def _overlapping(groups: Json) -> Table:
    """Show the groups of several columns, the largest first."""
    named = [
        (column, name, n)
        for column, *parts in zip(
            *(groups[part] for part in ("columns", "values", "counts", "own")), strict=True
        )
        for name, n, own in zip(*parts, strict=True)
        if own
    ]
    named.sort(key=lambda item: (-item[2], item[:2]))
    rows = [
        (group_of({"column": column, "group": name}), f"{n:,}")
        for column, name, n in named[:MOST_GROUPS]
    ]
    if (more := len(named) - MOST_GROUPS) > 0:
        rows.append((f"and {more:,} more", ""))
    columns = (*texts("Group"), *numbers("Hallucinated calibration answers"))
    return Table("Groups with a promise", columns, rows)


def _data(config: Json) -> Iterator[tuple[str, str]]:
    """Yield where the answers came from and how many there were."""
    data, n = config["data"], config["calibration"]["n"]
    known = data["n_hallucinated"]
    share = "" if known is None else f", {known:,} of them hallucinated"
    yield "Source", f"{plain(data['source'])} (read as {plain(data['format'])})"
    if data["sha256"]:
        yield "SHA-256", data["sha256"]
    yield "Answers", f"{count(data['n_examples'], 'labelled answer')}{share}"
    if data["n_quarantined"]:
        yield (
            "Left out",
            count(
                data["n_quarantined"], "row that could not be used", "rows that could not be used"
            ),
        )
    if data["format"] == "audit":
        yield "Threshold from", f"{count(n, 'hallucinated answer')}, on which its coverage was seen"
        yield "Drawn", f"from a decision log by lot, seed {data['seed']}"
        return
    yield "Threshold from", f"{count(n, 'hallucinated answer')}, none of which tested it"
    if data["seed"] is not None:
        yield "Split", f"by lot, seed {data['seed']}"


def _file(card: Json) -> Iterator[tuple[str, str]]:
    """Yield what tells this file from every other one, and who vouches for it."""
    file, config, signature = card["file"], card["guardrail"], card["signature"]
    if file["name"]:
        yield "File", plain(file["name"])
    if file["sha256"]:
        yield "SHA-256 of the file", file["sha256"]
    yield "Digest of its content", config["digest"].removeprefix("sha256:")
    yield "Schema", config["schema"]
    states = {
        "verified": "verified: signed with the key",
        "not verified": "there is one, which was not verified: no public key was given",
        "none": "none: nobody vouches for this file; the digest shows accidents, not forgery",
        "unknown": "not looked at: the guardrail was loaded without a trusted key",
    }
    yield "Signature", f"{states[signature['state']]} {signature['keyid'] or ''}".rstrip()
    yield "Golden probes", _probes(card["probes"])


def _probes(probes: Json) -> str:
    """Say whether a machine can be asked to prove that it computes the frozen scores."""
    if not probes["n"]:
        unproven = (
            "none: no machine can prove with this file that it computes the scores that were "
            "frozen, beyond the detector's fingerprint"
        )
        return {
            "column": "none: the score stands in the data, and no machine computes it",
            "endpoint": "none: the detector asks an endpoint, which was not asked about them when "
            "it was exported (--probe-endpoint)",
        }.get(probes["why"], unproven)
    held = f"{count(probes['n'], 'frozen score')} ({plain(probes['set'])})"
    if probes["why"] == "endpoint":
        held += " of the members that ask no endpoint"
    if not probes["n_defined"]:
        return f"NOT PROBED: none of {held} is a number, so that no machine can prove anything"
    if probes["agreed"]:
        return f"{held}, recomputed on this machine and agreed"
    return f"{held}, not recomputed for this card"


def _detector_facts(config: Json) -> Iterator[tuple[str, str]]:
    """Yield what the detector is made of, and the libraries that it was certified with."""
    score = config["score"]
    yield "Name", plain(score["name"])
    for name, part in (("Parameters", "params"), ("Fingerprint", "fingerprint")):
        if leaves := _leaves(score[part]):
            yield name, leaves
    if score["state_bytes"] is not None:
        yield "Learnt state", f"{score['state_bytes']:,} bytes, in the file"
    yield "Versions", _leaves(config["versions"])


def _leaves(value: Json) -> str:
    """Return what holds anything, by name."""
    return ", ".join(
        f"{plain(key)} {number(item, 6) if isinstance(item, float) else short(item, 100)}"
        for key, item in sorted(value.items())
        if item is not None and item != []
    )


def _commands(config: Json, name: str) -> str:
    """Return the commands that show whether the file is what this page says, and still holds."""
    file, limit = shlex.quote(plain(name)), config["headline"]["max_fpr"]
    asked = "LIMIT" if limit is None else f"{limit:g}"
    return (
        f"calibrail verify {file} --key KEY.pub.pem\n"
        f"calibrail certify {file} FRESH_LABELS --max-fpr {asked}"
    )
