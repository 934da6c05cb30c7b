package coordinator

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// dispatch hands out the tasks of datasets to trainers, and takes them back from trainers that are late, fail or are gone. The ledger on pserver 0 tells
// dispatch how much of such a task was trained.
type dispatch struct {
	*core
	store   *store
	members *members
	idle    map[id.Rank]idleTrainer // those that wait for a task
}

// An idleTrainer waits for a task since a time. It may ask several times: a call ends after some time, and with its connection.
type idleTrainer struct {
	generation id.Generation
	dataset    string
	pass       int32
	since      time.Time
}

// retryExpired is how long expired tasks stay where they are when the ledger could not be read.
const retryExpired = time.Second

// ledgerDeadline bounds a question about the ledger where the configuration does not say.
const ledgerDeadline = 10 * time.Second

// getTask reports finished tasks and returns the next one. If the request says so it waits while what is left of the pass is pending elsewhere.
func (d *dispatch) getTask(ctx context.Context, m *rpc.GetTaskRequest) (*rpc.GetTaskResponse, error) {
	from := wire.SenderOf(m.Id)
	reason := func() waits.Wait {
		w := waits.Wait{Who: trainerName(m.Id.Rank), What: fmt.Sprintf("the tasks of pass %d that others have", m.Pass), Since: d.idle[from.Rank].since}
		q := d.store.queues[m.Dataset]
		for _, rank := range q.Holders() {
			w.By = append(w.By, trainerName(rank))
		}
		if len(w.By) == 0 && q.Following() {
			w.What, w.Dataset = d.newFiles(m.Dataset), m.Dataset
		}
		return w
	}
	for finished := m.Finished; ; finished = nil {
		var version uint64
		d.locked(func() { version = d.monitor.Version() })
		grant, err := d.grant(ctx, m, finished)
		switch {
		case err != nil:
			return nil, err
		case !grant.Wait || !m.Wait || m.ReportOnly:
			d.locked(func() { delete(d.idle, from.Rank) })
			return &rpc.GetTaskResponse{Segment: d.segment(m, grant), Task: grant.Task, Next: grant.Next, EndOfPass: grant.EndOfPass, EndOfData: grant.EndOfData, Pending: grant.Wait,
				EndRound: (*uint64)(grant.EndRound)}, nil
		}
		d.locked(func() {
			i := idleTrainer{generation: from.Generation, dataset: m.Dataset, pass: m.Pass, since: d.idle[from.Rank].since}
			if i != d.idle[from.Rank] {
				i.since = time.Now()
				d.idle[from.Rank] = i
			}
		})
		if err := d.await(ctx, reason, func() (bool, error) { return d.monitor.Version() != version, nil }); err != nil {
			return nil, err
		}
	}
}

// newFiles says what a trainer waits for that has nothing left to train of a dataset which follows a folder.
func (d *dispatch) newFiles(name string) string {
	text := "new files of dataset " + fault.Quote(name)
	globs := d.cfg.Follow[name]
	if len(globs) == 0 {
		return text
	}
	text += " (" + fault.Quote(globs[0])
	if more := len(globs) - 1; more > 0 {
		text += fmt.Sprintf(", %d more patterns", more)
	}
	return text + ", or " + dataset.EndMarker + ")"
}

// grant is getTask without waiting.
func (d *dispatch) grant(ctx context.Context, m *rpc.GetTaskRequest, finished []*rpc.Task) (queue.Grant, error) {
	var grant queue.Grant
	committed, err := d.committedBefore(ctx, m)
	if err != nil {
		return grant, err
	}
	err = d.store.transact(ctx, func(t *txn) error {
		if err := d.members.check(m.Id); err != nil {
			return err
		}
		from := wire.SenderOf(m.Id)
		for _, task := range finished {
			if _, err := t.step(m.Dataset, queue.TaskFinished{Rank: from.Rank, Since: from.Generation, Task: task}); err != nil {
				d.cfg.Log.Warn("task report refused", "task", task.GetId(), "trainer", from.Rank, "reason", err.Error()) // it is another's by now
			}
		}
		if m.ReportOnly {
			return nil
		}
		effects, err := t.step(m.Dataset, queue.TaskWanted{Rank: from.Rank, Since: from.Generation, Request: m.Id.Round, Pass: m.Pass, Position: m.Position,
			Records: m.Records, Round: from.Round, Committed: committed})
		grant = effects.Grant
		if err == nil && effects.Regroup {
			t.then(func() { _ = d.members.step(generation.DataFailed{}) })
		}
		return err
	})
	if err != nil {
		return queue.Grant{}, err
	}
	return grant, nil
}

