package queue

import "github.com/edl-go/edl/proto/rpc"

// maxListed bounds the discarded tasks that Status names.
const maxListed = 1000

// Status tells the length of each queue and what was discarded. Its time grows with the number of discarded tasks.
func (q *Queue) Status() *rpc.QueueStatus {
	r := &rpc.QueueStatus{Dataset: q.name, Pass: q.pass, Passes: int32(max(q.policy.Passes, 1)), Records: q.cut.records, Retried: q.retried,
		Following: q.open(), Pending: int64(q.pending.len), Discarded: int64(q.discarded.len)}
	r.Todo = q.cut.tasks - q.given + int64(q.returned.len)
	r.Done = q.given - int64(q.returned.len) - r.Pending
	if q.policy.Sync {
		r.Done, r.Pending = q.done, q.given-q.done
	}
	for k, w := range q.discarded.from(key{}) {
		switch {
		case k[0] >= q.given:
			r.Todo--
		case q.policy.Sync && k[0] >= q.done:
			r.Pending--
		default:
			r.Done--
		}
		whole := q.cut.task(w.id)
		r.DiscardedRecords += q.left(w).records() + int64(q.pass-w.pass)*(whole.to-whole.from)
		if len(r.DiscardedTasks) < maxListed {
			r.DiscardedTasks = append(r.DiscardedTasks, &rpc.DiscardedTask{Id: w.id, Pass: w.pass, Records: q.left(w).ranges(), Failures: w.failures,
				Reason: w.reason})
		}
	}
	return r
}

// Exhausted reports whether every task was discarded, so that nothing is left to train.
func (q *Queue) Exhausted() bool {
	return q.cut.tasks > 0 && int64(q.discarded.len) == q.cut.tasks && !q.open()
}

// Ended reports whether all passes are done.
func (q *Queue) Ended() bool { return q.ended }

// Pass returns the current pass: the one whose ledger an event needs.
func (q *Queue) Pass() int32 { return q.pass }

// Name returns the name of the dataset.
func (q *Queue) Name() string { return q.name }

// Files returns the files of the dataset, in order. They must not be changed.
func (q *Queue) Files() []*rpc.DataFile { return q.cut.files }

// Following reports whether more files may come: until EndOfFiles, for a dataset that follows.
func (q *Queue) Following() bool { return q.open() }

// Holders returns the ranks that have pending tasks, in order.
func (q *Queue) Holders() (ranks []int) {
	for k := range q.held.from(key{}) {
		if n := len(ranks); n == 0 || ranks[n-1] != int(k[0]) {
			ranks = append(ranks, int(k[0]))
		}
	}
	return ranks
}
