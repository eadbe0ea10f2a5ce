"""The log directories as a start opens them: each locked, with its identity; one that cannot be read is offline."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from tailrace.config import Config
from tailrace.log.directory.log_dir import LogDir, LogDirRefused
from tailrace.log.filesystem.guard import Guard
from tailrace.log.filesystem.open_files import OpenFiles
from tailrace.log.filesystem.port import Filesystem
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.private_files import FOLDER_MODE, private_folder
from tailrace.runtime.role import Environment


@contextmanager
def open_log_dirs(config: Config, environment: Environment, cluster_id: str) -> Iterator[list[LogDir]]:
    """Locks and opens every log dir; without `log.dirs` there is one under the data directory.

    One that cannot be read is offline and the others serve, as in Kafka; LogDirRefused if none can, or two are one.
    The body closes them; if it fails they are given up as they are, which is an unclean shutdown.
    """
    paths = config.log_dirs or (str(environment.data_dir / f"broker-{config.node_id}"),)
    refuse_repeated(paths)
    opened: list[LogDir] = []
    filesystem = RealFilesystem(OpenFiles(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))
    try:
        for path in (str(Path(path).absolute()) for path in paths):  # as Kafka names them
            opened.append(_open_log_dir(filesystem, path, config, environment, cluster_id))
        refuse_unusable(opened)
        yield opened
    except BaseException:
        for log_dir in opened:
            log_dir.release()
        raise


def _open_log_dir(
    filesystem: Filesystem, path: str, config: Config, environment: Environment, cluster_id: str
) -> LogDir:
    try:
        Path(path).mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        opened = LogDir.open(
            Guard(filesystem),
            path,
            node_id=config.node_id,
            cluster_id=cluster_id,
            now_ms=environment.clock.wall_ms(),
            producer_id_expiration_ms=config.producer_id_expiration_ms,
        )
        private_folder(Path(path))  # it is a log directory, and no folder of all that was named by mistake
        return opened
    except OSError as failed:
        environment.log.error("a log directory is offline", log_dir=path, why=str(failed))
        return LogDir.unreadable(path, failed)


def refuse_repeated(paths: Iterable[str]) -> None:
    """LogDirRefused where two of log.dirs are one: else it would be said that another process has locked the second."""
    named: dict[str, str] = {}
    for path in paths:
        present = os.path.realpath(path)
        if present in named:
            raise LogDirRefused(f"log.dirs names one directory twice: {named[present]} and {path}")
        named[present] = path


def refuse_unusable(dirs: list[LogDir]) -> None:
    """LogDirRefused where no dir is online, or two have one id: one is a copy of the other, it is unknown which."""
    online = [log_dir for log_dir in dirs if log_dir.failure is None]
    if not online:
        raise LogDirRefused("no log directory can be used: " + "; ".join(str(log_dir.failure) for log_dir in dirs))
    for log_dir, other in pairwise(sorted(online, key=lambda one: one.directory_id)):
        if log_dir.directory_id == other.directory_id:
            raise LogDirRefused(
                f"the log directories {log_dir.path} and {other.path} have the same directory.id: one is a copy"
            )
