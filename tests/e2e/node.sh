#!/usr/bin/env bash
# The node, in the namespaces that run.sh has made: network, container runtime, control plane, and what of Kubernetes
# runs on a node; then the story on it. All of them end with this script, which is the first process of its namespace.
set -euo pipefail
here=$PWD/tests/e2e
# Of the blocks for documentation (RFC 5737): never an address of somebody's.
address=192.0.2.1
pods=198.51.100.0/24
services=10.0.0.0/24

wait_for() { # seconds, what, command…
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        if [ $SECONDS -ge $end ]; then
            echo "e2e: waited in vain for this: $what" >&2
            # What it says now is most of the reason.
            "$@"
            return
        fi
        sleep 0.2
    done
}

namespaces() {
    mount --bind "$WORK/run" /run
    mount --bind "$WORK/lib" /var/lib
    mount --bind "$WORK/log" /var/log
    ip link set lo up
    ip address add $address/32 dev lo
    # A packet needs a route before kube-proxy sends it elsewhere.
    ip route add $services dev lo src $address
    echo 1 >/proc/sys/net/ipv4/ip_forward
}

# The runtime is there before the control plane is, the rest of the node after it.
runtime() {
    mkdir -p "$WORK/cni"
    cat >"$WORK/containerd.toml" <<EOF
version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "sluice.test/busybox:1"
# A machine may forbid its root to make a process less killable than others.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
# It works on every file system, also where the folder of the run is an overlay itself.
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "$WORK/cni"
EOF
    cat >"$WORK/cni/10-pods.conflist" <<EOF
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "ptp", "ipam": {"type": "host-local", "subnet": "$pods", "routes": [{"dst": "0.0.0.0/0"}]}}]}
EOF
    containerd --config "$WORK/containerd.toml" >/var/log/containerd.log 2>&1 &
    wait_for 60 containerd ctr version
    for image in busybox sluice; do
        ctr --namespace k8s.io images import --snapshotter native "$WORK/$image.tar"
    done
}

node() {
    cat >"$WORK/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
# Nobody else is in this network.
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: $CGROUP
# This machine is as it is: with cgroups of version 1, swap, or a full disk.
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
evictionHard:
  {memory.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}
# There is no DNS: Sluice needs none.
resolvConf: ""
EOF
    cat >"$WORK/kube-proxy.yaml" <<EOF
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: node
clusterCIDR: $pods
clientConnection: {kubeconfig: $KUBECONFIG}
# These limits are the machine's, not the network namespace's.
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
EOF
    kubelet --config="$WORK/kubelet.yaml" --kubeconfig="$KUBECONFIG" --hostname-override=node \
        --node-ip=$address >/var/log/kubelet.log 2>&1 &
    kube-proxy --config="$WORK/kube-proxy.yaml" >/var/log/kube-proxy.log 2>&1 &
    # Nothing but its firewall, which does what NetworkPolicies say.
    wait_for 120 "the object of the node" kubectl get node node
    kube-router --kubeconfig="$KUBECONFIG" --hostname-override=node --service-cluster-ip-range=$services \
        --run-firewall --run-router=false --run-service-proxy=false --enable-cni=false \
        >/var/log/kube-router.log 2>&1 &
    wait_for 120 "the node" kubectl wait --for=condition=Ready node/node --timeout=1s
}

# What helps to find out why the story did not end well.
tell() {
    trap - ERR
    set +e
    kubectl get pods -A -o wide
    kubectl get events -A --sort-by=.lastTimestamp | tail -30
    kubectl -n sluice-system logs -l app.kubernetes.io/name=sluice --tail=20
    tail -n 20 /var/log/{containerd,kubelet,kube-proxy,kube-router}.log
} >&2

case ${1:-} in
'')
    namespaces
    runtime
    TMPDIR=$WORK/tmp "$TESTBED" run --real-nodes $address -- "$here/node.sh" story
    ;;
story)
    set -E
    trap 'echo "e2e: failed at line $LINENO of ${BASH_SOURCE[0]##*/}: $BASH_COMMAND" >&2' ERR
    trap '[ $? = 0 ] || tell' EXIT
    node
    # shellcheck source=tests/e2e/story.sh
    . "$here/story.sh"
    ;;
esac
