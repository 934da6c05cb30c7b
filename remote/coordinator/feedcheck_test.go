package coordinator_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

func TestFeedRefuses(t *testing.T) {
	session(t, 1, true, func(s running) error {
		for i := range uint64(3) {
			if _, err := s.feed(t.Context(), &rpc.StepRun{Step: i, Feed: []*job.Value{batch(2)}}); err != nil {
				return err
			}
		}
		if _, err := s.feed(t.Context(), &rpc.StepRun{Step: 2, Feed: []*job.Value{batch(2)}}); err != nil {
			t.Errorf("the last step again: %v", err)
		}
		for name, c := range map[string]struct {
			run  *rpc.StepRun
			kind fault.Kind
		}{
			"a step to come":      {&rpc.StepRun{Step: 4, Feed: []*job.Value{batch(2)}}, fault.InvalidArgument},
			"a step long past":    {&rpc.StepRun{Step: 0, Feed: []*job.Value{batch(2)}}, fault.Stale},
			"an unknown variable": {&rpc.StepRun{Step: 3, Feed: []*job.Value{constant("z")}}, fault.NotFound},
			"half a tensor":       {&rpc.StepRun{Step: 3, Feed: []*job.Value{{Name: "x", Stream: []byte{1}}}}, fault.Corrupt},
			"bytes behind":        {&rpc.StepRun{Step: 3, Feed: []*job.Value{{Name: "x", Stream: append(batch(1).Stream, 0)}}}, fault.Corrupt},
			"a variable twice":    {&rpc.StepRun{Step: 3, Feed: []*job.Value{batch(2), batch(2)}}, fault.InvalidArgument},
			"other rows":          {&rpc.StepRun{Step: 3, Feed: []*job.Value{batch(2), {Name: "label", Stream: batch(3).Stream}}}, fault.ShapeMismatch},
		} {
			if _, err := s.feed(t.Context(), c.run); fault.KindOf(err) != c.kind {
				t.Errorf("%s: got %v, want %v", name, err, c.kind)
			}
		}
		for n, kind := range map[uint64]fault.Kind{9: fault.InvalidArgument, 0: fault.Stale} {
			if _, err := s.nextFeed(t.Context(), 0, n); !errors.Is(err, kind) {
				t.Errorf("share %d: got %v, want %v", n, err, kind)
			}
		}
		if _, err := s.client.CloseFeed(t.Context(), &rpc.CloseFeedRequest{Id: id(0, 0)}); err != nil {
			return err
		}
		if _, err := s.feed(t.Context(), &rpc.StepRun{Step: 3, Feed: []*job.Value{batch(2)}}); !errors.Is(err, fault.InvalidArgument) &&
			!errors.Is(err, fault.Stale) {
			t.Errorf("a feed after the end: %v", err)
		}
		return nil
	})
}
