"""Fixtures of the tests with PyTorch, on CPU tensors: the host executor runs the kernels."""

from __future__ import annotations

import pytest
import torch
from sample_table import SAMPLES, Sample

import tunesmith
import tunesmith.torch
from tunesmith.torch import native


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--portable", action="store_true", help="do not use the native launcher")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a GPU")


@pytest.fixture(scope="session", autouse=True)
def launcher_of_eager_calls(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--portable"):
        native.load = lambda: None


@pytest.fixture(scope="session", autouse=True)
def one_engine() -> None:
    """No records, no measurements; binaries only if TUNESMITH_CACHE names a file."""
    torch.set_num_threads(1)
    tunesmith.torch.use_engine(tunesmith.Engine("host", mode="replay", system_caches=[]))


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(7)


@pytest.fixture(params=SAMPLES)
def sample(request: pytest.FixtureRequest) -> Sample:
    """Every call of the table of samples, one after the other."""
    return SAMPLES[request.param]
