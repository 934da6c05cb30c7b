//go:build linux

package kubetest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// A mounted volume has a path in the container and one on the host. Containers are processes that see the files of the host, so paths of mounts in their arguments and in their environment are
// replaced by those on the host.
type mounted struct{ inside, host string }

// inHost replaces the path of a mount at the begin of a text, or of what follows the "=" of a flag. Of mounts within each other, the inner one counts.
func inHost(text string, mounts []mounted) string {
	best := mounted{}
	for _, m := range mounts {
		if (text == m.inside || strings.HasPrefix(text, m.inside+"/")) && len(m.inside) > len(best.inside) {
			best = m
		}
	}
	if flag, value, ok := strings.Cut(text, "="); best.inside == "" && ok && strings.HasPrefix(flag, "--") {
		return flag + "=" + inHost(value, mounts)
	}
	return best.host + text[len(best.inside):]
}

// expand replaces $(NAME) by what an environment says.
func expand(text string, env map[string]string) string {
	for name, value := range env {
		text = strings.ReplaceAll(text, "$("+name+")", value)
	}
	return text
}

// given is the environment that Secrets and ConfigMaps give a container. It waits for objects that are not there yet and must be, as kubelets do.
func (p *pod) given(ctx context.Context, c corev1.Container) (env []string, _ error) {
	get := func() *rest.Request { return p.kubelet.core.Get().Namespace(p.object.Namespace) }
	for _, from := range c.EnvFrom {
		for {
			var err error
			var optional *bool
			values := map[string][]byte{}
			switch {
			case from.SecretRef != nil:
				s := &corev1.Secret{}
				err, optional = get().Resource("secrets").Name(from.SecretRef.Name).Do(ctx).Into(s), from.SecretRef.Optional
				values = s.Data
			case from.ConfigMapRef != nil:
				m := &corev1.ConfigMap{}
				err, optional = get().Resource("configmaps").Name(from.ConfigMapRef.Name).Do(ctx).Into(m), from.ConfigMapRef.Optional
				for name, text := range m.Data {
					values[name] = []byte(text)
				}
			}
			if err == nil || apierrors.IsNotFound(err) && optional != nil && *optional {
				for name, value := range values {
					env = append(env, from.Prefix+name+"="+string(value))
				}
				break
			}
			if retry(ctx); ctx.Err() != nil {
				return nil, err
			}
		}
	}
	return env, nil
}

// tokenOf asks the API server for the token of the service account of a pod, and writes it into a file of kubectl: a process cannot have a file at the path where pods have theirs.
func (p *pod) tokenOf(ctx context.Context) (kubeconfig string, err error) {
	b, err := p.kubelet.core.Post().Namespace(p.object.Namespace).Resource("serviceaccounts").Name(p.object.Spec.ServiceAccountName).SubResource("token").SetHeader("Content-Type", "application/json").
		Body([]byte(`{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}`)).Do(ctx).Raw()
	answer := &struct{ Status struct{ Token string } }{}
	if err == nil {
		err = json.Unmarshal(b, answer)
	}
	if err != nil {
		return "", err
	}
	kubeconfig = filepath.Join(p.dir, "kubeconfig")
	return kubeconfig, os.WriteFile(kubeconfig, []byte(Kubeconfig(p.kubelet.server, p.object.Namespace, answer.Status.Token)), 0o600)
}

// mount makes the files of all mounts of a container. It waits for objects that are not there yet, as kubelets do.
func (p *pod) mount(ctx context.Context, c corev1.Container) (mounts []mounted, _ error) {
	for _, m := range c.VolumeMounts {
		for _, v := range p.object.Spec.Volumes {
			if v.Name != m.Name {
				continue
			}
			host := filepath.Join(p.dir, v.Name)
			if err := os.MkdirAll(host, 0o700); err != nil {
				return nil, err
			}
			for {
				err := p.fill(ctx, v, &host)
				if err == nil {
					break
				}
				timer := time.NewTimer(100 * time.Millisecond)
				select {
				case <-timer.C:
				case <-ctx.Done():
					timer.Stop()
					return nil, err
				}
			}
			if m.SubPath != "" {
				host = filepath.Join(host, m.SubPath)
				if err := os.MkdirAll(host, 0o700); err != nil {
					return nil, err
				}
			}
			mounts = append(mounts, mounted{m.MountPath, host})
		}
	}
	return mounts, nil
}

// fill writes the files of a volume. host is changed to where the volume is, if it is elsewhere.
func (p *pod) fill(ctx context.Context, v corev1.Volume, host *string) error {
	get := p.kubelet.core.Get().Namespace(p.object.Namespace)
	files := map[string][]byte{}
	switch {
	case v.ConfigMap != nil:
		m := &corev1.ConfigMap{}
		if err := get.Resource("configmaps").Name(v.ConfigMap.Name).Do(ctx).Into(m); err != nil {
			return err
		}
		for name, b := range m.BinaryData {
			files[name] = b
		}
		for name, text := range m.Data {
			files[name] = []byte(text)
		}
	case v.Secret != nil:
		s := &corev1.Secret{}
		if err := get.Resource("secrets").Name(v.Secret.SecretName).Do(ctx).Into(s); err != nil {
			return err
		}
		files = s.Data
	case v.PersistentVolumeClaim != nil:
		claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
		if err := get.Resource("persistentvolumeclaims").Name(v.PersistentVolumeClaim.ClaimName).Do(ctx).Into(claim); err != nil {
			return err
		}
		if err := p.kubelet.core.Get().Resource("persistentvolumes").Name(claim.Spec.VolumeName).Do(ctx).Into(volume); err != nil {
			return err
		}
		if volume.Spec.HostPath == nil {
			return fmt.Errorf("volume %s is no folder of the host", volume.Name)
		}
		*host = volume.Spec.HostPath.Path
	case v.EmptyDir == nil && v.Projected == nil: // a projected one has the token of a service account
		return fmt.Errorf("volume %s is of a kind that this kubelet does not have", v.Name)
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(*host, name), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}
