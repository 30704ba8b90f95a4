"""The same models by torch, onnxruntime and OpenVINO: equal but for rounding."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrail.errors import InputError, ModelError
from calibrail.models import hardware, networks
from calibrail.models.classifiers import EntailmentModel
from calibrail.models.embeddings import LocalEncoder, load_encoder
from calibrail.models.hardware import TOLERANCES, Runtime, n_threads
from calibrail.scores.grounding import Reranker
from tests.installed import need
from tests.models.conftest import make_encoder
from tests.tiny_models import CLASSIFIERS, make_classifier, make_hhem, make_minicheck

need("onnxruntime")
need("onnx")
need("openvino")

TEXTS = [
    "The Rhine flows from the Alps to the North Sea.",
    "Paris.",
    "",
    "The bridge over the river was opened in 1932, and the tower beside it is older by far. " * 4,
    "Ein Satz in einer anderen Sprache; \u6771\u4eac\u306f\u65e5\u672c.",
    # Beyond the 256 tokens that the encoder reads: several windows for its words.
    "The museum is closed on Mondays, and its garden is open at noon. " * 40,
]
PAIRS = [
    ("the river rhine flows from the alps", "the river flows"),
    ("the old bridge is closed. " * 30, "the tower is open on monday"),
    ("snow", "the train leaves at noon and the ship sails north"),
    ("the museum is not closed", "the museum is closed"),
]


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


class TestEncoder:
    @pytest.mark.parametrize("backend", ["onnx", "openvino"])
    def test_float32_gives_the_vectors_of_torch(self, backend: str) -> None:
        ours, torch = load_encoder(backend=backend), load_encoder()
        assert np.abs(ours.sentences(TEXTS) - torch.sentences(TEXTS)).max() < 1e-5
        for text in TEXTS:
            assert ours.words(text).shape == torch.words(text).shape
            assert np.abs(ours.words(text) - torch.words(text)).max(initial=0.0) < 1e-5
        assert ours.cut(TEXTS) == torch.cut(TEXTS)

    def test_a_graph_that_differs_by_more_than_scores_tolerate_is_refused(
        self, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert TOLERANCES["float32"] >= networks.AGREEMENT

        trace = networks._trace

        def nearly(model: networks.Exportable, path: Path) -> None:
            import onnx

            trace(model, path)
            graph = onnx.load_model(str(path))
            for item in graph.graph.initializer:
                values = onnx.numpy_helper.to_array(item)
                if values.dtype == np.float32 and values.size > 100:
                    near = values * np.float32(1.0003)
                    item.CopyFrom(onnx.numpy_helper.from_array(near, item.name))
            onnx.save_model(graph, str(path))

        monkeypatch.setattr(networks, "_trace", nearly)
        with pytest.raises(ModelError, match="gives other values than torch"):
            LocalEncoder(str(tiny), None, "", "float32", "onnx").sentences(["river"])


class TestPairs:
    @pytest.mark.parametrize("backend", ["onnx", "openvino"])
    @pytest.mark.parametrize("kind", CLASSIFIERS)
    def test_a_classifier_says_the_same(self, tmp_path: Path, kind: str, backend: str) -> None:
        folder = str(make_classifier(tmp_path / kind, kind))
        expected = np.array([best[0] for best in EntailmentModel(folder).judge(PAIRS)])
        found = EntailmentModel(folder, backend=backend).judge(PAIRS)
        assert np.abs(np.array([best[0] for best in found]) - expected).max() < 1e-5
        assert np.ptp(expected) > 1e-3

    @pytest.mark.parametrize("backend", ["onnx", "openvino"])
    @pytest.mark.parametrize("make", [make_hhem, make_minicheck])
    def test_models_of_factual_consistency_say_the_same(
        self, tmp_path: Path, make: Any, backend: str
    ) -> None:
        folder = str(make(tmp_path / "model"))
        expected = np.array([best[0] for best in EntailmentModel(folder).judge(PAIRS)])
        found = EntailmentModel(folder, backend=backend).judge(PAIRS)
        assert np.abs(np.array([best[0] for best in found]) - expected).max() < 1e-5

    @pytest.mark.parametrize("backend", ["onnx", "openvino"])
    def test_a_reranker_gives_the_same_logits(self, tmp_path: Path, backend: str) -> None:
        folder = str(make_classifier(tmp_path / "ranker", "xlm-roberta", ["relevance"]))
        expected = Reranker(folder).relevance(PAIRS)
        assert np.abs(Reranker(folder, backend=backend).relevance(PAIRS) - expected).max() < 1e-4


class TestRuntime:
    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"backend": "tensorrt"}, "backend must be one of torch, onnx, openvino"),
            ({"backend": 1}, "backend must be one of torch"),
            ({"dtype": "int8"}, "no longer offered.*use backend=onnx .* calibrate .* export a new"),
            ({"backend": "onnx", "dtype": "int8"}, "dtype=int8 is no longer offered"),
            (
                {"backend": "onnx", "dtype": "bfloat16"},
                "float32 with backend=onnx; got 'bfloat16'; bfloat16 needs backend=torch",
            ),
            ({"device": "tpu"}, "device must be one of cpu, cuda, mps with backend=torch"),
            ({"backend": "openvino", "device": "cuda"}, "one of cpu with backend=openvino"),
        ],
    )
    def test_what_is_not_offered_names_what_is(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            Runtime(**wrong)

    def test_each_is_pinned_as_a_model_of_its_own(self) -> None:
        kinds: list[dict[str, Any]] = [
            *({"dtype": dtype} for dtype in ("float32", "bfloat16", "float16")),
            *({"backend": "onnx"}, {"backend": "openvino"}),
            *({"device": "cpu"}, {"backend": "onnx", "device": "cpu"}),
        ]
        pinned = [json.dumps(load_encoder(**kind).fingerprint(), sort_keys=True) for kind in kinds]
        assert len(set(pinned)) == len(kinds)

    def test_the_default_is_pinned_as_it_was_before_there_were_backends(self) -> None:
        assert set(load_encoder().fingerprint()) == {
            *("model", "revision", "weights_sha256", "settings_sha256", "dtype", "max_length"),
            *("prompt", "windowing", "words"),
        }

    @pytest.mark.parametrize(
        ("backend", "extra"), [("onnx", r"models,onnx\]"), ("openvino", r"models,openvino\]")]
    )
    def test_a_missing_library_is_named_with_its_extra(
        self, monkeypatch: pytest.MonkeyPatch, backend: str, extra: str
    ) -> None:
        monkeypatch.setattr(hardware, "find_spec", lambda name: None)
        with pytest.raises(ModelError, match=extra):
            load_encoder(backend=backend).fingerprint()
        assert load_encoder().fingerprint()

    def test_a_device_that_is_not_there_is_an_error(self, tiny: Path) -> None:
        import torch

        if torch.cuda.is_available():
            pytest.skip("this machine has one")
        for backend in ("torch", "onnx"):
            encoder = LocalEncoder(str(tiny), None, "", "float32", backend, "cuda")
            with pytest.raises(ModelError, match=r"device=cuda is not there.*leave device out"):
                encoder.sentences(["river"])

    def test_threads_are_those_of_the_environment_else_the_cores_of_this_process(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
        assert n_threads() == 3
        for unset in ("", "0", "many"):
            monkeypatch.setenv("OMP_NUM_THREADS", unset)
            assert n_threads() == len(os.sched_getaffinity(0))


class TestCache:
    @pytest.fixture
    def empty(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
        return tmp_path / "home" / "calibrail" / "graphs"

    def test_a_model_is_exported_once(
        self, empty: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = LocalEncoder(str(tiny), None, "", "float32", "onnx").sentences(["river"])
        (entry,) = empty.iterdir()
        assert networks.is_whole(entry)
        monkeypatch.setattr(LocalEncoder, "_open_transformer", _never)
        again = LocalEncoder(str(tiny), None, "", "float32", "onnx").sentences(["river"])
        assert np.array_equal(first, again)

    @pytest.mark.parametrize("damage", ["model.onnx", "tokenizer/tokenizer.json", "manifest.json"])
    def test_a_damaged_entry_is_made_anew(self, empty: Path, tiny: Path, damage: str) -> None:
        first = LocalEncoder(str(tiny), None, "", "float32", "onnx").sentences(["river"])
        (entry,) = empty.iterdir()
        raw = (entry / damage).read_bytes()
        (entry / damage).write_bytes(raw[: len(raw) // 2])
        again = LocalEncoder(str(tiny), None, "", "float32", "onnx").sentences(["river"])
        assert np.array_equal(first, again)
        assert list(empty.iterdir()) == [entry] and networks.is_whole(entry)

    def test_of_two_that_make_one_entry_the_first_stays(self, empty: Path) -> None:
        def make(folder: Path) -> None:
            (folder / "model.onnx").write_bytes(b"ours")
            if not (empty / networks.entry_key({"of": 1})).exists():
                networks.kept({"of": 1}, lambda other: _write(other / "model.onnx", b"theirs"))

        entry = networks.kept({"of": 1}, make)
        assert (entry / "model.onnx").read_bytes() == b"theirs"
        assert list(empty.iterdir()) == [entry]

    def test_a_folder_that_cannot_be_written_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Path
    ) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        with pytest.raises(ModelError, match="set XDG_CACHE_HOME to a folder that can"):
            LocalEncoder(str(tiny), None, "", "float32", "onnx").sentences(["river"])


@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_a_forked_process_computes_the_same(tiny: Path, backend: str) -> None:
    encoder = LocalEncoder(str(tiny), None, "", "float32", backend)
    expected = encoder.sentences(["river", "snow in the mountain"])
    encoder.forget()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(
        target=lambda: queue.put(encoder.sentences(["river", "snow in the mountain"]))
    )
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert np.abs(queue.get() - expected).max() < 1e-6


def test_onnxruntime_reports_to_nobody(tiny: Path, tmp_path: Path) -> None:
    code = (
        "from calibrail.models.embeddings import load_encoder\n"
        f"load_encoder({str(tiny)!r}, backend='onnx').sentences(['river'])"
    )
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", _SWITCH)}
    environment = kept | {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    # It notes a number of the device before it sends anything.
    assert [path.name for path in tmp_path.iterdir()] == ["calibrail"]


_SWITCH = "ORT_DISABLE_TELEMETRY"


def _never(*_: object, **__: object) -> None:
    raise AssertionError("torch is asked again")


def _write(path: Path, raw: bytes) -> None:
    path.write_bytes(raw)
