"""A tiny chat model, served by ``transformers serve`` and by a server that gives log-probabilities.

The fixtures here stand in ``conftest``, so that all modules share one model and one server of each
kind.
"""

from __future__ import annotations

import copy
import http.client
import importlib.util
import itertools
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.chat_server import (
    FAITHFUL,
    HALLUCINATION,
    Line,
    LocalServer,
    RefusedError,
    completion,
    token_entry,
    wanted_alternatives,
)
from tests.ports import free_port
from tests.tiny_models import WORDS

CONTEXT = 4096
#: Tokens of an answer unless the request says otherwise.
ANSWER = 32
SIGNS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_ENGLISH = [
    "you",
    "are",
    "judge",
    "answer",
    "context",
    "question",
    "sentence",
    "claim",
    "source",
    "whether",
    "supported",
    "by",
    "or",
    "with",
    "one",
    "word",
    "that",
    "to",
    "this",
    "given",
    "user",
    "system",
    "assistant",
    "document",
    "does",
    "it",
    "for",
    "an",
    "be",
    "text",
]
#: What a request may state beside the messages; a value of None is always welcome.
_HONOURED = {
    "model",
    "messages",
    "n",
    "seed",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "logprobs",
    "top_logprobs",
    "user",
    "metadata",
}

#: The command line of transformers, for where accelerate is missing: to name a device, be it the
#: one where models are loaded anyway, needs it, and ``serve`` always names one.
_WITHOUT_ACCELERATE = """
from transformers.cli.serving.model_manager import ModelManager
from transformers.cli.transformers import main

load = ModelManager._load_model

def load_anywhere(self, *args, **settings):
    self.device = None
    return load(self, *args, **settings)

ModelManager._load_model = load_anywhere
main()
"""


