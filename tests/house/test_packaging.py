"""What is built is what git has: nothing lost behind the root's links, nothing of them inside."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

LINKS = {"ledger", "registry", "server", "tools"}


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        list(command),
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=55,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(source: Path, target: Path, kind: str) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", target, cwd=source)
    (archive,) = target.iterdir()
    return archive


def contents_of_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def wheel(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(copy, tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.mark.promise("HOUSE-1")
def test_the_wheel_has_exactly_the_packages_files_in_git(wheel: Path, git_files: list[str]) -> None:
    assert contents_of_wheel(wheel) == {name for name in git_files if name.startswith("counterfoil/")}


def test_the_wheel_tells_type_checkers_that_it_is_typed_and_carries_the_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "counterfoil/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_sdist_has_every_file_in_git_but_the_links(copy: Path, git_files: list[str], tmp_path: Path) -> None:
    with tarfile.open(build(copy, tmp_path, "sdist")) as archive:
        members = archive.getmembers()
    assert not [member.name for member in members if member.issym() or member.islnk()]
    found = {member.name.split("/", 1)[1] for member in members if member.isfile()}
    assert found - {"PKG-INFO"} == set(git_files) - LINKS


def test_the_roots_links_are_relative_and_lead_into_the_package(root: Path) -> None:
    if not (root / "ledger").is_symlink():
        pytest.skip("a checkout without link support")
    assert {path.name: path.readlink().as_posix() for path in root.iterdir() if path.is_symlink()} == {
        name: f"counterfoil/{name}" for name in LINKS
    }


def test_a_clone_without_links_builds_the_same_wheel(root: Path, git_files: list[str], tmp_path: Path) -> None:
    assert git_files
    clone = tmp_path / "clone"
    run("git", "clone", "--quiet", "-c", "core.symlinks=false", root, clone, cwd=tmp_path)
    assert (clone / "ledger").is_file()
    tracked = run("git", "ls-files", "counterfoil", cwd=clone).split()
    assert contents_of_wheel(build(clone, tmp_path / "dist", "wheel")) == set(tracked)


def test_an_installed_wheel_is_not_led_astray_by_folders_named_like_rooms(wheel: Path, tmp_path: Path) -> None:
    site, here = tmp_path / "site", tmp_path / "here"
    run(
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        site,
        wheel,
        cwd=tmp_path,
    )
    for name in LINKS:
        (here / name).mkdir(parents=True)
        (here / name / "__init__.py").write_text("raise SystemExit('the wrong folder was imported')")
    program = "import counterfoil.registry.contract, counterfoil.ledger.states as s; print(s.__file__)"
    found = run(sys.executable, "-c", program, cwd=here, env={"PYTHONPATH": str(site)})
    assert Path(found.strip()).is_relative_to(site)
