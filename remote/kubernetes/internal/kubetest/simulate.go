//go:build linux

package kubetest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Simulated container is a function of the test, which runs in a goroutine until it ends or ctx does. host is where a path of a mount is. code is the exit code.
type Simulated func(ctx context.Context, pod *corev1.Pod, address string, host func(path string) string) (code int)

// Simulate starts a kubelet whose containers are goroutines, for many pods at a time. They are ready as soon as they run. It ends with the test. number is that of the node, from 1.
func (p *Plane) Simulate(number int, run Simulated) {
	p.node(&Kubelet{subnet: number, simulated: run})
}

// AwaitBeat returns when a node has told the API server again that it is well.
func (p *Plane) AwaitBeat(node string) {
	p.t.Helper()
	var first *metav1.Time
	p.Await(node+" beats", func(ctx context.Context) (bool, error) {
		n := &corev1.Node{}
		if err := p.core.Get().Resource("nodes").Name(node).Do(ctx).Into(n); err != nil || len(n.Status.Conditions) == 0 {
			return false, err
		}
		at := &n.Status.Conditions[0].LastHeartbeatTime
		if first == nil {
			first = at
		}
		return !at.Equal(first), nil
	})
}

// simulate runs a container in this goroutine.
func (p *pod) simulate(ctx context.Context, c corev1.Container, mounts []mounted) (code int) {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.stopping(running):
			cancel()
		case <-running.Done():
		}
	}()
	p.tell(ctx, corev1.PodRunning, true, containerRuns(), c)
	return p.kubelet.simulated(running, p.object, p.address, func(path string) string { return inHost(path, mounts) })
}
