"""Does anything that calibrail loads ask for an address outside of this machine?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import calibrail.integrations

#: Takes note of every address that a process, or one that it starts, asks for, and refuses it.
RECORDER = """
import os, socket

LOCAL = {None, "", "127.0.0.1", "::1", "0.0.0.0", "localhost", socket.gethostname()}
resolve, connect = socket.getaddrinfo, socket.socket.connect
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
    try:
        # Sends nothing: it tells this machine's own address in its network.
        own.connect(("192.0.2.1", 9))
        LOCAL.add(own.getsockname()[0])
    except OSError:
        pass

def noted(host):
    if (host.decode() if isinstance(host, bytes) else host) not in LOCAL:
        with open(os.environ["ASKED_FOR"], "a") as file:
            file.write(f"{host}\\n")
        raise socket.gaierror("refused by the test")

def recording_resolve(host, *rest, **more):
    noted(host)
    return resolve(host, *rest, **more)

def recording_connect(self, address):
    if isinstance(address, tuple):
        noted(address[0])
    return connect(self, address)

socket.getaddrinfo, socket.socket.connect = recording_resolve, recording_connect
"""

#: Extras of which programs below run what they bring, and those that bring nothing of their own.
RUN = {"models", "onnx", "openvino", "providers", "ray", "spark", "any-guardrail"}
TOGETHER = {"full", "integrations", "dev", "docs"}

ADAPTERS = sorted(
    path.stem
    for path in Path(calibrail.integrations.__file__ or "").parent.glob("*.py")
    if path.stem not in ("__init__", "gate", "streaming")
)

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
ELSEWHERE = RUN | TOGETHER | {name.replace("_", "-") for name in ADAPTERS}
#: What the other extras ask for.
CORE = {
    re.split(r"[\[<>=]", item)[0] for name in EXTRAS.keys() - ELSEWHERE for item in EXTRAS[name]
}

HAYSTACK_RUN = """
from calibrail.integrations.haystack import GuardrailRouter
from haystack import Pipeline, component

@component
class Generator:
    @component.output_types(replies=list[str])
    def run(self, query: str):
        return {"replies": [query]}

pipeline = Pipeline()
pipeline.add_component("generator", Generator())
pipeline.run({"generator": {"query": "a"}})
"""

DETECTOR = """
from calibrail.data import Example
from calibrail.scores import build, parse_specs
(spec,) = parse_specs("sgi:backend={backend}")
build(spec).score([Example("What is W?", ("Tungsten has the symbol W.",), "W is tungsten.")])
"""

PROVIDER = """
import os
os.environ |= {"ANTHROPIC_API_KEY": "a-key-of-nobody", "ANTHROPIC_API_BASE": "http://127.0.0.1:9"}
from calibrail.models.llm.providers import ProviderTransport
from calibrail.models.llm.transport import AgainError
asked = {"model": "anthropic/claude-haiku-4-5", "messages": [{"role": "user", "content": "a"}]}
try:
    ProviderTransport("anthropic").send("chat", asked, 30)
except AgainError:
    asked = None
assert asked is None
"""

ANY_GUARDRAIL = """
from calibrail.scores.any_guardrail import AnyGuardrailScore
from calibrail.data import Example
found = AnyGuardrailScore(name="off_topic").score([Example("What is W?", ("Tungsten.",), "Yes.")])
print(found.reasons)
"""

GUARDRAILS_RUN = """
from calibrail import calibrate
from calibrail.integrations.guardrails_ai import CalibrailValidator
from guardrails import Guard
guardrail = calibrate("example:facts", "novelty", alpha=0.2, baselines=False).freeze()
asked = {"question": "What is W?", "contexts": ["Tungsten has the symbol W."]}
Guard().use(CalibrailValidator(guardrail, on_fail="noop")).validate("Tungsten.", metadata=asked)
"""

NEMO_RUN = """
from calibrail.integrations import nemo
from nemoguardrails import LLMRails, RailsConfig
from nemoguardrails.testing.fake_model import FakeLLMModel
config = nemo.guarded(RailsConfig.from_content(yaml_content="models: []"))
rails = LLMRails(config, llm=FakeLLMModel(responses=["Tungsten."]))
rails.generate(messages=[{"role": "user", "content": "What is W?"}])
"""

#: What the extras without an adapter bring is loaded by the commands, and by the service.
CORE_RUN = """
import importlib, sys
from importlib.metadata import packages_distributions
import calibrail
from calibrail.cli import main
from calibrail.guardrail.signing import make_keys
from pathlib import Path

