"""Does a card say of every kind of guardrail what it does, promises, and who vouches for it?"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import calibrail
from calibrail import Guardrail, Promise, calibrate, card
from calibrail.errors import GuardrailError, InputError
from calibrail.formatting import exact
from calibrail.guardrail.file import FrozenConfig
from calibrail.guardrail.signing import make_keys
from calibrail.report import render_markdown
from calibrail.report.documents.card import document as card_document
from tests.guardrail.conftest import labelled

COLUMN = "column:column=detector,higher=hallucinated"
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"guarantee": "marginal", "max_fpr": 0.7},
    "pac": {"guarantee": "pac"},
    "paper": {"guarantee": "paper"},
    "groups": {"by": "topic"},
    "three": {"beta": 0.2},
    "risks": {"risks": ("recall>=0.6", "fpr<=0.6")},
    "everything": {"alpha": 0.001, "allow_flag_all": True},
    "verdicts": {"by": "topic", "max_fpr": 0.9},
    "less": {"guarantee": "pac", "max_fpr": 0.9, "min_coverage": 0.7},
}


@pytest.fixture(scope="module")
def frozen() -> dict[str, Guardrail]:
    answers = [
        replace(answer, columns={**answer.columns, "topic": ("law", "faq")[place // 2 % 2]})
        for place, answer in enumerate(labelled(400))
    ]
    made = {
        name: calibrate(answers, COLUMN, **{"alpha": 0.2, **options}).freeze()
        for name, options in KINDS.items()
    }
    turned = [replace(a, columns={"detector": -float(a.columns["detector"] or 0)}) for a in answers]
    other = "column:column=detector,higher=faithful"
    return made | {"turned": calibrate(turned, other, alpha=0.2).freeze()}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("plain", "It flags an answer when its detector is at least "),
        ("plain", "on average over calibrations like this one (guarantee: marginal)"),
        ("pac", "for this very threshold with 90% confidence (guarantee: pac)"),
        ("paper", "slightly less on average (guarantee: paper)"),
        ("groups", "in each group of topic with a threshold of its own"),
        ("groups", "the hallucinated answers of each group, as the table of groups counts them"),
        ("verdicts", "By themselves the groups "),
        ("less", "FRESH_LABELS --max-false-alarms 0.9 --min-caught 0.7"),
        ("groups", "It reads the column detector and the column topic"),
        ("three", "sends the rest to review"),
        ("three", "flags at most 20% of faithful answers"),
        ("three", "It flags, or sends to review, at least 80% of hallucinated answers"),
        ("three", "False alarms or reviews"),
        ("three", " go to review and "),
        ("three", "no limit was set on what it flags and sends to review together"),
        ("risks", "With 95% confidence its threshold keeps all of these at once"),
        ("everything", "It flags every answer"),
        ("turned", "(higher = more likely faithful)"),
        ("turned", "is at most "),
    ],
)
def test_it_says_how_it_decides_and_what_it_keeps(
    frozen: dict[str, Guardrail], kind: str, said: str
) -> None:
    made = card(frozen[kind])
    assert said in made.markdown()
    assert said.replace("'", "&#39;") in re.sub(r"<[^>]+>", "", made.html())


def test_numbers_on_it_are_those_of_the_file(frozen: dict[str, Guardrail]) -> None:
    guardrail = frozen["plain"]
    made, headline = card(guardrail), guardrail.config.headline
    text = made.markdown()
    threshold = guardrail.calibration.threshold
    assert f"at least {threshold!r}, and" in text
    assert f"| Caught | {100 * headline.coverage['estimate']:.1f}".removesuffix(".0") in text
    assert f"{headline.fpr['count']} of {headline.fpr['n']} faithful" in text
    assert guardrail.config.digest.removeprefix("sha256:") in text
    assert "calibrail certify guardrail.json FRESH_LABELS --max-false-alarms 0.7" in text
    for name, version in guardrail.config.versions.items():
        assert f"{name} {version}" in text
    # What is long, and what would name answers, is counted.
    content = json.dumps(made.to_dict(), allow_nan=False)
    assert '"scores"' not in content and len(content) < 6_000
    count = made.to_dict()["guardrail"]["data"]["calibration_examples"]
    assert count == len(guardrail.config.data.calibration_examples)


def test_the_thresholds_of_groups_stand_in_a_table(frozen: dict[str, Guardrail]) -> None:
    text, groups = card(frozen["groups"]).markdown(), frozen["groups"].rule.groups
    assert groups is not None
    for name, own in groups.groups.items():
        assert f"| {name} | {exact(own.threshold)} | {own.n} |" in text
    assert "| all others | " in text and "Verdict" not in text
    text, by_group = (
        card(frozen["verdicts"]).markdown(),
        frozen["verdicts"].config.headline.by_group,
    )
    assert by_group is not None and by_group["rows"]
    for row in by_group["rows"]:
        assert re.search(rf"\| {row['group']} \| .* \| {row['verdict']} \|", text)
    # A file of before says neither who is certified nor how many went to review.
    for kind, field in (("verdicts", "by_group"), ("three", "three_way")):
        made = card(frozen[kind]).content
        headline = dict(made["guardrail"]["headline"])
        assert headline.pop(field)
        older = card_document({**made, "guardrail": {**made["guardrail"], "headline": headline}})
        assert "By themselves" not in render_markdown(older)
        assert ("False alarms or reviews" in render_markdown(older)) is (kind == "three")


def test_what_is_missing_is_said(frozen: dict[str, Guardrail], tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    frozen["plain"].save(path)
    made = card(path)
    assert made.content["signature"] == {"state": "none", "keyid": None}
    assert "nobody vouches for this file" in made.markdown()
    # What is not signed is verified without a key.
    assert "calibrail guardrail verify g.json\n" in made.markdown()
    assert "**Golden probes:** none: the score comes with the data" in made.markdown()
    assert card(Guardrail.load(path)).content["signature"]["state"] == "unknown"


def test_it_says_whose_signature_was_verified(frozen: dict[str, Guardrail], tmp_path: Path) -> None:
    path, key = tmp_path / "g.json", tmp_path / "key.pem"
    public, keyid, *_ = make_keys(key)
    other, *_ = make_keys(tmp_path / "other.pem")
    frozen["plain"].save(path, sign=key)
    assert card(path).content["signature"]["state"] == "not verified"
    assert "calibrail guardrail verify g.json --key KEY.pub.pem\n" in card(path).markdown()
    made = card(path, trusted=[public])
    assert made.content["signature"] == {"state": "verified", "keyid": keyid}
    assert f"signed with the key {keyid}" in made.markdown()
    loaded = card(Guardrail.load(path, trusted=[public])).content
    assert loaded["signature"] == made.content["signature"]
    assert loaded["file"]["sha256"] == made.content["file"]["sha256"]
    with pytest.raises(GuardrailError, match="another key"):
        card(path, trusted=[other])
    with pytest.raises(InputError, match="trusted is for a file"):
        card(Guardrail.load(path), trusted=[public])
    path.write_bytes(path.read_bytes().replace(b'"alpha":0.2', b'"alpha":0.1'))
    with pytest.raises(GuardrailError, match="changed"):
        card(path)


def test_no_model_and_no_code_of_others_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frozen: dict[str, Guardrail]
) -> None:
    def renamed(name: str, **params: object) -> FrozenConfig:
        score = config.score.model_copy(update={"name": name, "params": params})
        return FrozenConfig.from_bytes(config.model_copy(update={"score": score}).to_bytes())

    config = frozen["plain"].config
    path = tmp_path / "g.json"
    (tmp_path / "dangerous.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, params in (
        ("custom", {"detector": "dangerous:score", "higher": "faithful"}),
        ("ensemble", {"scores": "novelty,dangerous:score"}),
        ("of_another_version", {}),
    ):
        path.write_bytes(renamed(name, **params).to_bytes())
        assert "does not say what it reads" in card(path).markdown()
    path.write_bytes(renamed("nli", model="a/model-that-is-nowhere").to_bytes())
    assert card(path).content["reads"]["texts"] == ["contexts", "response"]


def test_an_endpoint_is_named(tmp_path: Path, frozen: dict[str, Guardrail]) -> None:
    config = frozen["plain"].config
    params = {"model": "gpt", "base_url": "http://127.0.0.1:9/v1"}
    score = config.score.model_copy(update={"name": "judge", "params": params})
    path = tmp_path / "g.json"
    path.write_bytes(config.model_copy(update={"score": score}).to_bytes())
    made = card(path)
    assert made.content["reads"]["endpoints"] == ["http://127.0.0.1:9/v1"]
    assert "texts leave the machine" in made.markdown()
    assert "sends nothing over a network" not in made.html()


def test_names_from_data_stay_text() -> None:
    attack = "<script>alert(1)</script>[x](javascript:y)\u202e|`"
    answers = [
        replace(answer, columns={**answer.columns, attack: attack}) for answer in labelled(200)
    ]
    config = calibrate(answers, COLUMN, alpha=0.2, by=attack).freeze().config
    content = json.loads(config.to_bytes())
    content["data"]["source"] = attack
    content["versions"] = {attack: attack}
    made = card(Guardrail(FrozenConfig.model_validate(content)))

    class Seen(HTMLParser):
        scripts = 0

        def handle_starttag(self, tag: str, attrs: object) -> None:
            self.scripts += tag in ("script", "a", "img")

    seen = Seen()
    seen.feed(made.html())
    assert seen.scripts == 0 and "\u202e" not in made.html()
    assert "<script" not in made.markdown().replace("\\<script", "")
    assert "](" not in made.markdown().replace("\\](", "")


def test_it_is_written_by_the_ending_of_its_file(
    frozen: dict[str, Guardrail], tmp_path: Path
) -> None:
    made = card(frozen["plain"])
    assert made.save(tmp_path / "new" / "card.html").read_text() == made.html()
    assert made.save(tmp_path / "CARD.MD").read_text() == made.markdown()
    with pytest.raises(InputError, match=r"\.html, \.md or \.svg"):
        made.save(tmp_path / "card.pdf")
    assert "Every figure" in made.html() and "http" not in re.sub(r"<meta[^>]*>", "", made.html())


def test_it_needs_a_guardrail(tmp_path: Path) -> None:
    with pytest.raises(GuardrailError, match="cannot read"):
        card(tmp_path / "none.json")
    with pytest.raises(InputError, match="must be a path"):
        calibrail.card(Promise())  # type: ignore[arg-type]


def test_it_says_whether_this_machine_was_compared(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    calibrate("example:facts", "novelty", alpha=0.2).freeze().save(path)
    assert "16 frozen scores (calibrail-probes/1), not recomputed" in card(path).markdown()
    made = card(Guardrail.load(path, probe=True))
    assert made.content["probes"]["agreed"]
    assert "recomputed on this machine and agreed" in made.markdown()


def test_a_badge_says_what_is_certified_and_nothing_of_what_is_not(tmp_path: Path) -> None:
    source = "example:judge"
    for limit, said in (
        (0.5, "certified: ≥ 80% caught, ≤ 50% false alarms"),
        (0.2, "inconclusive"),
    ):
        column = {"score_column": "hallucination_score", "higher": "hallucinated"}
        made = card(calibrate(source, alpha=0.2, max_fpr=limit, **column).freeze())
        path = made.save(tmp_path / "card.svg")
        assert ElementTree.parse(path).findtext("{*}title") == f"calibrail: {said}"
        # An earlier badge is calibrail's own and gives way; another picture does not.
        made.save(path)
        assert f"made on:** {datetime.now(UTC):%Y-%m-%d}" in made.markdown()
        assert "example:judge (read as csv; synthetic" in made.markdown()
        headline = made.content["guardrail"]["headline"]
        headline["warnings"] = [*headline["warnings"], "tested_beside"]
        # A certificate on a condition is not shown in the colour of one without.
        assert "#1a7f37" not in made.badge()
    found = card(calibrate(source, alpha=0.2, **column).freeze())
    # As the card's own headline says it, in no verdict's colour.
    assert "calibrail: threshold found" in found.badge() and "#555" in found.badge()
    # What is promised alone was required by nobody.
    assert "required" not in found.markdown().partition("## What it does")[0].lower()
    path.write_text("<svg xmlns='http://www.w3.org/2000/svg'></svg>")
    with pytest.raises(InputError, match=r"card\.svg"):
        made.save(path)
