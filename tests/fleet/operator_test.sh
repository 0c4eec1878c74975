#!/usr/bin/env bash
# operator_test.sh TUNESMITH_SCRIPTED FAKE_LIBCUDA: does what docs/fleet.md tells an operator, with the commands and the files
# of that page, on two simulated hosts with scripted GPUs and a server of its own, Valkey or Redis: certificate, keys, checks,
# queue, generation, pull, a restart of the server, a change of the key. The commands run as they stand, but for the name of
# the server. The unit and the manifest are checked, too. Skips (77) without a server.
set -euo pipefail
page=$(dirname "${BASH_SOURCE[0]}")/../../docs/fleet.md
page=$(realpath "$page")
program=$(realpath "$1")
driver=$(realpath "$2")
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
# Its configuration and its certificate. A port that is free now: another program may take it before the server does.
port=$((20000 + RANDOM % 10000))
as_here() { sed "s|/etc/redis/|$scratch/|g; s|cache\.example:6380|localhost:$port|g; s|tls-port 6380|tls-port $port|"; }
sed -n '/^port 0$/,/^```$/p' "$page" | grep -v '```' | as_here >fleet.conf
(($(wc -l <fleet.conf) >= 8)) || fail "the page has no configuration: $(<fleet.conf)"
eval "$(grep '^openssl req' "$page" | sed 's/cache\.example/localhost/g')" 2>openssl.txt || fail "openssl: $(<openssl.txt)"
start_server() {
  # The configuration file that the page appends to is not here: a folder, snapshots, and a socket to see that the server runs.
  "$server_program" "$scratch/fleet.conf" --dir "$scratch" --save 3600 1 --unixsocket "$scratch/sock" >/dev/null &
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
limits="connect_ms=3000&get_ms=3000&binary_ms=3000"  # for busy machines
base="rediss://localhost:$port?$limits&ca=ca.pem&ns=prod"
writer="$base&user=writer&password_file=writer.password"
reader="$base&user=reader&password_file=reader.password&mode=ro"
export TUNESMITH_REMOTE
eval "$(grep '^export TUNESMITH_REMOTE=' "$page" | as_here)"
TUNESMITH_REMOTE+="&$limits"
ln -s "$driver" libcuda.so.1
export LD_LIBRARY_PATH=$scratch TMPDIR=$scratch TUNESMITH_FAKE_GPUS=2
echo '{"problems": [{"op": "softmax", "rows": 64, "cols": [1000, 1024], "dtype": "f32"}]}' >problems.json

# A cache with tunings, as a GPU host has one.
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
      # It works until it is ended.
      $program ${line#tunesmith } >worker.out 2>&1 &
      worker=$!
      ;;
    *--enqueue*)
      $program ${line#tunesmith } >enqueue.out 2>&1 || fail "'$line' failed: $(<enqueue.out); the worker: $(<worker.out)"
      grep -q '2 jobs in queue default, 2 done' enqueue.out || fail "'$line' prints $(<enqueue.out)"
      # Scripted GPUs leave no binaries: a worker that compiles does.
      if [[ $compiles ]]; then
        $program work --queue ci --cache worker.db --compile-only --arch sm_90a >compiler.out 2>&1 &
        compiler=$!
        $program prewarm --spec problems.json --enqueue --wait --queue ci >enqueue.out 2>&1 ||
          fail "'--compile-only' failed: $(<enqueue.out); the worker: $(<compiler.out)"
        kill -INT "$compiler"
        wait "$compiler" || true
      fi
      ;;
    *) eval "$line" >out.txt 2>&1 || fail "'$line' failed: $(<out.txt)" ;;
  esac
done < <(grep '^tunesmith ' "$page")
((commands >= 8)) || fail "the page has only $commands commands"
kill -INT "$worker"
wait "$worker" || true
grep -q '2 jobs done, 0 failed' worker.out || fail "the worker prints $(<worker.out)"
grep -q tunesmith_remote_lookup_seconds_count out.txt || fail "no metrics: $(<out.txt)"

# ---- a second host
cp signing.key.pub trusted.pub
export TUNESMITH_REMOTE="$reader&trust=trusted.pub"
expect "pulled 5 tunings" tunesmith cache pull --cache second.db
[[ ! $compiles ]] || expect "healthy: 5 records" tunesmith cache verify --cache second.db
expect "generation" env TUNESMITH_REMOTE="$TUNESMITH_REMOTE&generation=prod-1" "$program" doctor --remote
reject "no generation" env TUNESMITH_REMOTE="$TUNESMITH_REMOTE&generation=prod-2" "$program" doctor --remote
reject "mode=ro" tunesmith cache push --cache second.db
# What the worker compiled is loaded, also without a pull.
[[ ! $compiles ]] || expect '"new": 0,' tunesmith prewarm --spec problems.json --compile-only --arch sm_90a --cache new.db --json

# ---- the URLs of the page, also in the unit: each works on this server, with the files in this folder
urls=0
while read -r url; do
  ((++urls))
  url=$(as_here <<<"${url//\/etc\/tunesmith\//}")
  expect "namespace 'prod'" env TUNESMITH_REMOTE="$url&$limits" "$program" doctor --remote
done < <(grep -o "rediss://cache[^' ]*" "$page")
((urls == 3)) || fail "the page has $urls URLs; the test knows 3"

# ---- the commands of the unit and of the manifest: their flags are accepted, and without a GPU they say what is missing
unit=$(sed -n 's|^ExecStart=/usr/bin/tunesmith ||p' "$page")
manifest=$(sed -n 's|^ *command: \[tunesmith, \(.*\)\]|\1|p' "$page" | tr -d ,)
for command in "$unit" "$manifest"; do
  [[ $command == "work --queue"* ]] || fail "the page has no worker: '$command'"
  reject "no remote cache is named" env TUNESMITH_REMOTE= "$program" ${command//\/*\//}
done

# ---- the unit and the manifest are valid
sed -n '/^```ini$/,/^```$/p' "$page" | grep -v '```' | sed "s|/usr/bin/tunesmith|$program|" >tunesmith-worker.service
checked=
if command -v systemd-analyze >/dev/null; then
  systemd-analyze verify "$scratch/tunesmith-worker.service" >unit.txt 2>&1 || fail "the unit: $(<unit.txt)"
  [[ ! -s unit.txt ]] || fail "the unit: $(<unit.txt)"
  checked=", unit"
fi
sed -n '/^```yaml$/,/^```$/p' "$page" | grep -v '```' >worker.yaml
if python3 -c 'import yaml' 2>/dev/null; then
  python3 - <<'PY' || fail "the manifest is wrong"
import yaml

manifest = yaml.safe_load(open("worker.yaml"))
assert (manifest["apiVersion"], manifest["kind"]) == ("apps/v1", "Deployment")
template = manifest["spec"]["template"]
labels, pod = template["metadata"]["labels"], template["spec"]
assert manifest["spec"]["selector"]["matchLabels"].items() <= labels.items()
assert set(pod) == {"securityContext", "containers", "volumes"}, set(pod)
(container,) = pod["containers"]
assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
secret = next(volume["secret"] for volume in pod["volumes"] if "secret" in volume)
assert container["env"][0]["valueFrom"]["secretKeyRef"]["name"] == secret["secretName"]
# A user other than root reads the files of a secret, which belong to root, through the group of fsGroup.
assert pod["securityContext"]["fsGroup"] and secret["defaultMode"] == 0o440, secret
assert all(isinstance(word, str) for word in container["command"])
PY
  checked+=", manifest"
fi

# ---- a restart of the server: what it saved is there, and clients connect again
kill -TERM "$server"
wait "$server" || true
rm -f sock
reject "no connection" tunesmith doctor --remote
start_server
expect "pulled 5 tunings" tunesmith cache pull --cache third.db

# ---- a change of the key
export TUNESMITH_REMOTE="$writer&sign=new.key"
expect "wrote new.key" tunesmith cache keys new new.key --name fleet-2
cat new.key.pub >>trusted.pub
expect "pushed 5 tunings" tunesmith cache push --replace --cache worker.db
export TUNESMITH_REMOTE="$reader&trust=trusted.pub"
expect "pulled 5 tunings" tunesmith cache pull --cache fourth.db
grep fleet-2 trusted.pub >only-new.pub
expect "pulled 5 tunings" env TUNESMITH_REMOTE="$reader&trust=only-new.pub" "$program" cache pull --cache fifth.db
reject "were not used" env TUNESMITH_REMOTE="$reader&trust=signing.key.pub" "$program" cache pull --cache sixth.db
reject "exists" tunesmith cache keys new new.key
reject "NOPERM" env TUNESMITH_REMOTE="$base&user=reader&password_file=reader.password" "$program" cache push --cache worker.db
reject "no remote cache is named" env TUNESMITH_REMOTE= "$program" cache pull --cache sixth.db
echo "the commands of docs/fleet.md work${compiles:+, with compiled binaries}$checked"
