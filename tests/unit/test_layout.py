"""Where things lie: no circles of imports, small folders, a README for every package. Its lists may only shrink."""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from support.commands import ROOT
from support.sources import files_of_tests, name_of, source, text_of

UNIT = ROOT / "tests" / "unit"
ROLES = ("broker", "controller", "coordinator", "gateway", "quota")
PACKAGES = (
    ROOT / "libs" / "tailrace",
    *(ROOT / "services" / role / f"tailrace_{role}" for role in ROLES),
    ROOT / "spark" / "tailrace_spark",
)
MOST_MODULES = 15
MOST_LONG_WORK = 15  # modules that import tailrace.net.turns or tailrace.steps
MOST_CODE_LINES = 500
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
ONE_FILE_FOR_EACH_API = {"handlers", "decide"}
# Folders with more, and how many.
LARGE_FOLDERS = {
    "spark/tailrace_spark": 21,
}
SCREEN_LINES = 50
WITH_README = (
    *sorted(path.parent for path in PACKAGES[0].glob("*/__init__.py")),
    *(ROOT / "services" / r for r in ROLES),
)
# Tests of tests/unit that are not about one module: what they show needs a floor higher, or the whole package.
ABOUT_MORE = {
    "broker/test_before_registration.py",
    "broker/test_data_path.py",
    "broker/test_many_partitions.py",
    "controller/test_many_rows.py",
    "coordinator/handlers/test_answers.py",
    "coordinator/handlers/test_many_rows.py",
    "coordinator/handlers/test_transaction_windows.py",
    "coordinator/handlers/test_transactions.py",
    "coordinator/handlers/test_without_an_image.py",
}
NOT_OF_THE_PRODUCT = ("bench", "docs", "support")  # folders of tests/unit for docs and for folders of tests
EXCUSE = "noqa: " + "SLF001"
# Names that two types have on purpose, and why.
SHARED_NAMES = {
    "RefusedBatches": "of one connection, in gateway and broker: the order behind a batch that was refused",
}


@functools.cache
def modules(package: Path) -> Mapping[str, Path]:
    """The modules of a package by their dotted names."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: Mapping[str, Path]) -> set[str]:
    """Which of the known modules a file imports: at its top, inside functions, and for types alone."""
    named = ((name, name.rpartition(".")[0]) for name in source(path).imports)
    return {name if name in known else package for name, package in named if name in known or package in known}


def circles(known: Mapping[str, Path]) -> list[list[str]]:
    """The groups of modules that import one another."""
    return groups({name: sorted(imported(path, known) - {name}) for name, path in known.items()})


def room_circles(known: Mapping[str, Path]) -> list[list[str]]:
    """The groups of rooms that import one another; a room is a folder of the package, or a module beside them."""
    imports: dict[str, set[str]] = {}
    for name, path in known.items():
        others = {room_of(other, known) for other in imported(path, known)}
        imports.setdefault(room_of(name, known), set()).update(others - {room_of(name, known)})
    return groups({room: sorted(others) for room, others in imports.items()})


def room_of(name: str, known: Mapping[str, Path]) -> str:
    """The first folder below the package, else the module."""
    package = min(known, key=len)
    return name.removeprefix(package + ".").partition(".")[0]


def groups(imports: Mapping[str, list[str]]) -> list[list[str]]:
    """The groups that import one another (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in imports[name]:
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            group = [stack.pop()]
            while group[-1] != name:
                group.append(stack.pop())
            found.append(sorted(group))

    for name in imports:
        if name not in index:
            visit(name)
    return [group for group in found if len(group) > 1]


def test_no_modules_import_one_another() -> None:
    assert {package.name: found for package in PACKAGES if (found := circles(modules(package)))} == {}


def test_no_rooms_import_one_another() -> None:
    new = {}
    for package in (*PACKAGES, *(path.parent for path in PACKAGES[0].glob("*/__init__.py"))):
        whole = next(one for one in PACKAGES if package.is_relative_to(one))
        known = {name: path for name, path in modules(whole).items() if path.is_relative_to(package)}
        found = {room for circle in room_circles(known) for room in circle}
        if found:
            new[package.name] = found
    assert new == {}, "a value type or a constant is on the wrong floor"


def test_few_modules_pause_in_their_work() -> None:
    """A loop over one request is short, since its rows have a ceiling."""
    words = ("tailrace.steps.", "tailrace.net.turns.")
    paths = [path for package in PACKAGES for path in modules(package).values()]
    pausing = [name_of(path) for path in paths if any(name.startswith(words) for name in source(path).imports)]
    assert len(pausing) <= MOST_LONG_WORK, pausing


def test_a_circle_for_types_alone_is_seen(tmp_path: Path) -> None:
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.b import B\n")
    (package / "b.py").write_text("def f():\n    from p import c\n")
    (package / "c.py").write_text("import p.a\n")
    assert circles(modules(package)) == [["p.a", "p.b", "p.c"]]


def test_no_test_is_excused_for_looking_at_what_is_private() -> None:
    """Ruff's SLF001 holds for tests as for the product, and no line switches it off."""
    assert [path for path in files_of_tests() if EXCUSE in text_of(path)] == []


def shared_names() -> list[str]:
    """The names of types that several modules define. Models of REST have Kafka's nouns, too."""
    found: Counter[str] = Counter()
    for package in PACKAGES:
        for path in modules(package).values():
            if not path.stem.endswith("models"):
                found.update(source(path).types)
    return [name for name, count in found.items() if count > 1 and not name.startswith("_")]


def test_no_type_has_the_name_of_another() -> None:
    assert set(shared_names()) == set(SHARED_NAMES), "one word, one meaning: docs/adr/0024"


def folder_sizes() -> dict[str, int]:
    """How many modules each folder of the product has."""
    sizes: dict[str, int] = {}
    for package in PACKAGES:
        for path in modules(package).values():
            if path.stem not in ("__init__", "__main__") and path.parent.name not in ONE_FILE_FOR_EACH_API:
                name = path.parent.relative_to(ROOT).as_posix()
                sizes[name] = sizes.get(name, 0) + 1
    return sizes


def test_a_folder_has_no_more_modules_than_a_reader_keeps_in_mind() -> None:
    large = {name: size for name, size in folder_sizes().items() if size > MOST_MODULES}
    assert large == LARGE_FOLDERS, "a folder that grew needs rooms; one that shrank leaves the table"


def code_lines(path: Path) -> int:
    """The lines of a module that hold code: not those that are empty, a comment, or in a docstring."""
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text_of(path)).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text_of(path))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def test_a_module_is_read_at_once() -> None:
    paths = [path for package in PACKAGES for path in modules(package).values()]
    long = [path for path in paths if text_of(path).count("\n") > MOST_CODE_LINES]
    assert {path.name: size for path in long if (size := code_lines(path)) > MOST_CODE_LINES} == {}


