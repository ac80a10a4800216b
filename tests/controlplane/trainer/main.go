// Package main runs the controllers and the webhooks of Kubeflow's trainer or of JobSet, by the
// name it is called by: the trainer makes JobSets, of the version that it requires. Their own mains
// would listen on all addresses, and wait for certificates that a kubelet mounts for them: this one
// listens on loopback, with the certificate of the test bed's (tests/testbed) API server.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	trainercontrollers "github.com/kubeflow/trainer/v2/pkg/controller"
	runtimes "github.com/kubeflow/trainer/v2/pkg/runtime/core"
	trainerwebhooks "github.com/kubeflow/trainer/v2/pkg/webhooks"
	"k8s.io/apimachinery/pkg/runtime"
	clientgo "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetcontrollers "sigs.k8s.io/jobset/pkg/controllers"
	jobsetwebhooks "sigs.k8s.io/jobset/pkg/webhooks"
	schedulerplugins "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
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
	var setup func(context.Context, manager.Manager) error
	switch name := filepath.Base(os.Args[0]); name {
	case "trainer":
		setup = setupTrainer
	case "jobset":
		setup = setupJobSet
	default:
		return fmt.Errorf("called as %q; link it as trainer or jobset and call that", name)
	}
	for _, add := range []func(*runtime.Scheme) error{
		trainer.AddToScheme, jobset.AddToScheme, schedulerplugins.AddToScheme,
	} {
		if err := add(clientgo.Scheme); err != nil {
			return err
		}
	}
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	// Client-go's own limits would be what a test waits for.
	restConfig.QPS, restConfig.Burst = 500, 1000
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:                 clientgo.Scheme,
		Client:                 client.Options{Cache: &client.CacheOptions{Unstructured: true}},
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
	ctx := ctrl.SetupSignalHandler()
	if err := setup(ctx, mgr); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func setupTrainer(ctx context.Context, mgr manager.Manager) error {
	known, err := runtimes.New(ctx, mgr.GetClient(), mgr.GetFieldIndexer())
	if err != nil {
		return err
	}
	if kind, err := trainercontrollers.SetupControllers(mgr, known, controller.Options{}); err != nil {
		return fmt.Errorf("the controller of %s: %w", kind, err)
	}
	if kind, err := trainerwebhooks.Setup(mgr, known); err != nil {
		return fmt.Errorf("the webhook of %s: %w", kind, err)
	}
	return nil
}

func setupJobSet(ctx context.Context, mgr manager.Manager) error {
	if err := jobsetcontrollers.SetupJobSetIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := jobsetcontrollers.SetupPodIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	jobSets := jobsetcontrollers.NewJobSetReconciler(
		mgr.GetClient(), mgr.GetScheme(), mgr.GetEventRecorderFor("jobset"))
	if err := jobSets.SetupWithManager(mgr); err != nil {
		return err
	}
	pods := jobsetcontrollers.NewPodReconciler(
		mgr.GetClient(), mgr.GetScheme(), mgr.GetEventRecorderFor("pod"))
	if err := pods.SetupWithManager(mgr); err != nil {
		return err
	}
	validator, err := jobsetwebhooks.NewJobSetWebhook(mgr.GetClient())
	if err != nil {
		return err
	}
	if err := validator.SetupWebhookWithManager(mgr); err != nil {
		return err
	}
	return jobsetwebhooks.NewPodWebhook(mgr.GetClient()).SetupWebhookWithManager(mgr)
}
