#!/usr/bin/env bash
# namespaces_test.sh HOST_PROCESS [SECONDS]: four hosts, which are network namespaces, and a server, Valkey or Redis, that they
# reach over a bridge. 64 processes on them need one key: one tunes it. Then a process is killed while it tunes: another one
# takes over within 31 s, which takes that long, so only if SECONDS (31) is given. Skips (77) without root, a server or
# iproute2.
set -euo pipefail
program=$(realpath "$1")
server_program=$("$(dirname "${BASH_SOURCE[0]}")/server_program.sh") || { echo "skipped: no server is installed"; exit 77; }
client_program=${server_program%-server}-cli
for command in "$client_program" ip nsenter; do
  command -v "$command" >/dev/null || { echo "skipped: $command is not installed"; exit 77; }
done
if [[ ${TUNESMITH_INSIDE:-} == "" ]]; then
  unshare --net true 2>/dev/null || { echo "skipped: no network namespaces here (they need root)"; exit 77; }
  TUNESMITH_INSIDE=1 exec unshare --net --pid --fork --kill-child --mount-proc bash "$0" "$@"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "namespaces_test.sh: $*" >&2; exit 1; }

ip link set lo up
ip link add name hosts type bridge
ip address add 10.77.0.1/24 dev hosts
ip link set hosts up
hosts=()
for n in 1 2 3 4; do
  unshare --net sleep infinity &
  hosts+=($!)
done
sleep 0.2
for n in 1 2 3 4; do
  ip link add "bridge$n" type veth peer name host
  ip link set "bridge$n" master hosts up
  ip link set host netns "${hosts[n - 1]}"
  nsenter --target "${hosts[n - 1]}" --net sh -c \
    "ip link set lo up; ip address add 10.77.0.$((n + 1))/24 dev host; ip link set host up"
done
on_host() { # on_host N COMMAND...
  local pid=${hosts[$1 - 1]}
  shift
  nsenter --target "$pid" --net "$@"
}

"$server_program" --port 7379 --bind 10.77.0.1 --protected-mode no --save "" --dir "$scratch" >/dev/null &
for ((i = 0; i < 250; ++i)); do
  on_host 1 "$client_program" -h 10.77.0.1 -p 7379 ping >/dev/null 2>&1 && break
  sleep 0.02
done
url=redis://10.77.0.1:7379
# Whoever does not reach the server in time tunes by itself; 64 processes on few processors need more than the defaults.
limits='?connect_ms=5000&get_ms=5000&binary_ms=5000'
tuned() { wc -l <"$1"; }

# 16 processes on each host share its cache file.
processes=()
for n in 1 2 3 4; do
  for ((i = 0; i < 16; ++i)); do
    on_host "$n" "$program" "$scratch/host$n.db" "$url/0$limits" "$scratch/all.log" 1 >"$scratch/out.$n.$i" &
    processes+=($!)
  done
done
for process in "${processes[@]}"; do wait "$process" || fail "a process failed: $(cat "$scratch"/out.*)"; done
[[ $(tuned "$scratch/all.log") == 1 ]] || fail "$(tuned "$scratch/all.log") processes tuned the key; one should have"
grep -L ', 0 warnings' "$scratch"/out.* | grep -q . && fail "warnings: $(cat "$scratch"/out.*)"
echo "64 processes on 4 hosts: one tuned"

if [[ -n ${2:-} ]]; then
  on_host 1 "$program" "$scratch/killed.db" "$url/1$limits" "$scratch/killed.log" 1000 >/dev/null &
  owner=$!
  for ((i = 0; i < 250; ++i)); do
    [[ -s $scratch/killed.log ]] && break
    sleep 0.02
  done
  kill -9 "$(sed -n 's/^begin //p' "$scratch/killed.log")" "$owner" 2>/dev/null || true
  start=$EPOCHREALTIME
  on_host 2 "$program" "$scratch/successor.db" "$url/1$limits" "$scratch/killed.log" 0 || fail "nobody took over"
  took=$(awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $start}")
  awk "BEGIN {exit !($took <= $2)}" || fail "the successor of a killed process began after $took s; allowed: $2"
  echo "a successor of a killed process after $took s"
fi
