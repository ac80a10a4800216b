#!/usr/bin/env bash
# Sluice on a real node: kubelet, kube-proxy, containerd and runc run real containers behind gates and in queues, and
# Sluice runs as a pod from its own image, as config/default ships it. `make e2e` builds what it needs and runs it.
#
# It needs root. Whatever it starts lives in namespaces of its own: processes, network and mounts. /run, /var/lib and
# /var/log are folders of the run there. So nothing is left behind, and a containerd of this machine is not touched.
# There is no network but the loopback device and the pods'. SIGKILL of this script ends all of it too, but leaves the
# folder and empty cgroups.
#
#   KEEP=1     keeps the folder of the run, with all logs, and prints its path
#   TMPDIR     where this folder is; images are unpacked there
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$(realpath "${CARGO_TARGET_DIR:-target}")/debug

fail() {
    echo "e2e: $*" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || fail "this needs root"
for program in containerd ctr runc nft iptables ipset ip busybox /usr/lib/cni/ptp; do
    command -v "$program" >/dev/null || fail "no $program: apt-get install containerd runc \
containernetworking-plugins nftables iptables ipset iproute2 busybox-static"
done
grep -q INTERP <(readelf --program-headers "$(command -v busybox)") &&
    fail "busybox is linked dynamically: apt-get install busybox-static"
for folder in "$PWD" "$bin" "${TMPDIR:-/tmp}"; do
    case $folder/ in
    /run/* | /var/lib/* | /var/log/*) fail "the run has folders of its own there, so $folder can't be seen" ;;
    esac
done

run=
work=$(mktemp -d -t sluice-e2e-XXXXXX)
cgroup=/$(basename "$work")
# The kubelet wants its topmost cgroup to be there. Version 1 has a tree for each controller, version 2 has one.
cgroups=(/sys/fs/cgroup"$cgroup")
if [ ! -e /sys/fs/cgroup/cgroup.controllers ]; then
    # Some of their names are links to others.
    mapfile -t cgroups < <(realpath /sys/fs/cgroup/*/ | sort -u)
    cgroups=("${cgroups[@]/%/$cgroup}")
fi

cleanup() {
    local code=$?
    trap - EXIT
    trap '' INT TERM
    if [ -n "$run" ]; then
        # With the first process of the namespace all of it ends, and unshare has waited for that when it ends itself.
        pkill -KILL --parent "$run" || true
        wait "$run" || true
    fi
    find "${cgroups[@]}" -depth -type d -exec rmdir {} + || code=1
    if [ -n "${KEEP:-}" ]; then
        echo "e2e: the logs are in $work/log" >&2
    else
        rm -rf -- "$work"
    fi
    exit $code
}

trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "${cgroups[@]}"

# --- images ------------------------------------------------------------------------------------

# What the pods run, in one file. It is the pause container too, which only has to be there.
busybox_image() {
    local root=$work/busybox name
    mkdir -p "$root/layer/bin" "$root/layer/tmp"
    chmod 1777 "$root/layer/tmp"
    cp "$(command -v busybox)" "$root/layer/bin/busybox"
    for name in sh sleep touch nc; do ln -s busybox "$root/layer/bin/$name"; done
    tar --create --directory "$root/layer" --owner=0 --group=0 --numeric-owner . >"$root/layer.tar"
    cat >"$root/config.json" <<EOF
{"architecture":"$arch","os":"linux",
"config":{"Env":["PATH=/bin"],"Entrypoint":["sleep","2147483647"]},
"rootfs":{"type":"layers","diff_ids":["sha256:$(sha256sum "$root/layer.tar" | cut -d' ' -f1)"]}}
EOF
    echo '[{"Config":"config.json","RepoTags":["sluice.test/busybox:1"],"Layers":["layer.tar"]}]' >"$root/manifest.json"
    tar --create --directory "$root" manifest.json config.json layer.tar >"$work/busybox.tar"
}

case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
*) fail "no image for $(uname -m)" ;;
esac
busybox_image
version=$(sed -n 's/^ *newTag: //p' config/default/kustomization.yaml)
SOURCE_DATE_EPOCH=$(date +%s) release/image.sh "$work/sluice.tar" "$version" "$arch=$bin/sluice,$bin/kubectl-sluice"

# --- the run -----------------------------------------------------------------------------------

PATH=$("$bin/sluice-testbed" build --node):$PATH
mkdir "$work"/{run,lib,log,tmp}
# The kubelet is of the newest version, and no API server may be older than its kubelets.
export TESTBED_KUBERNETES=
# In the background, so that a signal is answered at once. setpriv: it ends with this script, SIGKILL or not.
WORK=$work CGROUP=$cgroup TESTBED=$bin/sluice-testbed \
    setpriv --pdeathsig KILL unshare --mount --net --pid --fork --kill-child --mount-proc tests/e2e/node.sh &
run=$!
wait $run
