# shellcheck shell=bash disable=SC2154
# What happens on the node: node.sh sources it. A failed line ends it, and node.sh tells which.

chapter() { printf '\n== %s\n' "$*"; }

# Waits for up to three minutes: a loaded machine takes long to start a container.
see() { # what, command…
    local what=$1
    shift
    wait_for 180 "$what" "$@"
    echo "   $what"
}

# Whether this is all that kubectl prints.
is() { # expected, kubectl arguments…
    local expected=$1
    shift
    [ "$(kubectl -n team "$@")" = "$expected" ]
}

is_done() { kubectl -n team wait --for=condition=Complete "$1" --timeout=1s; }
is_pod() { is "$2" get pod "$1" -o 'jsonpath={.status.phase}'; } # name, phase
# How many pods of the Deployment are ready, and what keeps the others from being scheduled.
web_has() { # ready, reasons
    is "$1" get deployment web -o 'jsonpath={.status.readyReplicas}' &&
        [ "$2" = "$(kubectl -n team get pods -l app=web \
            -o 'jsonpath={.items[*].status.conditions[?(@.type=="PodScheduled")].reason}' | xargs)" ]
}
has_no_pod() { is '' get pods -l "job-name=$1" -o name; }
queue_says() { is "$2" get localqueue main -o "jsonpath={.status.$1}"; } # field, number
# From the pod `scraper` to Sluice: whether a port answers, yes or no, and what metrics there are.
reaches() { # port, yes or no
    [ "$(kubectl -n team exec scraper -- sh -c "nc -w 3 $ip $1 </dev/null >/dev/null && echo yes || echo no")" = "$2" ]
}
scrapes() {
    kubectl -n team exec scraper -- sh -c "printf 'GET /metrics HTTP/1.0\r\n\r\n' | nc -w 3 $ip 8080" |
        grep '^sluice_'
}
waits_visibly() { # the name of a job, which its Workload begins with
    kubectl get --raw /apis/visibility.sluice.dev/v1alpha1/namespaces/team/localqueues/main/pendingworkloads |
        grep "\"name\":\"$1-"
}
lift() { kubectl -n team annotate "$1" kueue.x-k8s.io/scheduling-gated-by-; }

# Whatever runs asks for all that the queue has. No time is guessed: what shall run runs until it is told to end.
runs_on='until [ -e /tmp/end ]; do sleep 0.1; done; echo told to end'
tell_to_end() { kubectl -n team exec "$1" -- touch /tmp/end; }

create() { # kind, name, script [gate]
    local api=v1 restart=Never annotations='{}' pod spec
    [ "$1" != Deployment ] || restart=Always
    [ -z "${4:-}" ] || annotations="{kueue.x-k8s.io/scheduling-gated-by: $4}"
    pod="{restartPolicy: $restart, terminationGracePeriodSeconds: 0, containers: [{name: main,
        image: 'sluice.test/busybox:1', command: [sh, -c, '$3'], resources: {requests: {cpu: 100m}}}]}"
    case $1 in
    Pod) spec=$pod ;;
    Job) api=batch/v1 spec="{template: {spec: $pod}}" ;;
    Deployment)
        api=apps/v1
        spec="{replicas: 2, selector: {matchLabels: {app: $2}},
            template: {metadata: {labels: {app: $2}}, spec: $pod}}"
        ;;
    esac
    kubectl create -f - <<EOF
apiVersion: $api
kind: $1
metadata:
  name: $2
  namespace: team
  labels: {sluice.dev/queue-name: main}
  annotations: $annotations
spec: $spec
EOF
}

# -----------------------------------------------------------------------------------------------

chapter "Sluice is installed as it is shipped, and runs as two pods from its image"
kubectl apply --server-side -k crds >/dev/null
see "the CRDs are established" kubectl wait --for=condition=Established --timeout=1s -f crds
kubectl apply -k config/default >/dev/null
kubectl -n sluice-system rollout status deployment/sluice --timeout=300s
kubectl -n sluice-system get pods -o wide
see "the JobKinds are ready" kubectl wait --for=condition=Ready --timeout=1s jobkind/job jobkind/deployment
kubectl apply -f "$here/queue.yaml"
see "the queue is active" kubectl wait --for=condition=Active --timeout=1s clusterqueue/team

chapter "The API server reaches the webhook by its Service: a bad gate is refused"
! said=$(create Job bad true mygate 2>&1)
echo "$said"
[[ $said == *'must be a domain-prefixed path'* ]]

chapter "The NetworkPolicy holds: the webhook is for all, metrics for namespaces with the label"
kubectl -n team run scraper --image=sluice.test/busybox:1
see "the scraper runs" is_pod scraper Running
ip=$(kubectl -n sluice-system get pods -o 'jsonpath={.items[0].status.podIP}')
see "it reaches the webhook" reaches 9443 yes
see "it does not reach the metrics" reaches 8080 no
kubectl label namespace team metrics=enabled
see "now it does" scrapes

chapter "A Job behind a gate has no pod; the gate is lifted, and a container runs to its end"
create Job gated 'echo the gate is lifted' acme.io/budget
see "it is held" queue_says gatedWorkloads 1
has_no_pod gated
is true get job gated -o 'jsonpath={.spec.suspend}'
lift job/gated
see "it is complete" is_done job/gated
is 'the gate is lifted' logs job/gated

chapter "There is quota for one Job: the second waits until the first has ended"
create Job first "$runs_on"
see "the first runs" is 1 get job first -o 'jsonpath={.status.ready}'
create Job second 'echo after the first'
see "the second waits" queue_says pendingWorkloads 1
see "visibility.sluice.dev, which the API server asks by its Service, tells who" waits_visibly second
kubectl -n team get jobs,pods
has_no_pod second
tell_to_end job/first
see "the second is complete" is_done job/second
is 'told to end' logs job/first
is 'after the first' logs job/second

chapter "A pod behind a gate is SchedulingGated; the gate is lifted, and it runs to its end"
create Pod single "$runs_on" acme.io/budget
see "it is held" queue_says gatedWorkloads 1
kubectl -n team get pod single
is ' SchedulingGated' get pod single \
    -o 'jsonpath={.spec.nodeName} {.status.conditions[?(@.type=="PodScheduled")].reason}'
lift pod/single
see "it runs" is_pod single Running
tell_to_end pod/single
see "it has ended" is_pod single Succeeded
is 'told to end' logs single

chapter "So are the pods of a Deployment; then one of them runs, and the other one when there is more quota"
create Deployment web "$runs_on" acme.io/budget
see "both are held" web_has '' 'SchedulingGated SchedulingGated'
kubectl -n team get pods -l app=web
lift deployment/web
see "one runs" web_has 1 SchedulingGated
kubectl -n team get pods -l app=web
kubectl patch clusterqueue team --type=json -p \
    '[{"op": "replace", "path": "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota", "value": "200m"}]'
see "both run" web_has 2 ''
