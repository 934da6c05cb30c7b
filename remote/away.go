package remote

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// awayTime is how long a client waits for the next listener, where the jobs of the last one go on without it. awayPause is between two tries.
const (
	awayTime  = 2 * time.Minute
	awayPause = 100 * time.Millisecond
)

// An outage is a time in which a client cannot reach its listener. All calls of the client share it, so it is told once, and its end, too.
type outage struct {
	mu    sync.Mutex
	since time.Time // zero: there is none
	count int       // how many have begun
}

// begun is how many outages have begun.
func (o *outage) begun() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count
}

// lost says that a call of c has lost the listener, and returns since when the listener is away. before is how many outages had begun before the call: the call was
// broken by one of those after it, which may be over.
func (o *outage) lost(c *Client, before int) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.since.IsZero() {
		return o.since
	}
	if o.count > before {
		return time.Now()
	}
	o.since = time.Now()
	o.count++
	say(c, "%s does not answer; its jobs go on, and this command waits for it for at most %v", c.address, awayTime)
	return o.since
}

// answered says that a listener has answered a call of c.
func (o *outage) answered(c *Client) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.since.IsZero() {
		o.since = time.Time{}
		say(c, "%s is there again", c.address)
	}
}

// follow makes a call that reads what a listener tells, or that may be made twice, until it has come to its end. If the listener is lost, and its jobs outlive it,
// the call is made again until a listener answers, for at most awayTime. once calls answered when it is told something, and returns why the caller wants no more
// (stop), or how the call has ended. first is false when it was made before.
func follow(ctx context.Context, c *Client, once func(first bool) (stop, err error)) error {
	for first := true; ; first = false {
		before := c.away.begun()
		stop, err := once(first)
		if stop != nil {
			return stop
		}
		lost := c.durable && lostIts(err)
		if err = c.at(err); err == nil || ctx.Err() != nil || !lost {
			if ctx.Err() == nil {
				c.away.answered(c)
			}
			return err
		}
		if time.Since(c.away.lost(c, before)) > awayTime || !sleep(ctx, awayPause) {
			return err
		}
	}
}

// asked is follow for a call with one answer.
func asked[R any](ctx context.Context, c *Client, call func() (R, error)) (answer R, err error) {
	err = follow(ctx, c, func(bool) (_, err error) {
		answer, err = call()
		return nil, err
	})
	return answer, err
}

// statusOf is Client.Status of a caller whose job outlives the listener: it waits for the next one.
func statusOf(ctx context.Context, c *Client, id string) (*job.JobStatus, error) {
	return asked(ctx, c, func() (*job.JobStatus, error) { return c.service.Status(ctx, &rpc.JobRequest{Job: id}) })
}

// lastOf is statusOf also for a caller whose context has ended: it has dialTime then.
func lastOf(ctx context.Context, c *Client, id string) (*job.JobStatus, error) {
	s, err := statusOf(ctx, c, id)
	if ctx.Err() == nil {
		return s, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTime)
	defer cancel()
	return c.Status(ctx, id)
}

// submitOnce is Client.Submit of a caller that goes on with what it has left at the listener: it waits for the next listener when one is lost. Such a job gets a name, by which it
// is found if it has begun although the answer was lost. A job that its user has named is refused then, because it may be another one of that name.
func submitOnce(ctx context.Context, c *Client, spec *JobSpec) (id string, err error) {
	if !c.durable || !spec.Fed && !spec.KeepState && spec.State == "" {
		return c.Submit(ctx, spec)
	}
	own := spec.Name == ""
	if own {
		var b [6]byte
		_, _ = rand.Read(b[:]) // it never fails
		spec.Name = "job-" + hex.EncodeToString(b[:])
	}
	err = follow(ctx, c, func(first bool) (_, err error) {
		if !first && own {
			s, err := c.service.Status(ctx, &rpc.JobRequest{Job: spec.Name})
			if id = s.GetJob(); !errors.Is(c.at(err), fault.NotFound) {
				return nil, err
			}
		}
		id, err = sendJob(ctx, c, spec)
		return nil, err
	})
	return id, err
}

// lostIts reports whether a call, of which err comes straight, has lost its listener: the connection broke, or the listener ends the stream because it goes.
func lostIts(err error) bool {
	var known *fault.Fault
	return wire.Broken(err) || !errors.As(err, &known) && errors.Is(wire.FromStatus("", err), fault.Unavailable)
}

// say tells whoever has asked for notices.
func say(c *Client, format string, args ...any) {
	if c.notice != nil {
		c.notice(fmt.Sprintf(format, args...))
	}
}
