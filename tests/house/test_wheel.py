"""The wheel is complete, and does not clash with names of user modules."""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.house.weight import ROOMS, ROOT

pytestmark = pytest.mark.wire
SHIPPED = (*ROOMS, "tests", "tools", "examples", "docs")
"""Folders of the checkout that the sdist holds."""
USERS_OWN = """
import sys
import cache, engine.motor, protocols
assert (cache.MINE, engine.motor.MINE, protocols.MINE) == (1, 2, 3)
import oversight.cache.cache, oversight.engine.views.cli.group, oversight.protocols.catalogue
from oversight import run
assert (cache.MINE, engine.motor.MINE, protocols.MINE) == (1, 2, 3)
print(oversight.__file__)
"""


def run(*words: str | Path, cwd: Path) -> str:
    """Return the output of a program that does not see this checkout."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.run(
        list(map(str, words)), cwd=cwd, env=variables, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def built(kind: str, source: Path, folder: Path) -> Path:
    """A wheel or an sdist of a source tree."""
    run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder, cwd=source)
    (file,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return file


def in_wheel(file: Path) -> set[str]:
    with ZipFile(file) as wheel:
        return {name for name in wheel.namelist() if name.startswith("oversight/")}


def tree(*folders: str) -> set[str]:
    """Return the files of folders of the checkout, without generated ones."""
    files = (file for name in folders for file in (ROOT / name).rglob("*") if file.is_file())
    return {
        str(file.relative_to(ROOT))
        for file in files
        if "__pycache__" not in file.parts and not file.name.startswith(".")
    }


def expected_in_wheel() -> set[str]:
    examples = {f"oversight/engine/data/{name}" for name in tree("examples")}
    face = {
        f"oversight/{name}" for name in ("__init__.py", "__init__.pyi", "__main__.py", "py.typed")
    }
    return {f"oversight/{name}" for name in tree(*ROOMS)} | examples | face


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


def test_a_wheel_holds_every_file_of_the_rooms_under_the_one_import_name(wheel):
    assert in_wheel(wheel) == expected_in_wheel()


def test_a_wheel_from_the_sdist_is_the_same(tmp_path):
    with tarfile.open(built("sdist", ROOT, tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = (path for path in tmp_path.iterdir() if path.name.startswith("oversight_bench"))
    files = {str(file.relative_to(source)) for file in source.rglob("*") if file.is_file()}
    assert tree(*SHIPPED) <= files
    assert in_wheel(built("wheel", source, tmp_path / "wheel")) == expected_in_wheel()


def test_a_clone_without_links_runs_and_builds_the_same_wheel(tmp_path):
    clone = tmp_path / "clone"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        clone.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, clone)
    for name in (*ROOMS, "examples"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "oversight", clone / "oversight", ignore=lambda *_: ROOMS)
    for room in ROOMS:
        # Git writes a file with the link's target if it cannot make links.
        (clone / "oversight" / room).write_text(f"../{room}")
    code = "import oversight.engine.views.cli.group as group; print(group.__file__)"
    output = run(sys.executable, "-c", code, cwd=clone)
    assert output.strip() == str(clone / "engine" / "views" / "cli" / "group.py")
    assert in_wheel(built("wheel", clone, tmp_path / "wheel")) == expected_in_wheel()


def test_script_next_to_a_checkout_called_oversight_gets_the_package(tmp_path):
    (tmp_path / "oversight").symlink_to(ROOT)
    code = "from oversight import run; import oversight.engine; print(oversight.engine.__file__)"
    output = run(sys.executable, "-c", code, cwd=tmp_path)
    assert Path(output.strip()).resolve() == ROOT / "engine" / "__init__.py"


def test_installed_wheel_coexists_with_user_modules_of_the_same_names(wheel, tmp_path):
    bare = tmp_path / "bare"
    venv.create(bare, symlinks=True)
    python = bare / "bin" / "python"
    install = ("-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "-q")
    run(sys.executable, *install, "--no-compile", wheel, cwd=tmp_path)
    (packages,) = bare.glob("lib/*/site-packages")
    libraries = next(path for path in sys.path if path.endswith("site-packages"))
    # A line of a .pth file adds the folder, and reads no .pth files in it: no editable install.
    (packages / "libraries.pth").write_text(libraries)
    app = tmp_path / "own"
    for name, number in (("cache.py", 1), ("engine/motor.py", 2), ("protocols/__init__.py", 3)):
        (app / name).parent.mkdir(parents=True, exist_ok=True)
        (app / name).write_text(f"MINE = {number}\n")
    (app / "engine" / "__init__.py").touch()
    (app / "main.py").write_text(USERS_OWN)
    assert Path(run(python, "main.py", cwd=app).strip()).is_relative_to(bare)
    # With -m, the working folder comes before all that is installed.
    assert "debate" in run(python, "-m", "oversight.engine", "demo", "--store", "store", cwd=app)
