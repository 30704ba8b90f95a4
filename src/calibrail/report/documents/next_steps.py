"""What to do after a result: the next command, what to change, how many answers to label."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile
from typing import Any, Final

from calibrail.formatting import count, exact
from calibrail.options import Beyond, Costs, Promise, Requirement, ShiftSplit
from calibrail.options.fields import cli_or_python, spellings
from calibrail.options.guarantee import OF_ONE_DETECTOR, OF_ONE_THRESHOLD, OF_THIS_THRESHOLD
from calibrail.report import text as phrases
from calibrail.report.document import Json
from calibrail.report.documents import measures
from calibrail.report.figures.scores import edges
from calibrail.report.messages import say
from calibrail.report.text import by_sentence

#: Options of calibrate that compare does not take.
ONE_ONLY: Final = (
    spellings(Promise, without=OF_ONE_THRESHOLD)
    | spellings(Requirement, only=OF_ONE_DETECTOR)
    | spellings(Beyond)
    | spellings(Costs)
    | {"--threshold="}
)
#: Options of shift that calibrate does not take.
SIDES: Final = spellings(ShiftSplit, without=("by",))
#: Where the results of the command went, in the place of what; those of the next one go elsewhere.
PLACE: Final = {"-o=", "--output="}
ELSEWHERE: Final = {*PLACE, "--force"}


#: What a higher score means where it runs the other way.
OTHER: Final = {"faithful": "hallucinated", "hallucinated": "faithful"}


def for_several(content: Json, alpha: str = "") -> str:
    """Return the command that compares a run's detector with others, on the same data and split.

    NAME stands for these others; DATA where no command made the run; another ``alpha`` in place of
    the run's.
    """
    if not (words := _words(content, "calibrate") or _words(content, "test")):
        return f"calibrail compare DATA --score NAME --score NAME{alpha}"
    without_texts = (content["data"].get("baselines") or {}).get("none") == "no texts"
    without_texts |= words[1] == "test" and content["score"]["name"] == "column"
    other = "--score-column NAME" if without_texts else "--score NAME"
    changed = {"--alpha="} if alpha else set[str]()
    kept = shlex.join(without_options(words, ONE_ONLY | ELSEWHERE | changed)[2:])
    return f"calibrail compare {kept} {other}{alpha} -o RUN-compared"


def after_audit(content: Json, *, explained: bool) -> str:
    """Return the command that goes on with what an audit looked at.

    A detector that a feature explains is compared with another, NAME; several with each other; one
    alone is calibrated.
    """
    words, several = _words(content, "audit"), len(content["detectors"]) > 1
    kept = shlex.join(without_options(words, {"--by=", "--no-geometry"} | ELSEWHERE)[2:])
    kept, other = kept or "DATA --score NAME", " --score NAME" * explained
    if explained or several:
        return f"calibrail compare {kept}{other} -o RUN-compared"
    return f"calibrail calibrate {kept} --alpha 0.05 -o RUN-calibrated"


def again(content: Json, name: str, command: str = "", without: Collection[str] = ()) -> str:
    """Return another command with the options of what command ``name`` made, or it on NEW data.

    Nothing where no command made it.
    """
    kept = without_options(_words(content, name), {*without, *ELSEWHERE})[2:]
    files = list(takewhile(lambda word: not word.startswith("-"), kept))
    if kept and not command:
        n_labels, kept = len(_values(kept, "--labels")), without_options(kept, {"--labels="})
        sides = [""] if n_labels == 1 else ["-A", "-B"][:n_labels]
        labels = [word for side in sides for word in ("--labels", f"NEW-LABELS{side}")]
        kept = [*(["NEW"] if len(files) == 1 else ["NEW-A", "NEW-B"]), *labels, *kept[len(files) :]]
    into = f"RUN-{'calibrated' if command else 'new'}"
    return shlex.join(["calibrail", command or name, *kept, "-o", into]) if kept else ""


def for_groups(content: Json) -> str:
    """Return the command that gives each group of a drift audit a threshold of its own."""
    words = _words(content, "shift")
    if not (by := _values(words, "--by")):
        return ""
    kept = shlex.join(without_options(words, SIDES | ELSEWHERE)[2:])
    name = re.sub(r"[\W_]", "-", by[-1])[:40].strip("-")
    return f"calibrail calibrate {kept} -o RUN-by-{name}"


def turned(content: Json) -> str:
    """Return a run's command with the other direction of its column; nothing without one."""
    given = _values(_words(content, "calibrate"), "--higher")
    turns = bool(given) and given[-1] in OTHER
    return _again(content, {"--higher="}, f"--higher {OTHER[given[-1]]}") if turns else ""


