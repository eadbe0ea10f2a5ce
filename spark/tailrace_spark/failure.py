"""A failed query in a sentence: what Spark and the Kafka client say over fifty lines, and what to do."""

from __future__ import annotations

import re

# What the text of the failure holds, and what it means to a user.
_LOSS = (
    "Records were deleted from a topic before this query had read them (retention, or the topic was made anew); "
    "restart with --fail-on-data-loss false to go on without them"
)
KNOWN = (
    ("KAFKA_DATA_LOSS", _LOSS),
    ("data may have been lost", _LOSS),
    ("UnknownTopicOrPartition", "A topic was deleted while the query read it; create it again and restart"),
    ("TopicAuthorizationException", "The user may not use the topic; give it an ACL"),
    ("SaslAuthentication", "The cluster refused the user or password"),
    ("TimeoutException", "The cluster did not answer in time; see that it runs, then restart: the checkpoint goes on"),
)


def sentence(error: Exception, log: str) -> str:
    """One sentence for a failed job; `log` is where the rest is."""
    text = str(error)
    if refused := re.search(r"Refusal: (.+)", text):  # a task's own word
        return refused.group(1)
    for sign, meaning in KNOWN:
        if sign in text:
            return f"{meaning} ({log} has the details)."
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return f"The job failed: {first[:300].rstrip('.')} ({log} has the details)."
