"""Apache Kafka's own command line tools, run one after the other in one JVM (ToolServer.java)."""

import base64
import shutil
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from support import kafka_peer

TOOLS = "org.apache.kafka.tools."
TOPICS = TOOLS + "TopicCommand"
PRODUCER = TOOLS + "ConsoleProducer"
CONSUMER = TOOLS + "consumer.ConsoleConsumer"
GROUPS = TOOLS + "consumer.group.ConsumerGroupCommand"
ALL_GROUPS = TOOLS + "GroupsCommand"
CONFIGS = TOOLS + "ConfigCommand"
OFFSETS = TOOLS + "GetOffsetShell"
PRODUCER_PERFORMANCE = TOOLS + "ProducerPerformance"
CONSUMER_PERFORMANCE = TOOLS + "ConsumerPerformance"
LOG_DIRS = TOOLS + "LogDirsCommand"
TRANSACTIONS = TOOLS + "TransactionsCommand"
REASSIGN = TOOLS + "reassign.ReassignPartitionsCommand"
QUORUM = TOOLS + "MetadataQuorumCommand"
ACLS = TOOLS + "AclCommand"
ELECTION = TOOLS + "LeaderElectionCommand"
TIMEOUT_S = 120


def missing() -> str | None:
    """The line that would install what is absent; None when all is there."""
    if shutil.which("javac") is None:  # the JVM compiles ToolServer.java as it starts it
        return "a Java compiler: apt-get install -y openjdk-17-jdk-headless"
    return kafka_peer.missing()


@dataclass(frozen=True)
class Outcome:
    """What a tool answered."""

    code: int
    out: str
    err: str


def _word(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class JavaTools:
    """The JVM, with further options of its own."""

    def __init__(self, *options: str) -> None:
        source = Path(__file__).with_name("ToolServer.java")
        command = kafka_peer.quick_java(256, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", *options)
        self.process = subprocess.Popen(
            [*command, str(source)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        watchdog = threading.Timer(TIMEOUT_S, self.process.kill)
        watchdog.start()
        try:
            line = self.process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise TimeoutError(f"the tool did not answer within {TIMEOUT_S} s, or its JVM died")
        return line.strip("\n")

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Outcome:
        """Runs one tool's main to its end."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(_word(text) for text in (tool, stdin, *arguments)) + "\n")
        self.process.stdin.flush()
        code, out, err = self._line().split(" ")
        return Outcome(int(code), base64.b64decode(out).decode(), base64.b64decode(err).decode())

    def close(self) -> None:
        """Ends the JVM."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


class Shell:
    """The tools against one cluster."""

    def __init__(self, jvm: JavaTools, bootstrap: str) -> None:
        self._jvm = jvm
        self._bootstrap = bootstrap

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Outcome:
        """Runs a tool."""
        return self._jvm.run(tool, "--bootstrap-server", self._bootstrap, *arguments, stdin=stdin)

    def out(self, tool: str, *arguments: str, stdin: str = "") -> str:
        """What a tool that must succeed prints."""
        done = self.run(tool, *arguments, stdin=stdin)
        assert done.code == 0, done
        return done.out
