#!/usr/bin/env bash
# gpus_test.sh TUNESMITH_SCRIPTED FAKE_LIBCUDA: `--gpus all` on four scripted GPUs. Each GPU has one worker process that uses it,
# and one that compiles the next problem; measurements on one GPU exclude each other, also between two commands, while
# the other compiles; four GPUs are at least 3.6 times as fast as one. The same for a queue, if a server is installed, and for
# jobs whose worker is interrupted or killed.
set -euo pipefail
program=$(realpath "$1")
driver=$(realpath "$2")
server_program=$("$(dirname "${BASH_SOURCE[0]}")/../../fleet/server_program.sh") || server_program=

scratch=$(mktemp -d)
cd "$scratch"
server=
finish() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  wait
  rm -rf "$scratch"
}
trap finish EXIT
fail() { echo "gpus_test.sh: $*" >&2; exit 1; }

ln -s "$driver" libcuda.so.1
export LD_LIBRARY_PATH=$scratch TMPDIR=$scratch HOME=$scratch TUNESMITH_SYSTEM_CACHE= TUNESMITH_FAKE_GPUS=4
unset TUNESMITH_REMOTE TUNESMITH_CACHE TUNESMITH_MODE
spec() { # spec FIRST LAST
  echo "{\"problems\": [{\"op\": \"softmax\", \"rows\": 64, \"dtype\": \"f32\", \"cols\": [$(seq -s, "$1" "$2")]}]}"
}
seconds() { # seconds COMMAND...: its wall time
  local start=$EPOCHREALTIME
  "$@" >out.txt 2>&1 || fail "'$*' failed: $(<out.txt)"
  awk "BEGIN {print $EPOCHREALTIME - $start}"
}

# check_workers FILE GPUS WORKERS KEYS: every key was tuned once, by that many GPUs with at most that many processes each at a
# time, and no two measurements of one GPU overlap. Prints the most GPUs with a worker and the most measurements at a time, and
# how many workers began while another one measured on their GPU.
check_workers() {
  sort -n "$1" | awk -v gpus="$2" -v workers="$3" -v keys="$4" '
    $2 == "begin" { ++begun[$5]; if (++open[$3] > workers) bad = $3 " has " open[$3] " workers" }
    $2 == "begin" && open[$3] == 1 { if (++busy > most) most = busy }
    $2 == "begin" && measuring[$3] { ++meanwhile }
    $2 == "end" { if (--open[$3] == 0) --busy; ++ended }
    $2 == "measure" { if (++measuring[$3] > 1) bad = "two measurements at a time on " $3; if (++at_once > peak) peak = at_once }
    $2 == "measured" { --measuring[$3]; --at_once }
    END {
      for (key in begun) if (begun[key] != 1 && bad == "") bad = key " columns were tuned " begun[key] " times"
      if (length(begun) != keys || ended != keys) bad = length(begun) " keys began, " ended " ended; expected " keys
      if (length(open) != gpus) bad = length(open) " GPUs worked; expected " gpus
      if (bad != "") { print bad >"/dev/stderr"; exit 1 }
      print most + 0, peak + 0, meanwhile + 0
    }' || fail "$1: $(sort -n "$1")"
}

# ---- four GPUs against one. Workers sleep, so that few processors serve four of them; a busy machine may disturb a round.
export SCRIPTED_COMPILE_MS=240 SCRIPTED_MEASURE_MS=560
spec 101 124 >keys.json
ratio=0
for round in 1 2 3; do
  one=$(SCRIPTED_LOG=one.log seconds "$program" prewarm --spec keys.json --cache "one$round.db" --gpus 0)
  four=$(SCRIPTED_LOG=four.log seconds "$program" prewarm --spec keys.json --cache "four$round.db" --gpus all)
  check_workers one.log 1 2 24 >workers.txt
  read -r most peak _ <<<"$(check_workers four.log 4 2 24)"
  ((most == 4)) || fail "at most $most GPUs worked at a time"
  ((peak >= 2)) || fail "at most $peak GPUs measured at a time"
  [[ $("$program" cache info --cache "four$round.db" --json | grep -c '"records": 24') == 1 ]] || fail "records are missing"
  rm one.log four.log
  ratio=$(awk "BEGIN {print $one / $four}")
  awk "BEGIN {exit !($ratio >= 3.6)}" && break
