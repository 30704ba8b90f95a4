"""Card."""

import shlex
from dataclasses import replace
from typing import Any, Final

from calibrail.conformal.group_thresholds import spelled
from calibrail.formatting import Scale, floor_percent, number
from calibrail.options.data import judge_of
from calibrail.report import document as parts
from calibrail.report.document import Bullet, Document, Json, Table, listing, section, table
from calibrail.report.documents import calibrate_sections as sections
from calibrail.report.documents import guardrail, measures
from calibrail.report.messages import facts, remarks, say, say_first, word
from calibrail.report.text import by_sentence, group_label, group_of, is_proven, plain, short, tone

#: Groups with a threshold of their own that the page shows; all of them stand in the JSON.
MOST_GROUPS: Final = 20


def document(card: Json) -> Document:
    """Return a guardrail on one page: what it does, promises and does not promise, and its origin.

    Parameters
    ----------
    card : mapping
        What ``calibrail guardrail card --json`` prints.
    """
    config, name = card["guardrail"], card["file"]["name"] or "guardrail.json"
    headline = guardrail.headline_of(config)
    scale = Scale.of(config["score"])
    detector = plain(scale.column or config["score"]["name"])
    kind = "labelled" if is_proven(headline["coverage"]) else "held-out"
    seen_on = f"{'audited' if config['data']['format'] == 'audit' else kind} answers"
    about: dict[str, Any] = {
        "seen_on": seen_on,
        "trims": by_sentence(config),
        "fails": measures.is_missed(headline),
        "scale": scale,
        "name": scale.named(detector),
        "risks": [plain(risk) for risk in config["requirement"]["risks"]],
    }
    rates = measures.trim_rates if about["trims"] else measures.of_verdict
    region = (headline.get("certificate") or {}).get("region") or headline["fpr"]
    shown, confidence = f"What the {seen_on} show", region["confidence"]
    judge = judge_of(config["data"].get("reading"))
    warned = [sections.warning_title(code, headline) for code in headline["warnings"]]
    leaves = {part: _leaves(config["score"][part]) for part in ("params", "fingerprint")}
    of_detector = facts("card.detector", config, leaves, libraries=_leaves(config["versions"]))
    check = _commands(config, name, card["signature"]["state"] != "none")
    file = facts("card.file", card, schema=config["schema"], **_of_file(card))
    return replace(
        guardrail.guardrail_document(config),
        title="card of the guardrail",
        subject=f"{plain(name)} ({detector})",
        summary=sections.verdict_summary(
            {**headline, "reason": guardrail.reason_or_cost(headline)}
        ),
        lead=[Bullet(sections.removal_summary(headline), "In short")]
        if about["trims"]
        else measures.in_short(headline, headline),
        blocks=(
            section(
                shown,
                measures.target_figure(headline, confidence),
                *measures.decided(shown, rates(headline, headline), confidence),
            ),
            measures.cost_section(headline.get("cost")),
            listing("What it does", _does(card, about)),
            section("Thresholds of groups", _groups(config, scale, headline)),
            listing("What it promises", _promises(config, about)),
            listing("What it does not promise", remarks("card.limits", config, about)),
            section("Its data", parts.Facts(facts("card.data", config, labelled_by=judge or ""))),
            section("Its detector", parts.Facts(of_detector)),
            section("Its file", parts.Facts(file)),
            section("Check it", parts.Code(check)),
        ),
        warnings=[Bullet(say("card.warning", titles=warned))] if warned else [],
        next_step=say("card.next", headline, about, command=check.splitlines()[1]),
        footer="Every figure on this page is in the guardrail's file.",
        sheet=True,
    ).naming(GUARDRAIL=name)


def badge(card: Json) -> tuple[str, str]:
    """Return a guardrail's verdict, and the words of its badge: what is certified, if anything."""
    config = card["guardrail"]
    headline, proven = config["headline"], is_proven(config["headline"]["coverage"])
    least = headline["min_coverage"] or (1.0 - config["promise"]["alpha"] if proven else None)
    about = guardrail.headline_of(config)
    told = say("card.badge", config, told=sections.verdict_headline(about), least=least)
    return "" if sections.is_unasked(about) else tone(about), told[:1].lower() + told[1:]


def _promises(config: Json, about: Json) -> list[str]:
    """Say in plain words what the thresholds keep, whatever the detector."""
    promise, by = config["promise"], config["promise"]["by"]
    where = ""
    if by is not None:
        where = f" {say('card.in_each_group', by=spelled(by), one=isinstance(by, str))}"
    elif promise["clustered"] or "clusters" in config["calibration"]:
        where = ", for an answer from a new group (a question, a source)"
    first = say(
        "card.keeps_risks" if about["risks"] else f"card.keeps_{promise['guarantee']}",
        config,
        about,
        catches=say("card.catches", config, about),
        caught=floor_percent(1.0 - promise["alpha"]),
        sure=floor_percent(sections.sure(config)),
        where=where,
        together=is_proven(config["headline"]["coverage"]),
    )
    return remarks("card.promises", config, about, first=first)


