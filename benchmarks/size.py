"""Size and shape of the package: lines of code, modules, imports and import cycles.

``make size`` prints it; ``tests/test_size.py`` holds the budget. A line of code is one that is not
blank, no comment and no part of a docstring.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "calibrail"

#: A module of more lines is several subjects, one of fewer belongs into another one.
LARGE, SMALL = 500, 40


@dataclass(frozen=True, slots=True)
class Module:
    """Lines of one module, those of its imports, and what it imports when it is imported."""

    name: str
    lines: int
    import_lines: int
    imports: frozenset[str]


@dataclass(frozen=True, slots=True)
class Size:
    """Modules with code, and the cycles of their imports."""

    modules: tuple[Module, ...]
    cycles: tuple[tuple[str, ...], ...]

    @property
    def lines(self) -> int:
        """Lines of code of the whole package."""
        return sum(module.lines for module in self.modules)

    @property
    def import_share(self) -> float:
        """Lines of imports in percent of all lines."""
        return 100.0 * sum(module.import_lines for module in self.modules) / self.lines

    @property
    def weighted_median(self) -> int:
        """Lines of the module in which the median line of the package stands."""
        counted = 0
        for lines in sorted(module.lines for module in self.modules):
            counted += lines
            if counted >= self.lines / 2:
                return lines
        return 0

    def larger(self) -> list[Module]:
        """Large modules, the largest first."""
        ordered = sorted(self.modules, key=lambda module: -module.lines)
        return [module for module in ordered if module.lines > LARGE]

    def smaller(self) -> list[Module]:
        """Small modules; an ``__init__`` that gathers names is none of them."""
        ordered = sorted(self.modules, key=lambda module: module.lines)
        return [
            module
            for module in ordered
            if module.lines < SMALL and not module.name.endswith("__init__")
        ]


def measure(package: Path = PACKAGE) -> Size:
    """Read every module of a package."""
    names = {_name(path, package): path for path in sorted(package.rglob("*.py"))}
    known = {name.removesuffix(".__init__") for name in names}
    modules = [_module(name, path, known) for name, path in names.items()]
    return Size(tuple(module for module in modules if module.lines), tuple(_cycles(modules)))


def _name(path: Path, package: Path) -> str:
    return ".".join(path.relative_to(package.parent).with_suffix("").parts)


def _module(name: str, path: Path, known: set[str]) -> Module:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    documented: set[int] = set()
    imported: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                if ast.get_docstring(node, clean=False) is not None:
                    documented |= _lines(node.body[0])
            case ast.Import() | ast.ImportFrom():
                imported |= _lines(node)
    code = {
        number
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip() and not line.lstrip().startswith("#") and number not in documented
    }
    own = name.removesuffix(".__init__")
    imports = frozenset(_imports(tree.body, own, known))
    return Module(name, len(code), len(imported & code), imports)


def _lines(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _imports(body: list[ast.stmt], own: str, known: set[str]) -> Iterator[str]:
    """Yield the modules of the package that are imported as soon as a module is.

    A package that a module is part of is on the way to every import, and counts only where the
    module takes a name that the package itself defines.
    """
    for node in body:
        match node:
            case ast.ImportFrom(module=str(source), names=names):
                for alias in names:
                    target = f"{source}.{alias.name}"
                    inner = target in known
                    parts = (target if inner else source).split(".")
                    for end in range(2, len(parts) + 1):
                        name = ".".join(parts[:end])
                        around = own.startswith(f"{name}.")
                        counts = name == source and not inner if around else name != own
                        if name in known and counts:
                            yield name
            case ast.Try() | ast.With():
                yield from _imports(node.body, own, known)
            case ast.If(test=test):
                if not (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"):
                    yield from _imports([*node.body, *node.orelse], own, known)


def _cycles(modules: list[Module]) -> Iterator[tuple[str, ...]]:
    """Yield the modules that import each other, by Tarjan's algorithm."""
    imports = {module.name.removesuffix(".__init__"): module.imports for module in modules}
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> Iterator[tuple[str, ...]]:
        index[name] = lowest[name] = len(index)
        stack.append(name)
        for other in sorted(imports[name]):
            if other not in index:
                yield from visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], index[other])
        if lowest[name] == index[name]:
            start = stack.index(name)
            component, stack[start:] = stack[start:], []
            if len(component) > 1:
                yield tuple(sorted(component))

    for name in sorted(imports):
        if name not in index:
            yield from visit(name)


def main() -> None:
    """Print the size."""
    size = measure()
    print(f"lines of code     {size.lines:>7,}   (no blanks, comments, docstrings)")
    print(f"modules with code {len(size.modules):>7}")
    print(f"weighted median   {size.weighted_median:>7}   (lines of the module of a typical line)")
    print(f"imports           {size.import_share:>7.1f} % of lines")
    print(f"import cycles     {len(size.cycles):>7}")
    for cycle in size.cycles:
        print(f"  {', '.join(cycle)}")
    for what, modules in ((f"over {LARGE}", size.larger()), (f"under {SMALL}", size.smaller())):
        print(f"modules {what} lines: {len(modules)}")
        for module in modules:
            print(f"  {module.lines:>4} {module.name}")


if __name__ == "__main__":
    main()
