# SPDX-License-Identifier: Apache-2.0
"""What is shipped: the wheel, the licence line, the pins, and nothing of the machine it was written on."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SPDX = f"# SPDX-License-Identifier: {PROJECT['license']}"


def run(*command: str | Path, **options) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


def test_wheel_holds_the_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = (name for name in names if name.endswith(".dist-info/entry_points.txt"))
        assert "fpovi = fpovi.cli:entry" in archive.read(entry_points).decode()
    assert {"fpovi/__init__.py", "fpovi/__init__.pyi", "fpovi/__main__.py", "fpovi/py.typed"} <= set(names)
    assert any(name.endswith("/LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"fpovi"}


def test_wheel_installs_and_runs(wheel, tmp_path):
    site = tmp_path / "site"
    run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target", site, wheel)
    here = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(site)}}
    imported = run(sys.executable, "-c", "import fpovi; print(fpovi.__file__)", **here)
    assert Path(imported.strip()).is_relative_to(site)
    assert PROJECT["version"] in run(sys.executable, "-m", "fpovi", "--version", **here)


def sources() -> list[Path]:
    return sorted(path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py"))


def test_every_source_file_starts_with_its_licence():
    without = [
        str(path.relative_to(ROOT)) for path in sources() if path.read_text(encoding="utf-8").split("\n", 1)[0] != SPDX
    ]
    assert not without, f"put {SPDX!r} on the first line of: {', '.join(without)}"


# Not preceded by a name or a dot, so that an address such as example.org/… or a relative path is no match.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:{})/".format("|".join(("work", "root", "home", "Users"))))
REGISTRY = re.compile(
    "|".join(re.escape(".".join(host)) for host in (("pypi", "org"), ("pythonhosted", "org"), ("anaconda", "org")))
    + "|"
    + "|".join("-".join(option) for option in (("index", "url"), ("find", "links")))
)


def project_files() -> list[Path]:
    """Files that are in the repository or would be after `git add`."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so there is no list of the project's files")
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def test_nothing_names_a_machine_or_a_registry():
    found = []
    for path in project_files():
        data = path.read_bytes()
        if b"\0" in data:
            continue
        for number, line in enumerate(data.decode("utf-8", errors="replace").splitlines(), start=1):
            if match := MACHINE_PATH.search(line) or REGISTRY.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {match[0]}")
    assert not found, "write a relative path, or leave the address out:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("see {0}work{0}x", True),
        ("file://{0}root{0}x", True),
        ('"{0}home{0}me"', True),
        ("https://example.org{0}home{0}", False),
        ("..{0}work{0}x", False),
    ],
)
def test_machine_paths_are_recognised(text, caught):
    assert bool(MACHINE_PATH.search(text.format("/"))) is caught


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_constraints_pin_every_dependency():
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    odd = [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", line)]
    assert not odd, f"constraints.txt has names and exact versions only, not {odd}"
    pinned = {canonical(line.split("==")[0]) for line in lines}
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["flax"], *extras["dev"]]
    missing = {canonical(re.match(r"[\w.-]+", line)[0]) for line in wanted} - pinned - {PROJECT["name"]}
    assert not missing, f"add to constraints.txt: {', '.join(sorted(missing))}"


def test_citation_and_changelog_know_the_version():
    version = re.escape(PROJECT["version"])
    for name, line in {"CITATION.cff": f"version: {version}$", "CHANGELOG.md": rf"## \[{version}\]"}.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        assert re.search(f"^{line}", text, re.MULTILINE), f"{name} does not mention {PROJECT['version']}"
