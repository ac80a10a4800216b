#!/usr/bin/env bash
# Packs the Helm charts: their links to the manifests become files, and they get the version of the release.
#
#   release/charts.sh FOLDER VERSION
set -euo pipefail
cd "$(dirname "$0")/.."
. release/archive.sh

[ $# = 2 ] || fail "usage: release/charts.sh FOLDER VERSION"
out=$1 version=$2
: "${SOURCE_DATE_EPOCH:?}"
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
mkdir -p "$out"
for chart in sluice sluice-crds; do
	cp -RL "charts/$chart" "$work/$chart"
	# As its .helmignore says.
	rm -rf -- "$work/$chart/manifests/local" "$work/$chart/manifests/samples"
	sed -i "s/^version: .*/version: ${version#v}/; s/^appVersion: .*/appVersion: $version/" "$work/$chart/Chart.yaml"
	archive "$work" "$chart" | gzip -n >"$out/$chart-${version#v}.tgz"
done
