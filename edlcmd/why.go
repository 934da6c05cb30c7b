package edlcmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

func newWhy(c *console) *cobra.Command {
	f := &findFlags{}
	var output *choice
	cmd := &cobra.Command{
		Use:   "why [JOB]",
		Short: "Tell what a job waits for",
		Long: `Tell what a job waits for, by whom, since when and until when, with the last error of the one that is waited for. The root of the
matter comes first: a role that is down or has lost its lease, then a server that does not answer, then what the others wait for.
Without JOB it is the job that runs, or the one that was started last where none runs.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return tellWhy(cmd.Context(), c, f, output.value, args) },
	}
	f.add(cmd)
	output = outputFlag(cmd)
	return cmd
}

func tellWhy(ctx context.Context, c *console, f *findFlags, output string, args []string) error {
	client, name, err := f.openJob(ctx, args)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	r, err := client.Why(ctx, name)
	if err != nil {
		return err
	}
	if output == "json" {
		b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(r)
		if err != nil {
			return err
		}
		return writeJSON(c.out, rawJSON(b))
	}
	_, err = fmt.Fprint(c.out, answerWhy(r, time.Now()))
	return err
}

// answerWhy writes an answer for people.
func answerWhy(r *rpc.WhyResponse, now time.Time) string {
	var b strings.Builder
	row := rowOf(r.Status)
	switch {
	case ended(r.Status):
		fmt.Fprintf(&b, "job %s has ended: %s\n", row.Job, row.State)
		if row.Error != "" {
			fmt.Fprintf(&b, "  %s\n", oneLine(row.Error))
		}
	case row.Paused != "":
		fmt.Fprintf(&b, "job %s does not go on, after %d steps: %s\n", row.Job, row.Steps, row.Paused)
	case allWait(r, now):
		fmt.Fprintf(&b, "job %s does not go on, after %d steps: all of its trainers wait\n", row.Job, row.Steps)
	default:
		fmt.Fprintf(&b, "job %s is %s, after %d steps\n", row.Job, row.State, row.Steps)
	}
	for _, w := range r.Waits {
		b.WriteString(answerWait(w, now))
	}
	for _, role := range r.Status.GetRoles() {
		if role.Dropped > 0 {
			fmt.Fprintf(&b, "%s is late: %d rounds count without it\n", roleName(role), role.Dropped)
		}
	}
	return b.String()
}

// standstill is how long all trainers must wait until a job is said to stand still: each waits for the others, and for servers, in each round.
const standstill = 2 * time.Second

// allWait reports whether no trainer of a job that runs has done anything for some time.
func allWait(r *rpc.WhyResponse, now time.Time) bool {
	running := 0
	for _, role := range r.Status.GetRoles() {
		if role.Role != job.Role_TRAINER || role.State != job.State_RUNNING {
			continue
		}
		running++
		name := fmt.Sprintf("trainer %d", role.Index)
		if !slices.ContainsFunc(r.Waits, func(w *job.Wait) bool {
			return w.Who == name && w.Since != nil && now.Sub(w.Since.AsTime()) >= standstill
		}) {
			return false
		}
	}
	return running > 0 && r.Status.GetState() == job.State_RUNNING
}

func answerWait(w *job.Wait, now time.Time) string {
	text := fmt.Sprintf("%s waits for %s", w.Who, w.What)
	if by := slices.DeleteFunc(slices.Clone(w.By), func(name string) bool { return strings.Contains(w.What, name) }); len(by) > 0 {
		text += " (" + strings.Join(by, ", ") + ")"
	}
	if w.Since != nil {
		text += fmt.Sprintf(", for %v", now.Sub(w.Since.AsTime()).Round(100*time.Millisecond))
	}
	if w.Until != nil {
		text += fmt.Sprintf(", at most %v more", max(0, w.Until.AsTime().Sub(now)).Round(100*time.Millisecond))
	}
	if w.LastError != "" {
		label := "last error: "
		if strings.Contains(w.LastError, "heard") { // a sign of life
			label = ""
		}
		text += "\n  " + label + oneLine(w.LastError)
	}
	return text + "\n"
}
