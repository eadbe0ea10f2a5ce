"""What a listener speaks, and its number in a broker's registration. Kafka also has SASL_PLAINTEXT and SASL_SSL."""

from __future__ import annotations

from typing import Final

SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1}
