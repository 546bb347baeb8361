#!/bin/sh
# Look, command and stop with nothing but a Unix-socket tool: examples/shell.sh SOCKET
set -eu
socket=${1:?usage: shell.sh SOCKET}
ask() { printf '%s\n' "$1" | socat -t 5 - "UNIX-CONNECT:$socket"; }

ask '{"jsonrpc":"2.0","id":1,"method":"gripper.list"}'
ask '{"jsonrpc":"2.0","id":2,"method":"gripper.state"}'
ask '{"jsonrpc":"2.0","id":3,"method":"gripper.grip","params":{"relative_speed":0.5}}'
ask '{"jsonrpc":"2.0","id":4,"method":"gripper.stop"}'
