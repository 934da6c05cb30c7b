package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/waits"
)

// core is what all parts of a Server share: the configuration, the monitor, and the start and the end of the job. A comment "the monitor is held" at a
// function says that its caller holds core.monitor.
type core struct {
	cfg   Config
	epoch time.Time      // of the times of queues
	led   chan struct{}  // closed when lead is known
	done  chan struct{}  // closed when the job has ended
	tasks sync.WaitGroup // goroutines of Run
	heard chan struct{}  // closed when somebody has been told everything up to the end of the job
	told  chan struct{}  // has a token when somebody has been told the last queues

	// monitor guards the state of every part, and what follows here. Whoever changes what a call may wait for calls Broadcast.
	monitor waits.Monitor
	lead    Lead
	ctx     context.Context // of Run
	ready   bool            // what is durable has been read
	ended   bool
	err     error // why the job has failed
	// goesBack is set while the job goes back to a checkpoint. Nothing that trainers say counts any more at this coordinator.
	goesBack bool
	// awaitsStep counts who waits for the end of a step. While nobody does, nobody is woken by it.
	awaitsStep int
}

// await blocks until ok returns true or an error, the job has ended, or ctx has. Once the job has failed it returns why: nobody goes on then. ok and
// reason are called with the monitor held.
func (c *core) await(ctx context.Context, reason func() waits.Wait, ok func() (bool, error)) error {
	return c.monitor.Await(ctx, reason, ok)
}

// waitFor is a wait for nobody in particular. Only errors tell of it.
func waitFor(who, what string) func() waits.Wait {
	return func() waits.Wait { return waits.Wait{Who: who, What: what, Unlisted: true} }
}

// Fail ends the job with err. Only the first call counts; later ones, and calls after the end, change nothing.
func (c *core) Fail(err error) { c.locked(func() { c.finish(err) }) }

// finish ends the job; err is why it has failed, nil if it has not. Only the first call counts. The monitor is held.
func (c *core) finish(err error) {
	if c.ended {
		return
	}
	c.ended, c.err = true, err
	close(c.done)
	c.monitor.End(asUnavailable(err))
}

// Heard is closed when somebody has been told everything up to the end of the job. Whoever serves this coordinator should go on doing so for a while
// until then: a job may be over before its listener has found it.
func (c *core) Heard() <-chan struct{} { return c.heard }

// Told has a token when somebody has been told the last queues. Whoever serves this coordinator should go on doing so for a moment until then, too.
func (c *core) Told() <-chan struct{} { return c.told }

// whyEnded is the error of a call that comes after the end of the job. The monitor is held.
func (c *core) whyEnded() error {
	if err := c.monitor.Err(); err != nil {
		return err
	}
	return fault.E(fault.Stale, fault.At("coordinator"), fault.Got("a request after the end of the job"))
}

// endedWell reports whether the job has ended without a failure.
func (c *core) endedWell() (well bool) {
	c.locked(func() { well = c.ended && c.err == nil })
	return well
}

// asUnavailable is what a caller is told of the end of this coordinator. A coordinator that has lost its lock, or is told to end, is not the end of the
// job: the next one will answer the same call.
func asUnavailable(err error) error {
	if errors.Is(err, fault.Fenced) || errors.Is(err, fault.Canceled) {
		return fault.E(fault.Unavailable, fault.At("coordinator"), fault.Got("the end of this coordinator"), fault.Want("the next one"),
			fault.Cause(err))
	}
	return err
}

// gaveUp is the error of a call whose context has ended.
func gaveUp(ctx context.Context, what string) error {
	return waits.GaveUp(ctx, "coordinator", waits.Wait{What: what})
}

// locked changes what the monitor guards.
func (c *core) locked(change func()) {
	c.monitor.Lock()
	defer c.monitor.Unlock()
	change()
}

// spawn runs f until the job ends; f must end with c.ctx. The monitor is held.
func (c *core) spawn(f func()) {
	if !c.ended {
		c.tasks.Go(f)
	}
}

// now is the time argument of the queues.
func (c *core) now() time.Duration { return time.Since(c.epoch) }

// sleep returns true after d, and false when the job ends first.
func (c *core) sleep(d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.done:
		return false
	}
}

// alarm waits until the time that next returns, which is called with the monitor held and again after every change; a zero time is never. It returns
// false when the job ends first.
func (c *core) alarm(next func() time.Time) bool {
	var at time.Time
	reason := func() waits.Wait { return waits.Wait{What: "the next deadline", Until: at, Unlisted: true} }
	err := c.await(c.ctx, reason, func() (bool, error) {
		if c.ended {
			return false, nil
		}
		at = next()
		return !at.IsZero() && !time.Now().Before(at), nil
	})
	c.monitor.Lock()
	defer c.monitor.Unlock()
	return !c.ended && (err == nil || errors.Is(err, fault.DeadlineExceeded))
}

// checkJob refuses a question about another job.
func (c *core) checkJob(id string) error {
	if id != c.cfg.Identity.Job {
		return fault.E(fault.Foreign, fault.Got("job "+fault.Quote(id)), fault.Want("job "+c.cfg.Identity.Job))
	}
	return nil
}

// identity is that of a message of this coordinator about a generation.
func (c *core) identity(number id.Generation, retry id.Retry) *rpc.Identity {
	own := c.cfg.Identity
	own.Generation, own.Fence = number, c.lead.Fence
	return own.Of(0, 0, retry)
}

func trainerName[R ~uint32](rank R) string { return fmt.Sprintf("trainer %d", uint32(rank)) }

func serverName(i int) string { return fmt.Sprintf("pserver %d", i) }

func trainerMember(rank id.Rank) cluster.Member {
	return cluster.Member{Role: job.Role_TRAINER, Index: int(rank)}
}

// noMember is the error of a message from a process that is no member of the generation that trains now.
func noMember(kind fault.Kind, id *rpc.Identity, want string) error {
	return fault.E(kind, fault.At("coordinator"), fault.Gotf("trainer %d of generation %d", id.Rank, id.Generation), fault.Want(want))
}
