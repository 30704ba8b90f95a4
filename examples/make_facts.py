"""Writes the example data that ships with calibrail, from the tables in ``facts_tables.py``.

    python examples/make_facts.py            write src/calibrail/data/examples/facts.jsonl
    python examples/make_facts.py --check    exit with 1 if the committed file differs

Seeded, standard library only: the same tables give the same bytes. For every question there is one
faithful and one hallucinated answer. Faithful answers say what the passages say, in other words and
at varied length; every hallucination is of a named kind, and what is wrong with it is marked. The
length of the faithful answer is drawn so that it is as often longer as shorter than the
hallucinated one.
"""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path

from facts_tables import DOMAINS, Attribute, Domain

SEED = 20261121
TARGET = Path(__file__).resolve().parents[1] / "src/calibrail/data/examples/facts.jsonl"

#: Kinds of hallucination, each with its weight; off-topic answers are easy and therefore few.
KINDS = {
    "swapped_entity": 5,
    "altered_number": 5,
    "negation": 3,
    "unsupported_addition": 5,
    "confidence_inflation": 4,
    "merged_facts": 5,
    "off_topic": 3,
}

Row = tuple[str, str, str, str]

FRAMES = (
    "{text}",
    "{text}",
    "According to the passage, {lower}",
    "As far as the sources go, {lower}",
    "In short: {lower}",
    "{text} That is what the text states.",
)
#: It claims something of the text as well: behind what is wrong, it is wrong too.
CLAIM = "That is what the text states."


