"""Documents and messages of agree, repeat and versus."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from calibrail.formatting import Scale, floor_percent, listed, outward, percent
from calibrail.report import document as parts
from calibrail.report import text as phrases
from calibrail.report.document import Document, Json
from calibrail.report.documents import measures
from calibrail.report.documents.data import alike_names, labellers_note
from calibrail.report.documents.measures import is_missed, part_note
from calibrail.report.documents.next_steps import STEPS, again, answers_more, label_anew
from calibrail.report.figures.scores import groups_svg
from calibrail.report.messages import facts, labeller, remarks, say, say_first, word


def document(result: Json) -> Document:
    """Return what judges catch and raise, the verdicts, and the rates that both labels give.

    Parameters
    ----------
    result : mapping
        What ``calibrail agree --json`` prints.
    """
    judges, verdict = result["judges"], result["verdict"]
    row = next((item for item in judges if item["verdict"] == verdict), judges[0])
    doubted = any(test["differs"] for item in judges for test in item["random_sample"])
    wanted = label_anew(row["certificate"], once=bool(result["data"]["n_set_aside"]))
    counted = say("agree.headline", result["data"], result)
    code = row["certificate"].get("reason_code")
    all_missed = all(is_missed(item["certificate"]) for item in judges)
    named = {"verdict": str(verdict).capitalize(), "judge": result["data"]["labelled_by"]}
    about: dict[str, Any] = {**row, "judge": phrases.plain(row["judge"]), "data": result["data"]}
    about["once"] = bool(result["data"]["n_set_aside"])
    called = [(item["verdict"], phrases.plain(item["judge"])) for item in judges]
    about["judges"] = [name for reached, name in called if reached == verdict]
    about["certified"] = [item for item in judges if item["verdict"] == "certified"]
    best = max(about["certified"], key=lambda item: item["caught"]["estimate"], default=row)
    usable = [name for reached, name in called if verdict != reached == "certified"]
    # Of several judges the worst verdict is that of all, and the headline names who may be used.
    named["verdict"] = say("agree.some", result, usable=usable) if usable else named["verdict"]
    last = say_first(
        {
            "agree.draw_at_random": doubted,
            "agree.ask": verdict is None,
            "verdict.label_by_people": code == "labels_of_judge",
            "verdict.name_copies": code == "near_copies",
            "certify.would_fail": code == "looked_before" and all_missed,
            "agree.again": code == "looked_before",
            "agree.use": verdict == "certified",
            "agree.do_not_use": verdict == "rejected",
            "agree.label_more": wanted is not None,
            "agree.too_close": True,
        },
        about,
        (wanted or ("", {}))[1],
    )
    steps = [say("agree.use", about, judges=usable), last] if usable else [last]
    segments = f"By {phrases.plain(result['columns']['by'])}"
    summary, lines = _summary(judges, result)
    several = judges if lines else ()
    return Document(
        "agreement of",
        subject=f"judge and {labeller(result['data'])}",
        headline=say("verdict.of_judge", named) if verdict else counted,
        verdict=verdict,
        tone="conditional" if usable else "",
        rule=counted if verdict else "",
        summary=summary,
        lead=lines,
        tiles=_tiles(best, f"{phrases.plain(best['judge'])}: " if lines else ""),
        blocks=(
            _figure(judges),
            _gates(result, several, ("Judge", lambda item: phrases.plain(item["judge"]))),
            _gates(result, result["by"], (segments, _of_judge if lines else _segment)),
            *(block for item in judges for block in _judge(item, result)),
            _granted(judges, result),
            _errors(result),
        ),
        warnings=[parts.Bullet(text) for text in result["warnings"]],
        notes=part_note(result["data"].get("part")),
        next_step=steps[0],
        alternatives=steps[1:],
        data=result["data"],
    )


def _tiles(row: Json, judge: str) -> list[parts.Tile]:
    """Return both rates of the judge that decides, with what is shown and required of them."""
    seen = {"coverage": row["caught"], "fpr": row["false_alarms"]}
    tiles = measures.tiles(measures.rates(seen, _asked(row)))
    return [tile._replace(name=f"{judge}{tile.name}") for tile in tiles]


def _asked(row: Json) -> Json:
    """Return what was asked of a judge, with the ends that decide where anything is decided."""
    asked: Json = row["certificate"] if row["verdict"] else {}
    if asked.get("reason_code") not in STEPS:
        return asked
    return {name: asked[name] for name in ("min_coverage", "max_fpr")}


def _summary(judges: Sequence[Json], result: Json) -> tuple[str, list[parts.Bullet]]:
    """Return what a judge does, with its reason; of several what they share, and a line of each."""
    tests = (one["share"] for item in judges for one in item["random_sample"])
    drawn = not {"drawn", "segment"}.isdisjoint(tests)
    # By how much those that people labelled differ from the others is a warning.
    doubt = say("agree.no_verdict", doubt=None, drawing=drawn, data=result["data"])
    sharing: dict[str, list[str]] = {}
    for item in judges:
        chosen = judges[1:] and item["certificate"].get("reason_code") == "no_sample"
        why = doubt if chosen else item["reason"] or ""
        sharing.setdefault(why, []).append(phrases.plain(item["judge"]))
    if not judges[1:]:
        return _in_short(judges[0], result, *sharing), []
    said = [f"{listed(of)}, each: {why}" for why, of in sharing.items() if why and of[1:]]
    alone = {of[0]: why for why, of in sharing.items() if not of[1:]}
    named = [(phrases.plain(item["judge"]), item) for item in judges]
    lines = [(_in_short(item, result, alone.get(name, "")), name) for name, item in named]
    if result["verdict"]:
        said.insert(0, say("agree.headline", result["data"], result))
    return " ".join(said), [parts.Bullet(*line) for line in lines]


def _in_short(item: Json, result: Json, reason: str) -> str:
    """Return what a judge catches and raises, and what that means for what was asked."""
    alone, name = not result["judges"][1:], phrases.plain(item["judge"])
    code, asked = "agree.in_short" if alone else "agree.of_several", _asked(item)
    ends = {rate: measures.shown_end(rate, asked) for rate in ("coverage", "fpr")}
    text = say(code, item, result, judge=name, ends=ends)
    if item["threshold"] is not None:
        text = f"{text} {say('agree.calibrated', item, result['data'], data=result['data'])}"
    if item["verdict"] is None:
        return text
    if item["certificate"].get("reason_code") not in STEPS:
        verdict = say(f"agree.{item['verdict']}", result, judge=name if alone else "It")
        # What a judge of several has as its own reason are the bounds that decide.
        text = verdict if reason and not alone else f"{verdict} {text}"
    return f"{text} {reason}".rstrip()


def _segment(row: Json) -> str:
    return phrases.group_label(row["segment"])


def _of_judge(row: Json) -> str:
    return f"{_segment(row)}, {phrases.plain(row['judge'])}"


def _more(row: Json, result: Json) -> str:
    """Return how many more answers would certify; nothing where they would reject, or none can."""
    caught, alarms = row["caught"]["estimate"], row["false_alarms"]["estimate"]
    known = None not in (caught, alarms)
    passes = known and caught >= result["min_caught"] and alarms <= result["max_false_alarms"]
    return answers_more(row["needed"] or {}) if passes else ""


def _gates(
    result: Json, rows: Sequence[Json], names: tuple[str, Callable[[Json], str]]
) -> parts.Section | None:
    """Show bounds and verdict of every judge, or of every judge in every segment."""
    if not rows:
        return None
    part, cells = "segment" in rows[0], list[tuple[str, ...]]()
    for row in rows:
        more, code = "", row["certificate"].get("reason_code")
        # Of labels that are no random sample more would settle nothing.
        if row["verdict"] == "inconclusive" and code != "no_sample":
            more = _more(row, result)
        rates = row["caught"], row["false_alarms"], row["rates"]["prevalence"]["prediction_powered"]
        caught, alarms, *shown = map(phrases.share_with_bounds, rates[: 2 + part])
        cells.append((names[1](row), caught, alarms, row["verdict"] or "", more, *shown))
    heads = "Caught", "False alarms", "Verdict", "More needed", *["Hallucinated"] * part
    what = "group" if part else "judge"
    held = say("certify.corrected", confidence=result["confidence"], n=len(rows), what=what)
    asked = result["min_caught"] is not None and len(rows) > 1
    means = "" if part else say("agree.several", result, n=len(rows))
    said = map(parts.Text, (means, held if asked else ""))
    return parts.tabled(names[0], (names[0], *heads), cells, *said)


def _judge(item: Json, result: Json) -> Iterator[parts.Block]:
    """Yield how far a judge agrees with people, what its errors go with, and both estimates."""
    level, agreement, rows = floor_percent(result["confidence"]), item["agreement"], []
    kappa, asymmetry = agreement["kappa"], agreement["asymmetry"]
    whose = phrases.plain(item["judge"])
    for key in ("sensitivity", "specificity"):
        rate = agreement[key]
        span = phrases.interval(rate) if rate["n"] else say(f"agree.{key}", result)
        rows.append((word("agree.judged", key), phrases.share(rate), span, phrases.count_of(rate)))
    known = kappa["estimate"] is not None
    span = phrases.bounds(kappa, 2) if known else kappa["reason"]
    beyond = "agreement beyond chance" if known else ""
    rows.append(("Cohen's kappa", phrases.estimate(kappa, 2), span or "", beyond))
    heads = (parts.TableColumn("Measure", brief=""), ">Value", f"{level} interval", "Counts")
    people = labeller(result["data"])
    title = f"{whose} on answers that {people} labelled, each interval alone"
    leaning = "" if asymmetry["p_value"] is None else say("agree.leaning", asymmetry, result)
    shown = [row for row in item["errs"] if row["p_holm"] <= 1.0 - result["confidence"]]
    errs = [say("agree.errs", row, feature=phrases.plain(row["feature"])) for row in shown]
    decided = any(measures.shown_end(rate, _asked(item)) for rate in ("coverage", "fpr"))
    both = say("agree.together", item, judge=whose) if decided and not result["judges"][1:] else ""
    said = map(parts.Text, (both, leaning, " ".join(errs)))
    yield parts.tabled(title, heads, rows, *said)
    estimates = list[tuple[str | parts.Cell, ...]]()
    missing, methods = list[str](), _methods(item)
    for key, rate in item["rates"].items():
        cells = [phrases.share_cell(rate[it]) if rate.get(it) else "" for it in methods]
        for method, name in methods.items():
            if (value := rate.get(method)) and value["estimate"] is None:
                missing.append(f"{word('agree.rates', key)}, {name}: {value['reason']}.")
        estimates.append((word("agree.rates", key), *cells))
    title = f"Rates from labels of {people} and {whose}, each alone with a {level} interval"
    columns: list[str | parts.TableColumn] = [parts.TableColumn("Rate", brief="")]
    columns += methods.values()
    among = say("agree.among", item["among"], result) if item["among"] else ""
    yield parts.tabled(title, columns, estimates, parts.Text(among), two_lines=True)
    yield parts.Bullets("Missing", missing)


def _methods(item: Json) -> dict[str, str]:
    """Return the ways in which rates of a judge are estimated, with their names."""
    return {key: name for key, name in facts("agree.methods") if key in item["rates"]["prevalence"]}


def _granted(judges: Sequence[Json], result: Json) -> parts.Facts:
    """Return what each method takes for granted, once for all judges."""
    used = {key: name for item in judges for key, name in _methods(item).items()}
    takes = [f"{name}: {say(f'agree.granted_{key}', result)}" for key, name in used.items()]
    return parts.Facts([("Assumptions", say("agree.granted", assumed=takes))] if takes else [])


def _figure(judges: Sequence[Json]) -> parts.Section | None:
    """Draw what is shown of a judge beside what was required, or of several, most caught first."""
    rows = [{**item["certificate"], "group": phrases.plain(item["judge"])} for item in judges]
    rows.sort(key=lambda row: -(row["coverage"]["estimate"] or 0.0))
    figure = measures.target_figure(rows[0], rows[0]["region"]["confidence"])
    if rows[1:]:
        draw = partial(groups_svg, {"rows": [measures.together(row) for row in rows]})
        figure = parts.Figure("judges", draw, say("agree.figure"))
    return parts.section("What is shown", figure, where="page")


#: So many disagreements are shown; all stand in the machine-readable result.
MOST: Final = 50


def _errors(result: Json) -> parts.Section | None:
    """Show the answers on which judges and people disagree, by segment."""
    if not result["errors"]:
        return None
    rows = []
    for row in result["errors"][:MOST]:
        cells = phrases.group_label(row["segment"]), *map(phrases.plain, (row["judge"], row["id"]))
        label = "hallucinated" if row["human"] else "faithful"
        rows.append((*cells, label, phrases.short(row["response"])))
    says = f"By {labeller(result['data'])}"
    shown = say("agree.errors_shown", result, n=len(result["errors"]), most=MOST)
    table = parts.table(shown, ("Segment", "Judge", "Answer", says, "Text"), rows)
    return parts.section("Disagreements", parts.Text(shown, where="page"), table)


def differing(tests: Iterable[Json]) -> str:
    """Return by what the rows with human labels are seen to be no such sample; empty if not."""
    codes = {"drawn": "versus.drawn", "segment": "agree.by_segment"}
    seen = (test for test in tests if test["differs"])
    return " and ".join(say(codes.get(test["share"], "agree.differs"), test) for test in seen)


def _holds_within(judge: Json, result: Json) -> bool:
    """Return whether labels are a random sample in each segment, though not of all."""
    rows = [row for row in result["by"] if row["judge"] == judge["judge"]]
    return bool(rows) and all(row["certificate"]["reason_code"] != "no_sample" for row in rows)


def warnings(result: Json) -> Iterator[str]:
    """Yield what weakens the result.

    Parameters
    ----------
    result : mapping
        What ``calibrail agree --json`` prints.
    """
    data = {**result["data"], "n_human_alone": 0}
    for item in result["judges"]:
        if doubt := differing(item["random_sample"]):
            about = {"judge": phrases.plain(item["judge"]), "within": _holds_within(item, result)}
            yield say("agree.not_alike", result, about, doubt=doubt)
        # Of a judge that is rejected less is asked: its 1 may mean faithful, which nothing shows.
        kappa = item["agreement"]["kappa"]["estimate" if item["verdict"] == "rejected" else "upper"]
        if kappa is not None and kappa < 0.0:
            about = {"judge": phrases.plain(item["judge"]), "turned": item.get("turned")}
            yield say("agree.against_people", result, about)
        counts, table = item["counts"], item["agreement"]["table"]
        alike = not table["hallucinated_faithful"] + table["faithful_hallucinated"]
        if alike and counts["n_judge"] == counts["n"] == counts["n_both"] < data["n"]:
            yield say("agree.copy", result, judge=phrases.plain(item["judge"]))
        data["n_human_alone"] = max(data["n_human_alone"], counts["n_human_alone"])
    by_column = "column" in (result["flag"] or ())
    for code in (
        *("seen_before", "set_aside", "larger", "sharing_a_group", "thinned", "unmet", "unsure"),
        *("human_alone", "errors", "undefined"),
    ):
        if data.get(f"n_{code}"):
            yield say(f"agree.{code}", data, result, by_column=by_column)
    segments = (row["segment"] for row in result["by"])
    yield from alike_names(result["columns"]["by"] or "", segments, "segments")
    yield from labellers_note(data.get("labellers"))


def versus_document(result: Json) -> Document:
    """Return which of two systems hallucinates less often, and what that rests on.

    Parameters
    ----------
    result : mapping
        The content of ``versus.json``.
    """
    level, code = floor_percent(result["confidence"]), result["reason_code"]
    command = again(result, "versus")
    result = {**result, **_called([item["name"] for item in result["systems"]])}
    # A mean of ratings is no share.
    judged = any(item["judge"] is not None for item in result["systems"])
    data, people = result["data"], labeller(result["data"])
    rows = list[parts.Row]()
    for item in result["systems"]:
        cells = phrases.plain(item["name"]), phrases.share_cell(item["people"])
        of_judge = "none" if item["judge"] is None else percent(item["judge"])
        rows.append((*cells, phrases.count_of(item["people"]), *[of_judge] * judged))
    heads = "System", f">By {people}", ">Of labelled", *[">By the judge"] * judged
    cases = {
        "versus.draw": code == "no_sample",
        "verdict.label_by_people": code == "labels_of_judge",
        "versus.again": code == "looked_before",
        "versus.use": result["verdict"] == "certified",
        "versus.keep": result["verdict"] == "rejected",
        "versus.few": data["n_labelled"] < 20,
        "versus.label": result["needed"] is not None,
        "versus.close": True,
    }
    gap, lead = remarks("versus.gap", result), say("versus.headline", result)
    return Document(
        "comparison of",
        subject=say("versus.subject", result),
        headline=say("verdict.of_judge", verdict=lead, judge=data["labelled_by"]),
        verdict=result["verdict"],
        summary=f"{result['reason']} {say('versus.understood', result)}",
        tiles=[parts.Tile(f"Hallucinated, {result['a']} minus {result['b']}", *gap)] if gap else (),
        blocks=(
            parts.Text(say("versus.shown", result, level=level)),
            parts.table("Hallucinated", heads, rows),
            parts.Bullets("What the interval rests on", remarks("versus.rests", result)),
        ),
        warnings=[*map(parts.Bullet, (*remarks("versus.warnings", result), *result["warnings"]))],
        notes=part_note(data["part"]),
        next_step=say_first(cases, result, command=command),
        reproduce=result["reproduce"],
        data={**data, "n": None, "n_questions": data["n"]},
        footer="Every number on this page is in versus.json.",
    )


def _called(names: Sequence[str]) -> dict[str, str]:
    """Return what the systems are called in sentences: A and B where their names are alike.

    >>> _called(["runs/v1.jsonl", "v2"]), _called(["a/x", "b/x"])
    ({'a': 'v1.jsonl', 'b': 'v2'}, {'a': 'A', 'b': 'B'})
    """
    a, b = (phrases.last_part(phrases.plain(name)) for name in names)
    return {"a": "A", "b": "B"} if a == b else {"a": a, "b": b}


def versus_reason(result: Json, names: Sequence[str]) -> str:
    """Return what the interval of a difference of rates shows of A.

    Parameters
    ----------
    result : mapping
        ``outcome``, ``difference``, ``margin`` and ``confidence`` of ``versus.json``.
    names : pair of str
        Of both systems.
    """
    lower, upper = (round(100.0 * result["difference"][end], 9) for end in ("lower", "upper"))
    near, far = sorted((abs(lower), abs(upper)))
    return say(
        "versus.reason",
        result,
        _called(names),
        ends=[
            (end, outward(abs(end), 1, upper=(end > 0.0) == (end is upper)))
            for end in (lower, upper)
        ],
        near=outward(near, 1 if near >= 0.1 else 3, upper=False),
        far=outward(far, 1, upper=True),
    )


def repeat_document(content: Json) -> Document:
    """Return how stable the replies are, what a vote brings, and whether the judge has changed.

    Parameters
    ----------
    content : mapping
        The content of ``repeat.json``.
    """
    data, anchors = content["data"], content["anchors"] or {}
    compared = remarks("repeat.anchors", anchors, level=content["confidence"]) if anchors else ()
    cases = {
        "repeat.calibrate_again": anchors.get("changed"),
        "repeat.label": content["threshold"] is None,
        "repeat.certify": True,
    }
    only = ("--times=", "--threshold=", "--anchors=", "--guardrail=")
    made_here = (content["threshold"] or {}).get("from") == "calibrated"
    command = again(content, "repeat", "calibrate", only) if made_here else ""
    return Document(
        "repeats of",
        subject=phrases.score_name(content),
        headline=content["finding"],
        lead=_one_reply(content["voting"]) if made_here else [],
        blocks=(
            _stability(content),
            _voting(content),
            parts.listing("Compared with the anchors", compared),
        ),
        warnings=[parts.Bullet(item) for item in remarks("repeat.warnings", data, content)],
        notes=[*data.get("notes", ()), *remarks("repeat.notes", data), *part_note(data["part"])],
        next_step=say_first(cases, content, same=_is_the_same(content), command=command),
        reproduce=content["reproduce"],
        data=data,
        footer="Every number on this page is in repeat.json.",
    )


def _is_stable(content: Json) -> bool:
    """Return whether no answer got different decisions; without a threshold, scores."""
    kind = "decisions" if content["decisions"] else "scores"
    return bool(content[kind]["answers"]["estimate"] == 0.0)


def _is_the_same(content: Json) -> bool:
    """Return whether a detector that asks nobody was the same each time."""
    return _is_stable(content) and not content["asks"]


def _one_reply(voting: Json | None) -> list[parts.Bullet]:
    """Return what one reply catches and costs, in answers of a hundred."""
    if not voting:
        return []
    missed = voting["one"]["missed"]
    caught = {"estimate": 1.0 - missed["estimate"], "lower": 0.0, "upper": 1.0}
    return measures.in_short({"coverage": caught, "fpr": voting["one"]["false_alarms"]}, {})


def finding(content: Json) -> str:
    """Return what it comes to, in a sentence."""
    anchors, kind = content["anchors"] or {}, "decisions" if content["decisions"] else "scores"
    stable = _is_stable(content)
    cases = {
        "repeat.renamed": anchors.get("renamed"),
        "repeat.changed": anchors.get("changed"),
        "repeat.same": _is_the_same(content),
        "repeat.stable": stable,
        "repeat.flips": True,
    }
    return say_first(cases, content, content[kind], what=kind, anchor=anchors)


def _stability(content: Json) -> parts.Section:
    """Show of how many answers decisions and scores differ."""
    rows: list[parts.Row] = []
    for kind in ("decisions", "scores"):
        for unit, measure in (content[kind] or {}).items():
            whole = measure["method"] == "clopper-pearson"
            counts = phrases.count_of(measure) if whole else f"mean over {measure['n']:,} answers"
            name = word(f"repeat.{kind}", unit)
            rows.append((name, phrases.share(measure), phrases.interval(measure), counts))
    level, title = floor_percent(content["confidence"]), f"Judged {content['times']} times"
    heads = "What differs", ">Share", f"{level} interval", "Counts"
    decided = remarks("repeat.decided", scale=Scale.of(content["score"]), **content)
    return parts.tabled(title, heads, rows, *map(parts.Text, decided))


def _voting(content: Json) -> parts.Section | None:
    """Show what one reply and the mean of all miss and flag."""
    if (voting := content["voting"]) is None:
        return None
    rows: list[parts.Row] = []
    scale = Scale.of(content["score"])
    for name, title in facts("repeat.voting", content):
        item = voting[name]
        edge = scale.cell(item["threshold"]) if "threshold" in item else ""
        rates = (phrases.share_cell(item.get(rate)) for rate in ("missed", "false_alarms"))
        rows.append((title, edge, *rates))
    heads = "Decided by", ">Threshold", ">Missed", ">False alarms"
    same = parts.Text(say("repeat.same_answers", content))
    return parts.tabled("One reply, and a vote", heads, rows, same, two_lines=True)
