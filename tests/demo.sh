#!/usr/bin/env bash
# The story of a few jobs, told with kubectl. `make demo` builds what it needs and runs it.
#
#   make demo           on a throwaway control plane on this machine; nothing is left behind
#   make demo KEEP=1    the same, but it stays up until Ctrl-C, to try things out
#   make demo CONTEXT=NAME
#                       on the cluster of this context of your kubeconfig, and of no other: Sluice's
#                       CRDs, roles, JobKinds, admission policies and three namespaces are applied to
#                       it and taken away again at the end. It refuses a cluster that has a Sluice.
#                       With WEBHOOKS=no without webhooks, as when the API server can't call this machine
#
# In each case Sluice is installed from the manifests and runs as a process of this machine, with
# the rights of its own service account and no others.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${CARGO_TARGET_DIR:-target}/debug

bold='' dim='' plain=''
if [ -t 1 ]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; fi

# --- how the story is told ---------------------------------------------------------------------

chapter() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
note() { printf '%s# %s%s\n' "$dim" "$*" "$plain"; }

# Shows a command, then runs it.
run() {
    printf '%s$ %s%s\n' "$bold" "$*" "$plain"
    "$@"
}

# The same for a line of shell.
sh_run() {
    printf '%s$ %s%s\n' "$bold" "$1" "$plain"
    bash -c "$1"
}

# The same for a line that a webhook has to refuse.
refused() {
    local said
    printf '%s$ %s%s\n' "$bold" "$1" "$plain"
    said=$(bash -c "$1" 2>&1) || true
    printf '%s\n' "$said"
    if [[ $said != *'denied the request'* ]]; then
        echo "demo: this should have been refused" >&2
        exit 1
    fi
}

# `kubectl auth can-i` fails when the answer is no.
can_i() { run kubectl auth can-i "$@" || true; }

# Waits up to 60 s until a command succeeds. Not shown.
until_ok() {
    local end=$((SECONDS + 60))
    until "$@" >/dev/null 2>&1; do
        if [ $SECONDS -ge $end ]; then
            echo "demo: waited in vain for: $*" >&2
            exit 1
        fi
        sleep 0.25
    done
}

workloads_of() { # job: the names of its Workloads
    kubectl -n team-blue get workloads.sluice.dev \
        -o jsonpath="{range .items[?(@.metadata.ownerReferences[0].name==\"$1\")]}{.metadata.name}{end}"
}
waits_for_quota() { # job
    local name
    name=$(workloads_of "$1")
    [ -n "$name" ] && [ "$(kubectl -n team-blue get workloads.sluice.dev "$name" \
        -o jsonpath='{.status.conditions[?(@.type=="QuotaReserved")].status}')" = False ]
}
is_decided() { # job: whether it has quota, or waits for it
    local name
    name=$(workloads_of "$1")
    [ -n "$name" ] && [ -n "$(kubectl -n team-blue get workloads.sluice.dev "$name" \
        -o jsonpath='{.status.conditions[?(@.type=="QuotaReserved")].status}')" ]
}
gated_count_is() {
    [ "$(kubectl -n team-blue get localqueue main -o jsonpath='{.status.gatedWorkloads}')" = "$1" ]
}
is_overdue() { # job
    [ -n "$(kubectl -n team-blue get events \
        --field-selector "involvedObject.name=$1,reason=GateExpired" --no-headers 2>&1 | grep GateExpired)" ]
}
gate_holds_one() {
    [ "$(kubectl get gate budget-approval.acme.io -o jsonpath='{.status.held}')" = 1 ]
}
admitted_pods_are() {
    [ "$(kubectl -n team-red get localqueue main -o jsonpath='{.status.admittedWorkloads}')" = "$1" ]
}
is_released() { [ "$(kubectl -n team-blue get render "$1" -o jsonpath='{.spec.paused}')" = false ]; }
running() { [ "$(kubectl -n team-blue get job "$1" -o jsonpath='{.status.ready}')" = 1 ]; }

# --- the story ---------------------------------------------------------------------------------

