package plan

import (
	"context"
	"testing"
	"time"

	"github.com/edl-go/edl/ops/kernel"
)

// A trial keeps to the faster way, tries the other ever more rarely, and changes over when that has become the faster one.
func TestTrialsFollowTheFasterWay(t *testing.T) {
	tr := &trial{stretch: firstStretch}
	shared, alone := 60*time.Microsecond, 100*time.Microsecond
	run := func(n int) (slow int) {
		for range n {
			took := shared
			if tr.runsAlone() {
				took = alone
			}
			if took > min(shared, alone) {
				slow++
			}
			tr.add(took)
		}
		return slow
	}
	if run(20_000); tr.alone {
		t.Error("alone, which is slower")
	}
	if slow := run(20_000); slow > 20_000/400 {
		t.Errorf("%d of 20000 runs were slow", slow)
	}
	shared = 300 * time.Microsecond // the second core is busy
	if run(2 * longStretch); !tr.alone || tr.runsAlone() == tr.otherWay() {
		t.Error("shared, which has become slower")
	}
	shared = 99 * time.Microsecond
	if run(20_000); !tr.alone {
		t.Error("changed over for a gain within noise")
	}
	shared = 50 * time.Microsecond
	if run(2 * longStretch); tr.alone {
		t.Error("alone, which has become slower")
	}
}

// One run that another process disturbs decides nothing.
func TestTrialsOverlookSingleRuns(t *testing.T) {
	tr := &trial{stretch: firstStretch}
	for i := range 10_000 {
		took := 60 * time.Microsecond
		if tr.runsAlone() {
			took = 100 * time.Microsecond
		}
		if i%4 == 0 {
			took = 3 * time.Millisecond
		}
		if tr.add(took); tr.alone {
			t.Fatalf("changed over after run %d", i)
		}
	}
}

func TestPlansAreTriedWhereGainsAreUncertain(t *testing.T) {
	const grain = 2 * time.Microsecond
	middle := int64(64)
	if !kernel.Vectorized() {
		middle = 1
	}
	for batch, tried := range map[int64]bool{middle: true, 4096: false} {
		if p := compiledFor(t, batch, 2, grain); (p.trial != nil) != tried {
			t.Errorf("batch of %d: tried: %v", batch, !tried)
		}
	}
	if p := compiledFor(t, middle, 2, 0); p.trial != nil {
		t.Error("a plan that is to be divided wherever it can be is tried")
	}
	p, pool := compiledFor(t, middle, 2, grain), NewPool(2)
	defer pool.Close()
	for range 2 * firstStretch {
		if err := p.Run(context.Background(), pool); err != nil {
			t.Fatal(err)
		}
	}
	if p.trial.run == 0 {
		t.Error("runs do not count")
	}
}