def _again(content: Json, without: Collection[str], options: str) -> str:
    """Return a run's command with other options; nothing where none made it."""
    kept = without_options(_words(content, "calibrate"), {*without, *PLACE})
    return f"{shlex.join(kept)} {options} -o RUN" if kept else ""


def _words(content: Json, command: str) -> list[str]:
    """Return the words of the command that made a result; none where another one did."""
    words = shlex.split(content["reproduce"].get("command") or "")
    return words if words[1:2] == [command] else []


def _options(words: Sequence[str], names: Collection[str]) -> Iterator[tuple[int, int, str]]:
    """Yield where each of some options stands, how many words it takes, and its value."""
    for place, word in enumerate(words):
        name, given, value = word.partition("=")
        if f"{name}=" in names:
            yield place, 1 if given else 2, value if given else "".join(words[place + 1 :][:1])
        elif word in names:
            yield place, 1, ""
        elif not word.startswith("--") and f"{word[:2]}=" in names:
            yield place, 1, word[2:]


def _values(words: Sequence[str], option: str) -> list[str]:
    return [value for _, _, value in _options(words, {f"{option}="})]


def without_options(words: Sequence[str], names: Collection[str]) -> list[str]:
    """Return the words without some options and their values."""
    gone = {place + i for place, length, _ in _options(words, names) for i in range(length)}
    return [word for place, word in enumerate(words) if place not in gone]


def next_step(report: Json) -> str:
    """Return what to do now."""
    code, parameters = _next_step(report)
    return say(f"verdict.{code}", goals=goals(report), **parameters)


def goals(result: Json) -> str:
    """Return how certify is asked for what a verdict asks for, in words of the caller."""
    kept = (result.get("requirement") or {}).get("min_kept")
    limits = {"max_false_alarms": result.get("max_fpr"), "min_kept": kept}
    if set(limits.values()) == {None}:
        return ""
    least = result.get("min_coverage")
    # What is promised certify tests by itself.
    if least is not None and round(least + result.get("alpha", 1.0), _DIGITS) != 1.0:
        limits["min_caught"] = least
    words = {n: exact(round(limit, _DIGITS)) for n, limit in limits.items() if limit is not None}
    flags = "".join(f" --{name.replace('_', '-')} {limit}" for name, limit in words.items())
    return cli_or_python(flags, "".join(f", {name}={limit}" for name, limit in words.items()))


#: Decimals of a limit that is typed in: what float arithmetic adds is no part of it.
_DIGITS: Final = 12


#: What to do where a verdict was taken back, by the reason.
STEPS: Final = {
    "looked_before": "certify_anew",
    "rows_alike": "name_rows",
    "near_copies": "name_copies",
    "labels_of_judge": "label_by_people",
}


def would_fail(report: Json) -> bool:
    """Return whether new answers with the same rates would be rejected, as these are or would be.

    Of those that were looked at before a verdict is taken back; what their bounds show stands.
    """
    seen_before = report.get("reason_code") == "looked_before"
    return report["verdict"] == "rejected" or (seen_before and measures.is_missed(report))