story() { # webhooks: yes or no
    local jobs=config/samples/jobs me=system:serviceaccount:sluice-system:sluice
    chapter "Sluice is here; it knows batch Jobs, and may patch them but neither make nor delete any"
    until_ok kubectl wait --for=condition=Ready jobkind/job --timeout=1s
    run kubectl get jobkinds
    can_i patch jobs --as $me
    can_i delete jobs --as $me

    chapter "Two teams share 4 CPUs: 2 each, and what the other does not use"
    run kubectl apply -k config/samples
    until_ok kubectl wait --for=condition=Active clusterqueue/blue clusterqueue/red --timeout=1s
    run kubectl get clusterqueues
    run kubectl -n team-blue get localqueues

    chapter "Team blue submits three jobs of 2 CPUs each; one has a gate"
    sh_run "grep -B1 -A1 scheduling-gated-by: $jobs/evaluate.yaml"
    run kubectl apply -f $jobs/train.yaml
    run kubectl apply -f $jobs/tune.yaml
    run kubectl apply -f $jobs/evaluate.yaml
    until_ok running train
    until_ok running tune
    until_ok gated_count_is 1
    note "Two run: one in the team's own quota, one in what team red lends."
    note "The third is held before it is even queued: no pod, no Workload, no quota."
    run kubectl -n team-blue get jobs,pods
    run kubectl -n team-blue get workloads.sluice.dev
    run kubectl -n team-blue get localqueues
    run kubectl -n team-blue events --for job/evaluate --no-headers

    if [ "$1" = yes ]; then
        chapter "What is not a gate is refused, and so is a gate that comes too late"
        refused "sed 's,acme.io/budget-approval,mygate,; s,name: evaluate,name: careless,' $jobs/evaluate.yaml | kubectl create -f -"
        refused "kubectl -n team-blue annotate job train kueue.x-k8s.io/scheduling-gated-by=acme.io/late"
    else
        note "Without webhooks (see above) bad gates are not refused at creation: such a job is held,"
        note "and an event on it says what is wrong."
    fi

    local as=()
    if [ "$1" = yes ]; then
        chapter "The gate has an owner and a deadline: nobody else lifts it, and whoever tries is told whom to ask"
        sh_run "sed -n '/^kind: Gate/,/^---/p' config/samples/gates.yaml | grep -v ^---"
        until_ok gate_holds_one
        run kubectl get gates
        until_ok kubectl -n team-blue auth can-i patch jobs --as ann
        until_ok kubectl -n team-blue auth can-i lift gates.sluice.dev/budget-approval.acme.io --as boss
        refused "kubectl -n team-blue annotate job evaluate kueue.x-k8s.io/scheduling-gated-by- --as ann"
        as=(--as boss)
    fi

    chapter "The budget is approved: the gate goes, and the job is queued at once"
    run kubectl -n team-blue annotate job evaluate kueue.x-k8s.io/scheduling-gated-by- ${as[@]+"${as[@]}"}
    if [ "$1" = yes ]; then
        sh_run "kubectl -n team-blue get job evaluate -o jsonpath='{.metadata.annotations.sluice\.dev/lifted-gates}{\"\\n\"}'"
    fi
    until_ok is_decided evaluate
    if waits_for_quota evaluate; then
        note "All 4 CPUs are taken, so it waits, and it says for what:"
    else
        note "This machine is slow: a job has ended meanwhile, and its quota is handed on already."
    fi
    run kubectl -n team-blue get workloads.sluice.dev
    sh_run "kubectl -n team-blue get workloads.sluice.dev $(workloads_of evaluate) -o jsonpath='{.status.conditions[?(@.type==\"QuotaReserved\")].message}{\"\\n\"}'"
    run kubectl -n team-blue get jobs

    chapter "A job ends, its quota is handed on, and all of them finish"
    run kubectl -n team-blue wait --for=condition=Complete job --all --timeout=180s
    run kubectl -n team-blue get jobs,workloads.sluice.dev
    run kubectl -n team-blue events --for job/evaluate --no-headers

    if [ "$1" = yes ]; then
        chapter "A big job does not name the gate, but has it all the same"
        until_ok kubectl wait --for=condition=Applied gate/budget-approval.acme.io --timeout=1s
        sh_run "sed 's,name: train,name: pretrain,; s,cpu: \"2\",cpu: \"4\",' $jobs/train.yaml | kubectl create -f - --as ann"
        sh_run "kubectl -n team-blue get job pretrain -o jsonpath='{.metadata.annotations.kueue\.x-k8s\.io/admission-gated-by}{\"\\n\"}'"
        chapter "Nobody approves it in time: the deadline acts, and the job says so"
        run kubectl patch gate budget-approval.acme.io --type=merge -p '{"spec":{"deadline":{"seconds":3}}}'
        until_ok is_overdue pretrain
        run kubectl -n team-blue events --for job/pretrain --no-headers
        run kubectl get gates
        note "It is told, and holds all the same. With onExpiry: Lift it would go on, with Deactivate wait for good."
        run kubectl -n team-blue annotate job pretrain kueue.x-k8s.io/admission-gated-by- --as boss
        run kubectl -n team-blue wait --for=condition=Complete job/pretrain --timeout=180s

        chapter "Elastic work: each pod is admitted by itself, and waits behind a scheduling gate"
        sh_run "grep -A1 annotations: $jobs/sweep.yaml | head -2"
        run kubectl apply -f $jobs/sweep.yaml
        until_ok admitted_pods_are 2
        note "Three pods of 2 CPUs, quota for two. The third is SchedulingGated: schedulers and"
        note "autoscalers pass it over, so no node is bought for it."
        run kubectl -n team-red get pods
        run kubectl -n team-red get localqueues
        run kubectl -n team-red wait --for=condition=Complete job/sweep --timeout=180s
    fi

    # Not on a cluster of yours: it would take a CRD that is none of Sluice's.
    if [ -z "${CONTEXT:-}" ]; then
        chapter "A kind that Sluice has never heard of: a JobKind says how to read and hold it"
        kubectl apply -f config/samples/render/crd.yaml >/dev/null
        until_ok kubectl explain renders.spec.paused
        sh_run "sed -n '/^spec/,/^---/p' config/samples/render/render.yaml | grep -v ^---"
        run kubectl apply -f config/samples/render/render.yaml
        run kubectl wait --for=condition=Ready jobkind/render --timeout=60s
        run kubectl apply -f config/samples/render/film.yaml
        sh_run "sed 's/name: film/name: trailer/' config/samples/render/film.yaml | kubectl apply -f -"
        until_ok is_released film
        until_ok waits_for_quota trailer
        note "Each requests 3 of the 4 CPUs: one is released, the other was paused when it was created."
        run kubectl -n team-blue get renders -o custom-columns=NAME:.metadata.name,PAUSED:.spec.paused
        sh_run "kubectl -n team-blue get workloads.sluice.dev $(workloads_of trailer) -o jsonpath='{.status.conditions[?(@.type==\"QuotaReserved\")].message}{\"\\n\"}'"
        note "Its own controller says that film has ended, and trailer starts:"
        run kubectl -n team-blue patch render film --subresource=status --type=merge -p '{"status":{"pods":0,"outcome":"done"}}'
        until_ok is_released trailer
        run kubectl -n team-blue get renders -o custom-columns=NAME:.metadata.name,PAUSED:.spec.paused
    fi
}

