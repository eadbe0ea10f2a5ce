"""A Java program beside Kafka's jars: a line of JSON in, a line of JSON out."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support import kafka_peer

HEAP_MB, TIMEOUT_S = 512, 120


class JavaProgram:
    """The JVM; with both of its compilers, because some measure its time."""

    def __init__(self, source: Path) -> None:
        command = ["java", f"-Xmx{HEAP_MB}m", "-cp", f"{kafka_peer.libs()}/*", str(source)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def ask(self, request: object) -> Any:
        """The answer to one request."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        watchdog = threading.Timer(TIMEOUT_S, self.process.kill)
        watchdog.start()
        try:
            line = self.process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise TimeoutError(f"the program did not answer within {TIMEOUT_S} s, or its JVM died")
        return json.loads(line)
