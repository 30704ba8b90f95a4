from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from calibrail.text import words
from calibrail.text.words import language_of, languages_known
from tests.installed import need

need("py3langid")

ENGLISH = "Tungsten has the symbol W and atomic number 74."
GERMAN = "Wolfram hat das Symbol W und die Ordnungszahl 74."


@pytest.fixture
def anew() -> object:
    """Load the model anew, before and after."""
    words._classifier.cache_clear()
    yield
    words._classifier.cache_clear()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ENGLISH, "en"),
        (GERMAN, "de"),
        (ENGLISH.upper(), "en"),
        ("El wolframio tiene el símbolo W y el número atómico 74.", "es"),
        ("Вольфрам имеет символ W и атомный номер 74.", "ru"),
        ("タングステンの元素記号はWで、原子番号は74です。", "ja"),
        ("钨的化学符号是W,原子序数是74。它是一种金属元素,密度很高。", "zh"),
        ("رمز التنغستن هو W ورقمه الذري 74.", "ar"),
        ("टंगस्टन का प्रतीक W है और परमाणु संख्या 74 है।", "hi"),
        ("텅스텐의 기호는 W이고 원자번호는 74이다. 금속 원소이다.", "ko"),
    ],
)
def test_a_text_of_some_words_has_a_language(text: str, expected: str) -> None:
    assert language_of(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "Yes.", "Vienna, 1918", "1234 5678 9012 3456 7890 42", "\x00" * 5000),
        *("asdkjh qwieuy zxmcnb alskdj qpwoei", "Phobos Deimos Olympus Mons Valles Marineris"),
        *("🙂" * 100, "\ud800" * 400),
    ],
    ids=lambda text: ascii(text[:12]),
)
def test_what_is_too_short_or_no_language_has_none(text: str) -> None:
    assert language_of(text) is None


def test_the_second_text_counts_where_the_first_is_too_short() -> None:
    assert language_of("74", GERMAN) == "de"
    assert language_of(ENGLISH, GERMAN) == "en"


def test_only_the_beginning_of_a_long_text_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def classify(text: str) -> tuple[str, float]:
        seen.append(len(text))
        return "en", 1.0

    monkeypatch.setattr(words, "_classifier", lambda: classify)
    assert language_of(ENGLISH * 200_000) == "en"
    assert seen == [words.LOOKED_AT]


def test_without_the_package_there_is_no_language(
    anew: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    assert not languages_known() and language_of(ENGLISH) is None


def test_a_model_that_does_not_load_or_fails_is_no_error(
    anew: object, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import py3langid.langid

    def damaged(*_: object, **__: object) -> Callable[[str], object]:
        raise ValueError("damaged")

    monkeypatch.setattr(py3langid.langid.LanguageIdentifier, "from_model_file", damaged)
    assert language_of(ENGLISH) is None and language_of(GERMAN) is None
    assert caplog.text.count("languages are not told") == 1
    monkeypatch.setattr(words, "_classifier", lambda: damaged)
    assert language_of(ENGLISH) is None


def test_only_who_tells_languages_loads_the_model(tmp_path: Path) -> None:
    code = """
import sys, calibrail, calibrail.cli, calibrail.guardrail.decision_log
from calibrail.guardrail.decision_log import verify, writer
assert not [name for name in sys.modules if "langid" in name]
calibrail.guardrail.decision_log.DecisionLog(sys.argv[1])
assert "py3langid" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "log")], check=True)
