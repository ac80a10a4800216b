// Package main runs the controllers and the webhooks of Kubeflow's training operator. Its own main
// would listen on all addresses, and wait for certificates that a kubelet mounts for it: this one
// listens on loopback, with the certificate of the test bed's (tests/testbed) API server.
package main

import (
	"flag"
	"fmt"
	"os"

	kubeflow "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/config"
	controllers "github.com/kubeflow/training-operator/pkg/controller.v1"
	"github.com/kubeflow/training-operator/pkg/controller.v1/common"
	"github.com/kubeflow/training-operator/pkg/webhooks"
	clientgo "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

func main() {
	health := flag.String("health", "127.0.0.1:8081", "where it says whether it is ready")
	port := flag.Int("webhook-port", 9443, "the port of the webhooks, on loopback")
	certificates := flag.String("certificates", "", "the folder with apiserver.crt and apiserver.key")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(*health, *port, *certificates); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(health string, port int, certificates string) error {
	if err := kubeflow.AddToScheme(clientgo.Scheme); err != nil {
		return err
	}
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	// Client-go's own limits would be what a test waits for.
	restConfig.QPS, restConfig.Burst = 500, 1000
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:                 clientgo.Scheme,
		Metrics:                metrics.Options{BindAddress: "0"},
		HealthProbeBindAddress: health,
		WebhookServer: webhook.NewServer(webhook.Options{
			Host:     "127.0.0.1",
			Port:     port,
			CertDir:  certificates,
			CertName: "apiserver.crt",
			KeyName:  "apiserver.key",
		}),
	})
	if err != nil {
		return err
	}
	config.Config.PyTorchInitContainerImage = config.PyTorchInitContainerImageDefault
	config.Config.PyTorchInitContainerTemplateFile = config.PyTorchInitContainerTemplateFileDefault
	config.Config.PyTorchInitContainerMaxTries = config.PyTorchInitContainerMaxTriesDefault
	config.Config.MPIKubectlDeliveryImage = config.MPIKubectlDeliveryImageDefault
	for kind, setup := range controllers.SupportedSchemeReconciler {
		if err := setup(mgr, common.GenNonGangSchedulerSetupFunc(), 1); err != nil {
			return fmt.Errorf("the controller of %s: %w", kind, err)
		}
	}
	for kind, setup := range webhooks.SupportedSchemeWebhook {
		if err := setup(mgr); err != nil {
			return fmt.Errorf("the webhook of %s: %w", kind, err)
		}
	}
	if err := mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
