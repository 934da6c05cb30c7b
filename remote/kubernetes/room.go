package kubernetes

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/edl-go/edl/remote/listen/schedule"
)

// roomLook is how often a listener looks what room there is.
const roomLook = 10 * time.Second

// FollowRoom tells what room the cluster has for the pods of a listener, until ctx ends. It reads nodes, and the pods of all namespaces. While the API server does not answer, what was told
// last holds.
func FollowRoom(ctx context.Context, c *rest.Config, s Settings, share float64, log *slog.Logger, tell func([]schedule.Node) error) {
	silent := ""
	a, err := newAPI(c, "")
	if err != nil { // NewLauncher has failed with the same
		return
	}
	for ctx.Err() == nil {
		nodes, pods, err := a.everything(ctx)
		if err == nil {
			err = tell(Room(nodes.Items, pods.Items, func(p *corev1.Pod) bool { return p.Namespace == s.Namespace && p.Labels[LabelListener] == s.Name }, share))
		}
		switch {
		case err == nil:
			silent = ""
		case err.Error() != silent && ctx.Err() == nil:
			silent = err.Error()
			log.Warn("the room of the cluster is not known: elastic jobs keep their trainers, and others wait", "error", err)
		}
		timer := time.NewTimer(roomLook)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// everything lists the nodes, and the pods that have not ended, as the API server has them in memory.
func (a *api) everything(ctx context.Context) (*corev1.NodeList, *corev1.PodList, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	nodes, pods := &corev1.NodeList{}, &corev1.PodList{}
	cached := metav1.ListOptions{ResourceVersion: "0"}
	err := a.core.Get().Resource("nodes").VersionedParams(&cached, metav1.ParameterCodec).Do(ctx).Into(nodes)
	if err == nil {
		cached.FieldSelector = "status.phase!=Succeeded,status.phase!=Failed"
		err = a.core.Get().Resource("pods").VersionedParams(&cached, metav1.ParameterCodec).Do(ctx).Into(pods)
	}
	return nodes, pods, refused("nodes and pods", err)
}

// Room is what the nodes of a cluster have for the roles of a listener: a share of what each has for pods, without what pods of others ask for there. Pods of others that wait for a node
// take the room that they will have. ours tells the pods of the listener, which it counts itself. A node has less than nothing when others ask for all of it; elastic jobs then give trainers back
// that run there. It is a pure function.
func Room(nodes []corev1.Node, pods []corev1.Pod, ours func(*corev1.Pod) bool, share float64) []schedule.Node {
	list := make([]schedule.Node, 0, len(nodes))
	has := map[string]schedule.Resources{} // for pods, as long as nobody has any
	for i := range nodes {
		n := &nodes[i]
		all := resourcesOf(n.Status.Allocatable)
		all.Cores, all.Memory = min(int64(float64(all.Cores)*share), schedule.MaxCores), min(int64(float64(all.Memory)*share), schedule.MaxMemory)
		has[n.Name] = all
		list = append(list, schedule.Node{Name: n.Name, Has: all, Cordoned: !takesPods(n)})
	}
	slices.SortFunc(list, func(a, b schedule.Node) int { return cmp.Compare(a.Name, b.Name) })
	var wait []schedule.Resources
	for i := range pods {
		p := &pods[i]
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || ours(p) {
			continue
		}
		asks := requestsOf(p)
		if at := slices.IndexFunc(list, func(n schedule.Node) bool { return n.Name == p.Spec.NodeName }); at >= 0 {
			take(&list[at], asks)
		} else if p.Spec.NodeName == "" && len(p.Spec.SchedulingGates) == 0 {
			wait = append(wait, asks)
		}
	}
	slices.SortStableFunc(wait, func(a, b schedule.Resources) int {
		return cmp.Or(cmp.Compare(b.Cores, a.Cores), cmp.Compare(b.Memory, a.Memory))
	})
	for _, asks := range wait { // the largest have the least choice
		best := -1
		for i, n := range list {
			could := has[n.Name]
			if !n.Cordoned && asks.Cores <= could.Cores && asks.Memory <= could.Memory && (best < 0 || n.Has.Cores > list[best].Has.Cores) {
				best = i
			}
		}
		if best >= 0 { // one that no node can ever hold keeps nobody out
			take(&list[best], asks)
		}
	}
	for i := range list { // 0 would be: not counted
		if n := &list[i].Has; n.Cores == 0 {
			n.Cores = -1
		}
		if n := &list[i].Has; n.Memory == 0 {
			n.Memory = -1
		}
	}
	return list
}

func take(n *schedule.Node, asks schedule.Resources) {
	n.Has.Cores, n.Has.Memory = n.Has.Cores-asks.Cores, n.Has.Memory-asks.Memory
}

// takesPods reports whether pods without tolerations may start on a node.
func takesPods(n *corev1.Node) bool {
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return ready && !n.Spec.Unschedulable && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule })
}

func resourcesOf(l corev1.ResourceList) schedule.Resources {
	return schedule.Resources{Cores: max(0, l.Cpu().MilliValue()), Memory: max(0, l.Memory().Value())}
}

// requestsOf is what a pod asks a node for: the sum of its containers, or the largest of those that run before them.
func requestsOf(p *corev1.Pod) (sum schedule.Resources) {
	for i := range p.Spec.Containers {
		r := resourcesOf(p.Spec.Containers[i].Resources.Requests)
		sum.Cores, sum.Memory = min(sum.Cores+r.Cores, schedule.MaxCores), min(sum.Memory+r.Memory, schedule.MaxMemory)
	}
	var always schedule.Resources // sidecars, which go on
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		r := resourcesOf(c.Resources.Requests)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			always.Cores, always.Memory = min(always.Cores+r.Cores, schedule.MaxCores), min(always.Memory+r.Memory, schedule.MaxMemory)
			continue
		}
		sum.Cores, sum.Memory = max(sum.Cores, r.Cores), max(sum.Memory, r.Memory)
	}
	return schedule.Resources{Cores: sum.Cores + always.Cores, Memory: sum.Memory + always.Memory}
}
