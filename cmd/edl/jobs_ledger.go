package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// A passSum is where the records of one pass are.
type passSum struct {
	Pass      int32 `json:"pass"`
	Records   int64 `json:"records"`   // of the dataset
	Once      int64 `json:"once"`      // trained, each counted once
	Again     int64 `json:"again"`     // trained beyond the first time
	Discarded int64 `json:"discarded"` // in tasks that were given up
	NotYet    int64 `json:"not_yet"`
	Retried   int64 `json:"retried"` // handed out again so far, in all passes
	Agrees    bool  `json:"agrees"`  // the sums are those that a pass so far must have
}

// addUp compares the ledger of the pservers with the queues of the coordinator, which know nothing of each other.
func addUp(d *rpc.JobDetails) []passSum {
	var records, retried int64
	current := int32(0)
	for _, q := range d.Queues.GetQueues() {
		records += q.Records
		retried += q.Retried
		current = max(current, q.Pass)
	}
	sums := []passSum{}
	for _, p := range d.Ledger.GetPasses() {
		s := passSum{Pass: p.Pass, Records: records, Once: p.Records, Again: p.Again, Retried: retried, Discarded: discardedBy(d.Queues, p.Pass)}
		s.NotYet = s.Records - s.Once - s.Discarded
		over := p.Pass < current || d.Status.State == job.State_SUCCEEDED
		s.Agrees = s.NotYet >= 0 && (s.NotYet == 0 || !over)
		sums = append(sums, s)
	}
	return sums
}

// discardedBy counts the records of tasks that were given up in a pass or before it: they stay out.
func discardedBy(q *rpc.QueuesResponse, pass int32) (records int64) {
	for _, queue := range q.GetQueues() {
		for _, task := range queue.DiscardedTasks {
			if task.Pass > pass {
				continue
			}
			for _, r := range task.Records {
				records += r.To - r.From
			}
		}
	}
	return records
}

func writeLedger(w io.Writer, sums []passSum) error {
	fmt.Fprintln(w)
	if len(sums) == 0 {
		fmt.Fprintln(w, "ledger: no record has been trained")
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PASS\tRECORDS\tONCE\tAGAIN\tDISCARDED\tNOT YET\tSUM")
	for _, s := range sums {
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
	_, err := fmt.Fprintf(w, "records handed out again, in all passes: %d\n", sums[0].Retried)
	return err
}
