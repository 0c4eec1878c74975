#!/usr/bin/env python3
"""timed_twice.py A.db B.db: compares the times of configurations that two cache files hold for the same keys.

Prints by how much a time differs between two runs of the tuner, relative to the other configurations of the key; and how
much slower the fastest configuration of one run is than the fastest of the other, both by the other run's times.
"""

import sqlite3
import statistics
import sys

QUERY = """SELECT op, problem_class, n_cols, rows_bucket, trials.config, trials.median_us FROM trials
JOIN records ON records.id = record_id WHERE status IN ('timed', 'dropped') AND trials.median_us > 0"""


def times(file):
    by_key = {}
    for *key, config, median_us in sqlite3.connect(f"file:{file}?immutable=1", uri=True).execute(QUERY):
        by_key.setdefault(tuple(key), {})[config] = median_us
    return by_key


def main():
    first, second = times(sys.argv[1]), times(sys.argv[2])
    differences, regrets = [], []
    for key in sorted(first.keys() & second.keys()):
        a, b = first[key], second[key]
        common = sorted(a.keys() & b.keys())
        ratios = [a[config] / b[config] for config in common]
        middle = statistics.median(ratios)
        differences += [abs(ratio / middle - 1) for ratio in ratios]
        for one, other in ((a, b), (b, a)):
            fastest = min(common, key=one.get)
            regrets.append(other[fastest] / min(other[config] for config in common) - 1)
    differences.sort()
    regrets.sort()
    for name, values in ("difference", differences), ("regret of the fastest", regrets):
        at = [values[min(len(values) - 1, int(share * len(values)))] for share in (0.5, 0.95)]
        print(f"{name}: {len(values)} values, median {at[0]:.2%}, 95% {at[1]:.2%}, most {values[-1]:.2%}")


if __name__ == "__main__":
    main()
