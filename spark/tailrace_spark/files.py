"""Small files on whatever storage Spark reaches: local, HDFS, S3; by Hadoop's file systems."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


class TextFiles:
    """Whole texts under one folder. All methods raise Py4JJavaError."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._jvm: Any = spark._jvm
        context: Any = spark.sparkContext
        self._folder = self._jvm.org.apache.hadoop.fs.Path(folder)
        self._files = self._folder.getFileSystem(context._jsc.hadoopConfiguration())

    def is_empty(self) -> bool:
        """True where there is no such folder, or nothing in it."""
        return not self._files.exists(self._folder) or len(self._files.listStatus(self._folder)) == 0

    def folders(self) -> list[str]:
        """The names of the folders in it; none where it is not there."""
        if not self._files.exists(self._folder):
            return []
        return [each.getPath().getName() for each in self._files.listStatus(self._folder) if each.isDirectory()]

    def read(self, name: str) -> str | None:
        """The text of a file; None where there is none."""
        path = self._path(name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            text: str = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
            return text
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Writes or replaces a file."""
        stream = self._files.create(self._path(name), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def delete(self, name: str) -> None:
        """A file, or a folder with all that is in it; nothing where it is not there."""
        self._files.delete(self._path(name), True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._folder, name)