# --- on a throwaway control plane --------------------------------------------------------------

throwaway() {
    echo "Starting a control plane and Sluice on this machine…"
    exec "$bin/sluice-testbed" run --sluice "$bin/sluice" -- "$PWD/tests/demo.sh" story
}

keep() {
    chapter "It stays up until Ctrl-C. In another terminal:"
    cat <<EOF
export KUBECONFIG=$KUBECONFIG
export PATH=$(dirname "$(command -v kubectl)"):\$PATH
kubectl -n team-blue get jobs,workloads.sluice.dev,localqueues.sluice.dev

# to play the story again: kubectl -n team-blue delete jobs --all
# metrics: curl $TESTBED_SLUICE_METRICS
# the log: tail -f $TESTBED_SLUICE_LOG
# pods run on played nodes; the annotation testbed.sluice.dev/run-seconds says how long
EOF
    sleep 2147483647 &
    trap 'kill $! 2>/dev/null; exit 0' INT TERM
    wait $! || true
}

# --- on a cluster of yours ---------------------------------------------------------------------

existing() {
    local server found
    work=$(mktemp -d)
    trap 'rm -rf -- "$work"' EXIT
    # Only this context, whatever becomes of the current one meanwhile.
    kubectl config view --minify --flatten --context="$CONTEXT" >"$work/admin" || {
        echo "demo: the kubeconfig has no context $CONTEXT: kubectl config get-contexts" >&2
        exit 1
    }
    export KUBECONFIG=$work/admin
    server=$(kubectl config view --minify -o 'jsonpath={.clusters[0].cluster.server}')
    echo "Using the cluster at $server (context $CONTEXT)."
    found=$(there_already)
    if [ -n "$found" ]; then
        printf 'demo: these are there already, and the demo would delete them at its end:\n%s\n' \
            "$found" >&2
        exit 1
    fi
    sluice=''
    trap cleanup EXIT
    trap 'exit 130' INT TERM

    local webhooks=no
    case ${WEBHOOKS:-$server} in
    https://127.* | https://localhost[:/]* | 'https://[::1]'*) webhooks=yes ;;
    no) note "No webhooks, as asked for." ;;
    *) note "The API server runs elsewhere and can't call this machine: no webhooks." ;;
    esac
    port=$(free_port)
    kubectl kustomize config/local | sed "s,https://127.0.0.1:9443/,https://127.0.0.1:$port/," >"$work/all.yaml"
    without_webhooks <"$work/all.yaml" >"$work/without.yaml"

    chapter "Sluice is installed"
    run kubectl apply --server-side -k crds
    # `kubectl wait` fails at once on a CRD that has no conditions yet.
    until_ok kubectl wait --for=condition=Established --timeout=60s -f crds
    run kubectl apply -f "$work/without.yaml"
    account_kubeconfig >"$work/kubeconfig"
    until_ok env KUBECONFIG="$work/kubeconfig" kubectl auth can-i list jobs.batch -A
    until_ok env KUBECONFIG="$work/kubeconfig" kubectl auth can-i create workloads.sluice.dev -A
    [ $webhooks = no ] || kubectl apply -f "$work/all.yaml" >/dev/null
    health=$(free_port)
    KUBECONFIG=$work/kubeconfig "$bin/sluice" --namespace=sluice-system \
        --webhook-bind="127.0.0.1:$port" --webhook-san=127.0.0.1 \
        --metrics-bind="127.0.0.1:$(free_port)" --health-bind="127.0.0.1:$health" \
        >"$work/log" 2>&1 &
    sluice=$!
    until_ok is_ready
    if [ $webhooks = yes ] && ! reached; then
        # A cluster in a container has an address on our loopback, but a loopback of its own.
        note "The API server can't call this machine: going on without webhooks."
        kubectl delete validatingwebhookconfiguration,mutatingwebhookconfiguration sluice
        webhooks=no
    fi
    story $webhooks
    if [ -n "${KEEP:-}" ]; then
        chapter "It stays until Ctrl-C; then everything is taken away."
        trap 'exit 0' INT TERM
        wait $sluice || true
    fi
}

