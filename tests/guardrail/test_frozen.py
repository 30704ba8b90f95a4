from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from calibrail import card
from calibrail.errors import GuardrailError
from calibrail.guardrail import FrozenConfig, Guardrail
from calibrail.guardrail.file import content_digest, render

Make = Callable[..., Guardrail]


def test_the_same_guardrail_gives_the_same_bytes(make_guardrail: Make, tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    make_guardrail().save(first)
    Guardrail.load(first).save(second)
    assert first.read_bytes() == second.read_bytes()


def test_a_changed_byte_is_refused_wherever_it_stands(make_guardrail: Make, tmp_path: Path) -> None:
    path = tmp_path / "guardrail.json"
    make_guardrail().save(path)
    raw = path.read_bytes()
    # Both ends, and every seventeenth byte between: of each part of the file some.
    for position in (*range(0, len(raw), 17), *range(-40, 0)):
        changed = bytearray(raw)
        changed[position] ^= 1
        with pytest.raises(GuardrailError):
            FrozenConfig.from_bytes(bytes(changed))


@pytest.mark.parametrize("addition", [b" ", b"\n", b"{}"])
def test_added_bytes_are_refused(make_guardrail: Make, addition: bytes) -> None:
    raw = make_guardrail().config.to_bytes()
    for changed in (raw + addition, addition + raw):
        with pytest.raises(GuardrailError):
            FrozenConfig.from_bytes(changed)


def test_an_unknown_field_is_refused_even_with_a_right_digest(make_guardrail: Make) -> None:
    content = json.loads(make_guardrail().config.to_bytes())
    content["note"] = "harmless"
    content["digest"] = content_digest(content)
    with pytest.raises(GuardrailError, match="note"):
        FrozenConfig.from_bytes(render(content))


OWN = "{contexts}{question}{response} faithful or hallucination?"


@pytest.mark.parametrize("param", ["template", "sentence_template"])
@pytest.mark.parametrize("within", ["judge", "ensemble", "worst_sentence"])
def test_no_template_is_looked_up_in_a_file_that_a_guardrail_names(
    make_guardrail: Make, tmp_path: Path, param: str, within: str
) -> None:
    content = json.loads(make_guardrail().config.to_bytes())
    own, path = tmp_path / "own.txt", tmp_path / "guardrail.json"
    own.write_text(OWN)

    def write(template: str) -> None:
        params = {"model": "m", "base_url": "http://127.0.0.1:9/v1", param: template}
        spelt = ",".join(f"{name}={json.dumps(value)}" for name, value in params.items())
        inner = {"ensemble": {"scores": f"length,judge:{spelt}"}}
        inner |= {"judge": params, "worst_sentence": {"detector": f"judge:{spelt}"}}
        content["score"] |= {"name": within, "params": inner[within]}
        content["digest"] = content_digest(content)
        path.write_bytes(render(content))

    looks: list[Callable[[Path], object]] = [Guardrail.load, card]
    for template in (str(own), str(own.relative_to("/")), "no braces\nat all", "{contexts}"):
        write(template)
        for look in looks:
            with pytest.raises(GuardrailError, match="a judge whose template is neither built in"):
                look(path)
    write(OWN)
    card(path)


@pytest.mark.parametrize("raw", [b"", b"[]", b"\xff", b'{"schema": NaN}', b"{", b"null"])
def test_what_is_no_guardrail_is_refused(raw: bytes) -> None:
    with pytest.raises(GuardrailError):
        FrozenConfig.from_bytes(raw)


def test_the_file_holds_no_text_of_the_data(make_guardrail: Make) -> None:
    raw = make_guardrail().config.to_bytes().decode()
    assert "secret answer" not in raw
    assert "secret question" not in raw


def test_an_unreadable_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(GuardrailError, match=r"missing\.json"):
        Guardrail.load(tmp_path / "missing.json")


@pytest.mark.parametrize("number", ["1e400", "-1e999", "9" * 5000])
def test_a_number_that_no_float_holds_is_refused(make_guardrail: Make, number: str) -> None:
    raw = make_guardrail().config.to_bytes()
    assert b'"alpha":0.1' in raw
    with pytest.raises(GuardrailError, match="is not a guardrail: it holds ") as caught:
        FrozenConfig.from_bytes(raw.replace(b'"alpha":0.1', f'"alpha":{number}'.encode()))
    # In our words, and of any length.
    assert "sys." not in str(caught.value) and len(str(caught.value)) < 200


def test_a_file_larger_than_any_guardrail_is_not_read(tmp_path: Path) -> None:
    with (path := tmp_path / "g.json").open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(GuardrailError, match=r"g\.json is larger than 1073741824 bytes"):
        Guardrail.load(path)
