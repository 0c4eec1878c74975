"""Mean errors of attention's gradients by what is rounded to 16 bits, in float64 with each rounding on or off.

    python3 bench/accuracy/attention_roundings.py            # needs NumPy; docs/accuracy.md holds what it prints

Errors are relative to the mean magnitude of the exact gradient. "all" is what the kernels of this project round.
"""

import numpy as np

ROUNDINGS = ("o", "P in dv", "P in dS", "dS", "results")


def bf16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


def f16(x):
    return np.asarray(x, np.float64).astype(np.float16).astype(np.float64)


def gradients(q, k, v, dout, rounded, narrow, scale):
    """Returns dq, dk and dv of one head, with the roundings in the set `rounded`."""

    def maybe(name, x):
        return narrow(x) if name in rounded else x

    s = scale * q @ k.T
    p = np.exp(s - s.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    delta = (maybe("o", p @ v) * dout).sum(axis=1, keepdims=True)
    ds = maybe("dS", maybe("P in dS", p) * (dout @ v.T - delta))
    return [maybe("results", x) for x in (scale * ds @ k, scale * ds.T @ q, maybe("P in dv", p).T @ dout)]


def errors(inputs, narrow, rounded, scale):
    exact = gradients(*inputs, set(), narrow, scale)
    found = gradients(*inputs, rounded, narrow, scale)
    return [np.abs(f - e).mean() / np.abs(e).mean() for f, e in zip(found, exact)]


def table(title, make, narrow, scale):
    generator = np.random.default_rng(5)
    inputs = [narrow(x) for x in make(generator)]
    everything = set(ROUNDINGS)
    rows = [("all", everything), ("all but P in dS, as flex_attention", everything - {"P in dS"})]
    rows += [(f"only {name}", {name}) for name in ROUNDINGS]
    print(f"\n{title}\n\n| rounded to 16 bits | dq | dk | dv |\n| --- | --: | --: | --: |")
    for name, rounded in rows:
        print(f"| {name} | " + " | ".join(f"{e:.1e}" for e in errors(inputs, narrow, rounded, scale)) + " |")


def captured(q, k, v, dout, rounded, narrow, scale):
    """Returns the gradients of bias[k], bias[q - k] and gain in score_mods of one head.

    This project keeps P and dS in float32 there, sums in float32, and rounds a result to the dtype of its tensor.
    """
    s = scale * q @ k.T
    p = np.exp(s - s.max(axis=1, keepdims=True))
    total = p.sum(axis=1, keepdims=True)
    o = (narrow(p) if "P in o" in rounded else p) @ v / total
    delta = ((narrow(o) if "o" in rounded else o) * dout).sum(axis=1, keepdims=True)
    weights = narrow(p / total) if "P in dS" in rounded else p / total
    ds = weights * (dout @ v.T - delta)
    ds = narrow(ds) if "dS" in rounded else ds
    if "order" in rounded:  # of float32 additions: the last partial sum of shuffled terms
        order = np.random.default_rng(1)

        def add(x):
            return np.add.accumulate(order.permutation(np.ravel(x)).astype(np.float32))[-1]
    else:
        add = np.sum
    n = len(k)
    diagonals = np.array([add(np.diagonal(ds, i)) for i in range(1 - len(q), n, 5)])
    found = [np.array([add(ds[:, i]) for i in range(0, n, 3)]), diagonals, np.array([add(ds * s)])]
    return [narrow(x) for x in found] if "result" in rounded else found


def captured_table(title, columns, narrow):
    print(f"\n{title}\n\n| rounded | bias[k] | bias[q - k] | gain[h] |\n| --- | --: | --: | --: |")
    heads = [[narrow(np.random.default_rng(4 * h + i).normal(size=(512, columns))) for i in range(4)] for h in range(16)]
    exact = [np.concatenate(x) for x in zip(*(captured(*head, set(), narrow, columns**-0.5) for head in heads))]
    rows = (("o and P in o", {"o", "P in o"}), ("only o", {"o"}), ("only P in dS", {"P in dS"}), ("only dS", {"dS"}),
            ("only the result, for a tensor of 16 bits", {"result"}), ("only the order of additions", {"order"}))
    for name, rounded in rows:
        found = [np.concatenate(x) for x in zip(*(captured(*head, rounded, narrow, columns**-0.5) for head in heads))]
        cells = [np.abs(f - e).mean() / np.abs(e).mean() for f, e in zip(found, exact)]
        print(f"| {name} | " + " | ".join(f"{cell:.1e}" for cell in cells) + " |")


def main():
    def normal(rows, columns):
        return lambda g: [g.normal(size=(n, columns)) for n in (rows, rows, rows, rows)]

    for name, narrow in (("bf16", bf16), ("f16", f16)):
        for columns in (64, 128):
            table(f"{name}, head_dim {columns}, 1024 queries and keys, normal inputs", normal(1024, columns), narrow,
                  columns**-0.5)
        table(f"{name}, head_dim 8, 3 queries and 6 keys, inputs from -9 to 9 (a sample of PyTorch's tests)",
              lambda g: [g.uniform(-9, 9, size=(n, 8)) for n in (3, 6, 6, 3)], narrow, 8**-0.5)
        captured_table(f"{name}, head_dim 64, 512 queries and keys, gradients of what a score_mod reads", 64, narrow)


if __name__ == "__main__":
    main()
