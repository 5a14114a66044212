# SPDX-License-Identifier: Apache-2.0
"""The floors of the package: read all imports, find those that go up, and draw the house.

``python tools/floors.py`` writes ``docs/figures/architecture.png``; ``tests/test_layers.py`` checks the order.
"""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = "fpovi"
ROOT = Path(__file__).parents[1] / "src" / PACKAGE
PICTURE = Path(__file__).parents[1] / "docs" / "figures" / "architecture.png"

# Top to bottom: a floor's number, rooms and what they are for. A room is a module or a package directly under fpovi.
FLOORS: list[dict[str, str]] = [
    {"cli": "parse, call, print"},
    {"experiments": "spec → rows → table", "bench": "times, beside others"},
    {"bandits": "decide, learn, ask logs"},
    {
        "baselines": "other people's methods",
        "robustness": "attacks, unknown inputs",
        "acquisition": "what to ask next",
        "adapters": "for other libraries",
        "datasets": "fetch, splits",
    },
    {"estimators": "BNNRegressor, BNNClassifier"},
    {"selection": "scales, noise, steps", "export": "StableHLO, ONNX"},
    {"fitting": "names → parts → phases → Fitted"},
    {
        "tabular": "tables ↔ numbers",
        "persistence": "files",
        "calibration": "metrics, conformal",
        "plots": "figures",
        "diagnostics": "verdicts",
        "_progress": "bars",
    },
    {"inference": "step, loop, batches, sharding", "predictive": "what particles say"},
    {
        "flows": "velocities",
        "kernels": "grams",
        "measurement": "points μ, ν",
        "networks": "mlp, resnet, yours",
        "priors": "scores of p(f)",
        "likelihoods": "p(y | f)",
        "augmentation": "random images",
    },
    {"_fast": "CPU tricks", "_float64": "double precision", "_lookup": "names → parts"},
    {"types": "records, protocols, errors"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
ENGINES, PARTS = FLOOR["inference"], FLOOR["flows"]
ROOF = {PACKAGE, f"{PACKAGE}.__main__"}  # may import anything, and nothing imports it
NOT_IN_PURE_JAX = {"pandas", "sklearn", "typer", "rich", "matplotlib", "scipy", "blackjax"}


def room(module: str) -> str:
    """Return the room of a module."""
    return module.split(".")[1]


def module_name(path: Path, root: Path) -> str:
    """Return the dotted name of a file."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join((PACKAGE, *parts)).removesuffix(".__init__")


def imported_names(module: str, path: Path) -> Iterator[str]:
    """The dotted names that a module imports, anywhere in it, relative ones made absolute."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{source}.{alias.name}" for alias in node.names)


def read_imports(root: Path) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """For each module: the modules of this package it imports, and the libraries."""
    paths = {module_name(path, root): path for path in sorted(root.rglob("*.py"))}
    inside: dict[str, set[str]] = {module: set() for module in paths}
    outside: dict[str, set[str]] = {module: set() for module in paths}
    for module, path in paths.items():
        for name in imported_names(module, path):
            if name.split(".")[0] != PACKAGE:
                outside[module].add(name.split(".")[0])
                continue
            while name not in paths and "." in name:  # a function or class: the module that has it
                name = name.rpartition(".")[0]
            inside[module].add(name)
    return inside, outside


def direction_faults(inside: dict[str, set[str]]) -> Iterator[str]:
    """Yield a sentence for every import that goes up, or from one part to another."""
    for module, targets in inside.items():
        for target in sorted(targets):
            if target in ROOF:
                yield f"{module} imports {target}, the roof: import from the module that defines the name instead"
            elif room(target) not in FLOOR or room(target) == room(module):
                continue
            elif FLOOR[room(target)] < FLOOR[room(module)]:
                yield (
                    f"{module} imports {target} from a floor above: move what it needs to a lower floor, "
                    "or let the caller pass it in"
                )
            elif FLOOR[room(target)] == FLOOR[room(module)] == PARTS:
                yield (
                    f"{module} imports {target}, but parts do not know each other: join them in an engine, "
                    "or move what both need below the parts"
                )


def cycle_faults(inside: dict[str, set[str]]) -> Iterator[str]:
    """Circles among the modules of one room, then among the rooms of one floor."""
    siblings: dict[str, set[str]] = {}
    neighbours: dict[str, set[str]] = {}
    for module, targets in inside.items():
        targets = targets - ROOF - {module}
        siblings[module] = {target for target in targets if room(target) == room(module)}
        same_floor = {room(t) for t in targets if FLOOR.get(room(t)) == FLOOR[room(module)]}
        neighbours.setdefault(room(module), set()).update(same_floor - {room(module)})
    for graph in (siblings, neighbours):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = " -> ".join(reversed(error.args[1]))  # graphlib puts the imported before its importer
            yield f"imports go in a circle, {circle}: move what both ends need into a module of its own"


def library_faults(outside: dict[str, set[str]]) -> Iterator[str]:
    """Yield a sentence for every library that parts and engines may not use."""
    for module, libraries in outside.items():
        if FLOOR[room(module)] >= ENGINES:
            for library in sorted(libraries & NOT_IN_PURE_JAX):
                yield f"{module} imports {library}, but parts and engines are pure JAX: do it on a floor above"


def faults(root: Path) -> list[str]:
    """Everything in the package under root that breaks the layers, one sentence each."""
    inside, outside = read_imports(root)
    modules = inside.keys() - ROOF
    housed = sorted(module for module in modules if room(module) in FLOOR)
    homeless = sorted({room(module) for module in modules} - FLOOR.keys())
    return [
        *(f"{PACKAGE}.{name} is on no floor: give it one in FLOORS" for name in homeless),
        *direction_faults({module: inside[module] for module in housed}),
        *cycle_faults({module: inside[module] for module in housed}),
        *library_faults({module: outside[module] for module in housed}),
    ]


def lines_of(room_name: str) -> int:
    """Return how many lines a room has."""
    path = ROOT / room_name
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def calls_between_rooms() -> set[tuple[str, str]]:
    """Return which room imports which, without those that follow from others: a → c, where a → b → c."""
    inside, _ = read_imports(ROOT)
    below: dict[str, set[str]] = {}
    for module, targets in inside.items():
        if module not in ROOF:
            below.setdefault(room(module), set()).update(room(t) for t in targets - ROOF if room(t) != room(module))

    def reached(name: str) -> set[str]:
        return below[name].union(*(reached(other) for other in below[name]))

    return {
        (name, target)
        for name, targets in below.items()
        for target in targets
        if not any(target in reached(other) for other in targets - {target})
    }


def draw(path: Path) -> None:
    """Draw every floor as a row of rooms, with arrows to the rooms it imports."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import FancyBboxPatch

    figure, axes = plt.subplots(figsize=(11, 10.5))
    centres: dict[str, tuple[float, float]] = {}
    for number, rooms in enumerate(FLOORS):
        wide = 11 / len(rooms)
        for place, name in enumerate(rooms):
            centres[name] = (place + 0.5) * wide, -float(number)
    for source, target in sorted(calls_between_rooms()):
        (x0, y0), (x1, y1) = centres[source], centres[target]
        if FLOOR[target] > FLOOR[source]:
            style = {
                "arrowstyle": "-|>",
                "color": "#8fa3b5",
                "alpha": 0.8,
                "linewidth": 1.0,
                "shrinkA": 0,
                "shrinkB": 0,
            }
            axes.annotate("", (x1, y1 + 0.29), (x0, y0 - 0.29), arrowprops=style, zorder=1)
    for rooms in FLOORS:
        for name, purpose in rooms.items():
            x, y = centres[name]
            half = min(11 / len(rooms), 4.4) / 2 - 0.06
            box = FancyBboxPatch(
                (x - half, y - 0.27),
                2 * half,
                0.54,
                boxstyle="round,pad=0.02",
                facecolor="#f4f6f8",
                edgecolor="#33475b",
            )
            axes.add_patch(box)
            axes.text(x, y + 0.09, name, ha="center", va="center", fontsize=10, weight="bold", color="#1c2733")
            axes.text(x, y - 0.1, purpose, ha="center", va="center", fontsize=7.5, color="#33475b")
    axes.set(xlim=(-0.1, 11.1), ylim=(-len(FLOORS) + 0.55, 0.45))
    axes.axis("off")
    figure.savefig(path, dpi=110, bbox_inches="tight", metadata={"Software": None})


if __name__ == "__main__":
    draw(PICTURE)