import calibrail.serve.app, calibrail.client, calibrail.ui.server
for name, packages in packages_distributions().items():
    packages = {item.lower().replace("_", "-") for item in packages}
    if {packages!r} & packages and not name.startswith("_"):
        importlib.import_module(name)
make_keys(Path("key.pem"))
for line in (
    "calibrate example:facts --score novelty --alpha 0.2 --max-fpr 0.6 -o run",
    "export run -o g.json --sign key.pem",
    "guardrail verify g.json --key key.pub.pem",
    "plan --alpha 0.2 --max-fpr 0.3 --base-rate 0.5 --auroc 0.9 --figure plan.svg",
):
    sys.argv = ["calibrail", *line.split()]
    try:
        main()
    except SystemExit as end:
        assert end.code in (0, 3, 4, None), (line, end.code)
"""

RAY_RUN = """
import sys
from calibrail.cli import main
line = "calibrail score example:facts --limit 40 --score length --engine ray --workers 1 -o scored"
sys.argv = line.split()
try:
    main()
except SystemExit as end:
    assert not end.code
"""

SPARK_RUN = """
import sys
from pyspark.sql import SparkSession
from calibrail.pipelines.check import BatchScorer

if __name__ == "__main__":
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    rows = session.createDataFrame([("1", "Tungsten.")], "id string, response string")
    scored = BatchScorer("length")
    assert rows.mapInArrow(lambda batches: map(scored, batches), scored.spark_schema).count() == 1
    session.stop()
"""

PROGRAMS = {
    **{f"import {name}": f"import calibrail.integrations.{name}" for name in ADAPTERS},
    "a run of haystack": HAYSTACK_RUN,
    "a provider of judges": PROVIDER,
    "a detector of any-guardrail": ANY_GUARDRAIL,
    "a run of guardrails_ai": GUARDRAILS_RUN,
    "a run of nemo": NEMO_RUN,
    "a run of ray": RAY_RUN,
    "a run of the core": CORE_RUN.replace("{packages!r}", repr(set(CORE))),
    "a run of spark": SPARK_RUN,
    **{backend: DETECTOR.format(backend=backend) for backend in ("torch", "onnx", "openvino")},
}

#: Ray asks the cloud that this machine may stand in, at addresses of the machine, which one it is,
#: and connects a socket for datagrams, which sends nothing, to learn its own address.
HARMLESS = {"a run of ray": {"169.254.169.254", "metadata.google.internal", "8.8.8.8"}}


def asked_for(program: str, folder: Path) -> list[str]:
    """Run a program, and return the addresses that it or what it started asked for."""
    (folder / "sitecustomize.py").write_text(RECORDER)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    # What sends in the background has time to.
    program += "\nimport time\ntime.sleep(1)\n"
    own = {"PYTHONPATH": path, "ASKED_FOR": str(folder / "asked"), "HOME": str(folder)}
    environment = {k: v for k, v in os.environ.items() if "TRACK" not in k and "TELEMETRY" not in k}
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, **own},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    not_here = ("No module named", "needs the", "timed out during startup")
    if any(why in ended.stderr for why in not_here):
        pytest.skip(ended.stderr.splitlines()[-1])
    assert ended.returncode == 0, ended.stderr
    return (folder / "asked").read_text().split() if (folder / "asked").exists() else []


def test_the_recorder_sees_processes_that_are_started_too(tmp_path: Path) -> None:
    inner = "import socket; socket.getaddrinfo('example.org', 80)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    assert asked_for(program, tmp_path) == ["example.org"]


@pytest.mark.parametrize("what", PROGRAMS)
def test_nothing_that_is_loaded_phones_home(what: str, tmp_path: Path) -> None:
    assert {*asked_for(PROGRAMS[what], tmp_path)} <= HARMLESS.get(what, set())
