package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/edl-go/edl/proto/rpc"
)

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
		fmt.Fprintf(t, "%s\t%d of %d\t%d\t%d\t%d\t%d\t%s\t%d\n", q.Dataset, q.Pass, q.Passes, q.Todo, q.Pending, q.Done, q.Discarded, records, q.Retried)
	}
	return t.Flush()
}

// writeDiscarded lists the tasks that were given up.
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
