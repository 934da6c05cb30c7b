package coordinator

import (
	"errors"
	"time"

	"github.com/edl-go/edl/remote/coordinator/queue"
)

// This file cuts jobs that make no step. A sync job asks its servers for a cut at a round that is still to come, and an async job with a number of steps between two
// cuts waits for that number: what they have trained since the last cut would be in none for as long as no files come. So such a job is cut where it is, once.

// errIdle ends an attempt whose round may never come.
var errIdle = errors.New("no step is made")

// wantedIdle is how long a job that waits for new files makes no step, before a cut is made that somebody waits for.
const wantedIdle = time.Second

// watchIdle calls idle, once, when the job has made steps since its last cut, and makes none for some time: for Idle, where it waits for new files, and for wantedIdle if somebody waits for the cut; or, a sync job
// with a time between two cuts, for that time, whatever it waits for. In sync mode it does not call idle once the round of the attempt is applied. stop ends the watch.
func (c *cuts) watchIdle(idle func()) (stop func()) {
	always := c.plan.every // of a sync job
	if !c.cfg.Sync {
		always = 0
	}
	dry := time.Duration(0)
	if len(c.cfg.Follow) > 0 {
		dry = c.cfg.Checkpoints.Idle
	}
	often := max(always, dry)
	if always > 0 && dry > 0 {
		often = min(always, dry)
	}
	if often == 0 {
		return func() {}
	}
	if dry > 0 {
		often = min(often, wantedIdle)
	}
	ended := make(chan struct{})
	c.locked(func() {
		steps, since := c.steps.written(), time.Now()
		c.spawn(func() {
			ticks := time.NewTicker(often)
			defer ticks.Stop()
			for {
				select {
				case <-ticks.C:
				case <-ended:
					return
				}
				over := false
				c.locked(func() {
					now := c.steps.written()
					if now != steps {
						steps, since = now, time.Now()
					}
					quiet := time.Since(since)
					enough, wanted := dry, c.wanted()
					if wanted {
						enough = min(dry, wantedIdle)
					}
					waits := dry > 0 && (wanted || !c.plan.passes) && quiet >= enough && allDry(c.ending.store.queues)
					over = now > c.covered && c.reached.IsZero() && (always > 0 && quiet >= always || waits)
				})
				if over {
					idle()
					return
				}
			}
		})
	})
	return func() { close(ended) }
}

// allDry reports whether a job with these queues waits for new files, and for nothing else that it knows of.
func allDry(queues map[string]*queue.Queue) bool {
	for _, q := range queues {
		if !queue.Dry(q) {
			return false
		}
	}
	return true
}
