"""Values from files: what stands in a config is the way to a secret, and not the secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.config import Config, ConfigError
from tailrace.runtime.config_providers import resolve


def load(path: Path, file: str = "", environ: dict[str, str] | None = None, **overrides: str) -> Config:
    (path / "password").write_text("s3cret\n")
    (path / "stores.properties").write_text("redis = rediss://:of-file@redis:6379/1\n")
    given = {name.replace("_", "."): text for name, text in overrides.items()}
    return Config.load("quota", file, environ or {}, given, resolve=resolve)


def test_a_password_in_a_url_comes_from_a_file(tmp_path: Path) -> None:
    url = f"redis://:${{directory:{tmp_path}:password}}@redis:6379/0"
    by_file = load(tmp_path, f"config.providers=directory\nquota.url={url}\n")
    by_environment = load(tmp_path, "config.providers=directory", {"TAILRACE_QUOTA_URL": url})
    by_flag = load(tmp_path, "", {"KAFKA_CONFIG_PROVIDERS": "file,directory"}, quota_url=url)
    for config in (by_file, by_environment, by_flag):
        assert config.quota_url == "redis://:s3cret@redis:6379/0"
        assert config.warnings == ()


def test_a_whole_value_comes_from_a_file_of_properties(tmp_path: Path) -> None:
    url = f"${{file:{tmp_path}/stores.properties:redis}}"
    config = load(tmp_path, f"config.providers=file\nquota.url={url}\n")
    assert config.quota_url == "rediss://:of-file@redis:6379/1"


def test_numbers_come_from_files_too(tmp_path: Path) -> None:
    (tmp_path / "port").write_text("9404")
    config = load(tmp_path, f"config.providers=directory\nhealth.port=${{directory:{tmp_path}:port}}\n")
    assert config.health_port == 9404


def test_without_a_provider_of_that_name_nothing_is_replaced(tmp_path: Path) -> None:
    config = load(tmp_path, f"config.providers=file\nbroker.rack=${{directory:{tmp_path}:password}}\n")
    assert config.broker_rack == f"${{directory:{tmp_path}:password}}"
    assert load(tmp_path, "broker.rack=${file:/x:y}").broker_rack == "${file:/x:y}"


@pytest.mark.parametrize(
    ("providers", "text", "why"),
    [
        (
            "directory",
            "${directory:/nowhere:password}",
            "broker.rack from server.properties, line 2 cannot be read: No s",
        ),
        ("directory", "${directory:PATH:../password}", "is not the name of a file"),
        ("file", "${file:PATH/stores.properties:postgres}", "has no postgres"),
        ("env", "${env:HOME}", "config.providers has env, and these are known: directory, file"),
    ],
)
def test_what_is_not_there_is_refused_with_a_sentence(tmp_path: Path, providers: str, text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load(tmp_path, f"config.providers={providers}\nbroker.rack={text.replace('PATH', str(tmp_path))}\n")


def test_a_refused_value_does_not_show_what_the_file_holds(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, f"config.providers=directory\nquota.url=${{directory:{tmp_path}:password}}\n")
    assert "s3cret" not in str(refused.value)


def test_a_password_itself_is_still_refused_on_a_command_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds a secret"):
        load(tmp_path, quota_url="redis://:s3cret@redis:6379/0")
    assert load(tmp_path, metadata_url="postgresql://t@db/t?sslmode=verify-full&passfile=/etc/pgpass").metadata_url