// taskFailed takes a task back that a trainer cannot do.
func (d *dispatch) taskFailed(ctx context.Context, m *rpc.TaskFailedRequest) error {
	from := wire.SenderOf(m.Id)
	fail := queue.TaskFailed{Rank: from.Rank, Since: from.Generation, Task: m.Task, Reason: m.Reason}
	if !d.cfg.Sync {
		var err error
		if fail.Committed, err = d.committed(ctx, m.Task.GetPass(), 0); err != nil {
			return err
		}
	}
	return d.store.transact(ctx, func(t *txn) error {
		if err := d.members.check(m.Id); err != nil {
			return err
		}
		effects, err := t.step(m.Task.GetDataset(), fail)
		if err == nil && effects.Regroup {
			t.then(func() { _ = d.members.step(generation.DataFailed{}) })
		}
		return err
	})
}

// takeDataset takes the list of files of a dataset. Every trainer reports one. The first call counts, for all coordinators of the job. A later list that
// differs is an error that describes both.
func (d *dispatch) takeDataset(ctx context.Context, m *rpc.ReportDatasetRequest) error {
	name := m.Dataset.GetName()
	return d.store.transact(ctx, func(t *txn) error {
		q, ok := t.queues[name]
		if !ok {
			if err := d.sameAsBefore(name, m.Dataset.GetFiles()); err != nil {
				return err
			}
			return t.create(queue.Dataset{Name: name, Files: m.Dataset.GetFiles()})
		}
		if slices.EqualFunc(q.Files(), m.Dataset.GetFiles(), func(a, b *rpc.DataFile) bool { return proto.Equal(a, b) }) {
			return nil
		}
		return fault.E(fault.InvalidArgument, fault.At("dataset "+fault.Quote(name)),
			fault.Got(describe(m.Dataset.GetFiles(), q.Files())+" from "+trainerName(m.Id.Rank)),
			fault.Want(describe(q.Files(), m.Dataset.GetFiles())+", as first reported"), fault.Hint("give every trainer the same files"))
	})
}

// sameAsBefore refuses files that are not those that the job has read before. A folder may have another place by now. One that the job has followed may have more files
// behind those.
func (d *dispatch) sameAsBefore(name string, files []*rpc.DataFile) error {
	was := d.cfg.before(name)
	before := was.GetFiles()
	if was == nil {
		return nil
	}
	differ := func(got, want string) error {
		return fault.E(fault.InvalidArgument, fault.At("dataset "+fault.Quote(name)), fault.Got(got), fault.Want(want),
			fault.Hint("put back the files that the job began with; or begin anew, with --params STORE in place of --resume STORE, or with --from-start"))
	}
	for i := range max(len(files), len(before)) {
		switch {
		case i >= len(files):
			return differ(fmt.Sprintf("%d files, without %s", len(files), fault.Quote(before[i].Path)), fmt.Sprintf("the %d files that the job has read", len(before)))
		case i >= len(before) && was.Grows:
			return nil
		case i >= len(before):
			return differ(fmt.Sprintf("%d files, with %s", len(files), fault.Quote(files[i].Path)), fmt.Sprintf("the %d files that the job has read", len(before)))
		case !sameFile(files[i], before[i]):
			return differ(describeFile(files[i]), describeFile(before[i])+", which the job has read")
		}
	}
	return nil
}

// sameFile reports whether two files have the same name and the same content, as far as the headers of their chunks tell.
func sameFile(a, b *rpc.DataFile) bool {
	return path.Base(a.Path) == path.Base(b.Path) && sameContent(a, b)
}

// sameContent is sameFile whatever the names are.
func sameContent(a, b *rpc.DataFile) bool {
	return a.Records == b.Records && a.Bytes == b.Bytes && a.Fingerprint == b.Fingerprint
}

func describeFile(f *rpc.DataFile) string {
	return fmt.Sprintf("%s of %d records in %d bytes with fingerprint %016x", fault.Quote(f.Path), f.Records, f.Bytes, f.Fingerprint)
}

// describe tells what files have that others do not.
func describe(files, others []*rpc.DataFile) string {
	records, first := int64(0), ""
	for i, f := range files {
		records += f.Records
		if first == "" && (i >= len(others) || !proto.Equal(f, others[i])) {
			first = fmt.Sprintf(", of which %s has %d records in %d bytes", fault.Quote(f.Path), f.Records, f.Bytes)
			if i < len(others) && f.Path == others[i].GetPath() && f.Records == others[i].Records && f.Bytes == others[i].Bytes {
				first += fmt.Sprintf(" with fingerprint %016x", f.Fingerprint)
			}
		}
	}
	return fmt.Sprintf("%d records in %d files%s", records, len(files), first)
}

