package queue

import (
	"slices"

	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
)

// maxListed bounds the discarded tasks that Status names.
const maxListed = 1000

// Status tells how many tasks are in each state, and what was discarded. Its time grows with the number of discarded tasks.
func (q *Queue) Status() *rpc.QueueStatus {
	r := &rpc.QueueStatus{Dataset: q.name, Pass: q.pass, Passes: q.policy.lastPass() + 1, Records: q.layout.records, Retried: q.retried,
		Following: q.open(), Pending: int64(q.pending.byTask.len), Discarded: int64(q.discarded.len)}
	r.Todo = q.layout.tasks - q.given + int64(q.returned.len)
	r.Done = q.given - int64(q.returned.len) - r.Pending
	if q.policy.Sync {
		r.Done, r.Pending = q.done, q.given-q.done
	}
	for k, t := range q.discarded.from(key{}) {
		switch {
		case k[0] >= q.given:
			r.Todo--
		case q.policy.Sync && k[0] >= q.done:
			r.Pending--
		default:
			r.Done--
		}
		r.DiscardedRecords += q.left(t).Count() + int64(q.pass-t.pass)*q.layout.recordsOf(t.id).Len()
		i, known := slices.BinarySearchFunc(r.Discards, t.pass, func(d *rpc.PassDiscards, pass int32) int { return int(d.Pass) - int(pass) })
		if !known {
			r.Discards = slices.Insert(r.Discards, i, &rpc.PassDiscards{Pass: t.pass})
		}
		r.Discards[i].Records += q.left(t).Count()
		r.Discards[i].Later += q.layout.recordsOf(t.id).Len()
		if len(r.DiscardedTasks) < maxListed {
			r.DiscardedTasks = append(r.DiscardedTasks, &rpc.DiscardedTask{Id: t.id, Pass: t.pass, Records: wire.Ranges(q.left(t)), Failures: t.failures,
				Reason: t.reason})
		}
	}
	return r
}

// AheadOf reports whether the queue differs from an earlier copy of it by nothing but the numbers of tasks that were given and are done in the current
// pass of sync mode. A coordinator that begins with the earlier copy goes on as well: it begins another generation, whose trainers ask again for the
// tasks from their round on, and nobody trains a task because it was given.
func (q *Queue) AheadOf(before *Queue) bool {
	now := q.counters
	now.given, now.done = before.given, before.done
	return q.policy.Sync && now == before.counters
}

// Exhausted reports whether every task was discarded, so that nothing is left to train.
func (q *Queue) Exhausted() bool {
	return q.layout.tasks > 0 && int64(q.discarded.len) == q.layout.tasks && !q.open()
}

// Ended reports whether all passes are done. In async mode it also reports true when the queue was stopped and no trainer has a task.
func (q *Queue) Ended() bool { return q.ended }

// Unread reports whether passes are to come that no trainer has begun, or files of a folder that grows. It is false for a queue that was stopped.
func Unread(q *Queue) bool {
	return !q.ended && !q.stopped && (q.open() || q.pass < q.policy.lastPass())
}

// Dry reports whether nothing is left to be given of a dataset that follows a folder, and more files may come.
func Dry(q *Queue) bool { return q.open() && q.given == q.layout.tasks && q.returned.len == 0 }

// Pass returns the current pass: the one whose ledger an event needs.
func (q *Queue) Pass() int32 { return q.pass }

// Name returns the name of the dataset.
func (q *Queue) Name() string { return q.name }

// Within returns the records of a pass that are trained, where the ledger has committed of it: in async mode and with backup trainers, what Policy.Trained of a
// job is that goes on from here. ok is false where nothing is left of the pass but tasks that were discarded: the next job begins with another pass. So it does with
// a dataset that follows a folder, unless it is told the files of this one (named): the numbers of records follow from the order in which files have come.
func Within(q *Queue, pass int32, committed ranges.Set, named bool) (trained ranges.Set, ok bool) {
	trained = committed.Union(q.policy.trainedBefore(pass, q.layout.records))
	left := q.open() || len(q.layout.all().Without(trained.Union(discardedRecords(q)))) > 0
	return trained, left && (named || !q.following)
}

// Groups returns the numbers of the files with which a group of tasks begins, without the first. The files of a group were reported together.
func Groups(q *Queue) (first []int64) {
	next := 0
	for i, f := range q.layout.files {
		for next < len(q.layout.groups) && q.layout.groups[next].record < f.FirstRecord {
			next++
		}
		if f.Records > 0 && i > 0 && next < len(q.layout.groups) && q.layout.groups[next].record == f.FirstRecord {
			first = append(first, int64(i))
			next++
		}
	}
	return first
}

// Files returns the files of the dataset, in order. They must not be changed.
func (q *Queue) Files() []*rpc.DataFile { return q.layout.files }

// Following reports whether more files may come: until FilesEnded, for a dataset that follows a folder.
func (q *Queue) Following() bool { return q.open() }

// Holders returns the ranks that have pending tasks, in order.
func (q *Queue) Holders() []id.Rank { return q.pending.holders() }
