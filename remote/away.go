package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/wire"
)

// awayTime is how long a client waits for the next listener, where the jobs of the last one go on without it. awayPause is between two tries.
const (
	awayTime  = 2 * time.Minute
	awayPause = 100 * time.Millisecond
)

// follow makes a call that reads what a listener tells, or that may be made twice, until it has come to its end. If the listener is lost, and its jobs outlive it,
// the call is made again until a listener answers, for at most awayTime. once reports whether it was told anything, and returns why the caller wants no more
// (stop), or how the call has ended. first is false when it was made before.
func follow(ctx context.Context, c *Client, once func(first bool) (heard bool, stop, err error)) error {
	var since time.Time // when the listener was lost; zero while it is there
	for first := true; ; first = false {
		heard, stop, err := once(first)
		if heard && !since.IsZero() {
			say(c, "%s is there again", c.address)
		}
		if heard {
			since = time.Time{}
		}
		if stop != nil {
			return stop
		}
		lost := c.durable && lostIts(err)
		if err = c.at(err); err == nil || ctx.Err() != nil || !lost {
			return err
		}
		switch {
		case since.IsZero():
			since = time.Now()
			goOn := "its jobs go on"
			if c.behind.Load() {
				goOn = "the job ends with it, because it is fed, or keeps its state"
			}
			say(c, "%s does not answer; %s, and this command waits for it for at most %v", c.address, goOn, awayTime)
		case time.Since(since) > awayTime:
			return err
		}
		if !sleep(ctx, awayPause) {
			return err
		}
	}
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
