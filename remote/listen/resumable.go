package listen

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/jobspec"
)

// This file says which jobs are offered to be resumed by their name: those that Resume would take. What a store has of a job that has ended rarely changes, and a list
// has many jobs, so the answer is kept.

// A resumption is what was found out about a job that has ended.
type resumption struct {
	known   bool
	changed time.Time // of the folder of the store when that was; zero of a bucket
	may     bool
}

// bucketTime bounds the question to a bucket for who looks at one job.
const bucketTime = 2 * time.Second

// mayResume reports whether a job can be resumed by its name. With look, for who asks about this job alone, it asks the store; else it asks only a folder in which the
// checkpoints are others than before. A bucket that was not asked, or does not answer, may have a checkpoint.
func mayResume(ctx context.Context, m *Manager, j *Job, look bool) bool {
	if m.cfg.Data == nil || !j.Ended() || j.spec.Checkpoints == nil || j.Status().State == job.State_SUCCEEDED || !m.cfg.Data.keeps(j.ID) {
		return false
	}
	for _, other := range m.Jobs() {
		if other.continues == j.ID && !other.Ended() {
			return false
		}
	}
	inBucket := bucket.IsURL(j.spec.Checkpoints.Store)
	now := resumption{known: true}
	if info, err := os.Stat(j.spec.Checkpoints.Store); err == nil && !inBucket {
		now.changed = info.ModTime()
	}
	var before resumption
	j.withLock(func() { before = j.resumes })
	switch {
	case before.known && before.changed.Equal(now.changed) && !look:
		return before.may
	case inBucket && !look:
		return true
	case inBucket:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, bucketTime)
		defer cancel()
	}
	var err error
	if now.may, err = canResume(ctx, m, j.ID); err != nil {
		return inBucket
	}
	j.withLock(func() { j.resumes = now })
	return now.may
}

// canResume reports whether Resume finds a checkpoint of a job, behind which something is left to train.
func canResume(ctx context.Context, m *Manager, id string) (bool, error) {
	k, err := m.cfg.Data.read(id)
	if err != nil || k.Spec.Fed || k.Spec.Checkpoints == nil {
		return false, err
	}
	store := k.Spec.Checkpoints.Store
	if k.OwnStore {
		store = m.cfg.Data.store(id)
	}
	address, err := lastOf(ctx, store, k.Run, k.Spec.Resume)
	if err == nil {
		var c *checkpoint.Checkpoint
		if c, err = checkpoint.Find(ctx, address); err == nil {
			defer c.Close()
			return isLeft(k.Spec, c.Manifest), nil
		}
	}
	if errors.Is(err, fault.NotFound) || errors.Is(err, fault.Corrupt) {
		return false, nil
	}
	return false, err
}

// isLeft reports whether a job that goes on from a checkpoint has something to train. A program that nobody can read any more is for Resume to refuse.
func isLeft(spec *job.JobSpec, m *state.Checkpoint) bool {
	p, err := program.Decode(spec.Program, program.DefaultLimits())
	if err != nil {
		return true
	}
	s := &jobState{}
	if s.passes, err = passesOf(p, spec); err != nil {
		return true
	}
	if s.restart = jobspec.Begin(jobspec.ProgressOf(m.Progress), executor.ReaderHash(p), spec.Fed); m.Progress.GetReader() == executor.ReaderHash(p) {
		s.first = int(m.FirstPass)
	}
	return s.left() >= 1
}
