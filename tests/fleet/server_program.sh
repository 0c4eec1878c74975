#!/usr/bin/env bash
# server_program.sh: prints the server that the tests start: TUNESMITH_TEST_SERVER if it is set, else valkey-server, else
# redis-server. Fails if it is not installed. server.cpp does the same.
set -euo pipefail
for server in ${TUNESMITH_TEST_SERVER:-valkey-server redis-server}; do
  command -v "$server" && exit 0
done
exit 1