def make_chat_tokenizer() -> Any:
    """Return a byte-level tokenizer with a chat template; each verdict is two tokens to it."""
    import transformers
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    vocabulary = {letter: index for index, letter in enumerate(bytes_to_unicode().values())}
    merges: dict[tuple[str, str], None] = {}
    # The verdicts come first, so that no other merge takes their letters.
    words = [*HALLUCINATION, *FAITHFUL, *_ENGLISH, *WORDS]
    for word in words:
        merges |= {(word[:end], word[end]): None for end in range(1, len(word))}
    merges |= {("\u0120", word): None for word in words}
    for pair in merges:
        vocabulary.setdefault("".join(pair), len(vocabulary))
    for sign in SIGNS:
        vocabulary[sign] = len(vocabulary)
    tokenizer = transformers.Qwen2Tokenizer(
        vocab=vocabulary,
        merges=list(merges),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token=None,
        additional_special_tokens=["<|im_start|>"],
        model_max_length=CONTEXT,
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def make_chat_decoder(folder: Path, *, seed: int = 0, sharpness: float = 4.0) -> Path:
    """Save a Llama of three layers that answers a chat with "hallucination" or "faithful".

    The layers are random and steep: a prompt that differs in a word leaves another state at the
    last token. The embeddings of the five tokens after which the next is settled are long and
    mutually orthogonal, so that each outweighs what the layers add to it, and the output head reads
    them: after the newline that opens the assistant's turn come "hall" and "faith" alike, then
    "ucination" or "ful", then the end. Between "hall" and "faith" decides one more direction, which
    only the layers write on, as they make it of the prompt; half of chats of random words get each
    verdict.

    Parameters
    ----------
    folder : Path
        Where to.
    seed : int
        Of the weights.
    sharpness : float
        Scale of the log-odds of the two verdicts over prompts.
    """
    import torch
    import transformers

    tokenizer = make_chat_tokenizer()
    size = 32
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=size,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = transformers.LlamaForCausalLM(config)
    newline, end = tokenizer.convert_tokens_to_ids(["\u010a", "<|im_end|>"])
    first_hall, last_hall = tokenizer.convert_tokens_to_ids(list(HALLUCINATION))
    first_faith, last_faith = tokenizer.convert_tokens_to_ids(list(FAITHFUL))
    follows = [
        (newline, (first_hall, first_faith)),
        (first_hall, (last_hall,)),
        (first_faith, (last_faith,)),
        (last_hall, (end,)),
        (last_faith, (end,)),
    ]
    *directions, doubt = torch.linalg.qr(torch.randn(size, len(follows) + 1))[0].T
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "layers" in name and weights.ndim > 1:
                weights.normal_(std=1.5 if "q_proj" in name or "k_proj" in name else 0.35)
        inputs, outputs = model.model.embed_tokens.weight, model.lm_head.weight
        inputs.normal_(std=1.0)
        inputs -= torch.outer(inputs @ doubt, doubt)
        outputs.normal_(std=0.15)
        outputs[[token for _, tokens in follows for token in tokens]] = 0.0
        for (token, next_tokens), direction in zip(follows, directions, strict=True):
            inputs[token] = 90.0 * direction
            for following in next_tokens:
                outputs[following] += 3.0 * direction
        outputs[first_hall] += sharpness * doubt
        outputs[first_faith] -= sharpness * doubt
        # The state after a prompt's last newline is nearly constant along its own direction.
        draw, states, odds = random.Random(seed), [], []
        for _ in range(64):
            chat = [
                {"role": "user", "content": " ".join(draw.choices(WORDS, k=draw.randint(5, 60)))}
            ]
            encoded = tokenizer.apply_chat_template(
                chat, add_generation_prompt=True, return_dict=True, return_tensors="pt"
            )
            state = model.model(**encoded).last_hidden_state[0, -1]
            states.append(state @ directions[0])
            odds.append((outputs[first_hall] - outputs[first_faith]) @ state)
        excess = torch.stack(odds).median() / torch.stack(states).median()
        outputs[first_hall] -= excess / 2 * directions[0]
        outputs[first_faith] += excess / 2 * directions[0]
    # As published chat models have it; without, ``transformers serve`` ignores the temperature.
    model.generation_config = transformers.GenerationConfig(
        do_sample=True, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class TransformersServe:
    """``transformers serve`` of one model as a process of its own, open within a ``with``.

    ``url`` ends in /v1; ``model`` is the only name that it answers to; ``log`` is its output.
    It gives no log-probabilities: fields that it does not know how to honour, it ignores.
    """

    def __init__(self, folder: Path, *, patience: float = 120.0) -> None:
        self.model = str(folder)
        self.patience = patience

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text(errors="replace")

    def __enter__(self) -> Self:
        for package in ("fastapi", "uvicorn"):
            if importlib.util.find_spec(package) is None:
                pytest.skip(f"transformers serve needs {package}, which is not installed")
        self._log = tempfile.NamedTemporaryFile(suffix=".log")
        self._port = free_port()
        quiet = {
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "DO_NOT_TRACK": "1",
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        script: tuple[object, ...] = (Path(sys.executable).with_name("transformers"),)
        if importlib.util.find_spec("accelerate") is None:
            script = ("-c", _WITHOUT_ACCELERATE)
        self._process = subprocess.Popen(
            [
                *(str(part) for part in (sys.executable, *script, "serve", self.model)),
                *("--host", "127.0.0.1", "--port", str(self._port), "--device", "cpu"),
            ],
            env={**os.environ, **quiet},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            self._await_health()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def _await_health(self) -> None:
        until = time.monotonic() + self.patience
        while time.monotonic() < until:
            if (code := self._process.poll()) is not None:
                raise RuntimeError(f"transformers serve ended with {code}:\n{self.log[-3000:]}")
            if self._is_healthy():
                return
            time.sleep(0.1)
        raise RuntimeError(
            f"transformers serve was not up after {self.patience:g} s:\n{self.log[-3000:]}"
        )

    def _is_healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def _end(self) -> None:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, sign)
                self._process.wait(timeout=5)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        self._log.close()


class LogprobServer(LocalServer):
    """A chat model run in this process, whose log-probabilities are those of its softmax.

    They are of the model as it is, whatever the temperature, and listed for every token of an
    answer but the end. Temperature 0 takes the likeliest token; otherwise tokens are drawn from
    what the seed starts, one choice after another (default temperature: 1). Usage counts tokens,
    the end of an answer among them. A field that it does not honour is refused with 400.

    Attributes
    ----------
    bodies : list of dict
        Requests in order of arrival.
    """

    def __init__(self, folder: Path) -> None:
        import transformers
        from transformers.convert_slow_tokenizer import bytes_to_unicode

        super().__init__()
        self.name = folder.name
        self.bodies: list[dict[str, Any]] = []
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
        self._bytes = {letter: byte for byte, letter in bytes_to_unicode().items()}
        self._running = threading.Lock()
        self._numbers = itertools.count(1)

    def handle(self, line: Line) -> None:
        path = line.path.partition("?")[0]
        if (line.command, path) == ("GET", "/v1/models"):
            model = {"id": self.name, "object": "model", "created": 0, "owned_by": "tests"}
            line.send(200, {"object": "list", "data": [model]})
            return
        if (line.command, path) != ("POST", "/v1/chat/completions"):
            raise RefusedError(404, f"Invalid URL ({line.command} {path})")
        body = line.json()
        with self.lock:
            self.bodies.append(body)
        line.send(200, self._complete(body))

    def prompt(self, messages: list[dict[str, Any]]) -> Any:
        """Return the tokens of a chat up to where the answer begins: shape (1, n)."""
        encoded = self.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=True, return_tensors="pt"
        )
        return encoded["input_ids"]

    def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        import torch

        for name, value in body.items():
            if value is not None and name not in _HONOURED:
                raise RefusedError(
                    400,
                    f"Unsupported parameter: '{name}' is not supported with this model.",
                    param=name,
                    code="unsupported_parameter",
                )
        if not isinstance(body.get("messages"), list) or not body["messages"]:
            raise RefusedError(400, "Missing required parameter: 'messages'.", param="messages")
        alternatives = wanted_alternatives(body)
        prompt = self.prompt(body["messages"])
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or ANSWER
        room = self.model.config.max_position_embeddings
        if prompt.shape[1] + limit > room:
            raise RefusedError(
                400,
                f"This model's maximum context length is {room} tokens. However, you requested "
                f"{prompt.shape[1]} and {limit} for the answer.",
                param="messages",
                code="context_length_exceeded",
            )
        stated = body.get("temperature")
        seed = body.get("seed")
        draws = torch.Generator().manual_seed(secrets.randbits(63) if seed is None else seed)
        temperature = 1.0 if stated is None else stated
        with self._running, torch.inference_mode():
            start = self.model(input_ids=prompt, use_cache=True)
            said = [self._say(start, limit, temperature, draws) for _ in range(body.get("n") or 1)]
        choices = [
            self._choice(index, tokens, rows, alternatives)
            for index, (tokens, rows) in enumerate(said)
        ]
        spent = sum(len(tokens) for tokens, _ in said)
        name = f"chatcmpl-{next(self._numbers)}"
        return completion(name, body.get("model", self.name), choices, prompt.shape[1], spent)

    def _say(
        self, start: Any, limit: int, temperature: float, draws: Any
    ) -> tuple[list[int], list[Any]]:
        """Return what is said after the prompt's pass, and the log-probabilities at each token."""
        import torch

        tokens: list[int] = []
        rows: list[Any] = []
        memory, logits = copy.deepcopy(start.past_key_values), start.logits[0, -1].double()
        while True:
            rows.append(logits.log_softmax(-1))
            if temperature:
                mass = (logits / temperature).softmax(-1)
                tokens.append(int(torch.multinomial(mass, 1, generator=draws)))
            else:
                tokens.append(int(logits.argmax()))
            if tokens[-1] == self.tokenizer.eos_token_id or len(tokens) == limit:
                break
            output = self.model(input_ids=torch.tensor([tokens[-1:]]), past_key_values=memory)
            memory, logits = output.past_key_values, output.logits[0, -1].double()
        return tokens, rows

    def _choice(
        self, index: int, tokens: list[int], rows: list[Any], alternatives: int | None
    ) -> dict[str, Any]:
        ended = tokens[-1] == self.tokenizer.eos_token_id
        tokens = tokens[:-1] if ended else tokens
        logprobs: dict[str, Any] | None = None
        if alternatives is not None:
            said = zip(tokens, rows, strict=False)
            entries = [self._entry(token, row, alternatives) for token, row in said]
            logprobs = {"content": entries, "refusal": None}
        content = self.tokenizer.decode(tokens)
        return {
            "index": index,
            "message": {"role": "assistant", "content": content, "refusal": None},
            "logprobs": logprobs,
            "finish_reason": "stop" if ended else "length",
        }

    def _entry(self, token: int, row: Any, alternatives: int) -> dict[str, Any]:
        best = row.topk(alternatives)
        ranked = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        top = [self._token(*one) for one in ranked]
        return {**self._token(token, row[token].item()), "top_logprobs": top}

    def _token(self, token: int, logprob: float) -> dict[str, Any]:
        letters = self.tokenizer.convert_ids_to_tokens(token)
        if token in self.tokenizer.all_special_ids:
            return token_entry(letters, logprob, letters.encode())
        raw = bytes(self._bytes[letter] for letter in letters)
        return token_entry(raw.decode(errors="replace"), logprob, raw)


@pytest.fixture(scope="session")
def chat_decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny chat model; tests that need it skip where the extra is absent."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    return make_chat_decoder(tmp_path_factory.mktemp("models") / "chat-decoder")


@pytest.fixture(scope="session")
def transformers_serve(chat_decoder: Path) -> Iterator[TransformersServe]:
    """The tiny chat model behind ``transformers serve``."""
    with TransformersServe(chat_decoder) as server:
        yield server


@pytest.fixture(scope="session")
def logprob_server(chat_decoder: Path) -> Iterator[LogprobServer]:
    """The tiny chat model behind a server that gives log-probabilities."""
    with LogprobServer(chat_decoder) as server:
        yield server
