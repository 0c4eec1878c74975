#!/usr/bin/env bash
# operator_test.sh TUNESMITH: does what docs/fleet.md tells an operator, with the commands of that page, on two simulated hosts
# and a server of its own, Valkey or Redis: keys, checks, queue, generation, pull, a restart of the server, a change of the key. Skips (77)
# without a server.
set -euo pipefail
page=$(dirname "${BASH_SOURCE[0]}")/../../docs/fleet.md
page=$(realpath "$page")
program=$(realpath "$1")
server_program=$("$(dirname "$page")/../tests/fleet/server_program.sh") || {
  echo "skipped: neither valkey-server nor redis-server is installed (scripts/setup.sh installs it)"
  exit 77
}

scratch=$(mktemp -d)
cd "$scratch"
server=
finish() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  wait
  rm -rf "$scratch"
}
trap finish EXIT

fail() { echo "operator_test.sh: $*" >&2; exit 1; }
tunesmith() { "$program" "$@"; }
expect() { # expect TEXT COMMAND...: the command succeeds and prints the text
  local text=$1 out
  shift
  out=$("$@" 2>&1) || fail "'$*' failed: $out"
  [[ $out == *"$text"* ]] || fail "'$*' does not print '$text': $out"
}
reject() { # reject TEXT COMMAND...: the command fails and prints the text
  local text=$1 out
  shift
  if out=$("$@" 2>&1); then fail "'$*' did not fail: $out"; fi
  [[ $out == *"$text"* ]] || fail "'$*' does not print '$text': $out"
}

# The access list of the page, with its passwords.
sed -n '/^user /p' "$page" >users.acl
[[ $(wc -l <users.acl) == 4 ]] || fail "the page has no access list"
echo WRITER-PASSWORD >writer.password
echo READER-PASSWORD >reader.password
start_server() {
  "$server_program" --port 0 --unixsocket "$scratch/sock" --aclfile "$scratch/users.acl" --maxmemory 1gb \
    --maxmemory-policy volatile-lru --dir "$scratch" --save 3600 1 --appendonly no >/dev/null &
  server=$!
  local i
  for ((i = 0; i < 500; ++i)); do
    [[ -S sock ]] && return
    sleep 0.02
  done
  fail "$server_program does not start"
}
start_server

unset TUNESMITH_CACHE TUNESMITH_MODE TUNESMITH_LOG
export TUNESMITH_SYSTEM_CACHE= HOME=$scratch
base="redis+unix:$scratch/sock?connect_ms=3000&get_ms=3000&binary_ms=3000&ns=prod"
writer="$base&user=writer&password_file=writer.password"
reader="$base&user=reader&password_file=reader.password&mode=ro"
export TUNESMITH_REMOTE="$writer&sign=signing.key"
echo '{"problems": [{"op": "softmax", "rows": 64, "cols": [1000, 1024], "dtype": "f32"}]}' >problems.json

# A cache with tunings, as a GPU host has one. Workers without a GPU only compile.
mapfile -t records < <(head -n 3 "$(dirname "$page")/../cache/shipped/records.jsonl")
printf '%s\n' "${records[@]}" >some.jsonl
TUNESMITH_REMOTE= "$program" cache import some.jsonl --cache worker.db >/dev/null
compiles=
if tunesmith doctor --json | grep -A1 '"nvrtc"' | grep -q '"found": true'; then compiles=yes; fi

# ---- the commands of the page, in its order
commands=0
worker=
while read -r line; do
  ((++commands))
  case $line in
    "tunesmith work"*)
      [[ $compiles ]] || continue
      $program ${line#tunesmith } --compile-only --arch sm_90a >worker.out 2>&1 || fail "'$line' failed: $(<worker.out)"
      ;;
    *--enqueue*)
      [[ $compiles ]] || continue
      $program work --cache worker.db --compile-only --arch sm_90a >worker.out 2>&1 &
      worker=$!
      $program ${line#tunesmith } >enqueue.out 2>&1 || fail "'$line' failed: $(<enqueue.out)"
      grep -q '2 jobs in queue default, 2 done' enqueue.out || fail "'$line' prints $(<enqueue.out)"
      kill -INT "$worker"
      wait "$worker" || true
      ;;
    *) eval "$line" >out.txt 2>&1 || fail "'$line' failed: $(<out.txt)" ;;
  esac
