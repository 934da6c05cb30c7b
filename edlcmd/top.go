package edlcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/listen/schedule"
	"github.com/edl-go/edl/remote/view"
)

// newTop is "edl top".
func newTop(c *console) *cobra.Command {
	f := &findFlags{}
	var once bool
	var every time.Duration
	var output *choice
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show machines and jobs of a listener: what is promised, and records a second",
		Long: `Show the machines of a listener and the jobs that have not ended, with the cores and the memory that are promised to them, and the records that they
train in a second. A user with roles in some namespaces only sees the jobs there, and no machines. On a terminal it goes on until it is interrupted. Elsewhere, and with --once, it shows all once: records a second are those since the start of each job then.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return fault.E(fault.InvalidArgument, fault.At("--every"), fault.Got(every.String()), fault.Want("100ms or more"))
			}
			client, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer client.Close()
			t := &topView{client: client, namespace: f.namespace, seen: map[string]seenJob{}}
			screen := terminalOf(c.out)
			if once || output.value == "json" || screen == nil {
				return t.show(cmd.Context(), c.out, output.value)
			}
			for {
				if _, err := io.WriteString(screen, clearScreen); err != nil {
					return err
				}
				if err := t.show(cmd.Context(), c.out, output.value); err != nil {
					return err
				}
				timer := time.NewTimer(every)
				select {
				case <-timer.C:
				case <-cmd.Context().Done():
					timer.Stop()
					return context.Cause(cmd.Context())
				}
			}
		},
	}
	f.add(cmd)
	f.addNamespace(cmd, "only jobs of the namespace `NAME` (default: all that you may see)")
	cmd.Flags().BoolVar(&once, "once", false, "show all once, also on a terminal")
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "look again after `TIME`")
	output = outputFlag(cmd)
	return cmd
}

// clearScreen moves to the beginning of a terminal and clears it.
const clearScreen = "\x1b[H\x1b[2J"

// A topView is what "edl top" knows of one look for the next.
type topView struct {
	client    *remote.Client
	namespace string // of the jobs that are shown; empty: all
	seen      map[string]seenJob
}

// A seenJob is how far a job was.
type seenJob struct {
	at      time.Time
	records int64
}

// topRow is one job in the JSON of "edl top".
type topRow struct {
	jobRow
	CoresPromised float64 `json:"cores_promised"`
	MemPromised   int64   `json:"memory_promised"`
	Rate          float64 `json:"records_per_second"`
}

// show looks once, and writes what there is.
func (t *topView) show(ctx context.Context, w io.Writer, output string) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	nodes, err := remote.Nodes(ctx, t.client)
	if errors.Is(err, fault.Denied) { // the user has roles in some namespaces only, and sees no machines
		err = nil
	}
	if err != nil {
		return err
	}
	jobs, err := remote.FindJobs(ctx, t.client, remote.JobFilter{Namespace: t.namespace})
	if err != nil {
		return err
	}
	jobs = slices.DeleteFunc(jobs, view.Ended)
	rows := make([]topRow, len(jobs))
	now, seen := time.Now(), map[string]seenJob{}
	for i, s := range jobs {
		rows[i] = topRow{rowOf(s), float64(s.Promised.GetMillicores()) / 1000, s.Promised.GetMemory(), t.rate(s, now)}
		seen[s.Job] = seenJob{now, s.Records}
	}
	t.seen = seen
	if output == "json" {
		machines := make([]nodeRow, len(nodes))
		for i, n := range nodes {
			machines[i] = nodeRowOf(n)
		}
		return writeJSON(w, struct {
			Nodes []nodeRow `json:"nodes"`
			Jobs  []topRow  `json:"jobs"`
		}{machines, rows})
	}
	if len(nodes) > 0 {
		if err := writeNodes(w, nodes); err != nil {
			return err
		}
	}
	return writeTop(w, rows)
}

// rate is how many records a job trains in a second: since the last look, or since its start.
func (t *topView) rate(s *job.JobStatus, now time.Time) float64 {
	records, took := s.Records, s.Seconds
	if last, ok := t.seen[s.Job]; ok && last.records <= records {
		records, took = records-last.records, now.Sub(last.at).Seconds()
	}
	if took <= 0 {
		return 0
	}
	return float64(records) / took
}

// writeTop writes jobs: those that have started, and then those that wait, the next one first.
func writeTop(w io.Writer, rows []topRow) error {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b topRow) int {
		place := func(r topRow) int {
			if r.Waiting == "" {
				return -1
			}
			return r.Before
		}
		return place(a) - place(b)
	})
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tSTATE\tOWNER\tTRAINERS\tCORES\tMEMORY\tSTEPS\tRECORDS/S\tWAITS FOR")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d/%d\t%s\t%s\t%d\t%.0f\t%s\n", r.Job, r.State, cmp.Or(r.Owner, "-"), r.Trainers, r.Wanted, schedule.CoresNumber(int64(r.CoresPromised*1000)),
			schedule.MemoryText(r.MemPromised), r.Steps, r.Rate, r.Waiting)
	}
	return t.Flush()
}
