#!/usr/bin/env python3
"""list_regret.py TUNESMITH FILE.db KEYS.txt... [--runs N] [--seconds S]: measures the regret of short lists on the GPU that filled FILE.db.

KEYS.txt is what `tunesmith_neighbours --keys FILE.db` prints; several of them, of several rules for lists, share their runs. For each list that chooses another configuration than the whole
search did, each run removes one trial from a copy of FILE.db and tunes: the default, the search's choice and the list's choice
compete in a final of their own, in a new process. Prints the median of the runs' regrets for each key, and for all lists; lists
that choose the same have none. Stored trials alone flatter the search: its choice is the fastest of many noisy times, and the
list's choice may have no time of the final.
"""

import argparse
import json
import math
import pathlib
import re
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time

KEY = re.compile(r"(?P<op>\S+) (?P<problem_class>.*) n_cols=(?P<n_cols>\d+) rows=(?P<rows>\d+): \d+ of \d+ timed, regret \S+%(?P<why>.*)")
CHOICE = re.compile(r"  chooses (?P<chosen>\S+); the search (?P<winner>\S+)")
OF_KEY = "op = ? AND problem_class = ? AND n_cols = ? AND rows_bucket = ?"


def read_keys(text):
    """Returns how many keys have a list, and [key, chosen, winner] of those with another choice."""
    lists, others, key = 0, [], None
    for line in text.splitlines():
        if found := KEY.match(line):
            key = (found["op"], found["problem_class"], int(found["n_cols"]), int(found["rows"]))
            lists += not found["why"]
        elif found := CHOICE.match(line):
            others.append((key, found["chosen"], found["winner"]))
    return lists, others


def problem_of(database, key):
    return database.execute(f"SELECT id, problem, config FROM records WHERE {OF_KEY}", key).fetchone()


def regret(tunesmith, file, key, chosen, winner):
    """Measures the regret once; None if the machine is another one than that of the trials."""
    with sqlite3.connect(file) as database:
        record, problem, recorded = problem_of(database, key)
        if recorded != winner:
            raise SystemExit(f"{file}: the record of {key} has {recorded}, not {winner}")
        timed = database.execute("SELECT config FROM trials WHERE record_id = ?", (record,)).fetchall()
        removed = chosen if (chosen,) in timed else winner
        database.execute("DELETE FROM trials WHERE record_id = ? AND config = ?", (record, removed))
    database.close()
    command = [tunesmith, "tune", key[0], "--cache", str(file), "--effort", "quick", "--budget", "3s", "--json"]
    for field in problem.split(" ", 1)[1].split(","):
        command += ["--option", field]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    if result["timed"] not in (2, 3):
        return None
    times = {trial["config"]: trial["median_us"] for trial in result["trials"] if trial["status"] == "timed"}
    return times[chosen] / times[winner] - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tunesmith")
    parser.add_argument("database", type=pathlib.Path)
    parser.add_argument("keys", type=pathlib.Path, nargs="+")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no turn of all keys after this time")
    arguments = parser.parse_args()
    files = {file: read_keys(file.read_text()) for file in arguments.keys}
    measured = {each: [] for _, others in files.values() for each in others}
    until = time.monotonic() + arguments.seconds
    for turn in range(arguments.runs):  # keys by turns: slow changes of the machine reach all of them
        if turn > 0 and time.monotonic() > until:
            break
        for each, values in measured.items():
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / "copy.db"
                shutil.copyfile(arguments.database, file)
                value = regret(arguments.tunesmith, file, *each)
            if value is None:
                raise SystemExit("the records are stale here: another driver, clock or power limit")
            values.append(value)
    for (key, chosen, _), values in measured.items():
        spread = f"{min(values):+.2%} to {max(values):+.2%}"
        print(f"{key[0]} n_cols={key[2]} {chosen}: {statistics.median(values):+.2%} ({spread} in {len(values)} runs)")
    for file, (lists, others) in files.items():
        regrets = sorted([0.0] * (lists - len(others)) + [statistics.median(measured[each]) for each in others])
        p95 = regrets[math.ceil(0.95 * lists) - 1]
        print(f"{file.name}: {lists} lists, {len(others)} choose otherwise; regret, 95% {p95:.2%}, worst {regrets[-1]:.2%}")


if __name__ == "__main__":
    main()
