"""What two brokers must have in common in an answer: every field, every error code, every number that is not theirs."""

import json
from typing import Any

# Numbers and texts that belong to one cluster: their presence is compared, their value is not.
WORDS = """
    api_key broker_id client_host client_id cluster_id controller_id coordinator_id current_leader_epoch
    documentation eligible_leader_replicas entity_name error_message finalized_features_epoch generation_id
    group_id host isr_nodes key last_known_elr leader leader_epoch leader_id log_append_time_ms log_dir
    max_version max_version_level member_id min_version min_version_level name node_id offline_replicas
    partition_size port producer_epoch producer_id rack replica_nodes resource_name session_id topic topic_id
    topic_name total_bytes usable_bytes value
"""
OWN = frozenset(WORDS.split())


def shape(value: Any, name: str = "") -> Any:
    """Reduces an answer to what must be equal; equal elements of a list count once."""
    if isinstance(value, dict):
        return {key: shape(item, key) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        unique = {json.dumps(item, sort_keys=True): item for item in (shape(item, name) for item in value)}
        return [unique[text] for text in sorted(unique)]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{len(value)} bytes"
    if name in OWN and value not in (None, "", -1):
        return "text" if isinstance(value, str) else type(value).__name__
    return value if isinstance(value, (int, float, str, bool)) or value is None else str(type(value).__name__)


def differing(got: Any, want: Any, path: str = "") -> list[str]:
    """Where two shapes differ, one line each; empty when they are equal.

    Kafka's error messages are not part of the protocol: where it refuses with a text there must be one too, where it
    refuses without one or succeeds there may be. Beside an error code the aborted transactions say nothing.
    """
    if isinstance(got, dict) and isinstance(want, dict):
        keys = sorted(set(got) | set(want))
        if want.get("error_message", "text") != "text" or want.get("error_code") == 0:
            keys = [key for key in keys if key != "error_message"]
        if want.get("error_code"):
            keys = [key for key in keys if key != "aborted_transactions"]
        pairs = [(f"{path}.{key}", got.get(key, "absent"), want.get(key, "absent")) for key in keys]
        return [line for where, a, b in pairs for line in differing(a, b, where)]
    if isinstance(got, list) and isinstance(want, list) and len(got) == len(want):
        numbered = enumerate(zip(got, want, strict=True))
        return [line for n, (a, b) in numbered for line in differing(a, b, f"{path}[{n}]")]
    return [] if got == want else [f"{path}: {str(got)[:300]}, Kafka {str(want)[:300]}"]
