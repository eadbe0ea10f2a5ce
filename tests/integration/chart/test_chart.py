"""deploy/helm/tailrace: linted, rendered for several values, held against Kubernetes' schemas and our config keys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.helm import BUILD_S, CHART, Manifest, helm, of_kind, render
from support.pods import image_environ
from support.ports import HOST, free_ports
from support.waiting import HUNG_S, until
from tailrace.config import Config
from tailrace.config.config import environment_name
from tailrace.config.definitions import DEFINITIONS

pytestmark = pytest.mark.timeout(BUILD_S)  # the first test may build Helm
ROLES = ("controller", "broker", "coordinator", "quota", "gateway")
VALUES = [(), *(("-f", str(path)) for path in sorted((CHART / "ci").glob("*.yaml")))]
OF_OTHERS = {"ServiceMonitor"}  # of the Prometheus operator: no schema of Kubernetes
IDS = ["default", *(path.name for path in sorted((CHART / "ci").glob("*.yaml")))]


def containers(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """The project's own, with the role or job that they belong to."""
    for kind in ("StatefulSet", "Job"):
        for name, found in of_kind(manifests, kind).items():
            for one in found["spec"]["template"]["spec"]["containers"]:
                if one["image"].startswith("tailrace:"):
                    yield name, one


def properties_of(manifests: list[Manifest]) -> str:
    text: str = of_kind(manifests, "ConfigMap")["r-tailrace"]["data"]["server.properties"]
    return text


@pytest.mark.parametrize("options", VALUES, ids=IDS)
def test_helm_finds_nothing_wrong(options: tuple[str, ...]) -> None:
    done = helm("lint", "--strict", str(CHART), *options)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", ["1.28", "1.37"])
