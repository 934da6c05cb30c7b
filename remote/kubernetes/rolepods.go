package kubernetes

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
)

// A RolePod is a pod of a role, as a user of the cluster sees it, who need not reach the listener.
type RolePod struct {
	Role  string `json:"role"`  // such as trainer-1
	Start int    `json:"start"` // how often the role was started before
	Pod   string `json:"pod"`
	Node  string `json:"node,omitempty"` // empty: none has it
	State string `json:"state"`
	Words string `json:"words,omitempty"` // what keeps it from running, or why it has failed; empty: nothing does

	member cluster.Member
}

// States of a RolePod.
const (
	PodWaits = "waits"
	PodRuns  = "runs"
	PodEnded = "ended"
)

// A PodReader reads the pods of roles, and what they write. It needs the verb list of pods, and get of their subresource log.
type PodReader struct{ api *api }

// NewPodReader returns a PodReader for the pods of a namespace. It calls nothing.
func NewPodReader(c *rest.Config, namespace string) (*PodReader, error) {
	a, err := newAPI(c, namespace)
	return &PodReader{a}, err
}

// List returns the pods that a job has, by role, index and start. Those of roles that have ended are among them as long as the cluster has them.
func (r *PodReader) List(ctx context.Context, name string) ([]RolePod, error) {
	list, err := r.api.pods(ctx, LabelJob+"="+name)
	if err != nil {
		return nil, refused("pods of job "+name, err)
	}
	all := make([]RolePod, len(list.Items))
	for i := range list.Items {
		all[i] = rolePod(&list.Items[i])
	}
	slices.SortFunc(all, func(a, b RolePod) int {
		return cmp.Or(cmp.Compare(a.member.Role, b.member.Role), cmp.Compare(a.member.Index, b.member.Index), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Pod, b.Pod))
	})
	return all, nil
}

// rolePod reads a pod.
func rolePod(p *corev1.Pod) RolePod {
	index, _ := strconv.Atoi(p.Labels[LabelIndex])
	start, _ := strconv.Atoi(p.Labels[LabelStart])
	m := cluster.Member{Role: job.Role(job.Role_value[strings.ToUpper(p.Labels[LabelRole])]), Index: index}
	r := RolePod{member: m, Role: m.ID(), Start: start, Pod: p.Name, Node: p.Spec.NodeName, State: PodWaits}
	s := read(r.Role, p)
	switch {
	case s.ended:
		r.State = PodEnded
		if s.err != nil {
			r.Words = s.err.Error()
		}
	case s.address != "":
		r.State = PodRuns
	default:
		r.Words = s.waits
	}
	return r
}

// maxLogLine is where a line of a log is cut, in bytes.
const maxLogLine = 64 << 10

// Log calls each with the lines that a pod has written. With follow it waits for more, until the pod or ctx ends. A pod that has not begun, or is gone, has written nothing.
func (r *PodReader) Log(ctx context.Context, pod string, follow bool, each func(line string) error) error {
	stream, err := r.api.core.Get().Namespace(r.api.namespace).Resource("pods").Name(pod).SubResource("log").Param("container", container).Param("follow", strconv.FormatBool(follow)).Stream(ctx)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsBadRequest(err): // its container waits
		return nil
	case err != nil:
		return refused("the log of pod "+pod, err)
	}
	defer stream.Close()
	lines := bufio.NewReaderSize(stream, maxLogLine)
	for {
		line, _, err := lines.ReadLine()
		if err == nil {
			err = each(string(line))
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return fault.Wrap(fault.KindOf(context.Cause(ctx)), "the log of pod "+pod, context.Cause(ctx))
		default:
			return err
		}
	}
}
