"""`tailrace-spark JOB [options]`: finds the job, checks what it was given, opens a session, runs it."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tailrace_spark import jobs, values
from tailrace_spark.console import complain, say
from tailrace_spark.refusal import Refusal

if TYPE_CHECKING:
    from tailrace_spark.job import Job, Option


class Parser(argparse.ArgumentParser):
    """Refuses instead of exiting."""

    def error(self, message: str) -> NoReturn:
        """Raises the sentence."""
        raise Refusal(f"{message[:1].upper()}{message[1:]}; see {self.prog} --help.")


def main() -> None:
    """The entry point of the console script."""
    raise SystemExit(run(sys.argv[1:]))


def run(words: Sequence[str]) -> int:
    """Runs a job; the exit status is 2 for bad input and 1 for a job that failed."""
    if not words or words[0] in ("-h", "--help"):
        say(usage())
        return 0
    try:
        run_job(list(words))
    except Refusal as refused:
        complain(str(refused))
        return refused.status
    except KeyboardInterrupt:
        complain("stopped.")
        return 130
    return 0


def usage() -> str:
    """All jobs."""
    rows = [f"  {name:18} {about}" for name, (_, about) in jobs.JOBS.items()]
    return "usage: tailrace-spark JOB [options]; tailrace-spark JOB --help tells a job's options\n" + "\n".join(rows)


def run_job(words: list[str]) -> None:
    """Raises Refusal."""
    name, rest = jobs.find(words)
    try:
        job = jobs.load(name)
    except ModuleNotFoundError as error:
        if error.name not in ("pyspark", "py4j"):
            raise
        raise Refusal("PySpark is not installed; pip install 'tailrace[spark]' brings it.") from None
    options = parse(job, rest)
    from tailrace_spark.launch import launch

    launch(job, options)


def parse(job: Job, words: Sequence[str]) -> argparse.Namespace:
    """The options of a job. Raises Refusal; --help prints and exits."""
    parser = Parser(prog=f"tailrace-spark {job.name}", description=job.about, allow_abbrev=False)
    for option in job.options:
        add(parser, option)
    session = parser.add_argument_group("session")
    session.add_argument(
        "--master",
        type=told(values.master),
        help="Spark master; default local[*], under spark-submit what it was given",
    )
    session.add_argument("--jars", type=Path, help="folder with the Kafka connector's jars; default: Maven Central")
    session.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="Spark setting; repeatable")
    default = Path(tempfile.gettempdir(), "tailrace-spark.log")
    session.add_argument("--log", type=Path, default=default, help="file for Spark's own log (default: %(default)s)")
    return parser.parse_args(list(words))


def add(parser: argparse.ArgumentParser, option: Option) -> None:
    """One option of a job."""
    convert = told(option.convert)
    positional = not option.flag.startswith("-")
    about = option.about if option.default in (None, ()) else f"{option.about} (default: {option.default})"
    if positional:
        parser.add_argument(option.flag, help=about, type=convert, nargs=None if option.required else "?")
    elif option.many:
        parser.add_argument(option.flag, help=about, type=convert, action="append", default=list(option.default))
    else:
        parser.add_argument(option.flag, help=about, type=convert, default=option.default, required=option.required)


def told(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """The same, whose ValueError reaches the user in its own words: argparse would only name the function."""

    def converted(text: str) -> Any:
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return converted
