"""`tailrace-spark JOB [options]`: finds the job, checks what it was given, opens a session, runs it."""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from tailrace_spark import jobs, values
from tailrace_spark.console import complain, say
from tailrace_spark.refusal import Refusal

if TYPE_CHECKING:
    from tailrace_spark.job import Job, Option

NAME: Final = "tailrace-spark"
COMPLETE: Final = "_TAILRACE_SPARK_COMPLETE"  # by which the shell's function asks for words
SHELLS: Final = ("bash", "zsh", "fish")


def main() -> None:
    """The entry point of the console script."""
    if COMPLETE in os.environ:
        of_completion().completion_init()
        tree()(prog_name=NAME, complete_var=COMPLETE)
    raise SystemExit(run(sys.argv[1:]))


def run(words: Sequence[str]) -> int:
    """Runs a job; the exit status is 2 for bad input and 1 for a job that failed."""
    if not words or words[0] in ("-h", "--help"):
        say(usage())
        return 0
    try:
        if words[0] == "completion":
            say(completion(*words[1:]))
        else:
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
    first = f"usage: {NAME} JOB [options]; {NAME} JOB --help tells a job's options"
    return "\n".join((first, *rows, f"  {'completion SHELL':18} what makes bash, zsh or fish complete these words"))


def completion(*words: str) -> str:
    """The shell's function. Raises Refusal."""
    if len(words) != 1 or words[0] not in SHELLS:
        raise Refusal(f"{NAME} completion takes the name of a shell: {', '.join(SHELLS)}.")
    script: str = of_completion().get_completion_script(prog_name=NAME, complete_var=COMPLETE, shell=words[0])
    return script


def of_completion() -> Any:
    """The part of typer that says of none of its functions that it exports them."""
    return import_module("typer.completion")


def run_job(words: list[str]) -> None:
    """Raises Refusal."""
    name, rest = jobs.find(words)
    job = loaded(name)
    options = parse(job, rest)
    if options is not None:
        from tailrace_spark.launch import launch

        launch(job, options)


def loaded(name: str) -> Job:
    """The job. Raises Refusal where a package is missing."""
    try:
        return jobs.load(name)
    except ModuleNotFoundError as error:
        if error.name not in ("pyspark", "py4j", "lark"):
            raise
        raise Refusal("PySpark is not installed; pip install 'tailrace[spark]' brings it.") from None


def parse(job: Job, words: Sequence[str]) -> Namespace | None:
    """The options of a job; None where --help was asked for, and answered. Raises Refusal."""
    given: list[Namespace] = []
    prog = f"{NAME} {job.name}"
    try:
        command(job, given.append).main(list(words), prog_name=prog, standalone_mode=False)
    except typer.TyperException as error:
        said = error.format_message().replace("\n", " ").rstrip(".")
        raise Refusal(f"{said}; see {prog} --help.") from None
    return given[0] if given else None


def command(job: Job, take: Callable[[Namespace], None]) -> TyperCommand:
    """The job as a command of typer, which hands over the options."""

    def call(**options: Any) -> None:
        take(Namespace(**options))

    parameters = [*map(parameter, job.options), *session_parameters()]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(job.name, help=job.about)(call)
    found: TyperCommand = import_module("typer.main").get_command(app)
    return found


def parameter(option: Option) -> inspect.Parameter:
    """One option of a job."""
    settings: dict[str, Any] = {"help": option.about, "parser": told(option.convert), "metavar": metavar(option)}
    if not option.flag.startswith("-"):
        default = inspect.Parameter.empty if option.required else option.default
        return made(option.key, Any, typer.Argument(**settings), default)
    info = typer.Option(option.flag, show_default=option.default not in (None, ()), **settings)
    if option.many:
        return made(option.key, list[Any], info, list(option.default))
    return made(option.key, Any, info, inspect.Parameter.empty if option.required else option.default)


def session_parameters() -> list[inspect.Parameter]:
    """The options that every job has."""
    log = Path(tempfile.gettempdir(), "tailrace-spark.log")
    about = {
        "master": "Spark master; default local[*], under spark-submit what it was given",
        "jars": "folder with the jars for Kafka and Delta; default: Maven Central",
        "conf": "Spark setting; repeatable",
        "log": "file for Spark's own log",
    }
    return [
        made("master", Any, typer.Option("--master", help=about["master"], parser=told(values.master), metavar="URL")),
        made("jars", Path, typer.Option("--jars", help=about["jars"])),
        made("conf", list[str], typer.Option("--conf", help=about["conf"], metavar="KEY=VALUE"), []),
        made("log", Path, typer.Option("--log", help=about["log"]), log),
    ]


def made(name: str, kind: Any, info: Any, default: Any = None) -> inspect.Parameter:
    """For typer."""
    optional = kind if default is not None else kind | None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[optional, info]
    )


def metavar(option: Option) -> str:
    """What stands for the value in --help."""
    return option.key.upper()


def told(convert: Callable[[str], Any]) -> Callable[[Any], Any]:
    """The same for typer, which gives defaults too, whose ValueError reaches the user in its own words."""

    def converted(given: Any) -> Any:
        if not isinstance(given, str):
            return given
        try:
            return convert(given)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return converted


class Jobs(TyperGroup):
    """All jobs, for completion: a word after which other words follow is a group with the options of its own job."""

    def __init__(self, before: str = "") -> None:
        super().__init__(name=before or NAME, invoke_without_command=True)
        self.before = before

    def list_commands(self, ctx: Any) -> list[str]:
        """The words that may come next."""
        skipped = f"{self.before} " if self.before else ""
        rest = (name.removeprefix(skipped) for name in jobs.JOBS if name.startswith(skipped))
        return sorted({name.split()[0] for name in rest} | (set() if self.before else {"completion"}))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A job, or a group."""
        name = f"{self.before} {cmd_name}".strip()
        own: Any = command(loaded(name), lambda options: None) if name in jobs.JOBS else None
        if not any(other.startswith(f"{name} ") for other in jobs.JOBS):
            return own
        group = Jobs(name)
        group.params += own.params if own else []
        return group


def tree() -> TyperGroup:
    """The root of all words."""
    return Jobs()
