"""Which sixteen answers show whether a machine computes what was certified?

They never change under the name of their set: a digest in the tests holds them. They differ in what
libraries disagree about: length, windows, scripts, spaces, numbers, code; each has further samples,
so that every family of scores has something to compare.
"""

from typing import Final

#: The name of these sixteen.
SET: Final = "calibrail-probes/1"
#: The name of their sentences.
SENTENCE_SET: Final = "calibrail-probes/1 by sentence"

#: Longer than a model reads at once: what is cut, and where, shows.
_LOG: Final = " ".join(
    f"On day {day} the gauge at the {place} weir read {4 * day + 17} centimetres and the water was "
    f"{'clear' if day % 3 else 'brown'}."
    for day, place in enumerate(("upper", "middle", "lower", "eastern") * 6, start=1)
)

#: Question, contexts, response and further samples.
ANSWERS: Final[tuple[tuple[str, tuple[str, ...], str, tuple[str, ...]], ...]] = (
    (
        "Which element has the symbol W?",
        ("Tungsten is a metal with the symbol W and atomic number 74.",),
        "Tungsten has the symbol W.",
        ("It is tungsten.", "Tungsten, which has atomic number 74."),
    ),
    (
        "When was the bridge opened?",
        ("The stone bridge was opened on 3 May 1887 after six years of work.",),
        "The bridge was opened in 1878.",
        ("It was opened on 3 May 1887.", "In 1887."),
    ),
    (
        "How does the valley get its water?",
        (
            "The valley lies in the rain shadow of the ridge and gets less than 300 mm a year.",
            "Since 1931 an aqueduct of 42 km has brought water from the lake in the north.",
            "Farmers grow apricots and almonds; both are harvested before the dry months.",
        ),
        "The valley gets little rain because it lies behind the ridge. Its water comes through an "
        "aqueduct from the northern lake, 42 km long and in use since 1931. A second aqueduct was "
        "finished in 1958 by prisoners. Farmers grow apricots and almonds with it.",
        (
            "An aqueduct has brought water from the lake since 1931.",
            "Little rain falls, so a 42 km aqueduct supplies the valley.",
        ),
    ),
    (
        "Is the museum open on Mondays?",
        ("The museum is not open on Mondays. It is open on all other days from 10 to 18.",),
        "Yes, the museum is open on Mondays from 10 to 18.",
        ("No, it is closed on Mondays.", "It is not open on Mondays."),
    ),
    (
        "Who taught whom?",
        (
            "Maria Keller taught Ivo Brandt the violin. Ivo Brandt later taught her son Paul.",
            "Paul Keller never performed in public.",
        ),
        "Ivo Brandt taught Maria Keller the violin, and Paul Keller performed in Vienna.",
        ("Maria Keller taught Ivo Brandt.", "Keller was the teacher of Brandt."),
    ),
    (
        "この川の長さは？",
        ("この川は山地に発し、南へ流れて海に注ぐ。全長は217キロメートルである。",),
        "この川の全長は271キロメートルで、北へ流れる。",
        ("全長は217キロメートルです。", "217キロメートル。"),
    ),
    (
        "متى تأسست المكتبة؟",
        ("تأسست المكتبة عام 1923 وتضم نحو 40000 كتاب.",),
        "تأسست المكتبة عام 1923.",
        ("عام 1923.", "تأسست المكتبة سنة 1932."),
    ),
    (
        "What does the function return for an empty list?",
        (
            "```python\ndef mean(values: list[float]) -> float:\n    if not values:\n"
            "        raise ValueError('no values')\n    return sum(values) / len(values)\n```",
        ),
        "`mean([])` returns `0.0`, since `sum([]) == 0`; for `[1, 2]` it returns `1.5`.",
        ("It raises a `ValueError`.", "`mean([])` raises ValueError('no values')."),
    ),
    (
        "What does the contract say of notice?",
        (),
        "Either side may end the contract with three months' notice.",
        ("Three months' notice is needed.", "The contract does not say."),
    ),
    (
        "What were the results of the trial?",
        (
            "Of 1,204 patients 602 got the drug. 17.5 % of them improved, against 12.3 % with "
            "placebo (p = 0.013). Mean age was 54.2 years; the dose was 2.5 mg twice a day.",
        ),
        "17.5 % of the 602 treated patients improved, 12.3 % with placebo (p = 0.13). The dose was "
        "5 mg a day, and patients were 54.2 years old on average.",
        ("Improvement: 17.5 % against 12.3 %.", "The drug helped 17.5 % of 602 patients."),
    ),
    (
        "What did the gauges read?",
        (_LOG, "Gauges are read at seven in the morning."),
        "On day 1 the gauge at the upper weir read 21 centimetres. On day 23 the gauge at the "
        "lower weir read 109 centimetres, and on day 24 the water was black.",
        ("On day 24 the water was brown.", "They read between 21 and 113 centimetres."),
    ),
    (
        "Who composed the hymn?",
        ("The hymn was first printed in 1741. No composer is named in the print.",),
        "I do not know; the sources do not say.",
        ("The composer is unknown.", "It was composed by J. Harrow."),
    ),
    (
        "Was kostet die Überfahrt?",
        (
            "Die Überfahrt kostet 12,50\u00a0€, für Kinder die Hälfte. "
            "Η διαδρομή διαρκεί 40 λεπτά.",
            "Билеты продаются у причала ⛴️. यात्रा रोज़ होती है।",
        ),
        "Die U\u0308berfahrt kostet 12,50 € und dauert vierzig Minuten ⛴️; Kinder fahren umsonst.",
        ("12,50 Euro.", "Kinder zahlen 6,25 €."),
    ),
    (
        "",
        ("Basalt is a dark, fine-grained rock that forms when lava cools quickly.",),
        "Basalt is a light rock that forms deep below the ground over millions of years.",
        ("Basalt forms from lava.", "It is a dark volcanic rock."),
    ),
    (
        "How do I reset the device?",
        (
            "1. Hold the button for ten seconds.\n2. Wait for the green light.\n3. Restart.",
            "1. Hold the button for ten seconds.\n2. Wait for the green light.\n3. Restart.",
            "Support: https://support.example/reset?model=B-7&lang=en",
        ),
        "- Hold the button for **ten** seconds\n- Wait for the green light\n- Restart\n\nSee "
        "https://support.example/reset?model=B-7&lang=en or write to help@support.example.",
        ("Hold the button until the light is green.", "Press the button for two seconds."),
    ),
    (
        "Does the train stop there?",
        ("   ", "The night train stops in both towns. The day train stops in neither."),
        "Yes.",
        ("No.", "Only the night train stops there."),
    ),
)
