"""The jars of Spark's Kafka connector and of Delta Lake, from Maven into .cache/ once.

They are given one by one without what their poms ask for: Spark has the rest.
"""

import functools
import subprocess
import tempfile
import zlib
from pathlib import Path

from tailrace_spark.connector import coordinates

VERSION = "4.2.0"
ROOT = Path(__file__).resolve().parents[2]
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>spark</groupId><artifactId>connector</artifactId><version>1</version><dependencies>
{dependencies}</dependencies></project>
"""
DEPENDENCY = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
"""


@functools.cache
def libs(version: str = VERSION) -> Path:
    """The folder with the jars for this PySpark version; fetches them the first time (seconds)."""
    wanted = coordinates(version)
    folder = ROOT / ".cache" / f"spark-{version}-{zlib.crc32(' '.join(wanted).encode()):08x}"
    if (folder / "libs").is_dir():
        return folder / "libs"
    folder.mkdir(parents=True, exist_ok=True)
    rows = (DEPENDENCY.format(*coordinate.split(":")) for coordinate in wanted)
    (folder / "pom.xml").write_text(POM.format(dependencies="".join(rows)))
    with tempfile.TemporaryDirectory(dir=folder) as fresh:  # renamed when whole: a broken download leaves nothing
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={fresh}/libs"]
        subprocess.run(command, cwd=folder, check=True)
        Path(fresh, "libs").rename(folder / "libs")
    return folder / "libs"