def _next_step(report: Json) -> tuple[str, dict[str, Any]]:
    """Return the code of what to do now, with its parameters."""
    verdict, sentences, code = report["verdict"], by_sentence(report), report.get("reason_code")
    codes = {item["code"] for item in report["warnings"]}
    if verdict == "certified":
        return "certify_anew" if phrases.conditional(codes) else "export", {}
    fails, reused = would_fail(report), bool(codes & {"compared_before", "calibrated_before"})
    if code in STEPS and not fails:
        return STEPS[code], {}
    if "reversed_direction" in codes and not sentences:
        if report["score"]["name"] == "column":
            return "check_direction", {"command": turned(report)}
        return "use_another", {"command": for_several(report)}
    if fails:
        return ("keep_less", {}) if sentences else _accept_more(report, few=_few(report))
    if report["risks"] and not sentences:
        return "certify_risks", {}
    if sentences and report["requirement"].get("min_kept") is None:
        return "state_kept", {}
    if not sentences and report["max_fpr"] is None:
        if "flags_everything" not in codes:
            command = "" if reused else _again(report, (), "--max-false-alarms 0.2")
            return "state_limit", {"seen": reused, "command": command}
        looser = f"{min(2.0 * report['alpha'], 0.5):g}"
        return "useless", {"command": for_several(report, f" --alpha {looser}"), "alpha": looser}
    if code == "groups_apart":
        verdicts = [row["verdict"] for row in report["by_group"]["rows"]]
        return "look_at_groups", {"verdicts": verdicts, "seen": reused}
    certificate, required = report["certificate"], report["min_coverage"]
    if report["guarantee"] not in OF_THIS_THRESHOLD and certificate["coverage"]["lower"] < required:
        if sentences:
            return "use_pac_sentences", {}
        if not report["by_group"]:
            from calibrail.conformal import minimum_n

            delta = (1.0 - report["confidence"]) / 2.0
            n_hallucinated = report["n_calibration"] + report["test"]["n_hallucinated"]
            if n_hallucinated >= minimum_n(report["alpha"], "pac", delta):
                return "use_pac", {}
        elif required >= 1.0 - report["alpha"] - 1e-12:
            # It aims at what is required: more labels do not change that.
            return "use_pac_by_group", {}
    drawn = report.get("test")
    if phrases.is_proven(certificate["coverage"]):
        if certificate["coverage_at_least"] < required:
            return "lower_alpha", {"alpha": round(1.0 - required, _DIGITS)}
        # About so much is caught of new answers.
        n, count_caught = report["n_calibration"], report["n_calibration"] - report["rank"]
        seen = {"count": count_caught, "n": n, "estimate": count_caught / n}
        certificate, drawn = {**certificate, "coverage": seen}, None
    once = "clustered" in codes and not sentences
    anew = label_anew(certificate, once=once, confidence=report["confidence"], drawn=drawn)
    if anew and anew[1].get("verdict") == "rejected":
        return _accept_more(report, **anew[1])
    return anew or ("too_close", {})


def _accept_more(report: Json, **more: Any) -> tuple[str, dict[str, Any]]:
    """Return that less or another detector is the way, with what is said of labels."""
    about = {"command": for_several(report), "limited": report.get("max_fpr") is not None}
    return "accept_more", {**about, "few": None, "wanted": (), **more}


def _few(report: Json) -> Json | None:
    """Return from how few answers a threshold comes that more of them would mend, if they would.

    So where another one does what is required on these, with what that caught and flagged.
    """
    from calibrail.evaluation.evaluate import FEW_RANK

    few = report.get("guarantee") in OF_THIS_THRESHOLD and 0 < (report["rank"] or 0) < FEW_RANK
    if not few or (place := edges(report).get("caught")) is None:
        return None
    caught, alarms = (report["curve"][rate]["estimate"][place] for rate in ("coverage", "fpr"))
    found = {"n": report["n_calibration"], "caught": caught, "alarms": alarms}
    return found if alarms <= report["max_fpr"] else None