// committed asks pserver 0 which records of a pass are trained. It waits until the server has applied all rounds before round.
func (d *dispatch) committed(ctx context.Context, pass int32, round uint64) (committed ranges.Set, err error) {
	err = wire.Retry(ctx, func(id.Retry) error {
		ledger, err := wire.Ledger(ctx, serverName(0), d.cfg.Servers[0], &rpc.LedgerRequest{Job: d.cfg.Identity.Job, Ranges: true, Pass: pass})
		for _, p := range ledger.GetPasses() {
			if p.Pass == pass {
				committed = ranges.Of(wire.RangesOf(p.Committed)...)
			}
		}
		if err == nil && ledger.Round < round {
			err = fault.E(fault.Unavailable, fault.Gotf("the ledger of %d rounds", ledger.Round), fault.Want(fmt.Sprint(round)))
		}
		return err
	})
	return committed, err
}

// beginSegment begins a new segment in queues that have had a failure, with what is not trained.
func (d *dispatch) beginSegment(ctx context.Context, g generation.Generation) error {
	for name, q := range d.store.current() {
		if !q.Regrouping() {
			continue
		}
		segment := q.Segment(g.Round)
		committed, err := d.committed(ctx, segment.GetPass(), uint64(g.Round))
		if err != nil {
			return err
		}
		if err := d.store.step(name, queue.Regrouped{Round: g.Round, Pass: segment.GetPass(), Committed: committed}); err != nil {
			return err
		}
	}
	return nil
}

// recoverTasks puts back the tasks of trainers that are gone, without the records that the ledger has. By now the servers take nothing from those
// trainers.
func (d *dispatch) recoverTasks(ctx context.Context, g generation.Generation) error {
	for name, q := range d.store.current() {
		for _, rank := range q.Holders() {
			lost := queue.TrainerLost{Rank: rank, Since: g.Number}
			if member, ok := g.Member(rank); ok {
				lost.Since = member.Since - 1 // the processes before the one that is a member
			}
			if err := d.recoverFrom(ctx, name, lost); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *dispatch) recoverFrom(ctx context.Context, name string, lost queue.TrainerLost) error {
	d.locked(func() { lost.Drained, lost.Reason = d.members.whyGone(lost.Rank) })
	for {
		lost.Pass = d.store.current()[name].Pass()
		var err error
		if lost.Committed, err = d.committed(ctx, lost.Pass, 0); err != nil {
			return err
		}
		err = d.store.step(name, lost)
		if !errors.Is(err, fault.Stale) || d.store.current()[name].Pass() == lost.Pass { // stale: a pass has begun since
			return err
		}
	}
}

// expireTasks puts tasks back whose time is over, until the job ends.
func (d *dispatch) expireTasks() {
	for d.alarm(d.nextExpiry) {
		for _, name := range sortedNames(d.store.current()) {
			if !d.expire(name) {
				return
			}
		}
	}
}

// nextExpiry is when the time of a task is over, zero at no time. The monitor is held.
func (d *dispatch) nextExpiry() (next time.Time) {
	for _, q := range d.store.queues {
		after, _, ok := q.Next()
		if at := d.epoch.Add(after); ok && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// expire puts back the tasks of one queue whose time is over. It returns false when the job has ended.
func (d *dispatch) expire(name string) bool {
	pass := d.store.current()[name].Pass()
	ctx, cancel := context.WithTimeout(d.ctx, d.cfg.LedgerDeadline)
	defer cancel()
	committed, err := d.committed(ctx, pass, 0)
	if err == nil {
		err = d.store.transact(ctx, func(t *txn) error {
			for {
				q, err := t.queue(name)
				if err != nil {
					return err
				}
				at, e, ok := q.Next()
				if !ok || at > d.now() || q.Pass() != pass {
					return nil
				}
				e.Committed = committed
				if _, err := t.step(name, e); err != nil {
					return err
				}
			}
		})
	}
	if err == nil {
		return true
	}
	if d.ctx.Err() == nil {
		d.cfg.Log.Warn("tasks whose time is over stay where they are", "dataset", name, "reason", err.Error())
	}
	return d.sleep(retryExpired)
}
