package edlcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/view"
	"github.com/edl-go/edl/remote/wire"
)

// jobRow is one job in the JSON of "edl jobs".
type jobRow struct {
	Job      string  `json:"job"`
	State    string  `json:"state"`
	Mode     string  `json:"mode"`
	Trainers int     `json:"trainers"` // that run
	Wanted   int     `json:"wanted"`
	Pass     int     `json:"pass"` // that are complete
	Passes   int     `json:"passes"`
	Steps    uint64  `json:"steps"`
	Records  int64   `json:"records"`
	Seconds  float64 `json:"seconds"`
	Paused   string  `json:"paused,omitempty"`
	Error    string  `json:"error,omitempty"`
	Waiting  string  `json:"waiting,omitempty"` // for what, and how many jobs are before it
	Before   int     `json:"before,omitempty"`
	Priority int     `json:"priority,omitempty"`

	Namespace string            `json:"namespace"`
	Owner     string            `json:"owner,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Submitted *time.Time        `json:"submitted,omitempty"`
	Ended     *time.Time        `json:"ended,omitempty"`
	Resumable bool              `json:"resumable,omitempty"` // by "edl jobs resume"
}

// lastEnded is how many jobs that have ended are listed without --all.
const lastEnded = 20

// jobsFlags are the flags of "edl jobs".
type jobsFlags struct {
	findFlags
	cluster resourceFlags
	all     bool
	state   *choice
	name    string
	labels  []string
	owner   string
	limit   int32
	output  *choice
}

func newJobs(c *console) *cobra.Command {
	f := &jobsFlags{}
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List the jobs of a listener",
		Long: fmt.Sprintf(`List the jobs of a listener: those that have not ended, and the last %d that have. --all lists all that the listener remembers, with who has
submitted them and how they have ended. Flags that say which jobs are wanted choose among all.`, lastEnded),
		Example: "  edl jobs --all --state failed --label team=vision --name 'digits-*'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch err := f.cluster.check(cmd, &f.findFlags, "all", "state", "owner", "limit"); {
			case err != nil:
				return err
			case f.cluster.on:
				return listResources(cmd.Context(), c, f)
			}
			return listJobs(cmd.Context(), c, f)
		},
	}
	f.add(cmd)
	f.cluster.add(cmd, "list the TrainingJobs of a Kubernetes namespace")
	flags := cmd.Flags()
	flags.BoolVar(&f.all, "all", false, "list all jobs that the listener remembers, with owner and outcome")
	f.state = choiceFlag(cmd, "state", "only jobs in this state", append([]string{anyState}, stateNames()...)...)
	flags.StringVar(&f.name, "name", "", "only jobs whose name matches `PATTERN`, such as 'digits-*'")
	flags.StringArrayVar(&f.labels, "label", nil, "only jobs with the label `KEY=VALUE`; repeatable")
	flags.StringVar(&f.owner, "owner", "", "only jobs that `USER` has submitted")
	flags.Int32Var(&f.limit, "limit", 0, "only the `N` jobs that were submitted last")
	f.output = outputFlag(cmd)
	cmd.AddCommand(newJobsShow(c), newJobsSuspend(c), newJobsResume(c))
	return cmd
}

// anyState is the value of --state that leaves all jobs.
const anyState = "any"

// stateNames returns the names of the states of jobs, in the order of job.State.
func stateNames() []string {
	names := make([]string, len(job.State_name))
	for i := range names {
		names[i] = strings.ToLower(job.State(i).String())
	}
	return names
}

// filter is what the flags say of the jobs that are wanted, and whether they say anything.
func (f *jobsFlags) filter() (filter remote.JobFilter, chosen bool, err error) {
	if filter.Labels, err = jobspec.ParseLabels(f.labels); err != nil {
		return filter, false, inFile("--label", err)
	}
	if f.limit < 0 {
		return filter, false, tooFew("--limit", int64(f.limit))
	}
	filter.Name, filter.Owner, filter.Namespace, filter.Limit = f.name, f.owner, f.namespace, int(f.limit)
	if f.state.value != anyState {
		filter.States = []job.State{job.State(job.State_value[strings.ToUpper(f.state.value)])}
	}
	return filter, f.all || f.name != "" || f.owner != "" || f.namespace != "" || f.limit > 0 || len(f.labels) > 0 || len(filter.States) > 0, nil
}

// recent leaves out jobs that have ended, but the last ones.
func recent(jobs []*job.JobStatus) []*job.JobStatus {
	left := 0
	for _, j := range jobs {
		if view.Ended(j) {
			left++
		}
	}
	return slices.DeleteFunc(jobs, func(j *job.JobStatus) bool {
		if !view.Ended(j) {
			return false
		}
		left--
		return left >= lastEnded
	})
}

func listJobs(ctx context.Context, c *console, f *jobsFlags) error {
	filter, chosen, err := f.filter()
	if err != nil {
		return err
	}
	client, err := f.open(ctx, "")
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	jobs, err := remote.FindJobs(ctx, client, filter)
	if err != nil {
		return err
	}
	if !chosen {
		jobs = recent(jobs)
	}
	rows := make([]jobRow, len(jobs))
	for i, j := range jobs {
		rows[i] = rowOf(j)
	}
	if f.output.value == "json" {
		return writeJSON(c.out, struct {
			Jobs []jobRow `json:"jobs"`
		}{rows})
	}
	if f.all {
		return errors.Join(writeHistory(c.out, rows), writeResumable(c.out, rows))
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tSTATE\tMODE\tTRAINERS\tPASS\tSTEPS\tRECORDS\tAGE")
	var waiting []jobRow
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d/%d\t%d/%d\t%d\t%d\t%v\n", r.Job, r.State, r.Mode, r.Trainers, r.Wanted, r.Pass, r.Passes, r.Steps,
			r.Records, age(r.Seconds))
		if r.Waiting != "" {
			waiting = append(waiting, r)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	slices.SortStableFunc(waiting, func(a, b jobRow) int { return a.Before - b.Before })
	for i, r := range waiting {
		if i == 0 {
			fmt.Fprintln(c.out)
		}
		if _, err := fmt.Fprintf(c.out, "%s waits for %s\n", r.Job, r.Waiting); err != nil {
			return err
		}
	}
	return writeResumable(c.out, rows)
}

// writeResumable says which jobs can be gone on with, and how.
func writeResumable(w io.Writer, rows []jobRow) (err error) {
	var names []string
	for _, r := range rows {
		if r.Resumable {
			names = append(names, r.Job)
		}
	}
	if len(names) > 0 {
		_, err = fmt.Fprintf(w, "\nedl jobs resume JOB goes on from the last checkpoint of %s\n", strings.Join(names, ", "))
	}
	return err
}

// writeHistory writes who has submitted jobs, and how they have ended.
func writeHistory(w io.Writer, rows []jobRow) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tSTATE\tOWNER\tSUBMITTED\tTOOK\tSTEPS\tRECORDS\tLABELS\tERROR")
	at := func(when *time.Time) string {
		if when == nil {
			return "-"
		}
		return when.Local().Format(time.DateTime)
	}
	for _, r := range rows {
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
			labels = append(labels, key+"="+r.Labels[key])
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%v\t%d\t%d\t%s\t%s\n", r.Job, r.State, cmp.Or(r.Owner, "-"), at(r.Submitted), age(r.Seconds), r.Steps, r.Records,
			cmp.Or(strings.Join(labels, ","), "-"), cmp.Or(view.Shortened(oneLine(r.Error)), "-"))
	}
	return t.Flush()
}

// whenOf is a time in milliseconds since 1970; nil where it is 0.
func whenOf(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	return new(time.UnixMilli(ms).UTC())
}

// rowOf shortens a status. A job that does not go on is called paused.
func rowOf(s *job.JobStatus) jobRow {
	r := jobRow{Job: s.Job, State: view.State(s), Mode: strings.ToLower(s.Mode.String()), Wanted: int(s.Trainers),
		Pass: int(s.CompletePasses), Passes: int(s.Passes),
		Steps: view.Steps(s), Records: view.Records(s), Seconds: s.Seconds, Paused: s.Paused,
		Namespace: jobspec.NamespaceOf(s.Job), Owner: s.Owner, Labels: s.Labels, Submitted: whenOf(s.SubmittedMs), Ended: whenOf(s.EndedMs), Resumable: s.Resumable, Waiting: s.Waiting, Before: int(s.Before), Priority: int(s.Priority)}
	r.Trainers = view.Running(s)
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
