package edlcmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/view"
)

func newWhy(c *console) *cobra.Command {
	f := &findFlags{}
	cluster := &resourceFlags{}
	var output *choice
	cmd := &cobra.Command{
		Use:   "why [JOB]",
		Short: "Tell what a job waits for",
		Long: `Tell what a job waits for, by whom, since when and until when, with the last error of the one that is waited for. The root of the
matter comes first: a role that is down or has lost its lease, then a server that does not answer, then what the others wait for.
Without JOB it is the job that runs, or the one that was started last where none runs.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch err := cluster.check(cmd, f); {
			case err != nil:
				return err
			case cluster.on:
				return tellWhyResource(cmd.Context(), c, cluster, output.value, args)
			}
			return tellWhy(cmd.Context(), c, f, output.value, args)
		},
	}
	f.add(cmd)
	cluster.add(cmd, "tell it of a TrainingJob of a Kubernetes namespace")
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
	b.WriteString(view.Headline(r.Status, r.Waits, now))
	for _, w := range r.Waits {
		b.WriteString(view.Wait(w, now))
	}
	for _, role := range r.Status.GetRoles() {
		if role.Dropped > 0 {
			fmt.Fprintf(&b, "%s is late: %d rounds count without it\n", view.RoleName(role.Role, role.Index), role.Dropped)
		}
	}
	return b.String()
}
