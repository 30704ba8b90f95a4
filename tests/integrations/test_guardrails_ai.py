"""Does a Guard let through only what the guardrail passes?"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from tests.integrations.frameworks import need

need("guardrails-ai")
# Nobody's settings.
os.environ["HOME"] = tempfile.mkdtemp()
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

from guardrails import AsyncGuard, Guard  # noqa: E402
from guardrails.errors import ValidationError  # noqa: E402

from calibrail.errors import InputError  # noqa: E402
from calibrail.integrations.gate import REFUSALS  # noqa: E402
from calibrail.integrations.guardrails_ai import CalibrailValidator  # noqa: E402
from tests.integrations import trimming  # noqa: E402
from tests.integrations.pages import run_example, run_page  # noqa: E402
from tests.integrations.scenario import WHY, Scenario  # noqa: E402

MESSAGES = [{"role": "user", "content": "Which element has the symbol W?"}]


def guard(scenario: Scenario, on_fail: str | None = "fix") -> Guard:
    return Guard().use(CalibrailValidator(scenario.file, on_fail=on_fail))


def sources(scenario: Scenario) -> dict[str, Any]:
    return {"question": scenario.question, "contexts": list(scenario.contexts)}


def last_result(guard: Guard) -> Any:
    return guard.history.last.iterations.last.validator_logs[-1].validation_result


def streaming(text: str) -> Callable[..., Iterator[str]]:
    def model(*_: Any, **__: Any) -> Iterator[str]:
        return (word + " " for word in text.split())

    return model


@pytest.mark.parametrize(
    ("on_fail", "withheld"),
    [("fix", REFUSALS), ("refrain", {}), ("filter", {})],
    ids=["fix", "refrain", "filter"],
)
def test_only_a_passed_answer_is_the_output(
    scenario: Scenario, on_fail: str, withheld: dict[str, str]
) -> None:
    judge, guardrail = guard(scenario, on_fail), scenario.guardrail()
    for text in (scenario.faithful, scenario.doubtful, scenario.made_up):
        result = judge.validate(text, metadata=sources(scenario))
        decision = guardrail.check(response=text, **sources(scenario))
        passed = decision.outcome == "pass"
        assert result.validated_output == (text if passed else withheld.get(decision.outcome))
        noted = last_result(judge).metadata["calibrail"]
        assert noted == decision.to_dict() | {"guardrail": guardrail.config.digest}
        assert last_result(judge).outcome.value == ("pass" if passed else "fail")


def test_an_exception_begins_with_the_outcome_and_is_what_happens_if_nothing_is_said(
    scenario: Scenario,
) -> None:
    judge = guard(scenario, None)
    with pytest.raises(ValidationError, match="errors: review: score"):
        judge.validate(scenario.doubtful, metadata=sources(scenario))
    with pytest.raises(ValidationError, match="errors: flag: score"):
        judge.validate(scenario.made_up, metadata=sources(scenario))
    assert last_result(judge).metadata["calibrail"]["p_value"] == 1


def test_noop_only_measures(scenario: Scenario) -> None:
    result = guard(scenario, "noop").validate(scenario.made_up, metadata=sources(scenario))
    assert (result.validation_passed, result.validated_output) == (False, scenario.made_up)
    assert result.validation_summaries[0].failure_reason.startswith("flag: ")


@pytest.mark.parametrize("policy", ["error", "flag", "review"])
def test_a_failing_detector_releases_nothing(
    scenario: Scenario, policy: Literal["error", "flag", "review"]
) -> None:
    judge = Guard().use(CalibrailValidator(scenario.failing(policy), on_fail="fix"))
    result = judge.validate(scenario.faithful, metadata=sources(scenario))
    assert result.validated_output == REFUSALS[policy]
    assert last_result(judge).error_message.startswith(f"{policy}: ")
    assert WHY in last_result(judge).error_message


def test_a_stream_is_held_back_until_it_was_judged_whole(scenario: Scenario) -> None:
    for text, shown in (
        (scenario.faithful, scenario.faithful),
        (scenario.made_up, REFUSALS["flag"]),
        (scenario.doubtful, REFUSALS["review"]),
    ):
        stream = guard(scenario)(
            streaming(text), messages=MESSAGES, stream=True, metadata=sources(scenario)
        )
        assert [chunk.validated_output.strip() for chunk in stream] == [shown]


def test_streams_that_go_on_at_once_or_break_off_do_not_mix(scenario: Scenario) -> None:
    judge = guard(scenario)
    texts = (scenario.faithful, scenario.made_up, scenario.faithful)
    validator = judge.get_validators("output")[0]
    stopped = sources(scenario)
    validator.validate_stream("Copper melts", stopped, remainder=False)
    states = [sources(scenario) for _ in texts]
    for text, metadata in zip(texts, states, strict=True):
        assert validator.validate_stream(text, metadata, remainder=False) is None
    results = [validator.validate_stream("", metadata, remainder=True) for metadata in states]
    assert [item.outcome.value for item in results] == ["pass", "fail", "pass"]
    assert results[0].validated_chunk == scenario.faithful


def test_a_stream_with_a_count_of_tokens_after_it_is_judged_once(scenario: Scenario) -> None:
    def chunk(text: str | None, reason: str | None = None) -> Any:
        choices = [SimpleNamespace(delta=SimpleNamespace(content=text), finish_reason=reason)]
        return SimpleNamespace(choices=choices, usage=None)

    def model(*_: Any, **__: Any) -> Iterator[Any]:
        yield chunk(scenario.faithful)
        yield chunk(None, "stop")
        yield SimpleNamespace(choices=[], usage={"total_tokens": 9})

    stream = guard(scenario)(model, messages=MESSAGES, stream=True, metadata=sources(scenario))
    assert "".join(item.validated_output for item in stream) == scenario.faithful


@pytest.mark.parametrize("on_fail", ["exception", "noop", "refrain", "filter"])
def test_a_stream_that_cannot_be_held_back_is_refused(scenario: Scenario, on_fail: str) -> None:
    judge = guard(scenario, on_fail)
    shown = []
    with pytest.raises(InputError, match="on_fail='fix'"):
        for chunk in judge(
            streaming(scenario.made_up),
            messages=MESSAGES,
            stream=True,
            metadata=sources(scenario),
        ):
            shown.append(chunk)
    assert shown == []


def test_an_async_guard_decides_while_the_loop_goes_on(scenario: Scenario) -> None:
    judge = AsyncGuard().use(CalibrailValidator(scenario.file, on_fail="fix"))

    async def model(*_: Any, messages: Any, **__: Any) -> str:
        return scenario.made_up

    async def run() -> list[Any]:
        texts = (scenario.faithful, scenario.made_up, scenario.faithful)
        asked = [judge.validate(text, metadata=sources(scenario)) for text in texts]
        called = judge(model, messages=MESSAGES, metadata=sources(scenario))
        return [item.validated_output for item in await asyncio.gather(*asked, called)]

    good, bad = scenario.faithful, REFUSALS["flag"]
    assert asyncio.run(run()) == [good, bad, good, bad]


def test_a_stream_of_an_async_guard_is_refused(scenario: Scenario) -> None:
    judge = AsyncGuard().use(CalibrailValidator(scenario.file, on_fail="fix"))
    shown = []

    class Stream:
        """What an asynchronous model returns."""

        async def words(self) -> AsyncIterator[str]:
            for word in scenario.made_up.split():
                yield word

        @property
        def completion_stream(self) -> AsyncIterator[str]:
            return self.words()

    async def model(*_: Any, messages: Any, **__: Any) -> Stream:
        return Stream()

    async def run() -> None:
        chunks = await judge(model, messages=MESSAGES, stream=True, metadata=sources(scenario))
        async for chunk in chunks:
            shown.append(chunk)

    with pytest.raises(InputError, match="AsyncGuard cannot"):
        asyncio.run(run())
    assert shown == []


def test_a_saved_guard_finds_its_guardrail_again(scenario: Scenario) -> None:
    again = Guard.from_dict(guard(scenario).to_dict())
    assert again is not None
    result = again.validate(scenario.made_up, metadata=sources(scenario))
    assert result.validated_output == REFUSALS["flag"]


def test_what_is_missing_is_named(scenario: Scenario) -> None:
    with pytest.raises(ValueError, match="metadata keys: contexts, question"):
        guard(scenario).validate(scenario.faithful)
    validator = CalibrailValidator(scenario.file)
    with pytest.raises(InputError, match="metadata has no 'contexts'; got question"):
        validator.validate("x", {"question": "q"})
    with pytest.raises(InputError, match="response must be a text"):
        validator.validate(3, sources(scenario))


def test_the_page_runs(scenario: Scenario, tmp_path: Path) -> None:
    names = run_page("guardrails-ai", scenario, tmp_path, model=lambda **_: scenario.made_up)
    assert names["result"].validated_output == REFUSALS["flag"]
    assert names["decision"]["outcome"] == "flag"


def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run_example("guardrails_ai", tmp_path, capsys).splitlines()
    assert lines == ["pass: Tungsten has the symbol W.", f"flag: {REFUSALS['flag']}"]


def test_a_guard_fixes_an_answer_by_what_is_left_of_it() -> None:
    fixed = Guard().use(CalibrailValidator(trimming.gate(), on_fail="fix"))
    metadata = {"question": trimming.QUESTION, "contexts": list(trimming.CONTEXTS)}
    said = {
        text: fixed.validate(text, metadata=dict(metadata)).validated_output
        for text in trimming.SHOWN
    }
    assert said[trimming.TRIMMED] == said[trimming.KEPT] == trimming.KEPT
    assert said[trimming.EMPTIED] == REFUSALS["flag"]
