package listen

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/wire"
)

// cause finds out why the job has failed, nil when it has not. When a role has ended because it missed another, that one's end tells more: it is
// waited for, no longer than lastWords.
func (c *crew) cause(err error) error {
	if err == nil || !consequence(err) {
		return c.during(err)
	}
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	for {
		for _, f := range c.failures {
			if errors.Is(f.err, fault.LostMember) {
				return c.during(f.err)
			}
		}
		if len(c.lives) == 0 {
			return c.orReported(err)
		}
		select {
		case event := <-c.events:
			c.step(event)
		case <-timer.C:
			return c.orReported(err)
		}
	}
}

// consequence reports whether an error is what a role says that misses another.
func consequence(err error) bool {
	switch fault.KindOf(err) {
	case fault.Unavailable, fault.DeadlineExceeded, fault.Stale, fault.Superseded, fault.Canceled:
		return true
	}
	return false
}

// orFailure returns why the job has failed, when err, of a call to a coordinator that is gone, may be only the consequence. A coordinator that is not
// gone after all, or whose job ends well, leaves err as it is.
func (j *Job) orFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil || !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.Canceled) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, j.spec.Lease.AsDuration()+stopGrace+registryTime)
	defer cancel()
	select {
	case <-j.done:
		if cause := wire.FaultOf(j.Status().Failure); cause != nil {
			return cause
		}
	case <-ctx.Done():
	}
	return err
}

// orReported returns what the coordinator was told, if anything: it knows who was missed.
func (c *crew) orReported(err error) error {
	c.job.mu.Lock()
	defer c.job.mu.Unlock()
	if c.job.reported != nil {
		return c.job.reported
	}
	return err
}

// during adds to a loss how far the job was.
func (c *crew) during(err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) || !errors.Is(err, fault.LostMember) {
		return err
	}
	lost := *f
	s := c.job.Status()
	if lost.Got != "" {
		lost.Got += ", "
	}
	lost.Got += fmt.Sprintf("after %d steps in pass %d", s.Steps, s.Pass)
	return &lost
}
