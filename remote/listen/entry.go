package listen

import (
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/listen/supervise"
)

// This file says what a listener writes to the journal of a job. The next listener goes on from the last entry.

// tell appends events to those of the job, after they are in the journal with all that is known of the job now. decided says that the machine has changed.
// j.telling is held. The error is why the record is missing, of the first of several that are.
func tell(j *Job, decided bool, events ...*job.Event) (err error) {
	if j.journal != nil {
		whole := j.journal.full()
		var r *state.JobRecord
		j.withLock(func() { r = entry(j, decided || whole, whole) })
		r.Events = events
		j.last = shorten(r, j.last, whole)
		if err = j.journal.write(r); err != nil { // then the next one is whole
			j.manager.cfg.Log.Warn("the job would end with this listener: what it does cannot be written now", "job", j.ID, "error", err)
		}
	}
	j.events.Add(events...)
	j.number += uint64(len(events))
	return err
}

// entry is a record of the journal without events. j.mu is held.
func entry(j *Job, decided, whole bool) *state.JobRecord {
	r := &state.JobRecord{Number: j.number, Status: proto.CloneOf(j.status), Next: j.next, Told: j.told, Placement: j.placing.now.number,
		Pservers: int32(len(j.placing.now.pservers)), Placements: j.placing.numbers}
	r.Suspension = suspensionIn(j.manager.queue, j.ID)
	if f := j.finishing; f.wishes > 0 {
		r.Wishes = []*state.Wish{{AfterStep: f.after, WithoutSave: f.withoutSave, Promised: f.promised}}
	}
	if whole || j.newBegin {
		j.newBegin = false
		r.Begin = j.state.message(j.datasets)
	}
	if c := j.roles; c != nil {
		r.Position = c.watcher.position()
		if r.Owed = proto.CloneOf(c.owed); decided { // what is done must not be done again, although nothing was decided since
			r.Supervision = supervise.Save(c.machine, c.now())
		}
	}
	return r
}

// shorten leaves out of a record what the status has in common with that of the record before, which last is, and returns what last is for the next one. Most of a
// status does not change with a step, and there may be hundreds of steps in a second. A whole record has all.
func shorten(r *state.JobRecord, last *job.JobStatus, whole bool) *job.JobStatus {
	s := r.Status
	now := &job.JobStatus{Roles: s.Roles, Placement: s.Placement, Labels: s.Labels, ProgramHash: s.ProgramHash}
	if !whole && proto.Equal(now, last) {
		s.Roles, s.Placement, s.Labels, s.ProgramHash, r.Same = nil, nil, nil, "", true
		return last
	}
	return now
}

// restore is the inverse of shorten.
func restore(r, before *state.JobRecord) {
	if from := before.GetStatus(); r.Same && r.Status != nil && from != nil {
		r.Status.Roles, r.Status.Placement, r.Status.Labels, r.Status.ProgramHash = from.Roles, from.Placement, from.Labels, from.ProgramHash
	}
}

// position is how far the events were read. job.mu is held.
func (w *watcher) position() *state.Position {
	p := &state.Position{History: w.history, Fence: w.fence, Next: w.next}
	select {
	case <-w.all:
		p.All = true
	default:
	}
	return p
}

// message is what a listener needs to go on with the job.
func (s *jobState) message(datasets []*rpc.Dataset) *state.JobBegin {
	m := &state.JobBegin{Begin: jobspec.ProgressMessage(s.begin), Restart: jobspec.ProgressMessage(s.restart), First: int32(s.first), Passes: int32(s.passes),
		Ledger: s.ledger, Origins: s.origins, Datasets: datasets, Earlier: s.earlier, Params: s.params, Unpacked: s.unpacked, Exported: s.exported, Dir: s.dir}
	if s.keep != nil {
		m.Keep = s.keep.dir
	}
	return m
}

// stateOf is the inverse of message.
func stateOf(b *state.JobBegin) *jobState {
	return &jobState{begin: jobspec.ProgressOf(b.GetBegin()), restart: jobspec.ProgressOf(b.GetRestart()), first: int(b.GetFirst()), passes: int(b.GetPasses()),
		ledger: b.GetLedger(), origins: b.GetOrigins(), datasets: b.GetDatasets(), earlier: b.GetEarlier(), params: b.GetParams(), unpacked: b.GetUnpacked(),
		exported: b.GetExported(), dir: b.GetDir()}
}
