// Where the tests find the CRDs of other projects. Nothing is built here, and each module is
// downloaded alone, by the version below and checked against go.sum: `go mod tidy` would drop them
// all. For another version: `go mod edit -require MODULE@VERSION`, then take both sums that
// `go mod download -json MODULE@VERSION` tells, outside this folder, into go.sum.
module github.com/sluice-dev/sluice/tests/controlplane/crds

go 1.26.0

require (
	github.com/argoproj/argo-workflows/v3 v3.7.1
	github.com/kubeflow/mpi-operator v0.8.0
	github.com/kubeflow/spark-operator/v2 v2.3.0
	github.com/kubeflow/trainer/v2 v2.0.0
	github.com/kubeflow/training-operator v1.8.1
	github.com/project-codeflare/appwrapper v1.1.2
	github.com/ray-project/kuberay/ray-operator v1.4.2
	sigs.k8s.io/jobset v0.8.2
	sigs.k8s.io/lws v0.7.0
)
