package edlcmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/view"
	"github.com/edl-go/edl/remote/wire"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
)

// jobsShowFlags are the flags of "edl jobs show".
type jobsShowFlags struct {
	findFlags
	cluster  resourceFlags
	ledger   bool
	rounds   bool
	profile  string
	snapshot string
	output   *choice
}

func newJobsShow(c *console) *cobra.Command {
	f := &jobsShowFlags{}
	cmd := &cobra.Command{
		Use:   "show [JOB]",
		Short: "Show a job: its roles, its task queues, and which records it has trained",
		Long: `Show a job of a listener: how far it is, each role with its restarts and its last failure, the task queues, the tasks
that were discarded, and how much each pserver has of tables that only pservers hold. After its end a job is shown as it was known last. --ledger adds up the records of each pass. --rounds says
where the time of the last 100 rounds went. --profile writes the trace of a job that was told to record its first steps
(profile_steps in the job file, or --profile). Without JOB it is the job that runs, or the one that was started last where none runs.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return showOneJob(cmd, c, f, args) },
	}
	f.add(cmd)
	f.cluster.add(cmd, "show a TrainingJob of a Kubernetes namespace, and its pods")
	cmd.Flags().BoolVar(&f.ledger, "ledger", false, "add up the records of each pass")
	cmd.Flags().BoolVar(&f.rounds, "rounds", false, "say where the time of the last 100 rounds of each role went")
	cmd.Flags().StringVar(&f.profile, "profile", "", "write what roles have recorded of the first steps to this `FILE`, for ui.perfetto.dev")
	cmd.Flags().StringVar(&f.snapshot, "snapshot", "", "write the durable task queues of a job that runs to this `FILE`, for \"edl show\"")
	f.output = outputFlag(cmd)
	return cmd
}

func showOneJob(cmd *cobra.Command, c *console, f *jobsShowFlags, args []string) error {
	ctx := cmd.Context()
	switch err := f.cluster.check(cmd, &f.findFlags, "ledger", "rounds", "profile", "snapshot"); {
	case err != nil:
		return err
	case f.cluster.on:
		return showResource(ctx, c, &f.cluster, f.output.value, args)
	}
	if f.snapshot != "" {
		err := refuseIdle(cmd.Flags(), []string{"ledger", "output", "rounds", "profile"}, "a snapshot, which is written to its file alone",
			"no --snapshot")
		if err != nil {
			return err
		}
	}
	if f.profile != "" {
		err := refuseIdle(cmd.Flags(), []string{"ledger", "output", "rounds"}, "a profile, which is written to its file alone", "no --profile")
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
	if f.profile != "" {
		return saveTrace(ctx, c, client, name, f.profile)
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var d *rpc.JobDetails
	if f.rounds {
		d, err = remote.ShowTimes(ctx, client, name)
	} else {
		d, err = client.Show(ctx, name)
	}
	if err != nil {
		return err
	}
	var ledger []view.PassSum
	if f.ledger {
		ledger = view.AddUp(d)
	}
	if f.output.value == "json" {
		b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(d)
		if err != nil {
			return err
		}
		return writeJSON(c.out, struct {
			Job    rawJSON        `json:"job"`
			Ledger []view.PassSum `json:"ledger,omitempty"`
		}{b, ledger})
	}
	for _, write := range []func(io.Writer, *rpc.JobDetails) error{writeJobStatus, writeRoles, writeQueues, writeDiscarded, writeTables} {
		if err := write(c.out, d); err != nil {
			return err
		}
	}
	if f.ledger {
		if err := writeLedger(c.out, d.Status, ledger); err != nil {
			return err
		}
	}
	if f.rounds {
		return writeRounds(c.out, d)
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
	if r.Waiting != "" {
		row("waits for", r.Waiting)
	}
	if r.Error != "" {
		row("error", r.Error)
	}
	row("mode", r.Mode)
	if form := compression(d.Spec); form != "" {
		row("compression", form)
	}
	trainers := fmt.Sprintf("%d of %d", r.Trainers, r.Wanted)
	if d.Spec.GetTrainersMax() > d.Spec.GetTrainers() {
		trainers += fmt.Sprintf(", from %d to %d", d.Spec.Trainers, d.Spec.TrainersMax)
	}
	row("trainers", trainers)
	if d.Spec.GetPserversMax() > 0 {
		row("pservers", fmt.Sprintf("%d, from %d to %d", d.Spec.Pservers, d.Spec.PserversMin, d.Spec.PserversMax))
	}
	if g := d.Queues.GetGeneration(); g > 0 {
		row("generation", fmt.Sprintf("%d of trainers %v%s", g, d.Queues.Members, groups(d.Queues)))
	}
	row("passes", fmt.Sprintf("%d of %d complete", r.Pass, r.Passes))
	row("steps", r.Steps)
	row("records", r.Records)
	if last := d.Status.GetLast(); len(last) > 0 {
		row("last step", numbersText(last))
	}
	if text := d.Queues.GetEvaluating(); text != "" && !view.Ended(d.Status) {
		row("evaluates", text)
	}
	if e := d.Status.GetEvaluated(); e != nil {
		row("evaluated", fmt.Sprintf("after pass %d, step %d: %s", e.Pass, e.Step, numbersText(e.Values)))
	}
	if k := d.Queues.GetCheckpoint(); k != nil {
		row("checkpoint", checkpointText(k, d.Status.GetEarlierSteps()))
	} else if k := d.Spec.GetCheckpoints(); k != nil {
		row("checkpoint", "in "+k.Store)
	}
	if r.Resumable {
		row("resume", "edl jobs resume "+r.Job)
	}
	row("age", age(r.Seconds))
	return t.Flush()
}

// numbersText writes numbers with their names.
func numbersText(values []*job.MetricValue) string {
	var words []string
	for _, v := range values {
		words = append(words, fmt.Sprintf("%s %.6g", v.Name, v.Value))
	}
	return strings.Join(words, "  ")
}

// checkpointText says which checkpoint is the last, and why there is no later one. The job has begun after so many steps.
func checkpointText(k *job.CheckpointStatus, begun uint64) string {
	text := "none yet in " + k.Store
	switch {
	case k.Name == "" && begun > 0:
		text = fmt.Sprintf("none since the job began after %d steps, in %s", begun, k.Store)
	case k.Name == "" && k.FailingSinceMs > 0: // those of a job that has ended may be removed
		text = "none in " + k.Store
	case k.Name != "":
		text = fmt.Sprintf("after %d steps, %d bytes, in %s", k.Steps, k.Bytes, k.Store)
	}
	if k.FailingSinceMs > 0 {
		text += "; fails since " + time.UnixMilli(k.FailingSinceMs).UTC().Format(time.RFC3339)
		if err := wire.FaultOf(k.Failure); err != nil {
			text += ": " + oneLine(err.Error())
		}
	}
	return text
}

// groups names the trainers that merge as one, each group with its leader first.
func groups(q *rpc.QueuesResponse) (text string) {
	if len(q.Leaders) != len(q.Members) {
		return ""
	}
	for _, leader := range q.Members {
		var group []uint32
		for i, rank := range q.Members {
			if q.Leaders[i] == leader {
				group = append(group, rank)
			}
		}
		if len(group) > 1 {
			text += fmt.Sprintf(", %v merge as one", group)
		}
	}
	return text
}

func writeRoles(w io.Writer, d *rpc.JobDetails) error {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ROLE\tSTATE\tSTARTS\tPID\tNODE\tLAST END, OR WAIT")
	for _, r := range d.Status.Roles {
		pid := "-"
		if r.Pid != 0 {
			pid = fmt.Sprint(r.Pid)
		}
		node := r.Node
		if node == "" {
			node = "here"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\n", view.RoleName(r.Role, r.Index), strings.ToLower(r.State.String()), r.Starts, pid, node, view.LastEnd(r))
	}
	return t.Flush()
}

// shownPasses is of how many passes, the last ones, a ledger is shown. Of those before only the ones are that do not agree.
const shownPasses = 20

func writeLedger(w io.Writer, s *job.JobStatus, sums []view.PassSum) error {
	fmt.Fprintln(w)
	if len(sums) == 0 && view.Ended(s) && s.Records > 0 {
		fmt.Fprintf(w, "ledger: it went with the listener that had the job; %d records were trained\n", s.Records)
		return nil
	}
	if len(sums) == 0 {
		fmt.Fprintln(w, "ledger: no record has been trained")
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PASS\tRECORDS\tONCE\tAGAIN\tDISCARDED\tNOT YET\tSUM")
	var earlier struct {
		passes         int
		records, again int64
	}
	for i, s := range sums {
		if s.Agrees && i < len(sums)-shownPasses {
			earlier.passes++
			earlier.records += s.Once
			earlier.again += s.Again
			continue
		}
		if s.Unknown {
			fmt.Fprintf(t, "%d\t-\t%d\t%d\t-\t-\tnot known: no coordinator has told how many records there are\n", s.Pass, s.Once, s.Again)
			continue
		}
		sum := "agrees"
		if !s.Agrees {
			sum = fmt.Sprintf("does not agree: %d records are missing", s.NotYet)
			if s.NotYet < 0 {
				sum = fmt.Sprintf("does not agree: %d records too many", -s.NotYet)
			}
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%d\t%d\t%s\n", s.Pass, s.Records, s.Once, s.Again, s.Discarded, s.NotYet, sum)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if earlier.passes > 0 {
		fmt.Fprintf(w, "%d earlier passes agree: %d records once, %d again; --output json has each\n", earlier.passes, earlier.records, earlier.again)
	}
	_, err := fmt.Fprintf(w, "records handed out again, in all passes: %d\n", sums[0].Retried)
	return err
}

// rangeName writes the numbers of records: the first and the last.
func rangeName(r *rpc.RecordRange) string {
	if r.To == r.From+1 {
		return fmt.Sprint(r.From)
	}
	return fmt.Sprintf("%d-%d", r.From, r.To-1)
}

func writeQueues(w io.Writer, d *rpc.JobDetails) error {
	if len(d.Queues.GetQueues()) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "DATASET\tPASS\tTODO\tPENDING\tDONE\tDISCARDED\tRECORDS\tRETRIED")
	for _, q := range d.Queues.Queues {
		records := fmt.Sprint(q.Records)
		if q.Following {
			records += " and growing"
		}
		fmt.Fprintf(t, "%s\t%d of %d\t%d\t%d\t%d\t%d\t%s\t%d\n", q.Dataset, view.CompletePasses(q), q.Passes, q.Todo, q.Pending, q.Done, q.Discarded, records, q.Retried)
	}
	return t.Flush()
}

// writeDiscarded lists the tasks that were discarded.
func writeDiscarded(w io.Writer, d *rpc.JobDetails) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	some := false
	for _, q := range d.Queues.GetQueues() {
		for _, task := range q.DiscardedTasks {
			if !some {
				fmt.Fprintln(w)
				fmt.Fprintln(t, "DISCARDED\tTASK\tPASS\tRECORDS\tFAILURES\tLAST REASON")
			}
			some = true
			var ranges []string
			for _, r := range task.Records {
				ranges = append(ranges, rangeName(r))
			}
			fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%d\t%s\n", q.Dataset, task.Id, task.Pass, strings.Join(ranges, ","), task.Failures, oneLine(task.Reason))
		}
	}
	return t.Flush()
}