done
awk "BEGIN {exit !($ratio >= 3.6)}" || fail "four GPUs take $four s, one $one s: $ratio times as fast; expected 3.6"
echo "24 keys: one GPU $one s, four GPUs $four s: $ratio times as fast"

# ---- one GPU: the next problem compiles while one is measured, and uses the GPU in its turn. Of the 0.4 s of a measurement
# 0.28 s are left for the start of the next process.
export SCRIPTED_COMPILE_MS=120 SCRIPTED_MEASURE_MS=400
spec 401 408 >pipeline.json
took=$(SCRIPTED_LOG=pipeline.log seconds "$program" prewarm --spec pipeline.json --cache pipeline.db --gpus 0)
sort -n pipeline.log | awk '
  $2 == "turn" && used++ { bad = "two problems use the GPU" }
  $2 == "begin" && ++open > 2 { bad = "more than one problem compiles ahead" }
  $2 == "end" { --used; --open; ++ended; measuring = 0 }
  $2 == "measure" { measuring = 1 }
  $2 == "compiled" { meanwhile += measuring }
  END {
    if (ended != 8 || meanwhile < 4) bad = ended + 0 " ended, " meanwhile + 0 " compiled during a measurement"
    if (bad != "") { print bad; exit 1 }
  }' >out.txt || fail "$(<out.txt): $(sort -n pipeline.log)"
echo "8 keys on one GPU, 0.12 s compiling and 0.40 s measuring each: $took s"

# ---- an interrupt ends both workers
SCRIPTED_COMPILE_MS=100 SCRIPTED_MEASURE_MS=6000 SCRIPTED_LOG=interrupted.log \
  "$program" prewarm --spec pipeline.json --cache interrupted.db --gpus 0 >out.txt 2>&1 &
other=$!
for ((i = 0; i < 500; ++i)); do [[ $(grep -c compiled interrupted.log 2>/dev/null) == 2 ]] && break; sleep 0.02; done
kill -TERM "$other"
code=0
wait "$other" || code=$?
[[ $code == 130 ]] || fail "an interrupted command ends with $code: $(<out.txt)"
grep -q stopped interrupted.log || fail "the worker that waits for its turn was not stopped: $(<interrupted.log)"
for worker in $(awk '{print $4}' interrupted.log | sort -u); do
  ! kill -0 "$worker" 2>/dev/null || fail "worker $worker still runs"
done

# ---- two commands on the same GPUs
export SCRIPTED_COMPILE_MS=100 SCRIPTED_MEASURE_MS=240
spec 201 208 >first.json
spec 301 308 >second.json
SCRIPTED_LOG=both.log "$program" prewarm --spec first.json --cache first.db --gpus 0,1 >/dev/null 2>&1 &
other=$!
SCRIPTED_LOG=both.log "$program" prewarm --spec second.json --cache second.db --gpus 0,1 >/dev/null 2>&1 || fail "the second failed"
wait "$other" || fail "the first of two commands failed"
read -r _ peak meanwhile <<<"$(check_workers both.log 2 4 16)"
[[ $peak == 2 ]] || fail "$peak GPUs measured at a time; two should"
((meanwhile > 0)) || fail "no worker compiled while another one measured"
echo "two commands on two GPUs: measurements of a GPU exclude each other, $meanwhile workers compiled during one"

# ---- failures: the others are tuned
spec 12 14 >fails.json
if SCRIPTED_LOG=fails.log "$program" prewarm --spec fails.json --cache fails.db --gpus all >out.txt 2>&1; then
  fail "a problem that does not compile is no failure: $(<out.txt)"
fi
grep -q '13 columns do not compile' out.txt || fail "the error is missing: $(<out.txt)"
[[ $(grep -c ' end ' fails.log) == 2 ]] || fail "the other problems were not tuned"

# ---- `tune` with lists
json=$(SCRIPTED_LOG=tune.log "$program" tune softmax --rows 64 --cols 21,22,23 --dtype f32,bf16 --cache tune.db --gpus all \
  --json 2>progress.txt) || fail "'tune' with lists failed: $json $(<progress.txt)"
