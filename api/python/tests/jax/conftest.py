"""Tests of tunesmith.jax on the host executor, on two devices that share the CPU."""

from __future__ import annotations

import os

import pytest

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
jax = pytest.importorskip("jax")
jax.config.update("jax_platforms", os.environ.get("JAX_PLATFORMS") or "cpu")
