"""Where a table's files are: six operations on a folder, on this machine's disk or on any file system Hadoop knows."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Found:
    """A file, its path from the folder on."""

    path: str
    size_bytes: int
    modified_ms: int


class TableFiles(Protocol):
    """All paths are relative to `url`."""

    url: str

    def list(self, folder: str) -> list[Found]:
        """All files below, sorted by path; none where there is no such folder. Hidden ones are left out."""

    def read(self, path: str) -> bytes:
        """Raises FileNotFoundError."""

    def create(self, path: str, data: bytes) -> bool:
        """Whole or not at all; False where the file is there already, also if another process was a moment faster."""

    def move(self, path: str, to: str) -> None:
        """Makes the folders that it needs."""

    def delete(self, path: str) -> None:
        """A file or a folder with all that is in it; nothing where it is not there."""


class LocalFiles:
    """On a disk of this machine, or one that is mounted here."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.url = f"file://{self.root}"

    def list(self, folder: str) -> list[Found]:
        """See TableFiles."""
        return sorted(self._walk(self.root / folder), key=lambda found: found.path)

    def _walk(self, folder: Path) -> Iterator[Found]:
        for parent, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if not name.startswith((".", "_"))]
            for name in names:
                if not name.startswith((".", "_")):
                    path = Path(parent, name)
                    status = path.stat()
                    found = str(path.relative_to(self.root))
                    yield Found(found, status.st_size, int(status.st_mtime * 1000))

    def read(self, path: str) -> bytes:
        """See TableFiles."""
        return (self.root / path).read_bytes()

    def create(self, path: str, data: bytes) -> bool:
        """See TableFiles. A link is refused where the name is taken, on NFS too; a rename would replace."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{uuid.uuid4().hex}")
        try:
            with draft.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, target)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        return True

    def move(self, path: str, to: str) -> None:
        """See TableFiles."""
        (self.root / to).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).rename(self.root / to)

    def delete(self, path: str) -> None:
        """See TableFiles."""
        target = self.root / path
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)


class HadoopFiles:
    """Through Spark's JVM: HDFS, and object stores, of which S3 needs a store that refuses to overwrite (docs)."""

    def __init__(self, spark: SparkSession, url: str) -> None:
        self.url = url.rstrip("/")
        context: Any = spark.sparkContext
        self._jvm: Any = context._jvm
        self._configuration = context._jsc.hadoopConfiguration()
        self._files = self._path("").getFileSystem(self._configuration)
        self._root = self._files.makeQualified(self._path("")).toString()

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.url}/{path}" if path else self.url)

    def list(self, folder: str) -> list[Found]:
        """See TableFiles."""
        if not self._files.exists(self._path(folder)):
            return []
        found, listing = [], self._files.listFiles(self._path(folder), True)
        while listing.hasNext():
            status = listing.next()
            path = status.getPath().toString()[len(self._root) :].lstrip("/")
            if not any(part.startswith((".", "_")) for part in path[len(folder) :].strip("/").split("/")):
                found.append(Found(path, status.getLen(), status.getModificationTime()))
        return sorted(found, key=lambda each: each.path)

    def read(self, path: str) -> bytes:
        """See TableFiles."""
        if not self._files.exists(self._path(path)):
            raise FileNotFoundError(path)
        stream = self._files.open(self._path(path))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def create(self, path: str, data: bytes) -> bool:
        """See TableFiles: a draft is renamed, which HDFS refuses where the name is taken."""
        draft = self._path(f"{path.rpartition('/')[0]}/.{uuid.uuid4().hex}")
        stream = self._files.create(draft, False)
        try:
            stream.write(bytearray(data))
            stream.hsync()
        finally:
            stream.close()
        try:
            done = not self._files.exists(self._path(path)) and self._files.rename(draft, self._path(path))
        finally:
            self._files.delete(draft, False)
        return bool(done)

    def move(self, path: str, to: str) -> None:
        """See TableFiles."""
        self._files.mkdirs(self._path(to).getParent())
        if not self._files.rename(self._path(path), self._path(to)):
            raise OSError(f"{path} could not be renamed to {to}")

    def delete(self, path: str) -> None:
        """See TableFiles."""
        self._files.delete(self._path(path), True)


def open_files(spark: SparkSession, url: str) -> TableFiles:
    """`url` is a path or file: URL for this machine's disk, anything else is Hadoop's."""
    scheme, colon, rest = url.partition(":")
    if colon and scheme != "file" and not Path(url).exists():
        return HadoopFiles(spark, url)
    return LocalFiles(Path(rest if scheme == "file" and colon else url))
