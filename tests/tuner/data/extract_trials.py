#!/usr/bin/env python3
"""extract_trials.py FILE.db > trials.tsv: writes the records and trials of a cache file that the replay test reads.

A line is "record", op, problem class, n_cols, bucket of rows, time of the default, problem, choice; or "trial", configuration,
status, median, mad (microseconds), samples. Trials follow their record. Records without two timed trials are left out.
"""

import sqlite3
import sys

FIELDS = "id, op, problem_class, n_cols, rows_bucket, default_median_us, problem, config"


def text(value):
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def main():
    cache = sqlite3.connect(f"file:{sys.argv[1]}?immutable=1", uri=True)
    records = cache.execute(f"SELECT {FIELDS} FROM records ORDER BY op, problem_class, n_cols, rows_bucket").fetchall()
    for record_id, *record in records:
        trials = cache.execute(
            "SELECT config, status, median_us, mad_us, samples FROM trials WHERE record_id = ? ORDER BY config",
            (record_id,),
        ).fetchall()
        if sum(status in ("timed", "dropped") for _, status, *_ in trials) < 2:
            continue
        print("\t".join(["record", *map(text, record)]))
        for trial in trials:
            print("\t".join(["trial", *map(text, trial)]))


if __name__ == "__main__":
    main()
