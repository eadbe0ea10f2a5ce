"""Rendered pods as processes of this machine: each has its own loopback address and its own folders.

What Kubernetes would do is done by hand: fields of the pod in variables, mounted files, the init container, probes,
preStop, SIGTERM, one pod after the other. Names of the cluster's DNS become addresses.
"""

from __future__ import annotations

import base64
import os
import random
import shlex
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.error import URLError

from support.commands import ROOT
from support.helm import Manifest, of_kind
from support.ports import HOST
from support.process import Child
from support.waiting import until

BIN = Path(sys.executable).parent
_RELEASE = "r-tailrace"
ROLES = ("controller", "broker", "coordinator", "quota", "gateway")
DOCKERFILE = ROOT / "deploy" / "image" / "Dockerfile"


def image_environ() -> dict[str, str]:
    """ENV of the image: variables that a container has where the pod names none of them. PATH is the machine's own."""
    last_stage = DOCKERFILE.read_text().replace("\\\n", " ").rpartition("\nFROM ")[2]
    lines = [shlex.split(line)[1:] for line in last_stage.splitlines() if line.startswith("ENV ")]
    pairs = [word.partition("=")[::2] for words in lines for word in words]
    return {name: value for name, value in pairs if name != "PATH"}


class Pod:
    """One pod of a StatefulSet."""

    def __init__(self, cluster: Pods, role: str, index: int) -> None:
        self.role, self.index = role, index
        self.name = f"{_RELEASE}-{role}-{index}"
        self.ip = f"{cluster.network}.{20 * ROLES.index(role) + index + 1}"
        self.folder = cluster.folder / f"{role[:2]}{index}"
        self._cluster = cluster
        self._lives = 0
        self.child: Child | None = None

    @property
    def spec(self) -> Manifest:
        """Of the pod."""
        found: Manifest = self._cluster.sets[f"{_RELEASE}-{self.role}"]["spec"]["template"]["spec"]
        return found

    @property
    def container(self) -> Manifest:
        """The only one."""
        (found,) = self.spec["containers"]
        return dict(found)

    def start(self) -> None:
        """Mounts, runs the init container and starts the service."""
        self._mount()
        for container in self.spec["initContainers"]:
            self._run(container, container["command"])
        self._lives += 1
        words = [sys.executable, "-m", "tailrace.cli", *map(self._here, self.container["args"])]
        log = self._cluster.folder / f"{self.name}.{self._lives}.log"
        self.child = Child(words, log, lambda line: False, environ=self.environ(self.container))

    def wait_until_ready(self) -> None:
        """Asks the readiness probe."""
        assert self.child
        child = self.child

        def ready() -> bool:
            if child.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended:\n{child.tail()}")
            return self.probe("readinessProbe")

        until(ready, f"{self.name} is ready", 120)

    def probe(self, name: str) -> bool:
        """Whether an HTTP probe of the container passes."""
        asked = self.container[name]["httpGet"]
        (port,) = (one["containerPort"] for one in self.container["ports"] if one["name"] == asked["port"])
        try:
            with urllib.request.urlopen(f"http://{self.ip}:{port}{asked['path']}", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def stop(self) -> int:
        """preStop, then SIGTERM within the grace period; the exit code."""
        assert self.child
        if hook := self.container.get("lifecycle", {}).get("preStop"):
            self._run(self.container, hook["exec"]["command"])
        return self.child.stop(self.spec["terminationGracePeriodSeconds"])

    def execute(self, *words: str) -> None:
        """What `kubectl exec` does. Raises RuntimeError with the output if the command fails."""
        self._run(self.container, words)

    def environ(self, container: Manifest) -> dict[str, str]:
        """The image's variables, then the container's; none comes from this process but the path of the program."""
        found = {name: self._here(value) for name, value in image_environ().items()}
        for one in container.get("env", ()):
            if "value" in one:
                text = str(one["value"])
                for name, value in found.items():
                    text = text.replace(f"$({name})", value)
            else:
                text = self._cluster.source(one["valueFrom"], self)
            found[one["name"]] = self._here(text)
        return found | self._cluster.environ

    def _mount(self) -> None:
        """Config maps and secrets as files; emptyDirs and volumes as folders."""
        for kind, name, folder in self._cluster.mounted(self.spec):
            target = self.folder / folder
            target.mkdir(parents=True, exist_ok=True)
            for file, content in self._cluster.files(kind, name).items():
                (target / file).write_text(self._here(content))
        for folder in ("etc", "data", "run"):
            (self.folder / folder).mkdir(exist_ok=True)

    def _here(self, text: str) -> str:
        """Paths and names as they are on this machine."""
        paths = {
            "/source/config": "config",
            "/source/secret": "secret",
            "/etc/tailrace": "etc",
            "/var/lib/tailrace": "data",
            "/run/tailrace": "run",
        }
        for there, folder in paths.items():
            text = text.replace(there, str(self.folder / folder))
        return self._cluster.resolved(text)

    def _run(self, container: Manifest, command: Sequence[str]) -> None:
        words = [sys.executable if word == "python3" else self._here(word) for word in command]
        environ = {**os.environ, **self.environ(container), "PATH": f"{BIN}:{os.environ['PATH']}"}
        done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            raise RuntimeError(f"{self.name}: {words}: {done.stdout}{done.stderr}")


class Pods:
    """A release: all pods of all StatefulSets of the project's own services."""

    def __init__(self, manifests: Sequence[Manifest], environ: Mapping[str, str] | None = None) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="pods-")  # short: Unix sockets have paths of 108 bytes
        self.folder = Path(self._temporary.name)
        chance = random.SystemRandom()
        self.network = f"127.{chance.randrange(2, 255)}.{chance.randrange(1, 255)}"
        self.environ = dict(environ or {})
        self.pods: dict[str, Pod] = {}
        self.apply(manifests)

    def apply(self, manifests: Sequence[Manifest]) -> None:
        """Takes a new rendering; nothing that runs changes yet. Secrets stay, as Helm's lookup sees to in a cluster."""
        kept = of_kind(getattr(self, "manifests", ()), "Secret")
        self.manifests = [
            kept.get(one["metadata"]["name"], one) if one["kind"] == "Secret" else one for one in manifests
        ]
        self.sets = {
            k: v for k, v in of_kind(manifests, "StatefulSet").items() if k.removeprefix(f"{_RELEASE}-") in ROLES
        }
        for role in ROLES:
            for index in range(self.sets[f"{_RELEASE}-{role}"]["spec"]["replicas"]):
                pod = Pod(self, role, index)
                self.pods.setdefault(pod.name, pod)

    def __enter__(self) -> Pods:
        try:
            for pod in self.pods.values():
                pod.start()
            for pod in self.pods.values():
                pod.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for pod in self.pods.values():
            if pod.child:
                pod.child.process.kill()
                pod.child.ended()
        self._temporary.cleanup()

    def of(self, role: str) -> list[Pod]:
        """A role's pods by number."""
        return [pod for pod in self.pods.values() if pod.role == role]

    def roll(self, role: str) -> None:
        """What a StatefulSet does with a new template: the last pod first, each when the one before is ready."""
        for pod in reversed(self.of(role)):
            assert pod.stop() == 0
            pod.start()
            pod.wait_until_ready()

    def run_job(self, name: str) -> None:
        """Runs a job's container to its end."""
        (container,) = of_kind(self.manifests, "Job")[name]["spec"]["template"]["spec"]["containers"]
        words = [sys.executable, "-m", "tailrace.cli", *map(self.resolved, container["args"])]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stdout}{done.stderr}")

    # -- what a pod asks the cluster ------------------------------------------------------------------------------

    def resolved(self, text: str) -> str:
        """Names of pods and of the gateway's Service as addresses."""
        for pod in self.pods.values():
            text = text.replace(f"{pod.name}.{_RELEASE}-{pod.role}.default.svc", pod.ip)
        return text.replace(f"{_RELEASE}-gateway.default.svc", HOST)

    def source(self, value_from: Manifest, pod: Pod) -> str:
        """A variable's value from a field of the pod or a secret."""
        if reference := value_from.get("secretKeyRef"):
            return self.files("secret", reference["name"])[reference["key"]]
        fields = {
            "status.podIP": pod.ip,
            "spec.nodeName": f"node-{pod.index}",
            "metadata.labels['apps.kubernetes.io/pod-index']": str(pod.index),
            "metadata.labels['topology.kubernetes.io/zone']": f"zone-{pod.index}",
        }
        return fields[value_from["fieldRef"]["fieldPath"]]

    def mounted(self, spec: Manifest) -> list[tuple[str, str, str]]:
        """Kind, name and folder of each config map and secret that the init container sees."""
        found = []
        for volume in spec["volumes"]:
            if "configMap" in volume:
                found.append(("configMap", volume["configMap"]["name"], "config"))
            elif "secret" in volume:
                found.append(("secret", volume["secret"]["secretName"], "secret"))
        return found

    def files(self, kind: str, name: str) -> dict[str, str]:
        """What a config map or a secret holds."""
        found = of_kind(self.manifests, {"configMap": "ConfigMap", "secret": "Secret"}[kind])[name]
        encoded: Mapping[str, Any] = found.get("data", {}) if kind == "secret" else {}
        plain = found.get("stringData", {}) if kind == "secret" else found["data"]
        return {**plain, **{key: base64.b64decode(value).decode() for key, value in encoded.items()}}
