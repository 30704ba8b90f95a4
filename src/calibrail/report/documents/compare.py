"""Document of `calibrail compare`: its headline, tables and notes."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from calibrail.formatting import Scale, duration, floor_percent, listed, outward
from calibrail.options.data import judge_of
from calibrail.report import document as parts
from calibrail.report import text
from calibrail.report.document import Document, Json
from calibrail.report.documents import calibrate_sections as sections
from calibrail.report.documents import measures
from calibrail.report.documents.next_steps import STEPS, goals, label_anew
from calibrail.report.figures import comparison as figures
from calibrail.report.figures.plot import interval_lines
from calibrail.report.messages import remarks, say, say_first, title
from calibrail.report.text import capital, p_value, plain

#: Characters of a name in a terminal's table.
_NAME_WIDTH: Final = 22
#: Baselines that a terminal shows below many detectors.
_BASELINES: Final = 3


def all_scores(comparison: Json) -> parts.Section:
    """Show detectors first, then the baselines, then why some have no numbers."""
    winner, where = comparison["winner"], _where(comparison)
    many, against = where == "page", comparison["paired"]["against_best"]
    p_values = {test["name"]: test["fpr"]["p_adjusted"] for test in against}

    def row(item: Json) -> parts.Row:
        test = item.get("test") or item
        caught, band = test.get("coverage"), test.get("coverage_band")
        low = band and not band["inside"] and test["coverage"]["count"] <= band["highest"]
        below, p = ", below the expected range" * bool(low), p_values.get(item["name"])
        return (
            parts.Cell(str(item["name"]), style="strong" if item["name"] == winner["name"] else ""),
            Scale.of(item.get("score")).cell(item.get("threshold")),
            parts.Cell(text.share(caught), text.interval(caught) + below),
            text.share_cell(test.get("fpr")),
            text.measure_cell(test.get("auroc")),
            text.measure_cell(item.get("partial_auroc")),
            text.measure_cell(test.get("overlap")),
            "" if p is None or not many else text.p_number(p),
            sections.verdict_word(item) if "verdict" in item else "",
        )

    others, baselines = comparison["uncalibrated"], comparison["baselines"]
    least = floor_percent(comparison["partial_auroc"]["least_coverage"])
    columns = (
        parts.TableColumn("Score", most=None if many else _NAME_WIDTH),
        *(">Threshold", ">Caught"),
        parts.TableColumn("False alarms", "right", brief="Alarms"),
        ">AUROC",
        parts.TableColumn(f"AUROC {least}+", "right", brief="AUROC 80+", where=where),
        parts.TableColumn("Overlap", "right", where=where),
        # In place of the table of paired tests, which would not fit on the screen.
        parts.TableColumn("p", "right", where="terminal"),
        "If named before",
    )
    every = (*comparison["detectors"], *others)
    title, rows = "Fewest false alarms first", measures.with_baselines(row, every, baselines)
    chooses = f"{title}, on the half that chooses"
    tables = [parts.table(chooses, columns, rows, where="page" if many else "verbose")]
    in_brief = None if many else measures.baselines_in_brief(baselines)
    if not many:
        tables.append(parts.table(chooses, columns, [*map(row, every)], where="brief"))
    else:
        best = measures.with_baselines(row, every, baselines[:_BASELINES])
        if baselines[_BASELINES:]:
            at = best.index(parts.Heading("Baselines"))
            best[at] = parts.Heading(f"The best {_BASELINES} baselines of {len(baselines)}")
        tested = say("compare.tested_against", winner) if against else ""
        tables.append(parts.table(f"{title}{tested}", columns, best, where="terminal"))
    if not comparison["detectors"]:
        reasons = () if _too_few(comparison) else (*others, *baselines)
        return parts.section("Scores", measures.without_threshold(reasons))
    # Where chance puts the share caught: the same for all scores, whatever they are.
    bands = (item["test"]["coverage_band"] for item in comparison["detectors"])
    why = ((item.get("partial_auroc") or {}).get("reason") for item in comparison["detectors"])
    about = {"band": next(filter(None, bands), None), "why": next(filter(None, why), "")}
    return parts.section(
        "All scores on the same split",
        *tables,
        in_brief,
        measures.without_threshold((*others, *baselines)),
        parts.note(say("compare.score_columns", comparison, about, least=least)),
    )


def _where(comparison: Json) -> parts.Where:
    """Return where all tables are shown: of many detectors a screen holds one, and no more."""
    many = len(comparison["detectors"]) + len(comparison["uncalibrated"]) > figures.MOST_SERIES
    return "page" if many else "both"


def against_reference(comparison: Json) -> parts.Section | None:
    """Show which detectors raise at most so many more false alarms than the reference."""
    if (reference := comparison["reference"]) is None:
        return None
    rows = [
        (
            parts.Cell(row["name"]),
            gap := _difference(row["fpr"], 100.0, 1),
            gap.below,
            row["verdict"],
        )
        for row in reference["detectors"]
    ]
    score = parts.TableColumn("Score", most=_NAME_WIDTH)
    heads = score, ">False alarms, points", ">Interval", "Verdict"
    title = f"Against {plain(reference['name'])}, at most {100 * reference['margin']:g} points more"
    return parts.tabled(title, heads, rows, parts.Text(say("compare.against", comparison)))


def paired_tests(comparison: Json) -> parts.Section | None:
    """Show the tests against the best detector and against the best baseline."""
    winner, paired = comparison["winner"], comparison["paired"]
    if not paired["against_best"]:
        return None
    return parts.section(
        "Who is ahead",
        parts.Text(plain(ranking(comparison))),
        parts.Text(say("compare.paired", winner), where="page"),
        _paired(comparison, winner["candidate"], paired["against_best"]),
        _paired(comparison, winner["best_baseline"], paired["against_best_baseline"]),
        parts.note(say("compare.mcnemar")),
    )


def _paired(comparison: Json, reference: str | None, tests: Sequence[Json]) -> parts.Section | None:
    """Return paired tests against one reference."""
    if not tests:
        return None
    columns = (
        parts.TableColumn("Score", most=_NAME_WIDTH),
        parts.TableColumn("False alarms, points", "right", brief="Alarms, points"),
        _interval_column(comparison),
        parts.TableColumn("p, corrected", "right", brief="p"),
        parts.TableColumn("At these thresholds", "right", where="page"),
        ">AUROC",
        parts.TableColumn("p, corrected", "right", brief="p"),
    )
    rows = []
    for test in tests:
        fpr, area, counts = test["fpr"], test["auroc"], test["mcnemar"]
        gap, ranked = _difference(fpr, 100.0, 1), _difference(area, 1.0, 3)
        mcnemar = parts.Cell(
            f"{counts['only_first']:,} against {counts['only_second']:,}",
            f"McNemar {text.p_value(counts['p_adjusted'])}",
        )
        p, p_area = (text.p_number(measure["p_adjusted"]) for measure in (fpr, area))
        rows.append((_name(test), gap, gap.below, p, mcnemar, ranked, p_area))
    name = f"Against {text.plain(reference)}"
    title = f"{name}, at the same share caught; p corrected for all pairs"
    return parts.section(name, parts.table(title, columns, rows, where=_where(comparison)))


def _difference(value: Json, scale: float, digits: int) -> parts.Cell:
    """Return a difference with its interval below, or a word where there is none."""
    if value["estimate"] is None:
        return parts.Cell("none")
    ends = [
        f"{float(outward(scale * value[end], digits, upper=end == 'upper')):+.{digits}f}"
        for end in ("lower", "upper")
        if value[end] is not None
    ]
    texts = [f"{scale * value['estimate']:+.{digits}f}", *ends]
    if scale > 1.0:
        texts = [_points(float(text) / scale) for text in texts]
    return parts.Cell(texts[0], " to ".join(texts[1:]))


def _name(item: Json) -> parts.Cell:
    return parts.Cell(item["name"], "baseline" if item["baseline"] else "")


def _interval_column(comparison: Json) -> parts.TableColumn:
    level = floor_percent(comparison["detectors"][0]["confidence"])
    return parts.TableColumn(f"{level} interval", "right", where="terminal")


def _points(share: float) -> str:
    """Return a difference of shares in percentage points, with its sign.

    Examples
    --------
    >>> _points(0.123), _points(-0.04), _points(0.0)
    ('+12.3', '-4', '0')
    """
    text = f"{100.0 * share:+.1f}".removesuffix(".0")
    return "0" if text in ("+0", "-0") else text


def on_answers_that_did_not_choose(comparison: Json) -> parts.Section | None:
    """Say what the answers that did not choose the winner show about it."""
    winner, tests = comparison["winner"], comparison["paired"]["confirming"]
    if not winner["name"]:
        return None
    sentences = [
        say("compare.not_choosing", winner["halves"]["confirming"]),
        *(
            say("compare.gap", test, points=_points(abs(gap)).removeprefix("+"))
            for test in tests
            if (gap := test["fpr"]["estimate"]) is not None
        ),
        say("compare.exact_bounds", winner["certificate"]),
    ]
    blocks = (parts.Text(sentence, where="page") for sentence in sentences)
    return parts.section("On answers that did not choose", *blocks)


def at_same_coverage(comparison: Json) -> parts.Section | None:
    """Compare thresholds that catch the same share of the test answers."""
    matched, detectors = comparison["matched_coverage"], comparison["detectors"]
    if not matched["levels"]:
        return None
    figure = None
    if any(item.get("curve") for item in detectors[: figures.MOST_SERIES]):
        caption = say("compare.coverage_figure", comparison, most=figures.MOST_SERIES)
        figure = parts.Figure("coverage", partial(figures.coverage_svg, comparison), caption)
    attainable = [say("compare.attainable", item) for item in matched["attainable"]]
    few = "Scores with few distinct values"
    return parts.section(
        "At the same share caught",
        parts.Text(say("compare.same_coverage"), where="page"),
        figure,
        *(_level(comparison, level) for level in matched["levels"]),
        parts.folded(few, parts.Bullets(few, attainable)),
    )


def _level(comparison: Json, level: Json) -> parts.Block:
    heading, score = say("compare.level", level), parts.TableColumn("Score", most=26)
    heads = score, ">Caught", ">False alarms", _interval_column(comparison)
    rows = [
        (
            _name(row),
            parts.Cell(text.share(row["attained"]), text.count_of(row["attained"])),
            text.share_cell(row["fpr"]),
            text.interval(row["fpr"]),
        )
        for row in level["rows"]
    ]
    table = parts.table(f"With {heading}", heads, rows)
    missing = next((why for row in level["rows"] if (why := row["fpr"]["reason"])), "")
    why = parts.note(f"At least: {missing}." if missing else "")
    if level["set_by"] is None:
        return parts.section(heading, table, why, where="page")
    return parts.Folded(heading, (table, why), _where(comparison))


def other_targets(comparison: Json) -> parts.Section:
    """Show what other targets would cost; a dash where they cannot be promised."""
    sweep = comparison["alpha_sweep"]
    full: list[parts.Row] = []
    for name, baseline, entries in figures.sweep_rows(comparison):
        cells = (
            parts.Cell(text.share(entry["fpr"]), say("compare.at_target", entry, scale=Scale()))
            if entry and entry["fpr"]
            else parts.Cell("none")
            for entry in entries
        )
        full.append((parts.Cell(name, "baseline" if baseline else ""), *cells))
    heads = "Promised", *(f">{floor_percent(1.0 - entry['alpha'])}" for entry in sweep)
    title = "Caught and false alarms at every target"
    figure = parts.Figure("alpha_sweep", partial(figures.sweep_svg, comparison))
    return parts.section(
        "Other targets",
        parts.Text(say("compare.other_targets"), where="page"),
        figure if comparison["detectors"] else None,
        *(parts.note(say("compare.not_promised", entry)) for entry in sweep if not entry["rank"]),
        parts.folded(title, parts.table(title, heads, full))
        if any(entry["rank"] for entry in sweep)
        else None,
    )


#: What of the test set chooses a winner, and what confirms it.
_HALVES: Final = ("choosing", "confirming")


def finding(comparison: Json, *, ranked: bool = True) -> str:
    """Return who wins and what confirms it, or whom the data does not separate.

    Parameters
    ----------
    comparison : mapping
        ``Comparison.to_dict()``.
    ranked : bool
        Whether `ranking` is said, too.
    """
    detectors, winner, paired = (comparison[key] for key in ("detectors", "winner", "paired"))
    if not detectors:
        return say("compare.no_detector", few=_too_few(comparison))
    first = detectors[0]
    if first["test"]["fpr"]["estimate"] is None:
        return say("compare.no_faithful")
    name = winner["candidate"] or first["name"]
    detector = next(item for item in detectors if item["name"] == name)
    flags, tests = say("compare.flags", detector), paired["against_best"]
    if not tests:
        return f"{name} {flags} {say('compare.alone')}"
    ahead = ranking(comparison) if ranked else ""
    rates = (
        say("compare.rate", test, other=winner["fpr"][test["name"]]["estimate"] or 0.0)
        for test in paired["confirming"]
    )
    if winner["name"] is not None:
        reason = winner["certificate"]["reason"]
        reason = f"{reason[:1].lower()}{reason[1:]}"
        about = {"winner": winner, "rates": "; ".join(rates), "reason": reason}
        about |= {"shown": _confirmed(winner), "codes": _codes(comparison)}
        sentences = [f"{headline(comparison)}: {say('compare.confirmed', detector, about)}", ahead]
    else:
        why = _undecided(winner, tests)
        if winner["contradicted_by"]:
            why = say("compare.contradicted", winner=winner)
        elif withheld := winner.get("withheld"):
            why = say(f"compare.withheld_{withheld}", winner)
        more = say("compare.times", winner, n=comparison["data"].get("n_examples"))
        sentences = [f"{headline(comparison)}: {why} {name} {flags}", ahead, more]
    return " ".join(filter(None, sentences))


def ranking(comparison: Json) -> str:
    """Say why the table begins with another detector than the best one, where it does."""
    detectors, winner = comparison["detectors"], comparison["winner"]
    first, best = detectors[0], winner["candidate"] or detectors[0]["name"]
    detector = next(item for item in detectors if item["name"] == best)
    if first is detector:
        return ""
    return say("compare.first_in_table", detector, first=first, winner=winner)


def headline(comparison: Json) -> str:
    """Say in a few words whether somebody wins."""
    codes, few = _codes(comparison), _too_few(comparison)
    lead = say("compare.wins", comparison["winner"], codes=codes, too_few=few)
    judge = judge_of((comparison.get("data") or {}).get("reading"))
    return say("verdict.of_judge", verdict=lead, judge=judge)


def _codes(comparison: Json) -> list[str]:
    """Return of what any detector is warned: what was tried beside the data, all are warned of."""
    return [code for item in comparison["detectors"] for code in text.warned(item)]


def _worse(test: Json, winner: Json) -> bool:
    """Return whether a test shows that the reference has more of a measure than the score."""
    gap = test["fpr"]
    return bool(gap["p_adjusted"] <= winner["level"] and (gap["estimate"] or 0.0) < 0.0)


def _too_few(comparison: Json) -> Json | None:
    """Return of what labels are too few, where that alone keeps every detector from a threshold."""
    few = [item for item in comparison["uncalibrated"] if item.get("to_label")]
    if comparison["detectors"] or len(few) < len(comparison["uncalibrated"]):
        return None
    return min(few, key=lambda item: item["to_label"], default=None)


def _confirmed(winner: Json) -> Json:
    """Return the rates of a winner on the half that did not choose it, as a verdict bounds them."""
    certificate: Json = winner["certificate"]
    region = None if certificate["max_fpr"] is None else certificate.get("region")
    return region or certificate


def _undecided(winner: Json, tests: Sequence[Json]) -> str:
    """Say who raises fewer false alarms than the best detector, and who cannot be told apart."""
    beaten = [test for test in tests if _worse(test, winner)]
    alike = [t for t in tests if t["name"] in winner["not_separated"] and t not in beaten]
    names = {kind: [it["name"] for it in alike if it["baseline"] == kind] for kind in (0, 1)}
    about = {"beaten": [test["name"] for test in beaten], "others": names[0], "trivial": names[1]}
    return say("compare.undecided", about, winner=winner, few=few)


def few(names: list[str]) -> str:
    """Return names as an enumeration, of many only the first ones."""
    return listed(names if len(names) < 7 else [*names[:5], f"{len(names) - 5} others"])


def next_step(comparison: Json) -> str:
    """Say what to do now."""
    winner, detectors = comparison["winner"], comparison["detectors"]
    certificate, undecided = winner["certificate"] or {}, winner["name"] is None
    alike = [winner["candidate"], *winner["not_separated"], *winner["contradicted_by"]]
    chosen = [plain(item["name"]) for item in detectors if item["name"] in alike]
    beaten = any(_worse(test, winner) for test in comparison["paired"]["against_best"])
    alone = len(detectors) == 1 and not comparison["baselines"]
    once = any(map(sections.is_clustered, detectors[:1]))
    level, asked = certificate.get("confidence"), certificate.get("max_fpr") is not None
    anew = label_anew(certificate, once=once, confidence=level) if asked else None
    code, certified = certificate.get("reason_code"), certificate.get("verdict") == "certified"
    cases = {
        "compare.label_hallucinated": not detectors,
        "compare.add_answers": winner["candidate"] is None,
        "compare.on_new_answers": winner.get("withheld"),
        "compare.name_others": undecided and alone,
        "compare.choose": undecided and len(chosen) > 1,
        "compare.check_data": undecided and beaten,
        "compare.find_better": undecided,
        "compare.label_for_lead": not winner["confirmed"],
        "verdict.certify_anew": certified and text.conditional(_codes(comparison)),
        "compare.use": certified,
        "verdict.state_limit": not asked,
        "compare.rejected": certificate.get("verdict") == "rejected",
        "verdict.label_by_people": judge_of((comparison.get("data") or {}).get("reading")),
        f"verdict.{STEPS.get(str(code))}": code in STEPS,
        "compare.settle": anew,
        "compare.too_close": True,
    }
    about = {"name": winner["candidate"], "chosen": few(chosen), "goals": goals(certificate)}
    about |= {"few": _too_few(comparison), "data": comparison["data"], "certificate": certificate}
    return say_first(cases, about, anew[1] if anew else {})


def assumptions(comparison: Json) -> list[str]:
    """Return what the claims rest on."""
    codes = ["one_source", "one_test", "corrected", "intervals"]
    tests = comparison["paired"]["against_best"]
    if any("obuchowski" in test["auroc"]["method"] for test in tests):
        codes.append("groups_shared")
    return [say(f"compare.{code}", comparison) for code in codes]


def document(comparison: Json, cost: Json | None = None) -> Document:
    """Return what a comparison says.

    Parameters
    ----------
    comparison : mapping
        The content of ``compare.json``.
    cost : mapping, optional
        The content of ``cost.json``. Its times are measured, so only the page shows them.
    """
    detectors, winner = comparison["detectors"], comparison["winner"]
    lead, said = headline(comparison), plain(finding(comparison, ranked=False))
    said = said.removeprefix(f"{plain(lead)}: ")
    shown = {"verdict": "", **(winner["certificate"] or {}), "warnings": _codes(comparison)}
    asked = shown.get("reason_code") != "no_limit"
    return Document(
        "comparison of",
        subject=say("compare.subject", comparison) if detectors else "detectors",
        headline=lead,
        verdict=text.tone(shown) if asked and winner["confirmed"] else "",
        # A detector's name stays as it is, at the beginning of a sentence, too.
        summary=said if said.startswith(plain(str(winner["candidate"]))) else capital(said),
        brief=f"{lead}: {said}",
        tiles=tuple(_tiles(comparison)),
        blocks=(
            *(_split_and_forest(comparison) if detectors else ()),
            all_scores(comparison),
            against_reference(comparison),
            paired_tests(comparison),
            on_answers_that_did_not_choose(comparison),
            at_same_coverage(comparison),
            other_targets(comparison),
            None if cost is None else _cost(comparison, cost),
            *_warnings(comparison),
            parts.listing("What the claims rest on", assumptions(comparison), where="page"),
            sections.possible_section(winner.get("possible"), {}),
        ),
        notes=detectors[0]["notes"] if detectors else (),
        next_step=next_step(comparison),
        reproduce=comparison["reproduce"],
        data=comparison["data"],
        footer=say("compare.footer"),
    )


def _tiles(comparison: Json) -> Iterator[parts.Tile]:
    """Yield the false alarms of the best detector, and the difference that decides.

    Of a winner, by the answers that had no part in the choice.
    """
    winner, won = comparison["winner"], comparison["winner"]["name"] is not None
    tests = comparison["paired"]["confirming" if won else "against_best"]
    certificate = winner["certificate"] or {}
    for item in comparison["detectors"]:
        if tests and item["name"] == winner["candidate"]:
            asked = {} if certificate.get("max_fpr") is None else certificate
            lines = measures.rates(_confirmed(winner) if won else item["test"], asked)
            tiles = zip(remarks("compare.tiles", item), measures.tiles(lines), strict=True)
            yield from [tile._replace(name=name) for name, tile in tiles][not asked :]
            end = "estimate" if won else "lower"
            other = min(tests, key=lambda test: test["fpr"][end] or 0.0)
            gap, p = _difference(other["fpr"], 100.0, 1), p_value(other["fpr"]["p_adjusted"])
            against = say("compare.tile_against", other)
            yield parts.Tile(against, f"{gap.text} points", ", ".join(filter(None, (gap.below, p))))


def _split_and_forest(comparison: Json) -> Iterator[parts.Block]:
    """Say which answers calibrate, choose and confirm, and show the scores beside each other."""
    first, halves = comparison["detectors"][0], comparison["winner"]["halves"]
    answers = {"tested": first["test"], **{name: halves[name] for name in _HALVES}}
    sizes = {name: say("compare.classes", part) for name, part in answers.items()}
    about = {**sizes, "name": comparison["winner"]["name"]}
    yield parts.Text(say("compare.split_in_brief", first, about), where="terminal")
    yield parts.Text(say("compare.split", first, about), where="page")
    tests = [
        *((item["name"], item["test"]["fpr"]) for item in comparison["detectors"]),
        *((item["name"], item["fpr"]) for item in comparison["baselines"]),
    ]
    alarms = interval_lines(((*test, first["max_fpr"]) for test in tests), "false alarms")
    caption = say("compare.forest", comparison, first)
    figure = parts.Figure("forest", partial(figures.forest_svg, comparison), caption, lines=alarms)
    yield parts.section("False alarms and ranking, on the half that chooses", figure)


def _warnings(comparison: Json) -> Iterator[parts.Block]:
    """Yield warnings in a few words for a terminal, and folded for the page, each kind once."""
    names = [plain(item["name"]) for item in comparison["detectors"]]
    warned: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, item in zip(names, comparison["detectors"], strict=True):
        for warning in item["warnings"]:
            warned[warning["code"]][warning["message"]].append(name)
    yield parts.Bullets("Warnings", list(_in_brief(warned, names)), "warning", where="terminal")
    lists = []
    for code, messages in warned.items():
        named = [name for several in messages.values() for name in several]
        who = "all detectors" if len(named) == len(names) > 1 else few(named)
        items = [
            parts.Bullet(message, few(several) if len(messages) > 1 else "")
            for message, several in messages.items()
        ]
        heading = capital(f"{title(f'warning.{code}')}: {who}")
        lists.append(parts.folded(heading, parts.Bullets("", items, "warning")))
    yield parts.section("Warnings", *lists, where="page")


def _in_brief(warned: Mapping[str, Mapping[str, list[str]]], names: list[str]) -> Iterator[str]:
    """Yield what the same detectors are warned of in one line, those of most detectors first."""
    alike: dict[frozenset[str], list[str]] = defaultdict(list)
    for code, messages in warned.items():
        who = frozenset(name for several in messages.values() for name in several)
        alike[who].append(title(f"warning.{code}"))
    for who, titles in sorted(alike.items(), key=lambda item: -len(item[0])):
        others = [name for name in names if name not in who]
        said = few([name for name in names if name in who])
        if not others and len(names) > 1:
            said = "all detectors"
        elif 0 < len(others) <= 2 < len(who):
            said = f"all but {listed(others)}"
        elif len(who) > 3:
            said = f"{len(who)} detectors"
        yield f"{said}: {'; '.join(titles)}"


def _cost(comparison: Json, cost: Json) -> parts.Section | None:
    """Return time, passes, calls and price of each score that is computed, the fastest first."""
    prices = {item["score"]: item for item in comparison["data"].get("calls") or ()}
    known = [item for item in cost["scores"] if item["seconds_per_1000"] is not None]
    if not known:
        return None
    rows = []
    for item in sorted(known, key=lambda item: item["seconds_per_1000"]):
        usage = (item.get("calls") or {}).get("usage") or {}
        dollars = prices.get(item["score"], {}).get("dollars_per_1000")
        rows.append(
            (
                plain(item["score"]),
                duration(item["seconds_per_1000"]),
                f"{item['forward_passes']:,}" if item["forward_passes"] else "",
                f"{usage['n_sent']:,} sent, {usage['n_cached']:,} known" if usage else "",
                "" if dollars is None else f"${dollars:.2f}",
                ", ".join(plain(name) for name in item["shared_with"]),
            )
        )
    costs = ">Time for 1,000 answers", ">Forward passes", ">Calls", ">Price of 1,000"
    heads = "Score", *costs, "Shares passes with"
    # Earlier runs did not tell it apart.
    timed = all("seconds_opening" in item for item in known)
    note = parts.note(say("compare.costs", timed=timed))
    return parts.tabled("What the scores cost", heads, rows, note, where="page")
