#!/bin/sh
# Builds an earlier version of this repository, and plays an upgrade from it under load, and the downgrade, with every
# revision of etcd checked: docs/faults.md. FROM names the version: a tag or a commit. Without it: the last tag, and
# before there is one, a commit whose CRDs, policies and webhook configurations differ from today's.
set -eu
cd "$(dirname "$0")/.."
FROM=${FROM:-$(git describe --tags --abbrev=0 2>/dev/null || echo 0a8ff19)}
commit=$(git rev-parse --short=12 "$FROM^{commit}")
source="$PWD/target/upgrade/$commit"
if [ ! -e "$source/Cargo.toml" ]; then
    mkdir -p "$source"
    git archive "$commit" | tar -x -C "$source"
fi
echo "upgrade: building $FROM ($commit)"
CARGO_TARGET_DIR="$source/target" cargo build --locked --manifest-path "$source/Cargo.toml" --bin sluice
UPGRADE_FROM="$source" cargo test --locked --workspace --test faults -- --nocapture --test-threads=1 upgraded