cleanup() {
    local code=$?
    trap - EXIT
    trap '' INT TERM
    chapter "Taking everything away again"
    [ $code = 0 ] || tail -20 "$work/log" 2>/dev/null || true
    # Webhooks first: nobody answers them any more once the process has ended.
    kubectl delete --ignore-not-found validatingwebhookconfiguration,mutatingwebhookconfiguration sluice
    kubectl delete --ignore-not-found -k config/samples || true
    [ -z "$sluice" ] || { kill "$sluice" 2>/dev/null && wait "$sluice" || true; }
    kubectl delete --ignore-not-found -f "$work/without.yaml" || true
    kubectl delete --ignore-not-found -k crds
    rm -rf -- "$work"
    exit $code
}

# What has the name, or a label, of something that the demo applies. It fails when there is no
# answer, so that this is not taken for "nothing there".
there_already() {
    kubectl get --ignore-not-found -o name namespace sluice-system team-blue team-red
    kubectl get -o name clusterrole,clusterrolebinding -l app.kubernetes.io/name=sluice
    kubectl get --ignore-not-found -o name \
        validatingwebhookconfiguration,mutatingwebhookconfiguration sluice
    kubectl get -o name crd | { grep -F .sluice.dev || true; }
}

# Of a stream of YAML documents, those that are no webhook configuration.
without_webhooks() {
    awk '
        function flush() { if (!skip) printf "%s", document; document = ""; skip = 0 }
        /^---$/ { flush() }
        /^kind: .*WebhookConfiguration$/ { skip = 1 }
        { document = document $0 "\n" }
        END { flush() }'
}

# The current kubeconfig, but with a token of Sluice's service account as the only credential.
account_kubeconfig() {
    local token old
    token=$(kubectl -n sluice-system create token sluice --duration=2h)
    kubectl config view --minify --flatten >"$work/account"
    old=$(kubectl config view --minify -o 'jsonpath={.users[0].name}')
    local config=(kubectl config --kubeconfig="$work/account")
    "${config[@]}" unset "users" >/dev/null
    "${config[@]}" set-credentials "$old" --token="$token" >/dev/null
    cat "$work/account"
    rm "$work/account"
}

free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 10000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo $port
}

is_ready() {
    kill -0 "$sluice"
    exec 3<>"/dev/tcp/127.0.0.1/$health"
    printf 'GET /readyz HTTP/1.0\r\n\r\n' >&3
    head -1 <&3 | grep -q ' 200 '
}

# Whether a gated job would be held, which the webhook does. Up to 10 s.
reached() {
    local tries
    for tries in {1..20}; do
        if [ "$(kubectl create -n default --dry-run=server -o 'jsonpath={.spec.suspend}' \
            -f <(sed '/namespace:/d' config/samples/jobs/evaluate.yaml) 2>/dev/null)" = true ]; then
            return 0
        fi
        sleep 0.5
    done
    return 1
}

# -----------------------------------------------------------------------------------------------

case ${1:-} in
story)
    story yes
    if [ -n "${KEEP:-}" ]; then keep; else chapter "The end: control plane and Sluice go now"; fi
    ;;
'') if [ -n "${CONTEXT:-}" ]; then existing; else throwaway; fi ;;
*)
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0"
    exit 2
    ;;
esac
