"""Apache Kafka as the peer of the differential tests: fetched from Maven once, started on ports of its own.

KAFKA_LIBS names a folder that already holds the jars; otherwise Maven copies them into .cache/ of the checkout.
"""

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from support.ports import HOST, free_ports
from support.process import Child

VERSION = "4.4.0"
CLUSTER_ID = "dGFpbHJhY2UtcGVlci0wMA"
CACHE = Path(__file__).resolve().parents[2] / ".cache" / f"kafka-{VERSION}"
HEAP_MB, START_S = 512, 180
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>peer</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>
{dependencies}</dependencies></project>
"""
ARTIFACTS = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)
STREAMS = (("org.apache.kafka", "kafka-streams", VERSION), ("org.slf4j", "slf4j-simple", "1.7.36"))


def missing() -> str | None:
    """Says what is absent for running Kafka, as the line that would install it; None when all is there."""
    if shutil.which("java") is None:
        return "Java 17: apt-get install -y openjdk-17-jdk-headless"
    if _ready_libs() is None and shutil.which("mvn") is None:
        return "Maven: apt-get install -y maven (or KAFKA_LIBS=folder of the Apache Kafka jars)"
    return None


def _ready_libs() -> Path | None:
    for folder in (os.environ.get("KAFKA_LIBS"), CACHE / "libs"):
        if folder and list(Path(folder).glob("kafka-clients-*.jar")):
            return Path(folder)
    return None


@functools.cache
def libs() -> Path:
    """The folder with the jars; fetches them with Maven the first time (about a minute)."""
    return _ready_libs() or _fetched("libs", ARTIFACTS)


@functools.cache
def streams_libs() -> Path:
    """The folder with the jars of Kafka Streams; they are fetched as those of Kafka."""
    there = CACHE / "streams"
    return there if there.is_dir() else _fetched("streams", STREAMS)


def _fetched(folder: str, artifacts: Sequence[tuple[str, str, str]]) -> Path:
    CACHE.mkdir(parents=True, exist_ok=True)
    rows = (f"<groupId>{g}</groupId><artifactId>{a}</artifactId><version>{v}</version>" for g, a, v in artifacts)
    with tempfile.TemporaryDirectory(dir=CACHE) as fresh:  # renamed when whole: a broken download leaves nothing behind
        pom = POM.format(dependencies="".join(f"<dependency>{r}</dependency>\n" for r in rows))
        Path(fresh, "pom.xml").write_text(pom)
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={fresh}/libs"]
        subprocess.run(command, cwd=fresh, check=True)
        Path(fresh, "libs").rename(CACHE / folder)
    return CACHE / folder


def classpath() -> str:
    """The class path for java -cp."""
    return f"{libs().resolve()}/*"


# The first compiler alone: the tests ask few things of young JVMs. Nothing but the program writes to its output.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable")


def quick_java(heap_mb: int, *options: str) -> list[str]:
    """How a command begins that runs one of Kafka's classes for seconds."""
    mapped = (f"-XX:SharedArchiveFile={archive()}",) if archive().exists() else ()
    return ["java", f"-Xmx{heap_mb}m", *QUICK, *mapped, *options, "-cp", classpath()]


@functools.cache
def archive() -> Path:
    """The file with the classes of a Kafka that has started, as this Java maps them where it has these jars."""
    java = subprocess.run(["java", "-version"], check=True, capture_output=True).stderr
    return CACHE / f"classes-{hashlib.sha256(java + classpath().encode()).hexdigest()[:12]}.jsa"


def make_archive() -> None:
    """Has a Kafka leave its classes behind, once: a start with them takes half of the CPU that parsing them takes."""
    if archive().exists():
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as fresh:
        classes = Path(fresh, "classes.jsa")
        peer = KafkaPeer(Path(fresh, "kafka"), {})
        peer.start(f"-XX:ArchiveClassesAtExit={classes}")
        peer.stop(START_S)
        if classes.exists():
            classes.rename(archive())


class KafkaPeer:
    """One combined Kafka node with id 0, in a folder of its own."""

    def __init__(self, folder: Path, settings: dict[str, str], *, formatted: bool = False) -> None:
        self.folder = folder
        self.formatted = formatted
        self.port = free_ports(2)
        self.bootstrap = f"{HOST}:{self.port}"
        self._write_properties(settings)
        self.child: Child | None = None
        self.committed: list[tuple[int, bytes]] = []  # by the transactions of who filled it

    def _write_properties(self, settings: dict[str, str]) -> None:
        controller = f"{HOST}:{self.port + 1}"
        properties = {
            "process.roles": "broker,controller",
            "node.id": "0",
            "controller.quorum.voters": f"0@{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **settings,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = (f"{key}={value}\n" for key, value in properties.items())
        (self.folder / "server.properties").write_text("".join(lines))

    def start(self, *options: str) -> None:
        """Formats the data folder unless it is, starts the node, returns when it serves."""
        properties = str(self.folder / "server.properties")
        if not self.formatted:
            format_command = [
                *quick_java(HEAP_MB),
                "kafka.tools.StorageTool",
                "format",
                "-t",
                CLUSTER_ID,
                "-c",
                properties,
            ]
            subprocess.run(format_command, check=True, capture_output=True)
        command = [*quick_java(HEAP_MB, *options), "kafka.Kafka", properties]
        self.child = Child(command, self.folder / "kafka.log", lambda line: "Kafka Server started" in line)
        self.child.wait_until_ready(START_S)

    def stop(self, timeout_s: float = 20) -> None:
        """Ends the node."""
        if self.child is not None:
            self.child.stop(timeout_s)