def test_what_is_counted_as_code(tmp_path: Path) -> None:
    lines = ['"""Two', 'lines."""', "", "# why", 'x = """a', 'b"""', "", "def f():", '    """D."""', "    return x"]
    (tmp_path / "m.py").write_text("\n".join(lines))
    assert code_lines(tmp_path / "m.py") == 4


def test_a_readme_is_one_screen() -> None:
    lengths = {name_of(folder): len(readme(folder).splitlines()) for folder in WITH_README}
    assert {name: length for name, length in lengths.items() if length > SCREEN_LINES} == {}


def readme(folder: Path) -> str:
    return text_of(folder / "README.md")


def test_what_a_readme_names_exists() -> None:
    missing = {}
    for folder in WITH_README:
        written = re.sub(r"```.*?```", "", readme(folder), flags=re.S)
        places = (folder, *folder.glob("tailrace_*"), ROOT)
        named = [word for word in re.findall(r"`([^`\s]+)`", written) if is_path(word)]
        named += [word.partition("#")[0] for word in re.findall(r"\]\(([^)]+)\)", written)]
        assert named, folder
        missing[name_of(folder)] = [word for word in named if not any((place / word).exists() for place in places)]
    assert {name: words for name, words in missing.items() if words} == {}


def is_path(word: str) -> bool:
    roots = ("libs/", "services/", "tests/", "docs/")
    return re.fullmatch(r"[\w./-]+(\.py|\.md|/)", word) is not None or word.startswith(roots)


def test_a_readme_says_what_its_package_imports() -> None:
    known = modules(PACKAGES[0])
    said, found = {}, {}
    for folder in (path for path in WITH_README if path.parent == PACKAGES[0]):
        (words,) = re.findall(r"Imports of Tailrace: ([^.]*)\.", readme(folder))
        named = {name for path in folder.rglob("*.py") for name in imported(path, known)} - {"tailrace"}
        said[folder.name] = set(re.findall(r"`(\w+)`", words))
        found[folder.name] = {name.split(".")[1] for name in named} - {folder.name}
    assert said == found


def source_folder(folder: Path) -> Path:
    """Where the modules lie that a folder of tests/unit is about."""
    parts = folder.relative_to(UNIT).parts
    if parts and parts[0] in ROLES and not (PACKAGES[0] / parts[0]).joinpath(*parts[1:]).is_dir():
        return (ROOT / "services" / parts[0] / f"tailrace_{parts[0]}").joinpath(*parts[1:])
    return PACKAGES[0].joinpath(*parts)


def is_about_a_module(test: Path) -> bool:
    """Whether a test is named test_<module>.py or test_<module>_<what>.py, in the folder that mirrors the module's."""
    about = test.stem.removeprefix("test_")
    folders = [source_folder(test.parent)]
    if test.relative_to(UNIT).parts[0] == "quota":  # the package and the service have one name
        folders.append(ROOT / "services" / "quota" / "tailrace_quota")
    names = {path.stem for folder in folders if folder.is_dir() for path in folder.iterdir()} - {"__init__", "__main__"}
    return any(about == name or about.startswith(f"{name}_") for name in names)


def test_unit_tests_lie_as_the_modules_they_are_about() -> None:
    """So that the tests of a module are found in one guess, and the module of a test in another."""
    tests = [path for path in UNIT.rglob("test_*.py") if path.relative_to(UNIT).parts[0] not in NOT_OF_THE_PRODUCT]
    others = {path.relative_to(UNIT).as_posix() for path in tests if not is_about_a_module(path)}
    assert others - {"test_architecture.py", "test_layout.py"} == ABOUT_MORE
