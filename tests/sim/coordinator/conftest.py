"""`--rewrite` accepts the golden traces as they are now; read the diff before you commit it."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("sim").addoption("--rewrite", action="store_true", help="accept the golden traces of this run")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether golden traces are to be written rather than compared."""
    return bool(request.config.getoption("--rewrite", default=False))
