"""Which small, real files are damaged?"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.data.traces.shapes import ROWS

#: A source: relative path of every file to its bytes. The first one is opened, or its folder
#: where there are several.
Source = Mapping[str, bytes]

N: Final = 40


def _rows() -> list[dict[str, Any]]:
    rng = random.Random(0)
    return [
        {
            "id": f"a{i}",
            "question": f"Who built bridge {i}?",
            "contexts": [f"Bridge {i} was built by Ada.", "It is of stone — “old”."],
            "response": f"Bridge {i} was built by {'Ada' if i % 2 else 'Bob'}.",
            "label": 1 - i % 2,
            "group": f"g{i // 2}",
            "score": round(rng.gauss(1 - i % 2), 3),
            "judge": i % 3 % 2,
            "human": 1 - i % 2 if i % 4 else None,
            "samples": ["Ada built it."],
            "kind": ["old", "new"][i // 3 % 2],
        }
        for i in range(N)
    ]


def _json_lines(rows: list[dict[str, Any]], *, ascii_only: bool = False) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows).encode()


def _delimited(rows: list[dict[str, Any]], delimiter: str = ",") -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    for row in rows:
        cells = {k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()}
        writer.writerow(cells)
    return stream.getvalue().encode()


def parquet_bytes(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=15, **options)
    return sink.getvalue().to_pybytes()


def arrow_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table, max_chunksize=15)
    return sink.getvalue().to_pybytes()


def zstd_bytes(body: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(body)
    return sink.getvalue().to_pybytes()


def _benchmarks(rng: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Return rows in the original layout of every benchmark that is one table."""
    marks = ["accurate", "minor_inaccurate", "major_inaccurate"]
    spots = range(N // 2)
    return {
        "halueval_qa": [
            {
                "knowledge": f"Fact {i}.",
                "question": f"Q{i}?",
                "right_answer": f"right {i}",
                "hallucinated_answer": f"Wrong answer {i}.",
            }
            for i in spots
        ],
        "halueval_general": [
            {
                "ID": str(i),
                "user_query": f"Q{i}?",
                "chatgpt_response": f"A{i}.",
                "hallucination": ["yes", "no"][i % 2],
                "hallucination_spans": [],
            }
            for i in spots
        ],
        "truthfulqa": [
            {
                "Type": "Adversarial",
                "Category": "Myths",
                "Question": f"What is {i}?",
                "Best Answer": f"It is {i}.",
                "Best Incorrect Answer": f"It is {i + 1}.",
                "Incorrect Answers": f"It is {i + 1}.; It is {i + 2}.",
            }
            for i in spots
        ],
        "wikibio": [
            {
                "gpt3_text": f"Person {i} was born in {1900 + i}.",
                "wiki_bio_text": f"Person {i} (born {1901 + i}).",
                "gpt3_text_samples": ["A sample."],
                "annotation": [marks[rng.randrange(3)], "accurate"],
                "wiki_bio_test_idx": i,
            }
            for i in spots
        ],
    }


def _ragtruth() -> dict[str, bytes]:
    tasks = ["QA", "Summary", "Data2txt"]
    infos: list[Any] = [
        {"question": "Q?", "passages": "passage 1:One.\n\npassage 2:Two."},
        "A text.",
        {"name": "Cafe", "stars": 4},
    ]
    sources = [
        {"source_id": str(i), "task_type": tasks[i % 3], "source_info": infos[i % 3]}
        for i in range(12)
    ]
    answers = [
        {
            "id": str(i),
            "source_id": str(i % 12),
            "model": "m",
            "temperature": 0.7,
            "labels": [{"start": 0, "end": 2, "text": "It"}] if i % 2 else [],
            "split": "test",
            "quality": "good",
            "response": f"It says {i}.",
        }
        for i in range(N)
    ]
    return {"response.jsonl": _json_lines(answers), "source_info.jsonl": _json_lines(sources)}


@cache
def sources() -> dict[str, Source]:
    """Return a source of every format, by a name that says which."""
    rows = _rows()
    scores = [{key: row[key] for key in ("id", "label", "score")} for row in rows]
    table, narrow = pa.Table.from_pylist(rows), pa.Table.from_pylist(scores)
    state = json.dumps({"_data_files": [{"filename": "data.arrow"}]}).encode()
    made: dict[str, Source] = {
        "jsonl": {"rows.jsonl": _json_lines(rows)},
        "jsonl_ascii": {"rows.jsonl": _json_lines(rows, ascii_only=True)},
        "array": {"rows.json": json.dumps(rows).encode()},
        "csv": {"rows.csv": _delimited(rows)},
        "csv_scores": {"rows.csv": _delimited(scores)},
        "tsv": {"rows.tsv": _delimited(rows, "\t")},
        "parquet": {"rows.parquet": parquet_bytes(table)},
        "parquet_plain": {
            "rows.parquet": parquet_bytes(table, compression="none", use_dictionary=False)
        },
        "parquet_scores": {"rows.parquet": parquet_bytes(narrow, compression="zstd")},
        "saved": {"data.arrow": arrow_bytes(table), "state.json": state},
        "saved_splits": {
            "test/data.arrow": arrow_bytes(table),
            "test/state.json": state,
            "dataset_dict.json": b'{"splits": ["test"]}',
        },
        "ragtruth": _ragtruth(),
        "wrapped": {"rows.json": json.dumps({"about": [1], "examples": rows}).encode()},
        "jsonl_gz": {"rows.jsonl.gz": gzip.compress(_json_lines(rows), mtime=0)},
        "csv_gz": {"rows.csv.gz": gzip.compress(_delimited(rows), mtime=0)},
        "jsonl_zst": {"rows.jsonl.zst": zstd_bytes(_json_lines(rows))},
        "folder": {"a.csv": _delimited(rows[:20]), "b.csv": _delimited(rows[20:])},
        "folder_parquet": {
            "a.parquet": parquet_bytes(table[:20]),
            "b.parquet": parquet_bytes(table[20:]),
        },
        "nested": {
            "rows.jsonl": _json_lines(
                [
                    {
                        "meta": {"label": ["bad", "good"][i % 2]},
                        "question": f"Q{i}?",
                        "passage": {"text": [f"S{i}.", "T."], "title": "T"},
                        "answer": f"A{i}.",
                    }
                    for i in range(N)
                ]
            )
        },
        "several": {
            "rows.jsonl": _json_lines(
                [
                    {
                        "question": f"Q{i}?",
                        "contexts": [["0a", "One."], ["0b", "Two."]],
                        "response": [f"A{i}.", f"B{i}."],
                        "label": [0, 1],
                    }
                    for i in range(N)
                ]
            )
        },
    }
    for name, content in _benchmarks(random.Random(0)).items():
        made[name] = {"rows.jsonl": _json_lines(content)}
        made[f"{name}_parquet"] = {"rows.parquet": parquet_bytes(pa.Table.from_pylist(content))}
    for name, rows in ROWS.items():
        made[name] = {"rows.json": json.dumps(rows if len(rows) > 1 else rows[0]).encode()}
    made["spans_lines"] = {"rows.jsonl": _json_lines(ROWS["spans_sdk"])}
    made["langfuse_csv"] = {"rows.csv": _delimited(ROWS["langfuse"])}
    made["truthfulqa_csv"] = {"rows.csv": _delimited(_benchmarks(random.Random(0))["truthfulqa"])}
    return made
