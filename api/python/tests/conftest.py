"""Fixtures of the tests that need no PyTorch."""

from __future__ import annotations

import pytest

import tunesmith


@pytest.fixture(scope="session")
def engine() -> tunesmith.Engine:
    """An engine on the host executor that stores nothing."""
    return tunesmith.Engine("host", mode="replay", cache_file="", system_caches=[])
