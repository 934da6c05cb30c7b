package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/edl-go/edl/proto/rpc"
)

// jobsShowFlags are the flags of "edl jobs show".
type jobsShowFlags struct {
	findFlags
	ledger   bool
	snapshot string
	output   *choice
}

func newJobsShow(c *console) *cobra.Command {
	f := &jobsShowFlags{}
	cmd := &cobra.Command{
		Use:   "show [JOB]",
		Short: "Show a job: its roles, its task queues, and which records it has trained",
		Long: `Show a job of a listener: how far it is, each role with its restarts and its last failure, the task queues, and the tasks
that were given up. After its end a job is shown as it was known last. --ledger adds up the records of each pass. JOB may be left out
when there is only one.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return showOneJob(cmd, c, f, args) },
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.ledger, "ledger", false, "add up the records of each pass")
	cmd.Flags().StringVar(&f.snapshot, "snapshot", "", "write the durable task queues of a job that runs to this `FILE`, for \"edl show\"")
	f.output = outputFlag(cmd)
	return cmd
}

func showOneJob(cmd *cobra.Command, c *console, f *jobsShowFlags, args []string) error {
	ctx := cmd.Context()
	if f.snapshot != "" {
		err := refuseIdle(cmd.Flags(), []string{"ledger", "output"}, "a snapshot, which is written to its file alone", "no --snapshot beside it")
		if err != nil {
			return err
		}
	}
	client, name, err := f.openJob(ctx, args)
	if err != nil {
		return err
	}
	defer client.Close()
	if f.snapshot != "" {
		return takeSnapshot(ctx, c, client, name, f.snapshot)
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	d, err := client.Show(ctx, name)
	if err != nil {
		return err
	}
	var ledger []passSum
	if f.ledger {
		ledger = addUp(d)
	}
	if f.output.value == "json" {
		b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(d)
		if err != nil {
			return err
		}
		return writeJSON(c.out, struct {
			Job    rawJSON   `json:"job"`
			Ledger []passSum `json:"ledger,omitempty"`
		}{b, ledger})
	}
	for _, write := range []func(io.Writer, *rpc.JobDetails) error{writeJobStatus, writeRoles, writeQueues, writeDiscarded} {
		if err := write(c.out, d); err != nil {
			return err
		}
	}
	if f.ledger {
		return writeLedger(c.out, ledger)
	}
	return nil
}

func writeJobStatus(w io.Writer, d *rpc.JobDetails) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	r := rowOf(d.Status)
	row := func(name string, value any) { fmt.Fprintf(t, "%s\t%v\n", name, value) }
	row("job", r.Job)
	row("state", r.State)
	if r.Paused != "" {
		row("paused", r.Paused)
	}
	if r.Error != "" {
		row("error", r.Error)
	}
	row("mode", r.Mode)
	trainers := fmt.Sprintf("%d of %d", r.Trainers, r.Wanted)
	if d.Spec.GetTrainersMax() > d.Spec.GetTrainers() {
		trainers += fmt.Sprintf(", from %d to %d", d.Spec.Trainers, d.Spec.TrainersMax)
	}
	row("trainers", trainers)
	if g := d.Queues.GetGeneration(); g > 0 {
		row("generation", fmt.Sprintf("%d of trainers %v", g, d.Queues.Members))
	}
	row("pass", fmt.Sprintf("%d of %d", r.Pass, r.Passes))
	row("steps", r.Steps)
	row("records", r.Records)
	row("age", age(r.Seconds))
	return t.Flush()
}