#: Advice to label asks for at most this many times the answers of a class, or so many.
MOST_TIMES: Final = 20
MOST_NEW: Final = 2_000
#: What is counted of each class, and of both together: one, and several.
_NOUNS: Final = {
    "answers": ("answer of either kind", "answers of either kind"),
    "hallucinated": ("hallucinated answer", "hallucinated answers"),
    "faithful": ("faithful answer", "faithful answers"),
}


def answers_more(needed: Json) -> str:
    """Return how many more answers of each class are needed."""
    return " and ".join(count(n, *_NOUNS[label]) for label in _NOUNS if (n := needed.get(label)))


def in_all(needed: Json, drawn: Json, *, once: bool) -> tuple[int, str]:
    """Return how many answers hold so many of each class, at the share of those that were drawn.

    A number, and that in brackets; nothing where groups count ``once``, or none holds a class.
    """
    sizes = {"hallucinated": drawn["coverage"]["n"], "faithful": drawn["fpr"]["n"]}
    share = {label: n / sum(sizes.values()) for label, n in sizes.items() if n}
    if once or not needed.keys() <= share.keys():
        return 0, ""
    total = math.ceil(max(n / share[label] for label, n in needed.items()))
    return total, f" {say('verdict.among', n=total)}"


def label_anew(
    certificate: Json,
    *,
    once: bool = False,
    confidence: float | None = None,
    drawn: Json | None = None,
) -> tuple[str, dict[str, Any]] | None:
    """Return how many new answers of each class would settle an inconclusive verdict.

    Another look at the same answers with some more would be a second chance; new ones alone, of as
    many as both together, are not. Where a group counts ``once``, so many groups are needed.
    After a report, `certify` will take its first look at them, of the error that ``confidence``
    leaves. Of ``drawn``, or else of the certificate, is the share of each class. None where no
    number would do, or one that nobody labels.
    """
    needed, sentences = certificate["needed"], bool(certificate.get("kept"))
    if not any(needed.values()):
        return None
    sides = certificate["coverage"], certificate["fpr"]
    if confidence is not None and not sentences:
        from calibrail.conformal import ClassCounts, certify_counts

        counts = ClassCounts(*(side[part] for side in sides for part in ("count", "n")))
        asked = Requirement(certificate["max_fpr"], certificate["min_coverage"], confidence)
        needed = certify_counts(counts, asked.at_first_look(spends=True)).needed
    sizes = {"hallucinated": sides[0]["n"], "faithful": sides[1]["n"]}
    limits = certificate["min_coverage"], certificate["max_fpr"]
    fails = [
        label
        for label, side, limit, sign in zip(sizes, sides, limits, (1.0, -1.0), strict=True)
        if None not in (needed.get(label), limit) and sign * (side["estimate"] - limit) < 0.0
    ]
    if sentences:
        sizes["answers"] = certificate["kept"]["n"]
    elif fails:
        # What is missed by one class alone is rejected.
        alone = min(fails, key=needed.__getitem__)
        needed = {alone: needed[alone]}
    most = {label: max(MOST_TIMES * n, MOST_NEW) for label, n in sizes.items()}
    if None in needed.values() or any(n > most[label] for label, n in needed.items()):
        return None
    drawn = drawn or certificate
    more = answers_more(needed) + in_all(needed, drawn, once=once)[1]
    if sentences:
        wanted = [count(sizes[label] + n, *_NOUNS[label]) for label, n in needed.items() if n]
        return "label_sentences_anew", {"wanted": wanted, "more": more}
    needed = {label: sizes[label] + n for label, n in needed.items()}
    wanted = [count(n, *_NOUNS[label]) for label, n in needed.items()]
    total, among = in_all(needed, drawn, once=once)
    wanted[-1] += among
    about = {"wanted": wanted, "verdict": "rejected" if fails else "certified", "once": once}
    return "label_anew", {**about, "more": more, "total": total}
