package listen

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
)

// This file is for jobs that have ended before their time: what the data folder has of them, so that the next listener lists them, and whether they can be resumed.

// Recall makes the jobs known that are in the data folder and that no journal tells of: an earlier listener has begun them, and they have ended with it, or before it.
// It is called after TakeOver.
func Recall(m *Manager) error {
	if m.cfg.Data == nil {
		return nil
	}
	entries, err := os.ReadDir(m.cfg.Data.jobs())
	if err != nil {
		return fault.File(fault.Unavailable, m.cfg.Data.dir, err)
	}
	type old struct {
		id string
		at time.Time
		*state.KeptJob
	}
	var list []old
	for _, e := range entries {
		if _, known := m.jobs[e.Name()]; known || !jobspec.IsID(e.Name()) {
			continue
		}
		k, err := m.cfg.Data.read(e.Name())
		info, wrong := os.Stat(filepath.Join(m.cfg.Data.folder(e.Name()), jobFile))
		if err != nil || wrong != nil {
			m.cfg.Log.Warn("a job in the data folder cannot be read", "job", e.Name(), "error", cmp.Or(err, wrong))
			continue
		}
		list = append(list, old{e.Name(), info.ModTime(), k})
	}
	slices.SortFunc(list, func(a, b old) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) })
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range list {
		enter(m, recalled(m, k.id, k.KeptJob))
	}
	return nil
}

// recalled is a job that has ended, as the data folder knows it. A listener that was killed has not written how the job has ended.
func recalled(m *Manager, id string, k *state.KeptJob) *Job {
	if k.OwnStore { // the folder may have moved
		k.Spec.Checkpoints.Store = m.cfg.Data.store(id)
	}
	j := newJob(m, id, k.Spec, &plan{pservers: make([][]byte, max(0, k.Spec.Pservers))}, &jobState{})
	j.name, j.continues, j.owner = k.Run, k.Continues, k.Owner
	if j.status.Owner = k.Owner; k.Ended != nil {
		j.status = k.Ended
	} else {
		j.status.State = job.State_STOPPED
		j.status.Failure = wire.FailureOf(fault.E(fault.Canceled, fault.At("job "+id), fault.Got(afterKill)))
	}
	j.events.Add(&job.Event{What: &job.Event_Status{Status: proto.CloneOf(j.status)}}) // who watches is told how it has ended
	j.events.End()
	j.logs.End()
	close(j.done)
	return j
}

// keepsLast reports whether the last checkpoint of a job is all that is left of what it has trained.
func keepsLast(j *Job) bool { return j.spec.Checkpoints.GetLast() && j.spec.Save == "" }

// What the failure of a job says that was stopped because its listener has ended, or was killed.
const (
	withListener = "stopped with its listener"
	afterKill    = "the end of its listener"
)

// EndedWithListener reports whether a job has ended for no other reason than the end of its listener.
func EndedWithListener(s *job.JobStatus) bool {
	said := s.GetFailure().GetMessage() + s.GetFailure().GetGot()
	return s.GetState() == job.State_STOPPED && fault.Kind(s.GetFailure().GetKind()) == fault.Canceled && (strings.Contains(said, withListener) || strings.Contains(said, afterKill))
}

// rememberEnd writes how a job has ended whose folder stays.
func rememberEnd(m *Manager, j *Job) {
	s := j.Status()
	if m.cfg.Data == nil || j.spec.Checkpoints == nil || s.State == job.State_SUCCEEDED && !keepsLast(j) {
		return
	}
	k, err := m.cfg.Data.read(j.ID)
	if err == nil && k.Run == j.name {
		var b []byte
		k.Ended = s
		if b, err = proto.Marshal(k); err == nil {
			err = m.cfg.Data.write(j.ID, b)
		}
	}
	if err != nil {
		m.cfg.Log.Warn("the next listener will not know how the job has ended", "job", j.ID, "error", err)
	}
}

// keeps reports whether the folder has a job.
func (d *Data) keeps(id string) bool {
	_, err := os.Stat(filepath.Join(d.folder(id), jobFile))
	return jobspec.IsID(id) && err == nil
}

// checkpointsOf lists the names of the complete checkpoints of a job in its store; none where that cannot be read.
func checkpointsOf(ctx context.Context, j *Job) (names []string) {
	store, err := checkpoint.Open(ctx, j.spec.Checkpoints.Store)
	if err != nil {
		return nil
	}
	defer store.Close()
	list, err := store.List(ctx)
	if err != nil {
		return nil
	}
	for _, e := range list {
		if e.Complete && e.Run == j.name {
			names = append(names, e.Name)
		}
	}
	return names
}

// hideGone leaves checkpoints out of the details of a job that has ended which are not there any more: those of a job that has succeeded are removed from the data
// folder, and a user may have removed others. Why none could be made stays. Buckets are not asked.
func hideGone(ctx context.Context, j *Job, d *rpc.JobDetails) {
	if !j.Ended() || j.spec.Checkpoints == nil || bucket.IsURL(j.spec.Checkpoints.Store) {
		return
	}
	there := checkpointsOf(ctx, j)
	if d.Queues != nil && !slices.Contains(there, d.Queues.Checkpoint.GetName()) {
		d.Queues = proto.CloneOf(d.Queues)
		last := d.Queues.Checkpoint
		if d.Queues.Checkpoint = nil; last.GetFailingSinceMs() > 0 {
			d.Queues.Checkpoint = &job.CheckpointStatus{Store: last.Store, FailingSinceMs: last.FailingSinceMs, Failure: last.Failure}
		}
	}
	if len(there) == 0 {
		d.Spec = proto.CloneOf(d.Spec)
		d.Spec.Checkpoints = nil
	}
}