grep -q '6 of 6 (cuda:' progress.txt || fail "'tune' with lists shows no progress: $(<progress.txt)"
[[ $(grep -c '"median_us"' <<<"$json") == 6 && $(grep -c '"dtype": "bf16"' <<<"$json") == 3 ]] || fail "results are missing: $json"
[[ $(awk '$2 == "begin" {print $3}' tune.log | sort -u | wc -l) == 4 ]] || fail "not every GPU tuned: $(<tune.log)"
if SCRIPTED_LOG=tune.log "$program" tune softmax --rows 64 --cols 13,24 --cache tune.db --gpus 1,2 >out.txt 2>&1; then
  fail "'tune' hides a problem that does not compile: $(<out.txt)"
fi
grep -q '13 columns do not compile' out.txt || fail "the error is missing: $(<out.txt)"
grep -q '1 of 2 (1 new' out.txt && grep -q '^rows=64,cols=24' out.txt || fail "the other result is missing: $(<out.txt)"
SCRIPTED_LOG=last.log "$program" tune softmax --rows 64 --cols 25 --cache tune.db --gpus 3 --json | grep -q '"cols": 25' ||
  fail "one problem has no result"
[[ $(awk '{print $3}' last.log | sort -u) == cuda:3 ]] || fail "--gpus 3 chose $(<last.log)"

# ---- a queue
if [[ -z $server_program ]] || ! "$program" work --help >/dev/null 2>&1; then
  echo "without a queue: no server is installed"
  exit 0
fi
"$server_program" --port 0 --unixsocket "$scratch/sock" --save "" --dir "$scratch" >/dev/null &
server=$!
for ((i = 0; i < 500; ++i)); do [[ -S sock ]] && break; sleep 0.02; done
export TUNESMITH_REMOTE="redis+unix:$scratch/sock?connect_ms=3000&get_ms=3000&binary_ms=3000"
spec 5 16 >jobs.json
"$program" prewarm --spec jobs.json --enqueue --wait >waited.txt 2>&1 &
waiting=$!
for ((i = 0; i < 500; ++i)); do "$program" prewarm --spec jobs.json --enqueue 2>&1 | grep -q '^12 jobs' && break; sleep 0.05; done
if SCRIPTED_LOG=queue.log "$program" work --cache worker.db --gpus all --until-idle >out.txt 2>&1; then
  fail "a job that does not compile is no failure: $(<out.txt)"
fi
if wait "$waiting"; then fail "'prewarm --enqueue --wait' hides a dead letter: $(<waited.txt)"; fi
grep -q '12 jobs in queue default, 11 done' waited.txt || fail "'--wait' prints $(<waited.txt)"
grep -q 'failed: .*13 columns do not compile' waited.txt || fail "'--wait' does not print the dead letter: $(<waited.txt)"
grep -v ' 13$' queue.log >tuned.log
read -r most _ _ <<<"$(check_workers tuned.log 4 2 11)"
[[ $most == 4 ]] || fail "at most $most GPUs worked at a time on the queue"
"$program" cache pull --cache pulled.db | grep -q 'pulled 11 tunings' || fail "the tunings are not on the server"
echo "a queue of 12 jobs on four GPUs: 11 tuned, 1 dead letter with its error"

# ---- a worker of a queue on one GPU: the next job compiles while one is measured
export SCRIPTED_COMPILE_MS=240 SCRIPTED_MEASURE_MS=400
spec 401 410 >ahead.json
"$program" prewarm --spec ahead.json --enqueue --queue ahead >out.txt 2>&1 || fail "'--enqueue' failed: $(<out.txt)"
ahead=$(SCRIPTED_LOG=ahead.log seconds "$program" work --cache ahead.db --gpus 0 --queue ahead --until-idle)
grep -q '^10 jobs done, 0 failed' out.txt || fail "the worker prints $(<out.txt)"
read -r _ _ meanwhile <<<"$(check_workers ahead.log 1 2 10)"
((meanwhile >= 5)) || fail "$meanwhile jobs began while another one was measured: $(sort -n ahead.log)"
[[ $(sort -n ahead.log | awk '$2 == "end" {print $5}' | sort -nc 2>&1) == "" ]] || fail "jobs end out of order: $(sort -n ahead.log)"
echo "a queue of 10 jobs on one GPU, 0.24 s compiling and 0.40 s measuring each: $ahead s"