class Writer:
    """Writes one question with its passages and its two answers."""

    def __init__(self, rng: random.Random, domain: Domain, row: Row, asked: int) -> None:
        self.rng, self.domain, self.row, self.asked = rng, domain, row, asked
        others = [other for other in domain.rows if other[0] != row[0]]
        self.distractors = rng.sample(others, rng.choice((1, 1, 1, 2)))
        #: What is wrong with the hallucinated answer, each with where to look for it.
        self.wrong: list[tuple[str, int]] = []

    @property
    def attribute(self) -> Attribute:
        """What is asked about."""
        return self.domain.attributes[self.asked]

    def passage(self, row: Row) -> str:
        """Return what the tables say of a subject, in varied words and order."""
        sentences = [
            fill(self.rng.choice(attribute.passages), row[0], row[index + 1])
            for index, attribute in enumerate(self.domain.attributes)
        ]
        # The first sentence names the subject, so that "it" has something to refer to.
        named = [
            template
            for attribute in self.domain.attributes
            for template in attribute.passages
            if "{s}" in template
        ]
        first = self.rng.randrange(3)
        options = [t for t in self.domain.attributes[first].passages if t in named]
        if options:
            sentences[first] = fill(self.rng.choice(options), row[0], row[first + 1])
        rest = [sentence for index, sentence in enumerate(sentences) if index != first]
        self.rng.shuffle(rest)
        if row[0] not in sentences[first]:
            rest.insert(0, sentences[first])
            sentences[first] = f"Subject: {spoken(row[0])}."
        hedge = fill(self.domain.hedge, row[0], "")
        return " ".join([sentences[first], *rest, hedge])

    def faithful(self, longer: bool, length: int) -> tuple[str, str]:
        """Return a kind and a supported answer, longer or shorter than ``length`` if possible."""
        subject, value = self.row[0], self.row[self.asked + 1]
        sentence = self.statement(self.row, self.asked)
        others = [index for index in range(3) if index != self.asked]
        self.rng.shuffle(others)
        further = [self.statement(self.row, index) for index in others]
        options = [
            ("short", capital(value) + "."),
            ("short", f"It is {value}." if self.attribute.number else f"That would be {value}."),
            ("sentence", sentence),
            ("sentence", self.framed(sentence)),
            ("elaborated", f"{sentence} {further[0]}"),
            ("elaborated", self.framed(f"{sentence} {further[0]}")),
            ("elaborated", f"{sentence} {' '.join(further)}"),
            ("elaborated", f"{sentence} {fill(self.domain.hedge, subject, '')}"),
        ]
        fitting = [item for item in options if (len(item[1]) > length) == longer]
        if fitting:
            return self.rng.choice(fitting)
        return min(options, key=lambda item: abs(len(item[1]) - length))

    def hallucinated(self, kind: str) -> str:
        """Return an answer that the passages contradict or do not support."""
        rng, subject, value = self.rng, self.row[0], self.row[self.asked + 1]
        true = self.statement(self.row, self.asked)
        if kind == "swapped_entity":
            return self.stated(self.other_value(), rng.random() < 0.3)
        if kind == "altered_number":
            return self.stated(altered(value, rng), rng.random() < 0.3)
        if kind == "negation":
            denial, other = fill(self.attribute.denial, subject, value), "Something else applies."
            text = rng.choice((denial, self.framed(denial), f"{denial} {other}"))
            self.wrong = [(denial, 0), *([(other, 0)] if text.endswith(other) else [])]
            return text
        if kind == "unsupported_addition":
            return self.added(true, rng.choice(self.domain.additions))
        if kind == "confidence_inflation":
            return self.added(true, fill(self.domain.certain, subject, ""))
        if kind == "merged_facts":
            index = rng.choice([i for i in range(3) if i != self.asked])
            wrong = self.foreign(index)
            self.wrong = [(wrong[index], len(true))]
            return f"{true} {self.statement((subject, *wrong), index)}"
        domain = rng.choice([other for other in DOMAINS if other is not self.domain])
        row, index = rng.choice(domain.rows), rng.randrange(3)
        text = fill(rng.choice(domain.attributes[index].answers), row[0], row[index + 1])
        self.wrong = [(text, 0)]
        return text

    def added(self, true: str, wrong: str) -> str:
        """Return a true sentence with a wrong one behind it."""
        self.wrong = [(wrong, len(true))]
        return f"{true} {wrong}"

    def marks(self, text: str) -> list[list[int]]:
        """Return where the hallucinated answer is wrong: starts and ends in characters."""
        wrong = [*self.wrong, *([(CLAIM, 0)] if text.endswith(CLAIM) else [])]
        found = []
        for piece, after in wrong:
            pattern = re.compile(rf"(?<!\w){re.escape(piece)}(?!\w)", re.IGNORECASE)
            match = pattern.search(text, after)
            assert match is not None, (piece, text)
            found.append([match.start(), match.end()])
        return found

    def possible(self) -> list[str]:
        """Return the kinds that this question allows."""
        kinds = [kind for kind in KINDS if kind not in ("swapped_entity", "altered_number")]
        if all(
            distractor[index + 1] == self.row[index + 1]
            for distractor in self.distractors
            for index in range(3)
            if index != self.asked
        ):
            kinds.remove("merged_facts")
        return [*kinds, "altered_number" if self.attribute.number else "swapped_entity"]

    def stated(self, value: str, short: bool) -> str:
        """Return an answer that gives ``value``, bare, in a sentence, or with a true addition."""
        self.wrong = [(value, 0)]
        if short:
            return capital(value) + "."
        row = list(self.row)
        row[self.asked + 1] = value
        sentence = self.statement((row[0], row[1], row[2], row[3]), self.asked)
        if self.rng.random() < 0.4:
            index = self.rng.choice([i for i in range(3) if i != self.asked])
            return f"{sentence} {self.statement(self.row, index)}"
        return self.rng.choice((sentence, self.framed(sentence)))

    def statement(self, row: Row, index: int) -> str:
        """Return a sentence that answers, in other words than the passages."""
        return fill(self.rng.choice(self.domain.attributes[index].answers), row[0], row[index + 1])

    def framed(self, text: str) -> str:
        """Return the text, often with a phrase that leads to it."""
        # A name keeps its capital inside a sentence; any other first word loses it.
        names = {self.row[0].split()[0], *(value.split()[0] for value in self.row[1:])}
        keeps = text.split()[0].rstrip(",") in names
        lower = text if keeps else text[0].lower() + text[1:]
        return self.rng.choice(FRAMES).format(text=text, lower=lower)

    def other_value(self) -> str:
        """Return another subject's value, half of the time one that the passages mention."""
        column = self.asked + 1
        pool = [row[column] for row in self.domain.rows if row[column] != self.row[column]]
        near = [row[column] for row in self.distractors if row[column] != self.row[column]]
        return self.rng.choice(near if near and self.rng.random() < 0.5 else pool)

    def foreign(self, index: int) -> tuple[str, str, str]:
        """Return values in which the ``index``-th is a distractor's."""
        wrong = [
            row[index + 1] for row in self.distractors if row[index + 1] != self.row[index + 1]
        ]
        if not wrong:
            wrong = [
                row[index + 1] for row in self.domain.rows if row[index + 1] != self.row[index + 1]
            ]
        values = list(self.row[1:])
        values[index] = self.rng.choice(wrong)
        return values[0], values[1], values[2]


