#!/bin/sh
# Look, command and stop with the command line tools of Mosquitto: examples/mqtt.sh PORT HOST_ID GRIPPER
# The daemon needs commands = true in [mqtt].
set -eu
port=${1:?usage: mqtt.sh PORT HOST_ID GRIPPER} base=gripperd/${2:?HOST_ID}/${3:?GRIPPER}

look() { mosquitto_sub -V 5 -p "$port" -W 20 -t "$base/$1" -C 1; }

# give NUMBER VERB PARAMETERS: publishes it and waits for its answer. Each command has a number of its own: the same one
# twice within 30 s would be a duplicate, answered and not repeated.
give() {
    mosquitto_rr -V 5 -q 1 -p "$port" -W 20 -t "$base/command/$2" -e "examples/$$/replies" -m "$3" \
        -D publish correlation-data "$1" -D publish message-expiry-interval 5
}

look availability
look state
give 1 open '{"relative_speed": 0.5}'
give 2 move '{"opening_width_m": 9}' # refused, with the range
give 3 stop '{}'
