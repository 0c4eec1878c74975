"""Cross-entropy of logits whose classes are sharded over processes, next to the loss of the whole logits.

torchrun --nproc-per-node 2 api/python/examples/vocab_parallel.py    # one GPU for each process (NCCL), else the CPU (gloo)
"""

import torch
import torch.distributed as dist

import tunesmith.torch as tt

ROWS, COLS = 8, 64  # COLS: classes of each process


def main() -> None:
    on_gpus = torch.cuda.device_count() >= 2
    dist.init_process_group("nccl" if on_gpus else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)

    torch.manual_seed(1)  # equal numbers in all processes
    whole = torch.randn(ROWS, world * COLS).to(device)
    target = torch.randint(world * COLS, (ROWS,)).to(device)
    logits = whole[:, rank * COLS : (rank + 1) * COLS].clone().requires_grad_()
    loss = tt.vocab_parallel_cross_entropy(logits, target)
    loss.backward()

    exact = torch.nn.functional.cross_entropy(whole.double(), target)
    error = abs(loss.item() - exact.item())
    if rank == 0:
        print(f"{world} processes on {device.type}: loss {loss.item():.6f}, torch {exact.item():.6f}")
    assert error < 1e-6 * exact.item(), f"the losses differ by {error}"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
