// Package main is a whole Kubernetes control plane in one binary: it serves as etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler or kubectl, by the name it is
// called by. One binary links the shared code once, so it builds faster and is smaller
// than five. The test bed (tests/testbed) builds it and makes the links.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	_ "time/tzdata" // time zones of CronJobs must not depend on the machine

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's ways to log in
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the clients
	_ "k8s.io/component-base/metrics/prometheus/version"  // the metric of the version
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		serve(apiserver.NewAPIServerCommand)
	case "kube-controller-manager":
		serve(controllermanager.NewControllerManagerCommand)
	case "kube-scheduler":
		serve(func() *cobra.Command { return scheduler.NewSchedulerCommand() })
	case "kubectl":
		runKubectl()
	default:
		fmt.Fprintf(os.Stderr, "called as %q; link it as etcd, kube-apiserver, "+
			"kube-controller-manager, kube-scheduler or kubectl and call that\n", name)
		os.Exit(2)
	}
}

func serve(command func() *cobra.Command) {
	os.Exit(cli.Run(command()))
}

func runKubectl() {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}
