package edlcmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/edl-go/edl/remote/kubernetes"
)

// resourceShown is the JSON of "edl jobs show --kubernetes".
type resourceShown struct {
	resourceRow
	Wanted     int32                `json:"wanted,omitempty"` // spec.replicas
	Checkpoint string               `json:"checkpoint,omitempty"`
	Refused    string               `json:"refused,omitempty"`
	Conditions []metav1.Condition   `json:"conditions"`
	Pods       []kubernetes.RolePod `json:"pods"`
}

// showResource shows a TrainingJob as its status has it, and the pods of its roles.
func showResource(ctx context.Context, c *console, f *resourceFlags, output string, args []string) error {
	_, t, err := f.named(ctx, args)
	if err != nil {
		return err
	}
	pods, err := f.podsOf(ctx, t)
	if err != nil {
		return err
	}
	if t.Suspended() || t.Ended() { // pods that are left have ended as they should
		for i := range pods {
			pods[i].Words = ""
		}
	}
	s := &resourceShown{resourceRow: rowOfResource(t), Wanted: t.Spec.Replicas, Checkpoint: textOf(t.Status.Checkpoint), Refused: textOf(t.Status.Refused), Conditions: t.Status.Conditions, Pods: pods}
	if output == "json" {
		return writeJSON(c.out, s)
	}
	return writeResource(c.out, s, time.Now())
}

// writeResource shows a TrainingJob to people.
func writeResource(w io.Writer, s *resourceShown, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, value any) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%v\n", name, value)
		}
	}
	row("job", s.Job)
	row("state", s.State)
	row("message", oneLine(s.Message))
	if s.Refused != s.Message {
		row("refused", oneLine(s.Refused))
	}
	trainers := fmt.Sprint(s.Trainers)
	if s.Wanted > 0 {
		trainers = fmt.Sprintf("%d of %d", s.Trainers, s.Wanted)
	}
	row("trainers", trainers)
	if s.Progress != nil {
		row("progress", fmt.Sprint(*s.Progress, " %"))
	}
	row("left", s.Left)
	row("steps", s.Steps)
	row("records", s.Records)
	row("loss", s.Loss)
	row("checkpoint", s.Checkpoint)
	for _, held := range s.Conditions {
		if held.Status == metav1.ConditionTrue {
			row(strings.ToLower(held.Type), fmt.Sprintf("for %v: %s", age(now.Sub(held.LastTransitionTime.Time).Seconds()), held.Reason))
		}
	}
	if len(s.Pods) > 0 {
		fmt.Fprintln(t, "\nROLE\tSTARTS\tSTATE\tNODE\tPOD\t")
		for _, p := range s.Pods {
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\n", p.Role, p.Start, p.State, p.Node, p.Pod, oneLine(p.Words))
		}
	}
	return t.Flush()
}
