// Lifts the gate that is its argument, such as acme.io/budget, from each Job that asks for at most ten pods.
package main

import (
	"context"
	"encoding/json"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"log"
	"os"
	"strings"
	"time"
)

func main() {
	gate := os.Args[1]
	domain, path, _ := strings.Cut(gate, "/")
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		log.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	own := informers.WithTweakListOptions(func(list *metav1.ListOptions) { // Just what this gate holds.
		list.LabelSelector = "gate.sluice.dev/" + path + "." + domain + "=true"
	})
	factory := informers.NewSharedInformerFactoryWithOptions(client, time.Minute, own) // Tries again each minute.
	lift := func(object any) {
		job := object.(*batchv1.Job)
		if job.Spec.Parallelism != nil && *job.Spec.Parallelism > 10 {
			return // Somebody has to approve it.
		}
		annotations := map[string]any{}
		for _, key := range []string{"kueue.x-k8s.io/scheduling-gated-by", "kueue.x-k8s.io/admission-gated-by"} {
			var left []string
			for _, name := range strings.Split(job.Annotations[key], ",") {
				if name = strings.TrimSpace(name); name != gate && name != "" {
					left = append(left, name)
				}
			}
			if annotations[key] = strings.Join(left, ","); left == nil {
				annotations[key] = nil // The last gate takes the annotation with it.
			}
		}
		// The resourceVersion: gates of others that went meanwhile don't come back.
		patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{
			"resourceVersion": job.ResourceVersion, "annotations": annotations}})
		_, err := client.BatchV1().Jobs(job.Namespace).Patch(
			context.Background(), job.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		log.Printf("lift %s from %s/%s: error %v", gate, job.Namespace, job.Name, err)
	}
	factory.Batch().V1().Jobs().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: lift, UpdateFunc: func(_, job any) { lift(job) }})
	factory.Start(context.Background().Done())
	select {}
}