# starts_worker LOG QUEUE OPTION...: starts a worker on one GPU and waits until a second job waits for its turn
starts_worker() {
  SCRIPTED_COMPILE_MS=50 SCRIPTED_MEASURE_MS=8000 SCRIPTED_LOG=$1 "$program" work --cache "$1.db" --gpus 0 --queue "$2" "${@:3}" \
    >out.txt 2>&1 &
  other=$!
  for ((i = 0; i < 500; ++i)); do [[ $(grep -c compiled "$1" 2>/dev/null) == 2 ]] && return; sleep 0.02; done
  fail "no job compiles ahead: $(<out.txt) $(<"$1")"
}
processes_end() { # processes_end LOG STEP: the children with this step have ended or end soon
  local child
  for child in $(awk -v steps="$2" '$2 == steps {print $4}' "$1"); do
    for ((i = 0; i < 250; ++i)); do kill -0 "$child" 2>/dev/null || continue 2; sleep 0.02; done
    fail "process $child still runs: $(<"$1")"
  done
}

# ---- a signal ends the worker: the job that waits is given back at once, although other workers are patient
export SCRIPTED_COMPILE_MS=50 SCRIPTED_MEASURE_MS=80
spec 601 603 >signal.json
"$program" prewarm --spec signal.json --enqueue --queue signal >out.txt 2>&1 || fail "'--enqueue' failed: $(<out.txt)"
starts_worker signal.log signal --patience 80000
kill -TERM "$other"
wait "$other" && fail "an interrupted worker ends without a failure"
grep -q stopped signal.log || fail "the job that waits was not stopped: $(<signal.log)"
processes_end signal.log begin
SCRIPTED_LOG=heir.log "$program" work --cache heir.db --gpus 0 --queue signal --patience 80000 >out.txt 2>&1 &
other=$!
for ((i = 0; i < 500; ++i)); do [[ $(grep -c ' end ' heir.log 2>/dev/null) == 2 ]] && break; sleep 0.02; done
kill -TERM "$other"
wait "$other" || true
[[ $(awk '$2 == "end" {print $5}' heir.log | sort -n | tr '\n' ' ') == "602 603 " ]] ||
  fail "the job was not given back: $(<heir.log) $(<out.txt)"

# ---- kill -9: both jobs return to the queue when the patience ends, and the one that waited is not tuned by an orphan
spec 611 613 >killed.json
"$program" prewarm --spec killed.json --enqueue --queue killed >out.txt 2>&1 || fail "'--enqueue' failed: $(<out.txt)"
starts_worker killed.log killed --patience 1
kill -KILL "$other"
{ wait "$other" || true; } 2>/dev/null
measuring=$(awk '$2 == "measure" {print $4}' killed.log | head -1)
kill -KILL "$measuring"
processes_end killed.log begin
[[ $(awk '$2 == "turn" {print $5}' killed.log) == 611 ]] || fail "an orphan took a turn: $(<killed.log)"
SCRIPTED_LOG=heir2.log "$program" work --cache heir2.db --gpus 0 --queue killed --patience 1 --until-idle >out.txt 2>&1 ||
  fail "the jobs of a killed worker failed: $(<out.txt)"
check_workers heir2.log 1 2 3 >/dev/null
grep -q '^3 jobs done, 0 failed' out.txt || fail "the worker prints $(<out.txt)"

# ---- jobs that take longer than the patience stay with their worker, also when another GPU has nothing to do
export SCRIPTED_MEASURE_MS=1600
spec 621 623 >long.json
"$program" prewarm --spec long.json --enqueue --queue long >out.txt 2>&1 || fail "'--enqueue' failed: $(<out.txt)"
SCRIPTED_LOG=long.log "$program" work --cache long.db --gpus 0,1 --queue long --patience 1 --until-idle >out.txt 2>&1 ||
  fail "long jobs failed: $(<out.txt)"
check_workers long.log 2 2 3 >/dev/null
echo "workers that are interrupted, killed and slow: each job was tuned once more at most, and none was lost"
