"""How does a guardrail decide about shards, wherever the engine in use computes?"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import pyarrow as pa

from calibrail.data.arrow import string_array
from calibrail.data.example import Example
from calibrail.engine.current import engine, say_once
from calibrail.engine.examples import byte_array, digests, text_of, to_examples, to_table
from calibrail.engine.run import ShardRun, opened_store
from calibrail.engine.score_task import versions_of
from calibrail.engine.store import digest_of, read_result
from calibrail.engine.task import Job, told
from calibrail.errors import DataError
from calibrail.guardrail.frozen import FrozenConfig
from calibrail.guardrail.runtime import Guardrail
from calibrail.workflow.context import Progress

_FAILED: Final = b"failed"


@dataclass(frozen=True, slots=True)
class CheckTask:
    """Decides about a shard.

    Parameters
    ----------
    guardrail : bytes
        Content of its file.
    evidence : bool
        Whether each line holds what its decision rests on.
    versions : str
        JSON; what computes the score where the work was begun.
    """

    guardrail: bytes
    evidence: bool
    versions: str

    @property
    def key(self) -> str:
        """32 hexadecimal digits that tell this guardrail, and these libraries, from others."""
        how = json.dumps([self.evidence, self.versions])
        return digest_of([self.guardrail, how.encode()])[:32]

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return ``outcome`` (``Decision.result``) and ``line`` of ``decisions.jsonl``, a row."""
        guardrail, tell = opened_guardrail(self.guardrail), told.get()
        for model in getattr(guardrail.score, "models", ()):
            model.forget()
        examples = to_examples(table)
        outcomes, lines, n_failed = [], [], 0
        for decision in guardrail.stream(iter(examples), alone=self.evidence):
            outcomes.append(decision.result)
            lines.append(decision.line(evidence=self.evidence))
            n_failed += decision.failed
            if tell is not None:
                tell(len(lines) / len(examples))
        columns = {"outcome": string_array(outcomes), "line": byte_array(lines)}
        return pa.table(columns).replace_schema_metadata({_FAILED: str(n_failed).encode()})


@lru_cache(maxsize=2)
def opened_guardrail(raw: bytes) -> Guardrail:
    """Return the guardrail of a file's content, the same one for the same content."""
    return Guardrail(FrozenConfig.from_bytes(raw, source="a guardrail of another process"))


def decided_lines(
    guardrail: Guardrail,
    examples: Iterator[Example],
    *,
    evidence: bool = False,
    progress: Progress | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield ``Decision.result`` and the line of every example, by the engine in use.

    A guardrail that asks endpoints asks them from here, whatever the engine: one budget and one
    limit to the calls at a time hold for all answers.
    """
    options = engine()
    if not options.apart or guardrail.endpoints:
        if options.apart:
            say_once("this guardrail asks an endpoint from this process; no shard is kept of it")
        for done, decision in enumerate(guardrail.stream(examples, alone=evidence), start=1):
            yield decision.result, decision.line(evidence=evidence)
            if progress is not None:
                progress(done)
        return
    raw = guardrail.config.to_bytes()
    versions = json.dumps(versions_of(guardrail.score), sort_keys=True)
    task = CheckTask(raw, evidence, versions)
    with opened_store(options) as store:
        run = ShardRun(store, options, {"guardrail": digest_of([raw])}, progress)

        def jobs() -> Iterator[Job]:
            for number, shard, batch in run.cut(examples):
                rows = to_table(batch)
                shard.digest = digests(rows)[1]
                result = store.result(shard.digest, task.key)
                shard.results.append(result)
                shard.waiting = int(not _decided(result, shard.n))
                if not shard.waiting:
                    run.finished(shard)
                    continue
                path = store.put_input(f"{number}-{shard.digest}", rows)
                yield Job(number, task, path, result, shard.n)

        run.run(jobs())
        for shard in run.shards:
            if (table := read_result(shard.results[0])) is None:
                raise DataError(
                    f"{shard.results[0]} was damaged or removed while this ran; run the same "
                    "command again"
                )
            lines = map(text_of, table["line"].to_pylist())
            yield from zip(table["outcome"].to_pylist(), lines, strict=True)


def _decided(result: Path, n: int) -> bool:
    """Return whether a shard is decided; what failed in it is tried again."""
    table = read_result(result)
    if table is not None and table.num_rows == n and table.schema.metadata[_FAILED] == b"0":
        return True
    result.unlink(missing_ok=True)
    return False
