"""The verifier of tokens, from the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.net.sasl.oauthbearer.jwk_sets import is_file, reader_of
from tailrace.net.sasl.oauthbearer.jwt_verifier import Expected, JwtVerifier
from tailrace.net.sasl.oauthbearer.keys import Pauses, SigningKeys
from tailrace.net.sasl.settings import OAuthBearerSettings

_FILE_MS: Final = 1_000  # a file costs nothing to read


@contextmanager
def open_verifier(settings: OAuthBearerSettings, clock: Clock, log: FilteringBoundLogger) -> Iterator[JwtVerifier]:
    """Raises ConfigError. The keys are read with the first token."""
    url = settings.jwks_url
    pauses = Pauses(settings.refresh_ms, settings.retry_backoff_ms, settings.retry_backoff_max_ms)
    keys = SigningKeys(reader_of(url), Pauses(_FILE_MS, _FILE_MS, _FILE_MS) if is_file(url) else pauses, clock, log)
    expected = Expected(
        settings.issuer, settings.audiences, settings.sub_claim, settings.scope_claim, settings.clock_skew_s
    )
    try:
        yield JwtVerifier(expected, keys)
    finally:
        keys.close()
