"""A Docker engine and its images, without a registry: `python -m support.docker_engine up|down|names [RUN]`.

`up` installs what is missing (root on Debian), starts dockerd if no engine answers, makes a base image of Debian's
packages, and builds on it: Tailrace, its old version, PostgreSQL and Redis. `down` stops the dockerd that `up` started.
With RUN, a word of one test run, `down` leaves a dockerd alone that another run started.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from support import debian, old_version
from support.commands import ROOT
from support.old_version import NoOldVersion
from support.waiting import until
from tailrace import __version__

# Checkouts that share an engine do not take each other's image.
TAG = hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]
TAILRACE = os.environ.get("TAILRACE_IMAGE", f"local/tailrace:{TAG}")
OLD = f"local/tailrace-old:{TAG}"  # of the version that an upgrade begins with
# A base image with Python that this machine has or can pull; where unset, one is made of Debian packages.
BASE = os.environ.get("TAILRACE_BASE_IMAGE", "local/tailrace-base:1")
POSTGRES, REDIS = "local/tailrace-postgres:1", "local/tailrace-redis:1"
TOOLS = {
    "docker": "docker.io",
    "iptables": "iptables",
    "docker-compose": "docker-compose",
    "mmdebstrap": "mmdebstrap",
}
IN_BASE = "ca-certificates,python3,python3-venv,tini"
STATE = ROOT / ".cache" / "docker"
CERTIFICATES = Path("/usr/local/share/ca-certificates")
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
HELD = "has active endpoints"  # what an engine says of a network whose last container it has not quite let go


class Unavailable(Exception):
    """Docker cannot be had here; the text says what would help."""


def environment() -> dict[str, str]:
    """For builds, compose and testcontainers: the classic builder, no helper images, images by their names here."""
    return {
        "DOCKER_BUILDKIT": "0",
        "COMPOSE_DOCKER_CLI_BUILD": "0",
        "TAILRACE_IMAGE": TAILRACE,
        "POSTGRES_IMAGE": POSTGRES,
        "REDIS_IMAGE": REDIS,
        "TESTCONTAINERS_RYUK_DISABLED": "true",
        "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
        "TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1",
    }


def docker(*arguments: str, typed: str | None = None) -> str:
    """What a docker command prints. Raises Unavailable with what it complained of."""
    return _printed("docker", arguments, environment(), typed)


def remove_network(name: str) -> None:
    """Returns when the engine has let go of the containers that were in it."""

    def is_removed() -> bool:
        try:
            docker("network", "rm", name)
        except Unavailable as refused:
            if HELD not in str(refused):
                raise
            return False
        return True

    until(is_removed, f"the network {name} is gone")


def buildkit() -> str | None:
    """A docker command that builds with BuildKit: Debian 12's has it, later ones need the plugin buildx."""
    for program in ("docker", "/usr/bin/docker"):
        with suppress(OSError, Unavailable):
            if _printed(program, ("version", "--format", "{{.Client.Version}}"), {}).startswith("20."):
                return program
            _printed(program, ("buildx", "version"), {})
            return program
    return None


def _printed(program: str, arguments: Sequence[str], environ: Mapping[str, str], typed: str | None = None) -> str:
    done = subprocess.run(
        (program, *arguments),
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environ},
    )
    if done.returncode:
        raise Unavailable(f"docker {' '.join(arguments[:3])}: {done.stderr.strip()[-2000:] or done.stdout[-2000:]}")
    return done.stdout.strip()


def answers() -> bool:
    """Whether an engine answers this user."""
    try:
        docker("version", "--format", "{{.Server.Version}}")
    except (OSError, Unavailable):
        return False
    return True


def missing() -> str | None:
    """What is not there of Docker and the images, for a test that would need them."""
    if not answers():
        return "no Docker engine answers: ./test containers starts one (root on Debian)"
    wanting = [image for image in (TAILRACE, POSTGRES, REDIS) if not _have(image)]
    return f"images are not built: {', '.join(wanting)}; ./test containers builds them" if wanting else None


def up(run: str = "") -> None:
    """Returns when the engine answers and the images are there. Raises Unavailable."""
    with _alone():
        _install()
        if not answers():
            _start(run)
        if not _have(BASE):
            _make_base()
        for image, folder in ((POSTGRES, "postgres"), (REDIS, "redis")):
            if not _have(image):
                docker("build", "-q", "-t", image, "--build-arg", f"BASE={BASE}", f"tests/support/images/{folder}")
        build_tailrace(TAILRACE)
        with suppress(NoOldVersion):  # the test that needs it says so
            build_old()


def build_tailrace(image: str, *more: str) -> None:
    """The image of this tree. What did not change is taken from the last build, unless `more` says --no-cache."""
    build(image, Path("."), Path("deploy/image/Dockerfile"), __version__, _revision(), *more)


def build_old() -> None:
    """The image of the old version. Raises NoOldVersion where its sources cannot be had, and Unavailable."""
    with tempfile.TemporaryDirectory(prefix="old-version-") as folder:
        recipe = old_version.unpack_for_an_image(Path(folder))
        build(OLD, Path(folder), recipe, "old", old_version.for_an_image())


def build_with_buildkit(program: str, image: str) -> None:
    """The image of this tree, by the other builder. Raises Unavailable."""
    flags = _build_flags(image, Path("deploy/image/Dockerfile"), __version__, _revision())
    _printed(program, ("build", *flags, "."), {"DOCKER_BUILDKIT": "1"})


