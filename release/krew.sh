#!/usr/bin/env bash
# Writes the manifest by which krew installs the kubectl plugin, to the standard output.
#
#   release/krew.sh VERSION ARCHIVE…
#
# The archives are named kubectl-sluice_VERSION_OS_ARCH.tar.gz.
set -euo pipefail
cd "$(dirname "$0")/.."
. release/archive.sh

[ $# -ge 2 ] || fail "usage: release/krew.sh VERSION ARCHIVE…"
version=$1
shift
cat <<YAML
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: sluice
spec:
  version: $version
  homepage: https://github.com/sluice-dev/sluice
  shortDescription: Lifts gates, simulates queues, checks JobKinds
  description: |
    Sluice holds Kubernetes Jobs and pods until gates are lifted and quota is reserved for them.
    The plugin lists and lifts gates, simulates a change of quota, checks JobKinds and objects
    without a cluster, and uninstalls Sluice so that nothing stays behind a gate.
  platforms:
YAML
for archive in "$@"; do
	file=$(basename "$archive")
	platform=${file%.tar.gz}
	arch=${platform##*_}
	platform=${platform%_*}
	cat <<YAML
    - selector:
        matchLabels:
          os: ${platform##*_}
          arch: $arch
      uri: https://github.com/sluice-dev/sluice/releases/download/$version/$file
      sha256: $(sha256 "$archive")
      bin: kubectl-sluice
      files:
        - from: kubectl-sluice
          to: .
        - from: LICENSE
          to: .
YAML
done
