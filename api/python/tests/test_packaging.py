"""What the package declares: extras, what it depends on, files that come along, and the parts of its version."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import tunesmith

PROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"
PACKAGE = Path(tunesmith.__file__).parent


@pytest.fixture(scope="module")
def project() -> dict[str, object]:
    if not PROJECT.exists():
        pytest.skip("needs the checkout")
    return tomllib.loads(PROJECT.read_text())["project"]


def test_nvrtc_is_an_extra_and_not_pinned(project: dict) -> None:
    """PyTorch pins its own NVRTC, which serves as well; a base dependency, or a pin, would replace it."""
    extras = project["optional-dependencies"]
    assert {"cu12", "cu13", "torch", "test"} <= set(extras)
    for name in ("cu12", "cu13"):
        assert any("nvrtc" in one for one in extras[name])
        assert any("cublas" in one for one in extras[name])
    for one in [*project["dependencies"], *(one for each in extras.values() for one in each)]:
        assert not re.search(r"==|<|~=|!=", one), f"{one} is pinned or has an upper bound"
    assert not any(re.search(r"nvidia|cuda|torch|numpy", one) for one in project["dependencies"])


def test_the_command_is_declared(project: dict) -> None:
    assert project["scripts"] == {"tunesmith": "tunesmith.__main__:main"}


def test_types_come_along() -> None:
    assert (PACKAGE / "py.typed").exists()
    stub = (PACKAGE / "_core.pyi").read_text()
    for name in ("class Engine", "class Plan", "class Problem", "def launcher"):
        assert name in stub


def test_the_version_is_the_librarys() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", tunesmith.__version__)
    assert tunesmith.__version__ == tunesmith._core.version
