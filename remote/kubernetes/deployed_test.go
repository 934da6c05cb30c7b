//go:build linux

package kubernetes_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// deployed applies the kustomize base to a namespace that enforces the standard "restricted", with the etcd of the test. Its two listeners run as their service account, one of them works, and a job there
// trains the bits of the reference. The account may neither read secrets nor look into another namespace.
func (r *clusterRig) deployed() {
	r.Helper()
	const namespace = "team-b"
	r.claim(namespace)
	file, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kustomize", "base", "edl.yaml"))
	if err != nil {
		r.Fatal(err)
	}
	file = []byte(strings.ReplaceAll(string(file), "/data", r.dir)) // containers here see the files of the host
	r.Apply(namespace, file, func(kind string, object map[string]any) {
		if kind == "Deployment" {
			r.givenEtcd(object)
		}
	})
	var pod corev1.Pod
	r.Await("one listener is ready", func(ctx context.Context) (bool, error) {
		list := &corev1.PodList{}
		if err := r.Core().Get().Namespace(namespace).Resource("pods").Param("labelSelector", "app.kubernetes.io/component=listener").Do(ctx).Into(list); err != nil {
			return false, err
		}
		ready := 0
		for _, p := range list.Items {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					ready, pod = ready+1, p
				}
			}
			if p.Status.Phase == corev1.PodFailed {
				r.Fatalf("a listener has failed: %+v", p.Status.ContainerStatuses)
			}
		}
		return len(list.Items) == 2 && ready == 1, nil
	})
	r.Await("the pod of etcd is admitted", func(ctx context.Context) (bool, error) {
		err := r.Core().Get().Namespace(namespace).Resource("pods").Name("edl-etcd-0").Do(ctx).Error()
		return err == nil, err
	})

	account := r.As(r.tokenOf(namespace, "edl"))
	for _, path := range []string{"/api/v1/namespaces/" + namespace + "/secrets", "/api/v1/namespaces/team-a/pods", "/apis/batch/v1/namespaces/team-a/jobs", "/api/v1/nodes"} {
		if err := account.Get().AbsPath(path).Do(r.Context()).Error(); !apierrors.IsForbidden(err) {
			r.Errorf("the listener of %s reads %s: %v", namespace, path, err)
		}
	}
	if err := account.Get().AbsPath("/apis/batch/v1/namespaces/" + namespace + "/jobs").Do(r.Context()).Error(); err != nil {
		r.Error(err)
	}

	save := filepath.Join(r.dir, "models", "deployed")
	cmd := r.job("run", pod.Status.PodIP+":7164", save, 1)
	cmd.Env = append(cmd.Env, "EDL_AUTHORITY="+filepath.Join(r.dir, "edl", "authority.pem"))
	r.command(cmd)
	r.compare(save, 1)
	r.nothingLeft(namespace)
	r.Await("the listeners are gone", func(ctx context.Context) (bool, error) {
		if err := r.Core().Delete().AbsPath("/apis/apps/v1/namespaces/" + namespace + "/deployments/edl").Do(ctx).Error(); err != nil && !apierrors.IsNotFound(err) {
			return false, err
		}
		list := &corev1.PodList{}
		err := r.Core().Get().Namespace(namespace).Resource("pods").Param("labelSelector", "app.kubernetes.io/component=listener").Do(ctx).Into(list)
		return err == nil && len(list.Items) == 0, err
	})
}

// givenEtcd makes a Deployment of the base that of a chart with etcd.endpoints: those of the test, in clear text on the loopback interface.
func (r *clusterRig) givenEtcd(object map[string]any) {
	r.Helper()
	b, err := json.Marshal(object)
	d := &appsv1.Deployment{}
	if err == nil {
		err = json.Unmarshal(b, d)
	}
	if err != nil {
		r.Fatal(err)
	}
	p := &d.Spec.Template.Spec
	c := &p.Containers[0]
	for i, a := range c.Args {
		if strings.HasPrefix(a, "--etcd=") {
			c.Args[i] = "--etcd=" + r.etcd
		}
	}
	var env []corev1.EnvVar
	for _, e := range c.Env {
		if !strings.HasPrefix(e.Name, "EDL_ETCD_") {
			env = append(env, e)
		}
	}
	var mounts []corev1.VolumeMount
	for _, m := range c.VolumeMounts {
		if m.Name != "etcd" {
			mounts = append(mounts, m)
		}
	}
	var volumes []corev1.Volume
	for _, v := range p.Volumes {
		if v.Name != "etcd" {
			volumes = append(volumes, v)
		}
	}
	c.Env, c.VolumeMounts, p.Volumes = env, mounts, volumes
	if b, err = json.Marshal(d); err == nil {
		clear(object)
		err = json.Unmarshal(b, &object)
	}
	if err != nil {
		r.Fatal(err)
	}
}