def fill(template: str, subject: str, value: str) -> str:
    """Return a sentence with subject and value in place."""
    return capital(template.format(s=spoken(subject), v=value))


def spoken(subject: str) -> str:
    """Return a subject as it stands inside a sentence: substances are no proper names."""
    return subject.lower() if subject in SUBSTANCES else subject


SUBSTANCES = frozenset(row[0] for row in DOMAINS[0].rows)


def capital(text: str) -> str:
    """Return text with a capital first letter."""
    return text[0].upper() + text[1:]


def altered(number: str, rng: random.Random) -> str:
    """Return another number of the same size, close enough to be believed."""
    value = int(number)
    if 1500 <= value <= 2100 and len(number) == 4:
        shift = rng.choice((1, 2, 3, 7, 10, 11, 20))
    else:
        shift = max(1, round(value * rng.choice((0.05, 0.1, 0.2, 0.4))))
    return str(value + rng.choice((-1, 1)) * shift if value > shift else value + shift)


def make() -> list[dict[str, object]]:
    """Return all rows: two a question, two questions a subject."""
    rng = random.Random(SEED)
    questions = [
        (domain, row, asked)
        for domain in DOMAINS
        for row in domain.rows
        for asked in sorted(rng.sample(range(3), 2))
    ]
    rng.shuffle(questions)
    used = dict.fromkeys(KINDS, 0)
    rows: list[dict[str, object]] = []
    for number, (domain, row, asked) in enumerate(questions, start=1):
        writer = Writer(rng, domain, row, asked)
        subject = spoken(row[0])
        question = rng.choice(writer.attribute.questions).format(s=subject)
        contexts = [writer.passage(item) for item in (row, *writer.distractors)]
        rng.shuffle(contexts)
        # The kind that is furthest behind its share comes next.
        kind = min(writer.possible(), key=lambda name: (used[name] + 1) / KINDS[name])
        used[kind] += 1
        wrong = writer.hallucinated(kind)
        right_kind, right = writer.faithful(rng.random() < 0.5, len(wrong))
        group = f"facts-{number:03d}"
        answers = [(0, right_kind, right), (1, kind, wrong)]
        rng.shuffle(answers)
        for letter, (label, name, response) in zip("ab", answers, strict=True):
            rows.append(
                {
                    "id": f"{group}-{letter}",
                    "question": question,
                    "contexts": contexts,
                    "response": response,
                    "label": label,
                    "spans": writer.marks(response) if label else [],
                    "group": group,
                    "kind": name,
                    "domain": domain.name,
                }
            )
    return rows


def main() -> int:
    """Write the file, or compare it."""
    lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in make()]
    content = "\n".join(lines) + "\n"
    if "--check" in sys.argv[1:]:
        same = TARGET.is_file() and TARGET.read_text(encoding="utf-8") == content
        print(f"{TARGET.name} is {'up to date' if same else 'not what this generator writes'}")
        return 0 if same else 1
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(content, encoding="utf-8", newline="\n")
    print(f"wrote {len(lines)} rows, {len(content.encode()) / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
