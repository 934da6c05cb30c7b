package listen

import (
	"context"
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/internal/diskfree"
)

// This file is for what a job may take of its listener beside cores and memory, which its processes are kept to (launch/bounds.go): time, and the disk of the data
// folder. A job that takes more ends as it does when a user stops it, but it has failed, and can be resumed from its last checkpoint.

// boundsCheck is the time between two looks at how long a job has run, and mostRan the most that one of them counts: the machine has slept.
const (
	boundsCheck = time.Second
	mostRan     = 10 * time.Second
)

// timeOf is how long a job may run; 0: without bound.
func timeOf(j *Job) time.Duration {
	own, all := j.spec.MaxTime.AsDuration(), j.manager.cfg.MaxTime
	if own == 0 || all > 0 && all < own {
		return all
	}
	return own
}

// keepToBounds ends a job that takes more than it may, until ctx ends.
func keepToBounds(ctx context.Context, c *jobRun) {
	every := time.NewTicker(boundsCheck)
	defer every.Stop()
	var filling <-chan time.Time // nil: disk is not bounded
	disk := &diskWatch{job: c.job, free: diskfree.Of}
	if disk.bounded() {
		often := time.NewTicker(diskCheck)
		defer often.Stop()
		filling = often.C
	}
	for last := time.Now(); ; {
		var err error
		select {
		case <-every.C:
			now := time.Now()
			err = countTime(c, now.Sub(last))
			last = now
		case <-filling:
			err = disk.check(time.Now())
		case <-ctx.Done():
			return
		}
		if err != nil {
			c.job.manager.cfg.Log.Warn("the job takes more than it may", "job", c.job.ID, "error", err)
			c.job.stop(err)
			return
		}
	}
}

// countTime counts for how long the job has run, without the time in which it is suspended, or the machine sleeps. It returns why the job may run no more.
func countTime(c *jobRun, passed time.Duration) error {
	if isSuspended(c) {
		return nil
	}
	var ran time.Duration
	c.job.withLock(func() {
		c.job.status.RanMs += min(passed, mostRan).Milliseconds()
		ran = time.Duration(c.job.status.RanMs) * time.Millisecond
	})
	limit := timeOf(c.job)
	if limit == 0 || ran < limit {
		return nil
	}
	hint := "start the job with a higher --max-time"
	if c.job.manager.cfg.MaxTime == limit {
		hint = "its listener gives every job so much: --max-job-time"
	}
	return fault.E(fault.TooLarge, fault.Gotf("%v in which the job has run", ran.Round(time.Second)), fault.Wantf("at most %v", limit), fault.Hint(hint+goOnFrom(c.job)))
}

// When the disk is looked at.
const (
	diskCheck  = 100 * time.Millisecond // between two looks at how much its file system can still take, which is one call of the system
	diskWhole  = 10 * time.Second       // at most, between two looks at the files of the job
	diskPauses = 10                     // a look at the files takes at most one part in so many of the time, also of a large tree
)

// A diskWatch decides when the files of a job are added up: every ten seconds, and sooner where the file system has filled by a good part of what the job may still
// write. Others may have filled it; then nothing is found. Where it is not known how full the file system is, a look comes as often as its own time allows.
type diskWatch struct {
	job  *Job
	free func(dir string) (bytes int64, known bool) // diskfree.Of

	looked time.Time     // when the last look ended; zero: there was none
	took   time.Duration // by it
	last   int64         // bytes that were free when it was asked last
	filled int64         // bytes by which it has filled since the look: what is given back meanwhile does not count
	left   int64         // bytes that the job could still write then
}

func (w *diskWatch) bounded() bool {
	return w.job.manager.cfg.Data != nil && w.job.manager.cfg.MaxDisk > 0
}

// check adds the files up if it is time, and returns why the job may run no more.
func (w *diskWatch) check(now time.Time) error {
	free, known := w.free(w.job.manager.cfg.Data.dir)
	if !w.due(now, free, known) {
		return nil
	}
	left, err := checkDisk(w.job)
	ended := time.Now()
	w.looked, w.took = ended, ended.Sub(now)
	w.last, w.filled, w.left = free, 0, left
	return err
}

// due reports whether the files are to be added up now, where the file system can take so many bytes. It also notes how far that has filled.
func (w *diskWatch) due(now time.Time, free int64, known bool) bool {
	w.filled += max(0, w.last-free)
	w.last = free
	since := now.Sub(w.looked)
	switch {
	case w.looked.IsZero():
		return true
	case since < diskPauses*w.took:
		return false
	}
	return since >= diskWhole || !known || w.filled > 0 && w.filled >= w.left/4
}

// checkDisk returns how many bytes a job may still write, and why it may run no more: the files that it has in the data folder, checkpoints and what is written of
// it, are too large.
func checkDisk(j *Job) (left int64, err error) {
	d, limit := j.manager.cfg.Data, j.manager.cfg.MaxDisk
	checkpoints, written := bytesBelow(d.folder(j.ID)), bytesBelow(d.runFolder(j.ID))
	if left = limit - checkpoints - written; left >= 0 {
		return left, nil
	}
	hint := "let it keep fewer checkpoints (--keep), or name another place for them (--checkpoint)"
	if written > checkpoints {
		hint = "its events have what --fetch names, for each step: fetch less"
	}
	return 0, fault.E(fault.TooLarge, fault.Gotf("%.2f MiB on disk: %.2f of checkpoints, %.2f of its events", mib(checkpoints+written), mib(checkpoints), mib(written)),
		fault.Wantf("at most %d MiB in the data folder of its listener: --max-job-disk", limit>>20), fault.Hint(hint+goOnFrom(j)))
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// goOnFrom says how a job goes on that has written something of a checkpoint.
func goOnFrom(j *Job) string {
	if d := j.manager.cfg.Data; d == nil || !d.keeps(j.ID) || j.spec.Checkpoints == nil {
		return ""
	}
	if store := j.spec.Checkpoints.Store; !bucket.IsURL(store) && bytesBelow(store) == 0 {
		return ""
	}
	return fmt.Sprintf("; \"edl jobs resume %s\" goes on from its last checkpoint", j.ID)
}
