#!/bin/sh
# Look, command, wait and stop with nothing but a Unix-socket tool: examples/shell.sh SOCKET
set -eu
socket=${1:?usage: shell.sh SOCKET}
ask() { printf '%s\n' "$1" | socat -t 20 - "UNIX-CONNECT:$socket"; }

ask '{"jsonrpc":"2.0","id":1,"method":"gripper.list"}'
ask '{"jsonrpc":"2.0","id":2,"method":"gripper.state"}'
reply=$(ask '{"jsonrpc":"2.0","id":3,"method":"gripper.grip","params":{"relative_speed":0.5}}')
echo "$reply"
seq=${reply##*\"command_seq\":} seq=${seq%%\}*} # the last field of the reply
[ "$seq" = 0 ] || # 0: it was refused, and there is nothing to wait for
    ask '{"jsonrpc":"2.0","id":4,"method":"gripper.wait","params":{"timeout_s":15,"command_seq":'"$seq"'}}'
ask '{"jsonrpc":"2.0","id":5,"method":"gripper.stop"}'
