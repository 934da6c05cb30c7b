package kubernetes_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/edl-go/edl/remote/kubernetes"
	"github.com/edl-go/edl/remote/listen/schedule"
)

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func nodeOf(name, cpu, memory string, changes ...func(*corev1.Node)) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: amounts(cpu, memory), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	for _, change := range changes {
		change(&n)
	}
	return n
}

// strangerOf is a pod of a name; those that begin with "ours" are the listener's.
func strangerOf(name, node, cpu, memory string, changes ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: amounts(cpu, memory)}}}}}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func TestRoom(t *testing.T) {
	const mib = 1 << 20
	phase := func(of corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase = of }
	}
	two := []corev1.Node{nodeOf("b", "4", "1Gi"), nodeOf("a", "2", "1Gi")}
	for _, c := range []struct {
		name  string
		nodes []corev1.Node
		pods  []corev1.Pod
		share float64
		want  []schedule.Resources // of a, then b
	}{
		{"all is free", two, nil, 1, []schedule.Resources{{Cores: 2000, Memory: 1024 * mib}, {Cores: 4000, Memory: 1024 * mib}}},
		{"a share of the node, and not of what is free", two, []corev1.Pod{strangerOf("p", "b", "1", "24Mi")}, 0.5, []schedule.Resources{{Cores: 1000, Memory: 512 * mib}, {Cores: 1000, Memory: 488 * mib}}},
		{"pods that have ended, or are the listener's, ask for nothing", two, []corev1.Pod{strangerOf("p", "b", "1", "24Mi", phase(corev1.PodSucceeded)), strangerOf("q", "b", "1", "24Mi", phase(corev1.PodFailed)),
			strangerOf("ours", "a", "2", "24Mi")}, 1, []schedule.Resources{{Cores: 2000, Memory: 1024 * mib}, {Cores: 4000, Memory: 1024 * mib}}},
		{"pods that wait have room where there is most, the largest first, also where there is none now", two, []corev1.Pod{strangerOf("small", "", "1", "0"), strangerOf("large", "", "3", "24Mi"), strangerOf("full", "b", "2", "0")}, 1,
			[]schedule.Resources{{Cores: 1000, Memory: 1024 * mib}, {Cores: -1000, Memory: 1000 * mib}}},
		{"a pod that no node can hold takes nothing, nor one that its queue holds", two, []corev1.Pod{strangerOf("huge", "", "5", "0"), strangerOf("gated", "", "1", "0", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "queue"}} })}, 1,
			[]schedule.Resources{{Cores: 2000, Memory: 1024 * mib}, {Cores: 4000, Memory: 1024 * mib}}},
		{"nothing left is not: not counted", two, []corev1.Pod{strangerOf("p", "a", "2", "1Gi")}, 1, []schedule.Resources{{Cores: -1, Memory: -1}, {Cores: 4000, Memory: 1024 * mib}}},
		{"the largest of init containers, and sidecars beside the others", two, []corev1.Pod{strangerOf("p", "b", "1", "0", func(p *corev1.Pod) {
			always := corev1.ContainerRestartPolicyAlways
			p.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: amounts("2", "24Mi")}}, {RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: amounts("1", "0")}}}
		})}, 1, []schedule.Resources{{Cores: 2000, Memory: 1024 * mib}, {Cores: 1000, Memory: 1000 * mib}}},
	} {
		nodes := kubernetes.Room(c.nodes, c.pods, func(p *corev1.Pod) bool { return strings.HasPrefix(p.Name, "ours") }, c.share)
		var got []schedule.Resources
		for _, n := range nodes {
			if n.Cordoned {
				t.Errorf("%s: %s is cordoned", c.name, n.Name)
			}
			got = append(got, n.Has)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	off := []corev1.Node{nodeOf("a", "2", "1Gi", func(n *corev1.Node) { n.Spec.Unschedulable = true }), nodeOf("b", "2", "1Gi", func(n *corev1.Node) { n.Status.Conditions = nil }),
		nodeOf("c", "2", "1Gi", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		}),
		nodeOf("d", "2", "1Gi", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "slow", Effect: corev1.TaintEffectPreferNoSchedule}}
		})}
	for i, n := range kubernetes.Room(off, nil, func(*corev1.Pod) bool { return false }, 1) {
		if n.Cordoned != (i < 3) {
			t.Errorf("node %s: cordoned %t", n.Name, n.Cordoned)
		}
	}
}
