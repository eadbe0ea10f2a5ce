"""What a test asks of a cluster that the console acts on: REST, the tailrace command, the sentences of the page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from support.browser import Window
from support.waiting import HUNG_S
from tailrace.testing import Cluster


class Rest:
    """What the REST API says."""

    def __init__(self, cluster: Cluster) -> None:
        self.admin = cluster.admin
        with urlopen(f"{cluster.admin}/v3/clusters", timeout=HUNG_S) as answer:
            self.root = f"{cluster.admin}/v3/clusters/{json.load(answer)['data'][0]['cluster_id']}"

    def get(self, path: str) -> Any:
        """The answer, None where there is no such thing."""
        try:
            with urlopen(f"{self.root}/{path}", timeout=HUNG_S) as answer:
                return json.load(answer)
        except HTTPError as refused:
            with refused:
                assert refused.code == 404, refused
            return None


def done(window: Window, text: str) -> None:
    """Waits for the sentence that says what was done."""
    window.page.locator(".toast", has_text=text).wait_for()


def twin(window: Window, name: str) -> str:
    """The command that the open dialog shows under that name."""
    if window.page.locator("dialog .copyas[open]").count() == 0:
        window.page.locator("dialog summary").click()
    found = window.page.locator("dialog .twin").filter(has=window.page.get_by_text(name, exact=True))
    return str(found.locator("code").inner_text())


def cli(cluster: Cluster, command: str) -> str:
    """What the tailrace command says."""
    environ = {**os.environ, "TAILRACE_BOOTSTRAP": cluster.bootstrap, "TAILRACE_ADMIN": cluster.admin}
    words = command.replace("tailrace ", f"{sys.executable} -m tailrace.cli ")
    shell = subprocess.run(["bash", "-c", words], env=environ, capture_output=True, text=True, check=True)
    return shell.stdout
