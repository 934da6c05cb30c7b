package edlcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/kubernetes"
	"github.com/edl-go/edl/remote/kubernetes/operator"
	"github.com/edl-go/edl/remote/view"
)

// Commands about TrainingJobs, which ask the API server and no listener.

// jobsOf returns what asks about the TrainingJobs of the namespace.
func (f *resourceFlags) jobsOf() (*operator.Client, error) {
	config, namespace, err := f.reach()
	if err != nil {
		return nil, err
	}
	return operator.NewClient(config, namespace)
}

// named returns the TrainingJob that the arguments of a command mean, as findFlags.openJob does for a listener.
func (f *resourceFlags) named(ctx context.Context, args []string) (*operator.Client, *operator.TrainingJob, error) {
	client, err := f.jobsOf()
	if err != nil {
		return nil, nil, err
	}
	if len(args) > 0 {
		t, err := client.Get(ctx, args[0])
		return client, t, err
	}
	list, err := client.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	t, err := operator.Chosen(list)
	return client, t, err
}

// resourceRow is one TrainingJob in the JSON of "edl jobs --kubernetes".
type resourceRow struct {
	Job      string            `json:"job"`
	State    string            `json:"state"`
	Trainers int32             `json:"trainers"` // that run
	Progress *int32            `json:"progress,omitempty"`
	Left     string            `json:"left,omitempty"`
	Loss     string            `json:"loss,omitempty"`
	Steps    int64             `json:"steps"`
	Records  int64             `json:"records"`
	Message  string            `json:"message,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Created  time.Time         `json:"created"`
	Ended    *time.Time        `json:"ended,omitempty"`
}

func rowOfResource(t *operator.TrainingJob) resourceRow {
	s := &t.Status
	r := resourceRow{Job: t.Name, State: cmp.Or(s.State, "Pending"), Trainers: s.Trainers, Progress: s.Progress, Left: textOf(s.TimeLeft), Loss: textOf(s.Loss), Steps: s.Steps, Records: s.Records,
		Message: textOf(s.Message), Labels: t.Labels, Created: t.CreationTimestamp.Time}
	if t.DeletionTimestamp != nil {
		r.State = "Stopping"
	}
	if s.CompletionTime != nil {
		r.Ended = &s.CompletionTime.Time
	}
	return r
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// listResources lists the TrainingJobs of a namespace.
func listResources(ctx context.Context, c *console, f *jobsFlags) error {
	wanted, err := jobspec.ParseLabels(f.labels)
	if err != nil {
		return inFile("--label", err)
	}
	if _, err := path.Match(f.name, ""); err != nil {
		return fault.E(fault.InvalidArgument, fault.At("--name"), fault.Got(fault.Quote(f.name)), fault.Want("a pattern, such as 'digits-*'"))
	}
	client, err := f.cluster.jobsOf()
	if err != nil {
		return err
	}
	list, err := client.List(ctx)
	if err != nil {
		return err
	}
	rows := []resourceRow{}
	for i := range list {
		r := rowOfResource(&list[i])
		fits, _ := path.Match(cmp.Or(f.name, "*"), r.Job)
		for key, value := range wanted {
			fits = fits && r.Labels[key] == value
		}
		if fits {
			rows = append(rows, r)
		}
	}
	if f.output.value == "json" {
		return writeJSON(c.out, struct {
			Jobs []resourceRow `json:"jobs"`
		}{rows})
	}
	now := time.Now()
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tSTATE\tTRAINERS\tPROGRESS\tLEFT\tLOSS\tSTEPS\tRECORDS\tAGE")
	var waiting []string
	for _, r := range rows {
		progress := "-"
		if r.Progress != nil {
			progress = fmt.Sprint(*r.Progress, " %")
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%d\t%d\t%v\n", r.Job, r.State, r.Trainers, progress, cmp.Or(r.Left, "-"), cmp.Or(r.Loss, "-"), r.Steps, r.Records, age(now.Sub(r.Created).Seconds()))
		if r.Message != "" {
			waiting = append(waiting, r.Job+": "+oneLine(r.Message))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(waiting) > 0 {
		_, err = fmt.Fprintf(c.out, "\n%s\n", strings.Join(waiting, "\n"))
	}
	return err
}

// resourceWhy is the JSON of "edl why --kubernetes".
type resourceWhy struct {
	Job        string               `json:"job"`
	State      string               `json:"state"`
	Message    string               `json:"message,omitempty"`
	Conditions []metav1.Condition   `json:"conditions"`
	Waits      []operator.Wait      `json:"waits"`
	Pods       []kubernetes.RolePod `json:"pods"` // that do not run
}

// tellWhyResource tells what a TrainingJob waits for: in the words of its listener, which are in its status, and in those of the cluster about its pods.
func tellWhyResource(ctx context.Context, c *console, f *resourceFlags, output string, args []string) error {
	_, t, err := f.named(ctx, args)
	if err != nil {
		return err
	}
	var pods []kubernetes.RolePod
	if !t.Suspended() && !t.Ended() { // pods of such jobs have ended as they should
		if pods, err = f.podsOf(ctx, t); err != nil {
			return err
		}
	}
	why := whyOf(t, pods)
	if output == "json" {
		return writeJSON(c.out, why)
	}
	_, err = fmt.Fprint(c.out, answerWhyResource(why, t, time.Now()))
	return err
}

// whyOf is the answer about a TrainingJob with these pods.
func whyOf(t *operator.TrainingJob, pods []kubernetes.RolePod) *resourceWhy {
	row := rowOfResource(t)
	return &resourceWhy{Job: t.Name, State: row.State, Message: row.Message, Conditions: t.Status.Conditions, Waits: t.Status.Waits, Pods: telling(pods)}
}

// telling are the pods that say why a job does not go on: those that wait, and those that have failed and have no other in their place.
func telling(pods []kubernetes.RolePod) (list []kubernetes.RolePod) {
	for i, p := range pods { // the starts of a role follow each other
		last := i+1 == len(pods) || pods[i+1].Role != p.Role
		if p.Words != "" && (p.State == kubernetes.PodWaits || p.State == kubernetes.PodEnded && last) {
			list = append(list, p)
		}
	}
	return list
}

// answerWhyResource writes an answer for people.
func answerWhyResource(why *resourceWhy, t *operator.TrainingJob, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "job %s is %s, after %d steps, with %d trainers\n", why.Job, why.State, t.Status.Steps, t.Status.Trainers)
	switch {
	case t.Status.State == "" && t.DeletionTimestamp == nil:
		b.WriteString("no operator has looked at it: \"edl operator\" runs the TrainingJobs of a namespace\n")
	case t.DeletionTimestamp != nil:
		fmt.Fprintf(&b, "it was deleted %v ago, and is kept until its operator has stopped the job\n", age(now.Sub(t.DeletionTimestamp.Time).Seconds()))
	}
	if why.Message != "" {
		fmt.Fprintf(&b, "  %s\n", oneLine(why.Message))
	}
	for _, held := range why.Conditions {
		if held.Status == metav1.ConditionTrue {
			fmt.Fprintf(&b, "%s for %v: %s\n", held.Type, age(now.Sub(held.LastTransitionTime.Time).Seconds()), held.Reason)
		}
	}
	for _, w := range why.Waits {
		m := &job.Wait{Who: w.Who, What: w.What, By: w.By, LastError: w.LastError}
		if w.Since != nil {
			m.Since = timestamppb.New(w.Since.Time)
		}
		b.WriteString(view.Wait(m, now))
	}
	for _, p := range why.Pods {
		fmt.Fprintf(&b, "pod %s of %s %s: %s\n", p.Pod, p.Role, map[string]string{kubernetes.PodWaits: "waits", kubernetes.PodEnded: "has ended"}[p.State], oneLine(p.Words))
	}
	return b.String()
}

// podsOf lists the pods of a TrainingJob. One that no listener has taken has none.
func (f *resourceFlags) podsOf(ctx context.Context, t *operator.TrainingJob) ([]kubernetes.RolePod, error) {
	if t.Status.Job == "" {
		return nil, nil
	}
	reader, err := f.podReader()
	if err != nil {
		return nil, err
	}
	return reader.List(ctx, t.Status.Job)
}

func (f *resourceFlags) podReader() (*kubernetes.PodReader, error) {
	config, namespace, err := f.reach()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewPodReader(config, namespace)
}

// stopResource ends the job of a TrainingJob, which goes with it. With save it is suspended before, which makes a checkpoint.
func stopResource(ctx context.Context, c *console, f *resourceFlags, name string, save bool) error {
	client, t, err := f.named(ctx, []string{name})
	if err != nil {
		return err
	}
	if t.Ended() {
		return fault.E(fault.InvalidArgument, fault.At("job "+name), fault.Got("one that has ended: "+t.Status.State), fault.Want("one that runs or waits"),
			fault.Hint("\"kubectl delete tj/"+name+"\" removes it"))
	}
	if save {
		if err := saveResource(ctx, c, client, t); err != nil {
			return fault.E(fault.KindOf(err), fault.At("no checkpoint, so the job is not stopped"), fault.Cause(err), fault.Hint("\"edl stop\" without --save ends it without one"))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*stopTime) // for a checkpoint, and for the end of its pods
	defer cancel()
	if err := client.Stop(ctx, t); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "job %s: stopped, and its TrainingJob is deleted\n", name)
	return err
}

// saveResource suspends the job of a TrainingJob, and says where its checkpoint is. A job that has made none goes on as before.
func saveResource(ctx context.Context, c *console, client *operator.Client, t *operator.TrainingJob) error {
	ctx, cancel := context.WithTimeout(ctx, 2*stopTime)
	defer cancel()
	last, err := client.Suspend(ctx, t.Name)
	if err == nil && last.Status.Checkpoint == nil {
		err = fault.E(fault.InvalidArgument, fault.At("job "+t.Name), fault.Got("a job that has trained nothing"))
		if !t.Spec.Suspend {
			err = errors.Join(err, client.Resume(ctx, t.Name))
		}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "job %s: checkpoint after %d steps, %s\n", t.Name, last.Status.CheckpointSteps(), *last.Status.Checkpoint)
	return err
}

// suspendResource suspends the job of a TrainingJob.
func suspendResource(ctx context.Context, c *console, f *resourceFlags, name string) error {
	client, err := f.jobsOf()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*stopTime) // for a checkpoint, and for the end of its pods
	defer cancel()
	if _, err := client.Suspend(ctx, name); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "job %s is suspended; \"edl jobs resume %s --kubernetes\" lets it go on\n", name, name)
	return err
}

// resumeResource lets the job of a TrainingJob go on that is suspended.
func resumeResource(ctx context.Context, c *console, f *resourceFlags, name string) error {
	client, t, err := f.named(ctx, []string{name})
	if err != nil {
		return err
	}
	if !t.Ended() && !t.Spec.Suspend {
		return fault.E(fault.InvalidArgument, fault.At("job "+name), fault.Got("one that is "+rowOfResource(t).State), fault.Want("one that was suspended"))
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if err := client.Resume(ctx, name); err != nil {
		return err
	}
	after := "from its beginning"
	if steps := t.Status.CheckpointSteps(); steps > 0 {
		after = fmt.Sprintf("after %d steps", steps)
	}
	_, err = fmt.Fprintf(c.out, "job %s goes on %s\n", name, after)
	return err
}

// scaleResource says how many trainers the job of a TrainingJob is to have.
func scaleResource(ctx context.Context, c *console, f *resourceFlags, name string, trainers int32) error {
	if trainers == 0 {
		return fault.E(fault.InvalidArgument, fault.Got("no number"), fault.Want("--trainers N"))
	}
	client, err := f.jobsOf()
	if err != nil {
		return err
	}
	if err := client.Scale(ctx, name, int(trainers)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "job %s wants %d trainers\n", name, trainers)
	return err
}

// logAgain is how often the pods of a job are listed while their logs are followed: roles start again as other pods.
const logAgain = 2 * time.Second

// printPodLogs prints what the pods of a TrainingJob have written. With follow it goes on until the job has ended.
func printPodLogs(ctx context.Context, c *console, f *resourceFlags, follow bool, args []string) error {
	client, t, err := f.named(ctx, args[:min(len(args), 1)])
	if err != nil {
		return err
	}
	reader, err := f.podReader()
	if err != nil {
		return err
	}
	role := ""
	if len(args) > 1 {
		role = args[1]
	}
	l := &podLogs{console: c, client: client, reader: reader, role: role}
	if !follow {
		return l.once(ctx, t)
	}
	return l.follow(ctx, client, t)
}

// errNoPods is the fault of a job without a pod that could have written something.
func errNoPods(t *operator.TrainingJob, role string, roles []string) error {
	if len(roles) > 0 {
		return fault.E(fault.NotFound, fault.At("job "+t.Name), fault.Got("role "+fault.Quote(role)), fault.Want("one of "+strings.Join(roles, ", ")))
	}
	return fault.E(fault.NotFound, fault.At("job "+t.Name), fault.Got("no pods, and no log of pods that are gone: it is "+rowOfResource(t).State), fault.Hint("\"edl why --kubernetes\" tells what it waits for"))
}
