#!/usr/bin/env bash
# Writes the changes of each release, from the subjects of the commits, to the standard output. The newest release
# comes first: it is VERSION, with what has come since the last tag.
#
#   release/changelog.sh VERSION
set -euo pipefail
cd "$(dirname "$0")/.."
. release/archive.sh

[ $# = 1 ] || fail "usage: release/changelog.sh VERSION"

# Subjects of the commits of a range; merges say nothing of their own.
section() { # title, time, range
	printf '\n## %s (%s)\n\n' "$1" "$(rfc3339 "$2" | cut -dT -f1)"
	git log --no-merges --format='* %s (%h)' --abbrev=12 "$3"
}

time_of() { git log -1 --format=%ct "$1"; }

echo '# Changes'
title=$1 end=HEAD
# By the version, of which v0.1.0-rc.1 comes before v0.1.0.
for tag in $(git -c versionsort.suffix=- tag --list 'v*' --merged HEAD --sort=-version:refname); do
	if [ "$tag" != "$title" ]; then
		section "$title" "$(time_of "$end")" "$tag..$end"
		title=$tag
	fi
	end=$tag
done
section "$title" "$(time_of "$end")" "$end"
