"""The examples of the pages in docs/ with PyTorch, on CPU tensors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import cpp_extension

import tunesmith

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from documentation import ROOT, blocks


def inputs() -> dict[str, Any]:
    def leaf(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, requires_grad=True)

    return {
        "torch": torch,
        "x": leaf(4, 24),
        "weight": leaf(24),
        "logits": leaf(4, 40),
        "target": torch.arange(4),
        "hidden": leaf(4, 16),
        "head": leaf(40, 16),
        "q": leaf(1, 9, 2, 16),
        "k": leaf(1, 9, 2, 16),
        "v": leaf(1, 9, 2, 16),
        "mask": torch.ones(9, 9, dtype=torch.bool),
    }


@pytest.mark.parametrize("heading", ["PyTorch", "Replace scaled_dot_product_attention"])
def test_they_run(heading: str) -> None:
    names = inputs()
    for block in blocks()[heading]:
        if "activate_flash_attention_impl" in block and not hasattr(torch.nn.attention, "activate_flash_attention_impl"):
            continue
        exec(block, names)
    if hasattr(torch.nn.attention, "restore_flash_attention_impl"):
        torch.nn.attention.restore_flash_attention_impl()
    assert all(one.isfinite().all() for one in names.values() if isinstance(one, torch.Tensor) and one.is_floating_point())


def test_the_readmes_ten_lines() -> None:
    (block,) = blocks(ROOT / "README.md")["From Python"]
    assert len(block.splitlines()) <= 10
    changes = {'device="cuda"': 'device="cpu"', "torch.randn(4, 4096, 16, 128": "torch.randn(1, 24, 2, 16"}
    for old, new in changes.items():
        assert old in block
        block = block.replace(old, new)
    hidden, weight = (torch.randn(shape, requires_grad=True) for shape in ((6, 16), (40, 16)))
    names: dict[str, Any] = {"hidden": hidden, "weight": weight, "targets": torch.arange(6)}
    exec(block, names)
    assert names["o"].isfinite().all()
    torch.testing.assert_close(names["loss"], torch.nn.functional.cross_entropy(hidden @ weight.T, torch.arange(6)))
    assert hidden.grad is not None and weight.grad is not None


def test_the_page_on_serving() -> None:
    from test_paged import close, expected_of, small

    block, append = blocks(ROOT / "docs" / "serving.md")["From PyTorch"]
    q, cache = small()
    starts = torch.arange(len(q) + 1, dtype=torch.int32)
    names = {"q": q, "packed": q.flatten(0, 1), "kv_cache": torch.stack([cache.k, cache.v], 1), "starts": starts}
    exec(block, {**names, "block_table": cache.table, "kv_lengths": cache.lengths}, names)
    close(names["o"].unsqueeze(1), expected_of(q, cache), torch.float32)

    k, slots, ones = torch.randn(3, 2, 16), torch.tensor([9, -1, 2]), torch.ones(16)
    names = {**names, "q": q[:, 0], "k": k, "v": 2 * k, "slots": slots, "positions": torch.zeros(3, dtype=torch.int64)}
    exec(append, names | {"cos_sin": torch.cat([ones[:8], 0 * ones[:8]])[None], "wq": ones, "wk": ones}, names)
    keys, values = names["kv_cache"].unbind(1)
    for token in (0, 2):
        page, slot = divmod(int(slots[token]), keys.shape[1])
        torch.testing.assert_close(keys[page, slot], torch.nn.functional.rms_norm(k[token], (16,), eps=1e-6))
        assert torch.equal(values[page, slot], 2 * k[token])


def test_score_mod_and_mask_mod() -> None:
    (block,) = blocks()["score_mod and mask_mod as Python functions"]
    changes = {'device="cuda"': 'device="cpu"', "document = ...": "document = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])"}
    for old, new in changes.items():
        assert old in block
        block = block.replace(old, new)
    from tunesmith.torch import attention

    names = {**inputs(), "attention": attention}
    exec(block, names)
    assert torch.equal(names["o"][:, 3], attention(names["q"], names["k"][:, 3:4], names["v"][:, 3:4])[:, 3])


def test_the_guide_from_flash_attention() -> None:
    (block,) = (
        each for blocks_ in blocks(ROOT / "docs" / "guides" / "from-flash-attention.md").values() for each in blocks_
    )
    names = inputs()
    starts = torch.tensor([0, 4, 9], dtype=torch.int32)
    exec(block, names | {f"packed_{name}": names[name][0] for name in "qkv"} | {"starts": starts}, names)
    assert names["o"].shape == (9, 2, 16)
    assert names["o"].isfinite().all()


def test_the_guide_from_liger() -> None:
    (block,) = (each for blocks_ in blocks(ROOT / "docs" / "guides" / "from-liger.md").values() for each in blocks_)
    names = inputs()
    names |= {"w": names["weight"], "gate": torch.randn(4, 24), "up": torch.randn(4, 24)}
    exec(block, names)
    assert names["loss"].isfinite()
    assert names["head"].grad is not None


def test_the_guide_from_libtorch(tmp_path: Path) -> None:
    """Compile the guide's program against PyTorch's headers and libraries, and run it."""
    library = Path(tunesmith.__file__).parents[2] / "api" / "libtunesmith.so"
    if not library.exists():
        pytest.skip("not the package of a build folder")
    page = (ROOT / "docs" / "guides" / "libtorch.md").read_text(encoding="utf-8")
    source, program = tmp_path / "libtorch.cpp", tmp_path / "libtorch"
    source.write_text(page.split('```cpp title="libtorch.cpp"\n')[1].split("```\n")[0], encoding="utf-8")
    own = [ROOT / "api" / "include", ROOT / "core" / "include", *ROOT.glob("templates/*/include")]
    folders = [*cpp_extension.include_paths(), *map(str, own)]
    torch_libraries = cpp_extension.library_paths()[0]
    flags = [
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *(f"-isystem{folder}" for folder in folders),
    ]
    links = [
        str(library),
        f"-L{torch_libraries}",
        "-ltorch",
        "-ltorch_cpu",
        "-lc10",
        f"-Wl,-rpath,{library.parent}:{torch_libraries}",
    ]
    subprocess.run(["c++", "-std=c++20", "-O0", *flags, str(source), *links, "-o", str(program)], check=True)
    subprocess.run([str(program)], check=True, env={"PATH": "/usr/bin:/bin", "TUNESMITH_CACHE": "", "TUNESMITH_MODE": "off"})