def build(image: str, sources: Path, recipe: Path, version: str, revision: str, *more: str) -> None:
    """An image of a folder with sources. Raises Unavailable."""
    docker("build", *_build_flags(image, recipe, version, revision), *more, str(sources))


def _build_flags(image: str, recipe: Path, version: str, revision: str) -> list[str]:
    arguments = {"BASE": BASE, "VERSION": version, "REVISION": revision}
    if index := os.environ.get("PIP_INDEX_URL"):
        arguments["PIP_INDEX_URL"] = index
    flags = [flag for key, value in arguments.items() for flag in ("--build-arg", f"{key}={value}")]
    return ["-q", "-t", image, "-f", str(recipe), *flags]


def down(run: str = "") -> None:
    """Stops the dockerd that `up` of this checkout started, if it still runs; with `run`, only if that run's did."""
    pid_file = STATE / "dockerd.pid"
    with suppress(OSError, ValueError):
        number, _, started_by = pid_file.read_text().strip().partition(" ")
        if run and started_by != run:
            return
        pid = int(number)
        if Path(f"/proc/{pid}/comm").read_text().strip() == "dockerd":
            os.kill(pid, signal.SIGTERM)
            until(lambda: not Path(f"/proc/{pid}/exe").exists(), "dockerd has ended")
    pid_file.unlink(missing_ok=True)


@contextmanager
def _alone() -> Iterator[None]:
    """Two at once would start two engines."""
    STATE.mkdir(parents=True, exist_ok=True)
    with (STATE / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install() -> None:
    wanting = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if answers():  # somebody's engine: then its base image may be pulled, and only compose is ours to add
        wanting = [package for package in wanting if package == "docker-compose" or not _have(BASE)]
    elif shutil.which("dockerd") is None:
        wanting.append("docker.io")
    if wanting and (line := debian.install(sorted(set(wanting)))):
        raise Unavailable(line)


def _start(run: str) -> None:
    """dockerd without systemd; ports that a container publishes are the loopback's."""
    if host := os.environ.get("DOCKER_HOST"):
        raise Unavailable(f"no Docker engine answers at DOCKER_HOST={host}")
    if os.geteuid() != 0:
        raise Unavailable("no Docker engine answers, and only root can start one: systemctl start docker")
    for stale in ("/var/run/docker.pid", "/var/run/docker/containerd/containerd.pid"):
        Path(stale).unlink(missing_ok=True)  # nobody answers; an old one of another boot would be waited for
    with (STATE / "dockerd.log").open("w") as log:
        process = subprocess.Popen(
            ("dockerd", "--ip", "127.0.0.1"), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    (STATE / "dockerd.pid").write_text(f"{process.pid} {run}\n")
    try:
        until(lambda: answers() or process.poll() is not None, "dockerd answers")
    except (TimeoutError, AssertionError) as late:
        raise Unavailable(str(late)) from late
    if process.poll() is not None:
        raise Unavailable(f"dockerd ended: {(STATE / 'dockerd.log').read_text()[-2000:]}")


def _make_base() -> None:
    """Debian of this machine's release with Python, for a machine that reaches Debian's mirrors and no registry."""
    if "TAILRACE_BASE_IMAGE" in os.environ:
        docker("pull", "-q", BASE)
        return
    if os.geteuid() != 0:
        raise Unavailable("a base image is made by root; TAILRACE_BASE_IMAGE=python:3.13-slim names another one")
    lists = [path for path in map(Path, ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"))]
    sources = [str(path) for path in lists if path.exists()][:1]
    excluded = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale", "info")]
    trust = (
        f'cp {CERTIFICATES}/*.crt "$1{CERTIFICATES}/" 2>/dev/null; chroot "$1" update-ca-certificates >/dev/null 2>&1'
    )
    bootstrap = (
        *("mmdebstrap", "--quiet", "--variant=minbase", "--mode=root", "--format=tar", f"--include={IN_BASE}"),
        *("--aptopt=Acquire::Languages none", "--aptopt=Acquire::Retries 3", *excluded),
        *(f"--customize-hook={trust}", _codename(), "-", *sources),
    )
    changes = [f"ENV PIP_CERT={_BUNDLE} SSL_CERT_FILE={_BUNDLE}", 'CMD ["python3"]']
    flags = [flag for change in changes for flag in ("-c", change)]
    with subprocess.Popen(bootstrap, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as made:
        done = subprocess.run(
            ("docker", "import", *flags, "-", BASE), stdin=made.stdout, capture_output=True, check=False
        )
        said = made.stderr.read().decode(errors="replace") if made.stderr else ""
    if made.returncode or done.returncode:
        with suppress(Unavailable):
            docker("rmi", BASE)
        raise Unavailable(f"mmdebstrap: {said[-1000:]} {done.stderr.decode(errors='replace')[-1000:]}")


def _codename() -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    return dict(line.partition("=")[::2] for line in lines if "=" in line).get("VERSION_CODENAME", "bookworm")


def _revision() -> str:
    done = subprocess.run(("git", "rev-parse", "HEAD"), cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _have(image: str) -> bool:
    try:
        docker("image", "inspect", image)
    except Unavailable:
        return False
    return True


def main(arguments: Sequence[str]) -> int:
    """For the layers, and for people."""
    try:
        match list(arguments):
            case ["names"]:
                print("".join(f"export {key}={value}\n" for key, value in environment().items()), end="")
            case ["down", *run]:
                down(*run)
            case ["up", *run]:
                up(*run)
            case _:
                print(__doc__)
                return 2
    except (Unavailable, OSError) as absent:
        print(absent)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
