"""How is RAGTruth read from its two files?

Niu et al., "RAGTruth: A Hallucination Corpus for Developing Trustworthy Retrieval-Augmented
Language Models", 2024. ``response.jsonl`` holds the answers with the spans that humans marked;
``source_info.jsonl`` holds what the models were given. A response is hallucinated when it has any
span. All responses to one source share a group.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from calibrail.data.example import FAITHFUL, HALLUCINATED
from calibrail.data.jsonl import json_rows
from calibrail.data.rows import Filtered, ParsedItem, Problem, Row, shorten
from calibrail.errors import DataError

#: Fields that tell a file of RAGTruth: of its responses, and of its sources.
RAGTRUTH_FIELDS: Final = (
    frozenset({"source_id", "labels", "model", "response"}),
    frozenset({"source_id", "source_info", "task_type"}),
)

_RESPONSES: Final = "response.jsonl"
_SOURCES: Final = "source_info.jsonl"
#: The two files.
RAGTRUTH_FILES: Final = (_SOURCES, _RESPONSES)
_PASSAGE: Final = re.compile(r"(?:\A|\n)\s*passage \d+:", re.IGNORECASE)


def ragtruth_files(path: Path) -> tuple[Path, Path]:
    """Return (sources, responses), given their folder or either of the two files.

    Raises
    ------
    DataError
        One of the two is not there.
    """
    folder = path if path.is_dir() else path.parent
    files = (folder / _SOURCES, folder / _RESPONSES)
    for file in files:
        if not file.is_file():
            raise DataError(f"RAGTruth is read from {_SOURCES} and {_RESPONSES}; {file} is missing")
    return files


def ragtruth_rows(path: Path, task: object = None, split: object = None) -> Iterator[ParsedItem]:
    """Yield one row a response, joined with its source.

    Parameters
    ----------
    path : Path
        The folder, or either of its files.
    task, split : str or None
        ``QA``, ``Summary`` or ``Data2txt``, and ``train`` or ``test``: only those responses.

    Notes
    -----
    The sources are held in memory (about 3,000 texts in the full corpus). Columns that can be
    kept: ``task``, ``model``, ``temperature``, ``split``, ``quality``. Every span counts, those
    with ``implicit_true`` (true, and not in the source) and ``due_to_null`` (a misread empty value)
    among them: neither is supported by the source, and the corpus calls such answers hallucinated.
    """
    sources_file, responses_file = ragtruth_files(path)
    sources: dict[str, Mapping[str, object]] = {}
    for item in json_rows(sources_file):
        if isinstance(item, Problem):
            yield Problem(item.row, "source_info", item.reason, item.value, f"in {_SOURCES}")
        elif item.values.get("source_id") is None or item.values.get("source_info") is None:
            yield Problem(item.number, "source_info", "missing", "", f"in {_SOURCES}")
        else:
            sources[str(item.values["source_id"])] = item.values
    for item in json_rows(responses_file):
        if isinstance(item, Problem):
            yield item
            continue
        source = sources.get(str(item.values.get("source_id")))
        if source is None:
            value = shorten(item.values.get("source_id"))
            remedy = f"take both of the benchmark's files; {_SOURCES} has no such source_id"
            yield Problem(item.number, "source_id", "no such source", value, "", remedy)
        elif task is not None and source.get("task_type") != task:
            yield Filtered(item.number, f"task is not {task}")
        elif split is not None and item.values.get("split") != split:
            yield Filtered(item.number, f"split is not {split}")
        else:
            yield _joined(item, source)


def split_passages(text: str) -> list[str]:
    r"""Return the chunks of a ``passages`` text, cut at every line that starts ``passage N:``.

    >>> split_passages("passage 1:First.\n\npassage 2:Second, see passage 1: above.")
    ['First.', 'Second, see passage 1: above.']
    """
    return [chunk.strip() for chunk in _PASSAGE.split(text) if chunk.strip()]


def _joined(row: Row, source: Mapping[str, object]) -> Row | Problem:
    spans = row.values.get("labels")
    if not isinstance(spans, list):
        reason = "missing" if spans is None else "wrong type"
        remedy = "labels must be a list of the spans that humans marked, empty where there is none"
        return Problem(row.number, "label", reason, shorten(spans), "", remedy)
    info, question = source.get("source_info"), None
    # Passages of question answering; the other tasks have a text, or JSON.
    contexts = info
    if isinstance(info, dict) and "passages" in info:
        passages, question = info["passages"], info.get("question")
        contexts = split_passages(passages) if isinstance(passages, str) else passages
    elif isinstance(info, dict):
        contexts = json.dumps(info, ensure_ascii=False)
    values = {
        "contexts": contexts,
        "response": row.values.get("response"),
        "label": HALLUCINATED if spans else FAITHFUL,
        "group": row.values.get("source_id"),
        "id": row.values.get("id"),
        "task": source.get("task_type"),
        **{name: row.values.get(name) for name in ("model", "temperature", "split", "quality")},
        "spans": spans,
    }
    if question is not None:
        values["question"] = question
    return Row(row.number, values)
