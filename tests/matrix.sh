#!/bin/sh
# Runs black-box tests on several minor versions of Kubernetes, each built from its Go module: by default all that
# docs/installing.md calls supported. MATRIX names others. TESTS names other tests than those that depend on the version:
# what is shipped, each turn of a job's life, gates, pods, enforcement, and taking Sluice away.
set -eu
cd "$(dirname "$0")/.."
MATRIX=${MATRIX:-1.33 1.34 1.35 1.36}
TESTS=${TESTS:-installation::versions:: installation::manifests:: jobs::life:: gates::life:: pods::single:: queues::preemption:: enforcement::life:: installation::uninstall::}
failed=
for version in $MATRIX; do
    # Older ones serve no MutatingAdmissionPolicy v1, so the variant without webhooks is not for them.
    skip=
    [ "${version#1.}" -ge 36 ] || skip="--skip policies --skip an_overlay_may_put_it_elsewhere"
    echo "matrix: Kubernetes $version"
    # Words are divided on purpose.
    # shellcheck disable=SC2086
    TESTBED_KUBERNETES=$version RUST_TEST_THREADS=${TEST_THREADS:-8} \
        cargo test --locked --workspace --test it -- $TESTS $skip || failed="$failed $version"
done
[ -z "$failed" ] || { echo "matrix: failed on$failed" >&2; exit 1; }
