//go:build linux

package kubetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// A Kubelet is a node. It runs the first container of each pod that is bound to it as a process. A pod has an address of its own on the loopback interface.
type Kubelet struct {
	name   string
	core   *rest.RESTClient
	server string // address of the API server
	dir    string
	images map[string]string // the program of each image
	// simulated takes the place of programs; nil: containers are processes
	simulated Simulated
	subnet    int
	port      int    // where it answers for logs
	names     *names // nil: pods know no names
	t         testing.TB

	mu   sync.Mutex
	pods map[types.UID]*pod
	next int
}

// Node starts a kubelet, and ends it with the test. images are the programs of images; pods of others wait, as for an image that cannot be pulled. It returns when the node is
// registered. number is that of the node, from 1.
func (p *Plane) Node(number int, images map[string]string) {
	p.node(&Kubelet{images: images, subnet: number})
}

// node starts a kubelet.
func (p *Plane) node(k *Kubelet) {
	k.name, k.core, k.server, k.names, k.t, k.pods = fmt.Sprintf("node-%d", k.subnet), p.core, p.config.Host, p.names, p.t, map[types.UID]*pod{}
	k.dir = filepath.Join(p.pods, k.name)
	k.port = k.serve()
	ctx, cancel := context.WithCancel(context.Background())
	if err := k.register(ctx); err != nil {
		p.t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() { k.beat(ctx) })
	group.Go(func() { k.follow(ctx) })
	p.t.Cleanup(func() {
		cancel()
		group.Wait()
		k.killAll()
	})
}

// register makes the node object. Other controllers mark it as ready for pods when its status says so.
func (k *Kubelet) register(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.name, Labels: map[string]string{corev1.LabelHostname: k.name}}}
	if err := k.core.Post().Resource("nodes").Body(node).Do(ctx).Error(); err != nil {
		return err
	}
	return k.status(ctx)
}

// status tells the API server that the node is well.
func (k *Kubelet) status(ctx context.Context) error {
	node := &corev1.Node{}
	if err := k.core.Get().Resource("nodes").Name(k.name).Do(ctx).Into(node); err != nil {
		return err
	}
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("100")}
	node.Status.Capacity, node.Status.Allocatable = room, room
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(k.port)
	now := metav1.Now()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: now}}
	err := k.core.Put().Resource("nodes").Name(k.name).SubResource("status").Body(node).Do(ctx).Error()
	if apierrors.IsConflict(err) { // a controller has changed the node meanwhile
		return k.status(ctx)
	}
	return err
}

func (k *Kubelet) beat(ctx context.Context) {
	ticker := time.NewTicker(5 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := k.status(ctx); err != nil && ctx.Err() == nil {
				k.t.Logf("%s: %v", k.name, err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// follow runs the pods that the scheduler binds to this node.
func (k *Kubelet) follow(ctx context.Context) {
	selector := "spec.nodeName=" + k.name
	for ctx.Err() == nil {
		list := &corev1.PodList{}
		err := k.core.Get().Resource("pods").Param("fieldSelector", selector).Do(ctx).Into(list)
		if err == nil {
			for i := range list.Items {
				k.take(ctx, watch.Modified, &list.Items[i])
			}
			var w watch.Interface
			if w, err = k.core.Get().Resource("pods").Param("fieldSelector", selector).Param("watch", "true").Param("resourceVersion", list.ResourceVersion).Watch(ctx); err == nil {
				for e := range w.ResultChan() {
					if p, ok := e.Object.(*corev1.Pod); ok {
						k.take(ctx, e.Type, p)
					}
				}
				w.Stop()
			}
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// take brings a pod nearer to what the API server says of it.
func (k *Kubelet) take(ctx context.Context, change watch.EventType, object *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.pods[object.UID]
	switch {
	case p == nil && change != watch.Deleted && object.Status.Phase == corev1.PodPending:
		p = &pod{kubelet: k, object: object.DeepCopy(), address: k.address(), dir: filepath.Join(k.dir, string(object.UID)), ended: make(chan struct{}), gone: make(chan struct{})}
		k.pods[object.UID] = p
		go p.run(ctx)
		if object.DeletionTimestamp != nil {
			p.end(grace(object))
		}
	case p != nil && change == watch.Deleted:
		p.end(0)
	case p != nil && object.DeletionTimestamp != nil:
		if p.end(grace(object)) {
			go remove(ctx, k, object)
		}
	case p == nil && object.DeletionTimestamp != nil && change != watch.Deleted: // it had ended before
		go remove(ctx, k, object)
	}
}

// address is one for the next pod. Tests of other processes have others, and one of a pod comes again when that has ended long since. k.mu is held.
func (k *Kubelet) address() string {
	k.next++
	return fmt.Sprintf("127.%d.%d.%d", 100+os.Getpid()%150, k.subnet, 1+(k.next-1)%254)
}

func grace(p *corev1.Pod) time.Duration {
	if p.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
}

// remove tells the API server that nothing of a pod is left.
func remove(ctx context.Context, k *Kubelet, p *corev1.Pod) {
	now := int64(0)
	for ctx.Err() == nil {
		err := k.core.Delete().Namespace(p.Namespace).Resource("pods").Name(p.Name).Body(&metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.UID}}).Do(ctx).Error()
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return
		}
		retry(ctx)
	}
}

// killAll ends all processes of the node, and waits for them.
func (k *Kubelet) killAll() {
	k.mu.Lock()
	pods := k.pods
	k.pods = nil
	k.mu.Unlock()
	for _, p := range pods {
		p.end(0)
		<-p.gone
	}
}
