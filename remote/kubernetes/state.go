package kubernetes

import (
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/wire"
)

// A podState is what a pod says of its role.
type podState struct {
	address string // empty: the role has not begun
	node    string
	waits   string // what keeps it from beginning, in the words of the cluster; empty: nothing that is known
	ended   bool
	err     error // valid when ended
}

// read reads a pod. where names its role in errors.
func read(where string, p *corev1.Pod) podState {
	s := podState{node: p.Spec.NodeName}
	status := containerOf(p)
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		s.ended = true
	case p.Status.Phase == corev1.PodFailed || status.State.Terminated != nil:
		s.ended, s.err = true, failureOf(where, p, status.State.Terminated)
	case status.State.Running != nil && p.Status.PodIP != "":
		s.address = p.Status.PodIP
	default:
		s.waits = waitsOf(p, status)
	}
	return s
}

func containerOf(p *corev1.Pod) (none corev1.ContainerStatus) {
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == container {
			return s
		}
	}
	return none
}

// waitsOf says why a pod does not run.
func waitsOf(p *corev1.Pod, status corev1.ContainerStatus) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return words(c.Reason, c.Message)
		}
	}
	if w := status.State.Waiting; w != nil && w.Reason != "ContainerCreating" {
		return words(w.Reason, w.Message)
	}
	return ""
}

// words joins a reason and a message of the cluster.
func words(reason, message string) string {
	message = strings.TrimSpace(message)
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}

// failureOf is why a pod has failed. What the role has said itself comes first.
func failureOf(where string, p *corev1.Pod, t *corev1.ContainerStateTerminated) error {
	disrupted := ""
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			disrupted = words(c.Reason, c.Message)
		}
	}
	if t == nil {
		got := words(p.Status.Reason, p.Status.Message)
		if got == "" {
			got = disrupted
		}
		return fault.E(fault.LostMember, fault.At(where), fault.Got("the end of pod "+p.Name+": "+got))
	}
	if told := (&job.Failure{}); t.ExitCode == 0 || protojson.Unmarshal([]byte(t.Message), told) == nil {
		if t.ExitCode == 0 {
			return nil
		}
		return wire.FaultOf(told)
	}
	e := fault.E(launch.KindOfExit(int(t.ExitCode)), fault.At(where), fault.Gotf("the end of pod %s with exit status %d", p.Name, t.ExitCode), fault.Want("exit status 0"))
	switch {
	case t.Reason == "OOMKilled":
		e.Kind, e.Got = fault.LostMember, "the end of pod "+p.Name+", killed for lack of memory (OOMKilled)"
		e.Want, e.Hint = "at most "+memoryOf(p), "give the role more memory (trainer_mib, pserver_mib)"
	case disrupted != "":
		e.Got += ": " + disrupted
	case t.Reason != "" && t.Reason != "Error":
		e.Got += ": " + words(t.Reason, t.Message)
	case t.Message != "":
		e.Hint = "its last words: " + fault.Quote(t.Message)
	}
	return e
}

// memoryOf says how much memory a pod may take, and how much its program takes at least.
func memoryOf(p *corev1.Pod) string {
	most := "what the node has"
	for _, c := range p.Spec.Containers {
		if limit := c.Resources.Limits.Memory(); c.Name == container && !limit.IsZero() {
			most = "its limit of " + limit.String()
		}
	}
	if planned := p.Annotations[annotationPlanned]; planned != "" {
		most += "; the plan of the program counts at least " + planned
	}
	return most
}