done < <(grep '^tunesmith ' "$page")
((commands >= 8)) || fail "the page has only $commands commands"
grep -q tunesmith_remote_lookup_seconds_count out.txt || fail "no metrics: $(<out.txt)"

# ---- a second host
cp signing.key.pub trusted.pub
export TUNESMITH_REMOTE="$reader&trust=trusted.pub"
expect "pulled 3 tunings" tunesmith cache pull --cache second.db
[[ ! $compiles ]] || expect "healthy: 3 records" tunesmith cache verify --cache second.db
expect "generation" env TUNESMITH_REMOTE="$TUNESMITH_REMOTE&generation=prod-1" "$program" doctor --remote
reject "no generation" env TUNESMITH_REMOTE="$TUNESMITH_REMOTE&generation=prod-2" "$program" doctor --remote
reject "mode=ro" tunesmith cache push --cache second.db
# What the worker compiled is loaded, also without a pull.
[[ ! $compiles ]] || expect '"new": 0,' tunesmith prewarm --spec problems.json --compile-only --arch sm_90a --cache new.db --json

# ---- the URLs of the page, also those of the unit: each works on this server, with the files in this folder
urls=0
while read -r url; do
  ((++urls))
  url=${url/rediss:\/\/cache.example:6380/redis+unix:$scratch\/sock}
  url=${url//\/etc\/tunesmith\//}
  url=${url/&ca=ca.pem/}
  expect "namespace 'prod'" env TUNESMITH_REMOTE="$url&connect_ms=3000&get_ms=3000&binary_ms=3000" "$program" doctor --remote
done < <(grep -o "rediss://cache[^' ]*" "$page")
((urls == 3)) || fail "the page has $urls URLs; the test knows 3"

# ---- the commands of the unit and of the manifest: their flags are accepted, and without a GPU they say what is missing
unit=$(sed -n 's|^ExecStart=/usr/bin/tunesmith ||p' "$page")
manifest=$(sed -n 's|^ *command: \[tunesmith, \(.*\)\]|\1|p' "$page" | tr -d ,)
for command in "$unit" "$manifest"; do
  [[ $command == "work --queue"* ]] || fail "the page has no worker: '$command'"
  reject "no remote cache is named" env TUNESMITH_REMOTE= "$program" ${command//\/*\//}
done

# ---- a restart of the server: what it saved is there, and clients connect again
kill -TERM "$server"
wait "$server" || true
rm -f sock
reject "no connection" tunesmith doctor --remote
start_server
expect "pulled 3 tunings" tunesmith cache pull --cache third.db

# ---- a change of the key
export TUNESMITH_REMOTE="$writer&sign=new.key"
expect "wrote new.key" tunesmith cache keys new new.key --name fleet-2
cat new.key.pub >>trusted.pub
expect "pushed 3 tunings" tunesmith cache push --replace --cache worker.db
export TUNESMITH_REMOTE="$reader&trust=trusted.pub"
expect "pulled 3 tunings" tunesmith cache pull --cache fourth.db
grep fleet-2 trusted.pub >only-new.pub
expect "pulled 3 tunings" env TUNESMITH_REMOTE="$reader&trust=only-new.pub" "$program" cache pull --cache fifth.db
reject "were not used" env TUNESMITH_REMOTE="$reader&trust=signing.key.pub" "$program" cache pull --cache sixth.db
reject "exists" tunesmith cache keys new new.key
reject "NOPERM" env TUNESMITH_REMOTE="$base&user=reader&password_file=reader.password" "$program" cache push --cache worker.db
reject "no remote cache is named" env TUNESMITH_REMOTE= "$program" cache pull --cache sixth.db
echo "the commands of docs/fleet.md work${compiles:+, with compiled binaries}"
