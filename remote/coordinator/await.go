package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// waiting is a call that waits.
type waiting struct {
	who, what string
	by        func() []string // called with Server.mu held; nil: nobody in particular
	idle      string          // what is waited for while by names nobody; empty: what
	since     time.Time
	until     time.Time // when the job fails; zero: not because of this
}

// await blocks until ok, which is called with s.mu held, is true or fails, the job has ended, or ctx has. Once the job has failed it returns why:
// nobody goes on then.
func (s *Server) await(ctx context.Context, w waiting, ok func() (bool, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.since.IsZero() {
		w.since = time.Now()
	}
	s.waits[&w] = true
	defer delete(s.waits, &w)
	for {
		if s.err != nil {
			return passing(s.err)
		}
		if done, err := ok(); done || err != nil {
			return err
		}
		if s.ended {
			return fault.E(fault.Stale, fault.At("coordinator"), fault.Got("the end of the job while waiting for "+w.what))
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return gaveUp(ctx, w.what)
		}
	}
}

// passing is what a caller is told of the end of this coordinator. One that has lost its lock, or is told to end, is not the end of the job: another
// start of it will answer the same call.
func passing(err error) error {
	if errors.Is(err, fault.Fenced) || errors.Is(err, fault.Canceled) {
		return fault.E(fault.Unavailable, fault.At("coordinator"), fault.Got("the end of this coordinator"), fault.Want("the next one"),
			fault.Cause(err))
	}
	return err
}

// gaveUp is the error of a call whose context has ended.
func gaveUp(ctx context.Context, what string) error {
	kind := fault.Canceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind = fault.DeadlineExceeded
	}
	return fault.E(kind, fault.At("coordinator"), fault.Got("no end of waiting for "+what), fault.Cause(ctx.Err()))
}

// waitsNow tells what is waited for: first by the job, then by callers who do not wait for that alone. s.mu is held.
func (s *Server) waitsNow() (out []*job.Wait) {
	if s.ended || !s.ready {
		return nil
	}
	if w, ok := s.machine.Wait(); ok {
		out = append(out, &job.Wait{Who: "coordinator", What: w.What, By: w.By, Since: timestamppb.New(w.Since), Until: timestamppb.New(w.Until),
			LastError: w.LastError})
	}
	for w := range s.waits {
		if w.by == nil {
			continue
		}
		said := &job.Wait{Who: w.who, What: w.what, By: w.by(), Since: timestamppb.New(w.since)}
		if !w.until.IsZero() {
			said.Until = timestamppb.New(w.until)
		}
		if len(said.By) == 0 && w.idle != "" {
			said.What = w.idle
		}
		out = append(out, said)
	}
	return out
}

func trainerName(rank uint32) string { return fmt.Sprintf("trainer %d", rank) }
