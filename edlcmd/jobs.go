package edlcmd

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/wire"
)

// jobRow is one job in the JSON of "edl jobs".
type jobRow struct {
	Job      string  `json:"job"`
	State    string  `json:"state"`
	Mode     string  `json:"mode"`
	Trainers int     `json:"trainers"` // that run
	Wanted   int     `json:"wanted"`
	Pass     int     `json:"pass"`
	Passes   int     `json:"passes"`
	Steps    uint64  `json:"steps"`
	Records  int64   `json:"records"`
	Seconds  float64 `json:"seconds"`
	Paused   string  `json:"paused,omitempty"`
	Error    string  `json:"error,omitempty"`
}

func newJobs(c *console) *cobra.Command {
	f := &findFlags{}
	var output *choice
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List the jobs of a listener",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return listJobs(cmd.Context(), c, f, output.value) },
	}
	f.add(cmd)
	output = outputFlag(cmd)
	cmd.AddCommand(newJobsShow(c), newJobsResume(c))
	return cmd
}

func listJobs(ctx context.Context, c *console, f *findFlags, output string) error {
	client, err := f.open(ctx, "")
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	jobs, err := client.Jobs(ctx)
	if err != nil {
		return err
	}
	rows := make([]jobRow, len(jobs))
	for i, j := range jobs {
		rows[i] = rowOf(j)
	}
	if output == "json" {
		return writeJSON(c.out, struct {
			Jobs []jobRow `json:"jobs"`
		}{rows})
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tSTATE\tMODE\tTRAINERS\tPASS\tSTEPS\tRECORDS\tAGE")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d/%d\t%d/%d\t%d\t%d\t%v\n", r.Job, r.State, r.Mode, r.Trainers, r.Wanted, r.Pass, r.Passes, r.Steps,
			r.Records, age(r.Seconds))
	}
	return t.Flush()
}

// rowOf shortens a status. A job that does not go on is called paused.
func rowOf(s *job.JobStatus) jobRow {
	r := jobRow{Job: s.Job, State: strings.ToLower(s.State.String()), Mode: strings.ToLower(s.Mode.String()), Wanted: int(s.Trainers),
		Pass: int(s.Pass), Passes: int(s.Passes),
		Steps: s.Steps, Records: s.Records, Seconds: s.Seconds, Paused: s.Paused}
	if s.Paused != "" && s.State == job.State_RUNNING {
		r.State = "paused"
	}
	for _, role := range s.Roles {
		if role.Role == job.Role_TRAINER && role.State == job.State_RUNNING {
			r.Trainers++
		}
	}
	if err := wire.FaultOf(s.Failure); err != nil {
		r.Error = err.Error()
	}
	return r
}

// age rounds a time for people.
func age(seconds float64) time.Duration {
	d := time.Duration(seconds * float64(time.Second))
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
