package remote_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/remote"
)

// noText is no UTF-8, so that no message can hold it.
const noText = "\xff"

// What cannot be sent is refused before it is, and leaves no call under way: a connection has room for a few hundred.
func TestWhatCannotBeSent(t *testing.T) {
	const more = 300
	ctx := bounded(t) // of all calls: one that is left under way stays
	m := testkit.Fed(t, optimizer.SGD(0.05))
	e := executorOf(t, listener(t), &remote.JobSpec{Trainers: 1, Pservers: 1})
	for range more {
		if _, err := e.Client().Submit(ctx, &remote.JobSpec{Name: noText}); !errors.Is(err, fault.InvalidArgument) {
			t.Fatalf("a job: %v", err)
		}
	}
	var feed executor.Feed = testkit.Batch(t, m.Program, 0, 4)
	for range more {
		if _, err := e.Run(ctx, m.Program, feed, noText); !errors.Is(err, fault.InvalidArgument) {
			t.Fatalf("a step: %v", err)
		}
	}
	if _, err := e.Run(ctx, m.Program, feed, m.Loss); err != nil {
		t.Error(err)
	}
}
