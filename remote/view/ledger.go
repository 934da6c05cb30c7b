package view

import (
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// A PassSum is where the records of one pass are.
type PassSum struct {
	Pass      int32 `json:"pass"`
	Records   int64 `json:"records"`   // of the dataset
	Once      int64 `json:"once"`      // trained, each counted once
	Again     int64 `json:"again"`     // trained beyond the first time
	Discarded int64 `json:"discarded"` // in tasks that were discarded
	NotYet    int64 `json:"not_yet"`
	Retried   int64 `json:"retried"` // handed out again so far, in all passes
	Agrees    bool  `json:"agrees"`  // the sums are those that a pass so far must have
	// Unknown says that no coordinator has told how many records the dataset has, as when a job fails while it goes back to a checkpoint. Then nothing can be
	// compared: Records and NotYet are 0, and Agrees is false.
	Unknown bool `json:"unknown,omitempty"`
}

// AddUp compares the ledger of the pservers with the queues of the coordinator, which know nothing of each other.
func AddUp(d *rpc.JobDetails) []PassSum {
	var records, retried int64
	current := int32(0)
	for _, q := range d.Queues.GetQueues() {
		records += q.Records
		retried += q.Retried
		current = max(current, q.Pass)
	}
	sums := []PassSum{}
	for _, p := range d.Ledger.GetPasses() {
		s := PassSum{Pass: p.Pass, Records: records, Once: p.Records, Again: p.Again, Retried: retried, Discarded: discardedBy(d.Queues, p.Pass)}
		if len(d.Queues.GetQueues()) == 0 {
			s.Unknown = true
			sums = append(sums, s)
			continue
		}
		s.NotYet = s.Records - s.Once - s.Discarded
		over := p.Pass < current || d.Status.State == job.State_SUCCEEDED
		s.Agrees = s.NotYet >= 0 && (s.NotYet == 0 || !over)
		sums = append(sums, s)
	}
	return sums
}

// discardedBy counts the records of tasks that were discarded in a pass or before it: they stay out. A task that was discarded in the pass may have had
// records that were trained before; in later passes all of it stays out.
func discardedBy(q *rpc.QueuesResponse, pass int32) (records int64) {
	for _, queue := range q.GetQueues() {
		for _, d := range queue.Discards {
			switch {
			case d.Pass == pass:
				records += d.Records
			case d.Pass < pass:
				records += d.Later
			}
		}
	}
	return records
}

// CompletePasses is how many passes of a dataset are over. Of the last one the queue is not told to begin another: it is over when nothing of it is left.
func CompletePasses(q *rpc.QueueStatus) int32 {
	if q.Todo+q.Pending == 0 && q.Done+q.Discarded > 0 && !q.Following && q.Pass+1 == q.Passes {
		return q.Passes
	}
	return q.Pass
}
