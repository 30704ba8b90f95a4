"""A service with a batch API, of OpenAI's shape or Anthropic's, that counts what is paid for."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.chat_server import ChatServer, Line, RefusedError, key_of

#: What becomes of a question in the n-th batch that asks it: "" an answer, "expired", "cancelled",
#: a parameter that is refused, a refusal in words, or a status.
Outcome = Callable[[dict[str, Any], int], str]


class BatchServer(ChatServer):
    """The service of ``ChatServer`` with batches.

    Parameters
    ----------
    outcome : callable
        See ``Outcome``.
    looks : int
        Times that a batch is not done when it is looked at.
    refuses : tuple of str
        Codes with which the first batches are refused as a whole.
    offers : bool
        Whether there are batches at all.

    Attributes
    ----------
    paid : Counter
        How often each question was answered, by itself or in a batch.
    web : list of str
        Method and path of every request to the batch API.
    batches : dict
        By id: what ``/batches`` shows, and the lines.
    """

    def __init__(
        self,
        *args: Any,
        outcome: Outcome = lambda body, n: "",
        looks: int = 1,
        refuses: tuple[str, ...] = (),
        offers: bool = True,
        **named: Any,
    ) -> None:
        super().__init__(*args, **named)
        self.outcome, self.looks, self.offers = outcome, looks, offers
        self.refuses = list(refuses)
        self.paid: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.web: list[str] = []
        self.keys: set[str] = set()
        self.batches: dict[str, dict[str, Any]] = {}
        self._files: dict[str, bytes] = {}
        self._ids = itertools.count(1)

    def handle(self, line: Line) -> None:
        path = urlsplit(line.path).path
        if path.startswith(("/v1/files", "/v1/batches", "/v1/messages/batches")):
            with self.lock:
                self.web.append(f"{line.command} {path}")
                self.keys.add(line.headers.get("x-api-key") or line.headers["Authorization"])
                if not self.offers:
                    raise RefusedError(404, f"Invalid URL ({line.command} {path})")
                answer = self._batch_api(line, path)
            if isinstance(answer, bytes):
                line.send(200, answer, kind="application/octet-stream")
            else:
                line.send(200, answer)
            return
        super().handle(line)

    def _chat(self, body: dict[str, Any], fault: str | None) -> dict[str, Any]:
        answer = super()._chat(body, fault)
        self.paid[key_of(body)] += 1
        return answer

    def _batch_api(self, line: Line, path: str) -> Any:
        messages = path.startswith("/v1/messages")
        rest = path.removeprefix("/v1/messages" if messages else "/v1").strip("/").split("/")
        if line.command == "POST" and rest == ["files"]:
            name = f"file-{next(self._ids)}"
            boundary = line.headers["Content-Type"].partition("boundary=")[2].encode()
            parts = line.raw.split(b"--" + boundary)
            (self._files[name],) = (
                part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
                for part in parts
                if b"filename=" in part
            )
            return {"id": name, "object": "file", "purpose": "batch"}
        if line.command == "POST":
            return self._shown(self._begun(line.json(), messages), messages)
        if rest[0] == "files":
            return self._files[rest[1]]
        if len(rest) == 1:
            query = parse_qs(urlsplit(line.path).query)
            ids = list(self.batches)[::-1]
            last = query.get("after_id" if messages else "after")
            ids = ids[ids.index(last[0]) + 1 :] if last else ids
            # Pages of two, so that a second one is needed.
            page = [self._shown(self.batches[name], messages) for name in ids[:2]]
            return {"data": page, "has_more": len(ids) > 2}
        if rest[1] not in self.batches:
            raise RefusedError(404, "No such batch.", code="not_found")
        batch = self.batches[rest[1]]
        if rest[-1] == "results":
            return b"".join(batch["done"])
        if batch["left"]:
            batch["left"] -= 1
        elif batch["status"] == "in_progress":
            self._end(batch, messages)
        return self._shown(batch, messages)

    def _begun(self, body: dict[str, Any], messages: bool) -> dict[str, Any]:
        if messages:
            lines = body["requests"]
            assert all(len(item["custom_id"]) <= 64 for item in lines)
        else:
            lines = [json.loads(line) for line in self._files[body["input_file_id"]].splitlines()]
        name = f"batch_{next(self._ids)}"
        self.batches[name] = {
            "id": name,
            "lines": lines,
            "left": self.looks,
            "status": "in_progress",
            "created": time.time(),
            "metadata": body.get("metadata"),
            "file": body.get("input_file_id"),
            "counts": Counter(),
        }
        return self.batches[name]

    def _end(self, batch: dict[str, Any], messages: bool) -> None:
        if self.refuses:
            batch |= {"status": "failed", "code": self.refuses.pop(0)}
            return
        done, failed = list[bytes](), list[bytes]()
        for item in batch["lines"]:
            body = item["params"] if messages else item["body"]
            key = key_of(body)
            what = self.outcome(body, self.asked[key])
            self.asked[key] += 1
            result = (self._message if messages else self._line)(body, what)
            batch["counts"][what if what in ("expired", "cancelled") else bool(what)] += 1
            line = json.dumps({"custom_id": item["custom_id"], **result}).encode() + b"\n"
            (failed if what and not messages else done).append(line)
        batch |= {"status": "completed", "done": done, "output": None, "error": None}
        for name in ("expired", "cancelled"):
            if batch["counts"][name]:
                batch["status"] = name
        # No order is promised.
        for kind, lines in (("output", done), ("error", failed)):
            if lines and not messages:
                batch[kind] = f"file-{next(self._ids)}"
                self._files[batch[kind]] = b"".join(lines[::-1])

    def _line(self, body: dict[str, Any], what: str) -> dict[str, Any]:
        if what in ("expired", "cancelled"):
            return {"response": None, "error": {"code": f"batch_{what}", "message": "Not asked."}}
        if not what:
            answer = {"status_code": 200, "body": self._chat(body, None)}
            return {"response": answer, "error": None}
        status = int(what) if what.isdigit() else 400
        said, named = (what, None) if " " in what else ("Refused.", what)
        error = {"message": said, "param": None if what.isdigit() else named, "code": None}
        return {"response": {"status_code": status, "body": {"error": error}}, "error": None}

    def _message(self, body: dict[str, Any], what: str) -> dict[str, Any]:
        if what in ("expired", "cancelled"):
            return {"result": {"type": what.replace("lled", "led")}}
        if what:
            kind = "overloaded_error" if what.isdigit() else "invalid_request_error"
            error = {"type": kind, "message": f"{what}: not supported on this model"}
            return {"result": {"type": "errored", "error": {"type": "error", "error": error}}}
        answer = self._chat(body, None)
        choice, usage = answer["choices"][0], answer["usage"]
        text, is_cut = choice["message"]["content"], choice["finish_reason"] == "length"
        message = {
            "type": "message",
            "model": answer["model"],
            "content": [{"type": "thinking", "thinking": "No?"}, {"type": "text", "text": text}],
            "stop_reason": "max_tokens" if is_cut else "end_turn",
            "usage": {
                "input_tokens": usage["prompt_tokens"] - 1,
                "cache_read_input_tokens": 1,
                "output_tokens": usage["completion_tokens"],
            },
        }
        return {"result": {"type": "succeeded", "message": message}}

    def _shown(self, batch: dict[str, Any], messages: bool) -> dict[str, Any]:
        counts, ended = batch["counts"], batch["status"] != "in_progress"
        if messages:
            made = datetime.fromtimestamp(batch["created"], UTC).isoformat().replace("+00:00", "Z")
            return {
                "id": batch["id"],
                "created_at": made,
                "processing_status": "ended" if ended else "in_progress",
                "request_counts": {
                    "processing": 0 if ended else len(batch["lines"]),
                    "succeeded": counts[False],
                    "errored": counts[True],
                    "canceled": counts["cancelled"],
                    "expired": counts["expired"],
                },
                # What is elsewhere gets no key.
                "results_url": "http://127.0.0.1:9/elsewhere" if ended else None,
            }
        return {
            "id": batch["id"],
            "created_at": int(batch["created"]),
            "status": batch["status"],
            "input_file_id": batch["file"],
            "output_file_id": batch.get("output"),
            "error_file_id": batch.get("error"),
            "metadata": batch["metadata"],
            "errors": {"data": [{"code": batch["code"]}]} if "code" in batch else None,
            "request_counts": {
                "total": len(batch["lines"]),
                "completed": counts[False],
                "failed": counts[True],
            },
        }