@pytest.mark.parametrize("options", VALUES, ids=IDS)
def test_every_object_is_one_of_kubernetes(options: tuple[str, ...], version: str, tmp_path: Path) -> None:
    manifests = render(*options)
    file = tmp_path / "rendered.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    validate = Path(sys.executable).parent / "kubernetes-validate"
    command = [str(validate), "--strict", "-k", version, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    others = sum(found["kind"] in OF_OTHERS for found in manifests)
    assert said.count(" passed for resource ") == len(manifests) - others, said


@pytest.mark.parametrize("options", VALUES, ids=IDS)
def test_our_services_take_every_command_and_every_config(options: tuple[str, ...]) -> None:
    manifests = render(*options)
    seen = set()
    for name, container in containers(manifests):
        command, *arguments = container["args"]
        if command == "broker" and arguments[0] == "scale-down":
            said = subprocess.run(
                [sys.executable, "-m", "tailrace.cli", command, "scale-down", "--help"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            assert all(word in said for word in arguments if word.startswith("--")), name
            continue
        seen.add(command)
        given = [arguments[at + 1].partition("=") for at, word in enumerate(arguments) if word == "--set"]
        environ = {one["name"]: "1" for one in container["env"] if one["name"].startswith(("KAFKA_", "TAILRACE_"))}
        places = {
            "KAFKA_BROKER_RACK": "z",
            "TAILRACE_METADATA_URL": "postgresql://h/d",
            "TAILRACE_QUOTA_URL": "redis://h",
        }
        environ |= {name: value for name, value in places.items() if name in environ}
        environ |= {name: "127.0.0.1" for name in environ if name.endswith("_LISTEN")}
        config = Config.load(command, properties_of(manifests), environ, {key: value for key, _, value in given})
        assert config.node_id == 1
        # Kafka's own keys without effect here would be said, too; unknown ones are the chart's mistake.
        assert not [warning for warning in config.warnings if "not a config" in warning], config.warnings
    assert seen == set(ROLES)


def test_large_numbers_stay_numbers() -> None:
    values = {"config": {"log.retention.bytes": 107374182400}, "broker": {"config": {"log.segment.bytes": 1073741824}}}
    manifests = render(values=values)
    assert "log.retention.bytes=107374182400\n" in properties_of(manifests) + "\n"
    args = dict(containers(manifests))["r-tailrace-broker"]["args"]
    assert "log.segment.bytes=1073741824" in args


@pytest.mark.parametrize(("brokers", "factor", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_topics_have_the_replicas_that_tailrace_up_gives_them(brokers: int, factor: int, in_sync: int) -> None:
    text = properties_of(render(values={"broker": {"replicas": brokers}}))
    assert f"default.replication.factor={factor}" in text and f"min.insync.replicas={in_sync}" in text
    assert "min.insync.replicas=1" in properties_of(render(values={"config": {"min.insync.replicas": 1}}))


def test_more_brokers_restart_nothing_that_runs() -> None:
    before, after = (of_kind(render(values={"broker": {"replicas": brokers}}), "StatefulSet") for brokers in (3, 5))
    assert [before["r-tailrace-broker"]["spec"]["replicas"], after["r-tailrace-broker"]["spec"]["replicas"]] == [3, 5]
    for name, found in before.items():
        assert found["spec"]["template"] == after[name]["spec"]["template"], name


def test_brokers_are_drained_before_an_upgrade_or_a_rollback_and_forgotten_after_it() -> None:
    jobs = of_kind(render(), "Job")
    hooks = {name: found["metadata"]["annotations"]["helm.sh/hook"] for name, found in jobs.items()}
    assert hooks == {
        "r-tailrace-scale-down": "pre-upgrade,pre-rollback",
        "r-tailrace-scale-down-forget": "post-upgrade,post-rollback",
    }


def test_a_drain_has_its_whole_time_in_every_attempt() -> None:
    for name, job in of_kind(render(values={"broker": {"drainSeconds": 7200}}), "Job").items():
        args = dict(containers([job]))[name]["args"]
        attempts = job["spec"]["backoffLimit"] + 1
        assert int(args[args.index("--timeout") + 1]) == 7200
        assert job["spec"]["activeDeadlineSeconds"] > attempts * 7200, name


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"postgresql": {"enabled": False}}, "SQLite allows one controller"),
        ({"redis": {"enabled": False}}, "share their leases in Redis"),
        ({"broker": {"rackFrom": "guess"}}, "rackFrom"),
        ({"brokers": {"replicas": 3}}, "brokers"),
        ({"config": {"listeners": "PLAINTEXT://:9092"}}, "listeners is not a key for config"),
        ({"gateway": {"config": {"advertised.listeners": "A://a:1"}}}, "listeners is not a key for gateway.config"),
        ({"gateway": {"service": {"type": "NodePort"}}}, "gateway.service.type"),
    ],
)
def test_what_cannot_work_is_refused_before_it_is_installed(values: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        render(values=values)


def test_every_config_key_of_the_values_is_known() -> None:
    for options in VALUES:
        for line in properties_of(render(*options)).splitlines():
            assert line.partition("=")[0] in DEFINITIONS, line


def test_no_variable_of_the_image_hides_a_line_of_the_config_file() -> None:
    image = image_environ()
    assert "TAILRACE_DATA_DIR" in image  # the environment is above the file
    keys = [line.partition("=")[0] for line in properties_of(render()).splitlines()]
    assert not [key for key in keys if environment_name(DEFINITIONS[key]) in image]


@contextmanager
def api_server(labels: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Answers for every node; and what it was asked."""
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers['Authorization']}")
            body = json.dumps({"metadata": {"labels": labels}}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("labels", "line"),
    [({"topology.kubernetes.io/zone": "eu-1a"}, "broker.rack=eu-1a\n"), ({"other": "x"}, "")],
)
def test_a_brokers_rack_is_the_zone_of_its_node(tmp_path: Path, labels: dict[str, str], line: str) -> None:
    manifests = render()
    init = of_kind(manifests, "StatefulSet")["r-tailrace-broker"]["spec"]["template"]["spec"]["initContainers"][0]
    for folder in ("config", "secret", "account", "target"):
        (tmp_path / folder).mkdir()
    for name, content in of_kind(manifests, "ConfigMap")["r-tailrace"]["data"].items():
        (tmp_path / "config" / name).write_text(content)
    (tmp_path / "secret" / "cluster.secret").write_text("s" * 32)
    (tmp_path / "account" / "token").write_text("t0ken\n")
    environ = {one["name"]: one.get("value", "node-7") for one in init["env"]}
    folders = {"/source/config": "config", "/source/secret": "secret", "/etc/tailrace": "target"}
    words = init["command"]
    for there, here in folders.items():
        words = [word.replace(there, str(tmp_path / here)) for word in words]
    for _ in range(2):  # a container that starts again finds its files
        with api_server(labels) as (address, asked):
            more = {"API_SERVER": address, "SERVICE_ACCOUNT": str(tmp_path / "account")}
            subprocess.run([sys.executable, *words[1:]], env={**os.environ, **environ, **more}, check=True)
    assert asked == ["/api/v1/nodes/node-7 Bearer t0ken"]
    assert (tmp_path / "target" / "server.properties").read_text() == properties_of(manifests) + line
    secret = tmp_path / "target" / "cluster.secret"
    assert secret.read_text() == "s" * 32 and secret.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("given", "rendered"),
    [("", None), ("-", ""), ("fast", "fast"), ("true", "true"), ("123", "123"), ("a: b", "a: b")],
)
def test_a_storage_class_is_text_and_a_dash_is_none_at_all(given: str, rendered: str | None) -> None:
    storage = {"storage": {"size": "1", "storageClassName": given}}
    sets = of_kind(render(values={"controller": storage, "broker": storage, "postgresql": storage}), "StatefulSet")
    for name in ("controller", "broker", "postgresql"):
        (claim,) = sets[f"r-tailrace-{name}"]["spec"]["volumeClaimTemplates"]
        assert claim["spec"].get("storageClassName") == rendered
        assert claim["spec"]["resources"]["requests"]["storage"] == "1"


def typed(schema: dict[str, Any], path: str = "values") -> Iterator[str]:
    """The maps and lists whose content has no type."""
    if schema.get("type") == "object" and "properties" not in schema and "additionalProperties" not in schema:
        yield path
    if schema.get("type") == "array" and "items" not in schema:
        yield path
    for name, inner in schema.get("properties", {}).items():
        yield from typed(inner, f"{path}.{name}")


def test_every_map_and_list_of_the_values_has_a_type() -> None:
    assert not list(typed(json.loads((CHART / "values.schema.json").read_text())))


DIGEST = f"sha256:{'ab' * 32}"


def images(manifests: list[Manifest]) -> set[str]:
    found = set()
    for one in manifests:
        pod = one["spec"].get("template", {}).get("spec", {}) if "spec" in one else {}
        found |= {each["image"] for each in (*pod.get("initContainers", ()), *pod.get("containers", ()))}
    return found


def test_images_have_a_digest_where_one_is_given() -> None:
    assert {image.partition(":")[0] for image in images(render())} == {"tailrace", "postgres", "redis"}
    assert not [image for image in images(render()) if "@" in image]
    given = {"digest": DIGEST}
    pinned = images(render(values={"image": given, "postgresql": given, "redis": given}))
    assert {"postgres:17", "redis:7"} <= {image.removesuffix(f"@{DIGEST}") for image in pinned}
    assert all(image.endswith(f"@{DIGEST}") for image in pinned)
    with pytest.raises(ValueError, match="digest"):
        render(values={"image": {"digest": "sha256:12"}})


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, dict[str, Any]]]:
    for kind in ("StatefulSet", "Deployment", "Job"):
        for name, found in of_kind(manifests, kind).items():
            yield name, found["spec"]["template"]["spec"]


@pytest.mark.parametrize("options", VALUES, ids=IDS)
def test_every_container_has_a_limit_of_memory(options: tuple[str, ...]) -> None:
    for name, pod in pods(render(*options)):
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            assert "memory" in container["resources"]["limits"], (name, container["name"])


@pytest.mark.parametrize("options", VALUES, ids=IDS)
def test_only_a_container_that_asks_the_api_server_has_a_token(options: tuple[str, ...]) -> None:
    for name, pod in pods(render(*options)):
        assert pod["automountServiceAccountToken"] is False
        tokens = {volume["name"] for volume in pod.get("volumes", ()) if "serviceAccountToken" in str(volume)}
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            mounted = tokens & {mount["name"] for mount in container.get("volumeMounts", ())}
            asks = any(one["name"] == "ZONE_LABEL" for one in container.get("env", ()))
            assert bool(mounted) is asks, (name, container["name"])


def printed(*command: str, **environ: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environ})
    return done.stdout


def test_the_charts_redis_has_a_password_that_no_argument_shows() -> None:
    manifests = render()
    secret = of_kind(manifests, "Secret")["r-tailrace-quota-store"]["stringData"]
    assert secret["url"] == f"redis://:{secret['password']}@r-tailrace-redis.default.svc:6379"
    (container,) = of_kind(manifests, "Deployment")["r-tailrace-redis"]["spec"]["template"]["spec"]["containers"]
    assert secret["password"] not in str(container)
    server = subprocess.Popen(
        [*container["command"][:2], container["command"][2].replace("save", f"port {(port := free_ports(1))}\nsave")],
        env={**os.environ, "REDIS_PASSWORD": secret["password"]},
        stdout=subprocess.DEVNULL,
    )
    try:
        ask = ("redis-cli", "-h", HOST, "-p", str(port))
        until(lambda: "NOAUTH" in printed(*ask, "PING"), "redis")
        assert printed(*ask, "PING", REDISCLI_AUTH=secret["password"]).strip() == "PONG"
    finally:
        server.terminate()
        assert server.wait(HUNG_S) == 0  # it has the signal itself, not a shell in front of it
