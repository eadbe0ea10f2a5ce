"""What a Tailrace pod does before it starts: its config and the cluster's secret in files of its own, with its rack.

A Secret that is mounted belongs to root, and Tailrace wants the cluster's secret to be readable by nobody else.
"""

import json
import os
import ssl
import sys
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def main(sources: str, secrets: str, target: str) -> None:
    """Writes server.properties and cluster.secret to the target folder."""
    config = (Path(sources) / "server.properties").read_text(encoding="utf-8")
    if label := os.environ.get("ZONE_LABEL"):
        if zone := zone_of(os.environ["NODE_NAME"], label):
            config += f"broker.rack={zone}\n"
        else:
            sys.stderr.write(f"The node {os.environ['NODE_NAME']} has no label {label}: this broker has no rack.\n")
    write(Path(target) / "server.properties", config.encode())
    write(Path(target) / "cluster.secret", (Path(secrets) / "cluster.secret").read_bytes())


def zone_of(node: str, label: str) -> str | None:
    """The node's label, from the API server. Any failure ends the start, and Kubernetes tries again."""
    server = os.environ.get("API_SERVER") or "https://kubernetes.default.svc"
    account = Path(os.environ.get("SERVICE_ACCOUNT", ACCOUNT))
    request = urllib.request.Request(
        f"{server}/api/v1/nodes/{node}",
        headers={"Authorization": f"Bearer {(account / 'token').read_text().strip()}"},
    )
    trusted = ssl.create_default_context(cafile=str(account / "ca.crt")) if server.startswith("https:") else None
    with urllib.request.urlopen(request, timeout=30, context=trusted) as answer:
        labels = json.load(answer)["metadata"].get("labels", {})
    found: str | None = labels.get(label)
    return found


def write(path: Path, content: bytes) -> None:
    """Only for this user, also where the file is there already."""
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


if __name__ == "__main__":
    main(*sys.argv[1:])
