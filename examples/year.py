"""A year of a product whose guardrail is watched, in a minute: what was found when, and the truth.

    python examples/year.py [FOLDER]

An assistant answers questions about orders. Each answer has a number from some detector (the column
``suspicion``), and a guardrail that was certified in December decides by it. Then

- the season changes from month to month how many answers are hallucinated, which the detector sees;
- from 20 June on one customer in four writes German;
- from 8 September on another model writes the answers: longer ones, whose hallucinations the
  detector sees less often, so that the promise is broken;
- for five days in November retrieval fails: a third of the answers come without contexts, and have
  no score.

Every answer is logged as ``calibrail serve --log`` does. Each week ``audit_sample`` draws some for
people, whose labels come back one to three weeks later, in no order. Every four weeks ``monitor``
looks. Numbers and texts are made up; what the watch says of them is not.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import calibrail
from calibrail.guardrail.decision_log import DecisionLog, Entry
from calibrail.labelling.exchange.transfer import export_answers, import_labels

BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
GERMAN, MODEL, BUG = 170, 250, range(315, 320)
#: What is promised of the rates.
COVERAGE, MAX_FPR = 0.8, 0.3
#: How far the detector tells hallucinated answers from faithful ones, in standard deviations.
TELLS, TELLS_LESS = 2.5, 0.8

ENGLISH = (
    "Your order {n} left our warehouse on Monday and will reach you within {k} working days.",
    "The parcel with the number {n} weighs {k} kilograms and can be returned free of charge.",
    "You can change the address of order {n} until it is packed, which takes {k} hours at most.",
)
IN_GERMAN = (
    "Ihre Bestellung {n} hat unser Lager am Montag verlassen und kommt in {k} Werktagen an.",
    "Das Paket mit der Nummer {n} wiegt {k} Kilogramm und kann kostenlos zurückgegeben werden.",
    "Die Adresse der Bestellung {n} lässt sich ändern, bis sie gepackt ist: höchstens {k} Stunden.",
)
LONGER = (
    " Please let us know whether there is anything else that we can do for you today.",
    " Bitte sagen Sie uns, ob wir heute noch etwas anderes für Sie tun können.",
)


@dataclass
class Product:
    """Answers day after day, and what is true of them."""

    per_day: int
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    truth: dict[str, int] = field(default_factory=dict)

    def day(self, day: int) -> list[calibrail.Example]:
        """Return the answers of a day; days before the first one are those of the certificate."""
        share = 0.12 - 0.05 * np.sin(2.0 * np.pi * day / 365.0)
        return [
            self._answer(day, number, share) for number in range(self.rng.poisson(self.per_day))
        ]

    def _answer(self, day: int, number: int, share: float) -> calibrail.Example:
        rng, id = self.rng, f"{day}-{number}"
        hallucinated = int(rng.random() < share)
        german = day >= GERMAN and rng.random() < 0.25
        told = TELLS if day < MODEL else TELLS_LESS
        failed = day in BUG and rng.random() < 1.0 / 3.0
        n, k = 100_000 + len(self.truth), int(rng.integers(2, 9))
        text = (IN_GERMAN if german else ENGLISH)[int(rng.integers(3))].format(n=n, k=k)
        question = f"Wo ist meine Bestellung {n}?" if german else f"Where is my order {n}?"
        self.truth[question] = hallucinated
        return calibrail.Example(
            question,
            () if failed else tuple(f"Order {n}, part {part}." for part in range(1 + k % 4)),
            text + (LONGER[german] if day >= MODEL else ""),
            id=id,
            columns={"suspicion": "" if failed else f"{rng.normal(told * hallucinated):.4f}"},
        )


def certified(product: Product, n_days: int = 30) -> calibrail.Guardrail:
    """Return a guardrail from labelled answers of the month before."""
    answers = [answer for day in range(-n_days, 0) for answer in product.day(day)]
    rows = [
        {
            "id": answer.id,
            "question": answer.question,
            "contexts": list(answer.contexts),
            "response": answer.response,
            "label": product.truth[answer.question],
            **answer.columns,
        }
        for answer in answers
    ]
    run = calibrail.calibrate(
        rows,
        "column:column=suspicion,higher=hallucinated",
        alpha=0.1,
        guarantee="pac",
        min_coverage=COVERAGE,
        max_fpr=MAX_FPR,
        splitting=calibrail.SplitOptions(calibration_share=0.5),
    )
    return run.freeze()


@contextmanager
def clock(now: list[datetime]) -> Iterator[None]:
    """Let the log write with the time of the simulation, the same bytes in every run."""
    log = "calibrail.guardrail.decision_log.writer"
    with ExitStack() as stack:

        def stamp() -> str:
            return now[0].isoformat(timespec="microseconds").replace("+00:00", "Z")

        stack.enter_context(mock.patch(f"{log}.now", stamp))
        stack.enter_context(mock.patch(f"{log}.secrets.token_hex", lambda n: "0" * 2 * n))
        stack.enter_context(mock.patch(f"{log}.os.getpid", lambda: 1))
        stack.enter_context(mock.patch(f"{log}.datetime", mock.Mock(now=lambda zone: now[0])))
        yield


@dataclass
class People:
    """Label what was drawn, one to three weeks later.

    They get questions, contexts and answers in a file, and see neither scores nor verdicts.
    """

    folder: Path
    truth: dict[str, int]
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(8))
    taken: set[str] = field(default_factory=set)
    due: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))

    def work(self, week: int) -> None:
        """Take what was drawn this week, and bring back the labels that are done."""
        given, done = self.folder / "to_label.csv", self.folder / "labels.csv"
        with calibrail.label(None, self.folder / "audit") as session:
            export_answers(session, given, "ada", n=100_000)
            with given.open(encoding="utf-8-sig", newline="") as file:
                for row in csv.DictReader(file):
                    if row["id"] not in self.taken:
                        self.taken.add(row["id"])
                        line = f"{row['id']},{self.truth[row['question']]}"
                        self.due[week + int(self.rng.integers(1, 4))].append(line)
            labels = self.due.pop(week, [])
            self.rng.shuffle(labels)
            if labels:
                done.write_text("\n".join(["id,label", *labels]), encoding="utf-8")
                import_labels(session, done, "ada")


def simulate(
    folder: Path, per_day: int = 120, labels_per_day: float = 10.0, n_days: int = 365
) -> dict[str, Any]:
    """Simulate a year, print what is found, and return the last status."""
    product = Product(per_day)
    guardrail = certified(product)
    guardrail.save(folder / "guardrail.json")
    headline = guardrail.config.headline
    print(f"December: {headline.verdict}, {headline.reason}")
    people, now, said = People(folder, product.truth), [BEGIN], {"traffic": 0, "state": ""}
    with clock(now):
        log = DecisionLog(folder / "log", texts=True)
    for day in range(n_days):
        answers = product.day(day)
        decided = list(zip(answers, guardrail.decide(answers), strict=True))
        for hour in range(24):
            now[0] = BEGIN + timedelta(days=day, hours=hour)
            part = decided[hour::24]
            with clock(now):
                log.write([Entry.of(guardrail, *pair) for pair in part])
        if day % 7 == 6:
            calibrail.audit_sample(
                guardrail, folder / "log", folder / "audit", per_day=labels_per_day, seed=1
            )
            people.work(day // 7)
        if day % 28 == 27:
            tell(look(guardrail, folder), now[0], said)
    with clock(now):
        log.close()
    return look(guardrail, folder, folder / "watch").to_dict()


def look(guardrail: calibrail.Guardrail, folder: Path, output: Path | None = None) -> Any:
    """Return what a watch finds."""
    return calibrail.monitor(guardrail, folder / "log", output, labels=folder / "audit")


def tell(watch: Any, today: datetime, said: dict[str, Any]) -> None:
    """Print what is new."""
    status = watch.to_dict()
    differs = {"calibration": "differs from December's", "stream": "changed"}
    for alarm in status["traffic"]["alarms"][said["traffic"] :]:
        since = alarm["since"]
        days = [at["time"][:10] for at in (alarm, since, since["lower"], since["upper"])]
        what = f"{differs[alarm['against']]} in {alarm['feature']}"
        print(f"{days[0]}: traffic {what}, since {days[1]} ({days[2]} to {days[3]})")
    said["traffic"] = len(status["traffic"]["alarms"])
    promise = status["promise"]
    if promise["state"] != said["state"]:
        rates = ", ".join(
            f"{name} {promise[name]['lower']:.0%} to {promise[name]['upper']:.0%}"
            for name in ("coverage", "fpr")
        )
        print(f"{today:%Y-%m-%d}: {promise['state']} by {promise['n_labels']} labels ({rates})")
        said["state"] = promise["state"]


def truth() -> None:
    """Print what really happened."""
    for day, what in (
        (GERMAN, "one customer in four writes German"),
        (MODEL, "another model: longer answers, whose hallucinations are seen less often"),
        (BUG.start, "five days without contexts for a third of the answers"),
    ):
        print(f"  {BEGIN + timedelta(days=day):%Y-%m-%d}: {what}")


def main() -> None:
    """Simulate into the folder named, or into one that is kept."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    simulate(folder)
    print("What happened:")
    truth()
    print(f"The page: {folder / 'watch' / 'watch.html'}")


if __name__ == "__main__":
    main()