def _does(card: Json, about: Json) -> list[str]:
    """Say what goes in, what comes out, and what happens where something fails."""
    config, reads = card["guardrail"], card["reads"]
    policy, fields = config["policy"], []
    if reads is not None:
        fields = [word("card.fields", item, item) for item in reads["texts"]]
        fields += [f"the column {plain(item)}" for item in reads["columns"]]
    return remarks(
        "card.does",
        config,
        about,
        reads=reads,
        fields=fields,
        endpoints=[plain(item) for item in (reads or {}).get("endpoints", ())],
        decides=_decides(config, about),
        undefined=word("card.outcomes", policy["undefined"]),
        failed=word("card.outcomes", policy["failure"]),
    )


def _decides(config: Json, about: Json) -> str:
    """Say at which values an answer passes, is flagged or goes to review."""
    upper, groups = config["upper"], config["groups"] or {}
    edge = config["calibration"]["threshold"] if config["chosen"] is None else config["chosen"]
    own, limit = bool(groups.get("groups") or groups.get("columns")), about["scale"].edge(edge)
    if own:
        code = "card.limit_of_groups" if "columns" in groups else "card.limit_of_group"
        limit = say(code, by=spelled(config["promise"]["by"]))
    none = edge is None and not own
    return say_first(
        {
            "card.removes_all": none and about["trims"],
            "card.flags_all": none,
            "card.removes": about["trims"],
            "card.flags": upper is None,
            "card.reviews_others": upper and upper["threshold"] is None,
            "card.reviews_between": True,
        },
        about,
        limit=limit,
        upper=upper,
    )


def _groups(config: Json, scale: Scale, headline: Json) -> Table | None:
    """Show the groups, the largest first: each with its own threshold and verdict, if any."""
    if (groups := config["groups"]) is None:
        return None
    heads = ">Hallucinated calibration answers", "Verdict"
    rows: list[tuple[str, ...]] = []
    own = [row for row in (headline.get("by_group") or {"rows": ()})["rows"] if row["own"]]
    told = {group_of(row): sections.verdict_word({**headline, **row}) for row in own}
    if "columns" in groups:
        every = zip(*(groups[part] for part in ("columns", "values", "counts", "own")), strict=True)
        named = [
            (column, name, n)
            for column, *of_column in every
            for name, n, own in zip(*of_column, strict=True)
            if own
        ]
        named.sort(key=lambda item: (-item[2], item[:2]))
        rows = [(group_of({"column": at, "group": name}), f"{n:,}") for at, name, n in named]
        return table("Groups with a promise", ("Group", *heads), _first(rows, told))
    own_ones = sorted(groups["groups"].items(), key=lambda item: (-item[1]["n"], item[0]))
    rest = [("all others", config["calibration"])]
    rows = [
        (name, scale.edge(group["threshold"], "flags everything"), f"{group['n']:,}")
        for name, group in (*((group_label(name), group) for name, group in own_ones), *rest)
    ]
    every_row = [*_first(rows[:-1], told), (*rows[-1], "")]
    return table("Thresholds of groups", ("Group", ">Threshold", *heads), every_row)


def _first(rows: list[tuple[str, ...]], told: dict[str, str]) -> list[tuple[str, ...]]:
    """Return the first rows, each with what is told of its group, and how many more there are."""
    rows = [(*row, told.get(row[0], "")) for row in rows]
    if (more := len(rows) - MOST_GROUPS) <= 0:
        return rows
    return [*rows[:MOST_GROUPS], (f"and {more:,} more", *[""] * (len(rows[0]) - 1))]


def _of_file(card: Json) -> dict[str, str]:
    """Return the digest, and whether a machine can prove that it computes the frozen scores."""
    probes = card["probes"]
    proof = say_first(
        {
            "card.probes_of_column": not probes["n"] and probes["why"] == "column",
            "card.probes_of_endpoint": not probes["n"] and probes["why"] == "endpoint",
            "card.no_probes": not probes["n"],
            "card.not_probed": not probes["n_defined"],
            "card.probes_agreed": probes["agreed"],
            "card.probes_held": True,
        },
        held=say("card.held", probes) if probes["n"] else "",
    )
    vouched = word("card.signatures", card["signature"]["state"])
    digest = card["guardrail"]["digest"].removeprefix("sha256:")
    return {"digest": digest, "proof": proof, "vouched": vouched}


def _leaves(value: Json) -> str:
    """Return what holds anything, by name."""
    return ", ".join(
        f"{plain(key)} {number(item, 6) if isinstance(item, float) else short(item, 100)}"
        for key, item in sorted(value.items())
        if item is not None and item != []
    )


def _commands(config: Json, name: str, signed: bool) -> str:
    """Return the commands that show whether the file is what this page says, and still holds."""
    file, trims = shlex.quote(plain(name)), by_sentence(config)
    again = say("card.certify", config, {"cost": None}, config["headline"], file=file, trims=trims)
    return f"calibrail guardrail verify {file}{' --key KEY.pub.pem' * signed}\n{again}"
