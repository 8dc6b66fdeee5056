#!/bin/sh
# Reads a partition page by page with curl: each answer's Link header names the next page, and the last answer has none. An
# answer never invites the same request again, so that the loop ends.
#
#   examples/shell/page.sh http://127.0.0.1:8080 '/topics/plain/partitions/0/records?offset=earliest' > pages.json
set -eu
base=$1 next=$2
headers=$(mktemp)
trap 'rm -f "$headers"' EXIT
while [ -n "$next" ]; do
	curl --fail --silent --show-error --retry 5 --dump-header "$headers" "$base$next"
	next=$(tr -d '\r' <"$headers" | sed -n 's/^[Ll]ink: <\(.*\)>; rel="next"$/\1/p')
done
