package listen

import (
	"context"
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
)

// This file is for what a job may take of its listener beside cores and memory, which its processes are kept to (launch/bounds.go): time, and the disk of the data
// folder. A job that takes more ends as it does when a user stops it, but it has failed, and can be resumed from its last checkpoint.

// boundsCheck is the time between two looks at what a job has taken. A look at its folder comes after so many of them.
const (
	boundsCheck = time.Second
	diskChecks  = 10
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
	last := time.Now()
	for n := 1; ; n++ {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		err := countTime(c, now.Sub(last))
		if last = now; err == nil && n%diskChecks == 0 {
			err = checkDisk(c.job)
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
		c.job.status.RanMs += min(passed, diskChecks*boundsCheck).Milliseconds()
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
	return fault.E(fault.DeadlineExceeded, fault.Gotf("%v in which the job has run", ran.Round(time.Second)), fault.Wantf("at most %v", limit), fault.Hint(hint+goOnFrom(c.job)))
}

// checkDisk returns why the job may run no more: the files that it has in the data folder, checkpoints and what is written of it, are too large.
func checkDisk(j *Job) error {
	d, limit := j.manager.cfg.Data, j.manager.cfg.MaxDisk
	if d == nil || limit == 0 {
		return nil
	}
	checkpoints, written := bytesBelow(d.folder(j.ID)), bytesBelow(d.runFolder(j.ID))
	if checkpoints+written <= limit {
		return nil
	}
	hint := "let it keep fewer checkpoints (--keep), or name another place for them (--checkpoint)"
	if written > checkpoints {
		hint = "its events have what --fetch names, for each step: fetch less"
	}
	return fault.E(fault.TooLarge, fault.Gotf("%d MiB on disk: %d of checkpoints, %d of its events", (checkpoints+written)>>20, checkpoints>>20, written>>20),
		fault.Wantf("at most %d MiB in the data folder of its listener: --max-job-disk", limit>>20), fault.Hint(hint+goOnFrom(j)))
}

// goOnFrom says how a job goes on whose data folder has a checkpoint of it.
func goOnFrom(j *Job) string {
	if d := j.manager.cfg.Data; d == nil || !d.keeps(j.ID) || bytesBelow(d.folder(j.ID)) == 0 {
		return ""
	}
	return fmt.Sprintf("; \"edl jobs resume %s\" goes on from its last checkpoint", j.ID)
}
