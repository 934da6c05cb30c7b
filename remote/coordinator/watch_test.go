package coordinator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/pstest"
)

// Steps come to every watcher from the first on, in order, whenever it comes, and reports that are repeated count once.
func TestWatch(t *testing.T) {
	for _, sync := range []bool{true, false} {
		cfg := config(2)
		cfg.Sync = sync
		s := start(t, cfg)
		s.joinAll(0, 0, 1)
		const steps = 5
		type seen struct {
			steps []*job.Step
			last  *job.JobStatus
			err   error
		}
		early := make(chan seen, 1)
		go func() {
			var w seen
			w.steps, w.last, w.err = s.watch(t.Context())
			early <- w
		}()
		if err := pstest.Parallel(2, func(rank int) error {
			for round := range uint64(steps) {
				m := &rpc.TrainerStep{Id: firstID(uint32(rank), round), Pass: 1, Rows: int64(rank + 1), GlobalRows: 3,
					Fetched: []*job.Value{{Name: "y", Stream: fmt.Appendf(nil, "%d.%d ", rank, round)}}}
				for range 2 {
					if err := s.report(t.Context(), m); err != nil {
						return err
					}
				}
			}
			return s.leave(t.Context(), uint32(rank))
		}); err != nil {
			t.Fatal(err)
		}
		if err := <-s.ended; err != nil {
			t.Fatal(err)
		}
		select {
		case <-s.Heard():
		case <-t.Context().Done():
			t.Fatal("nobody has heard the end")
		}
		var late seen
		late.steps, late.last, late.err = s.watch(t.Context())
		for when, w := range map[string]seen{"early": <-early, "late": late} {
			want := steps
			if !sync {
				want = 2 * steps
			}
			if w.err != nil || len(w.steps) != want || w.last.GetState() != job.State_SUCCEEDED {
				t.Errorf("sync %v, %s: %d steps, %v, %v", sync, when, len(w.steps), w.last, w.err)
			}
			for i, step := range w.steps {
				if step.Step != uint64(i) || step.Pass != 1 {
					t.Errorf("sync %v, %s: step %d is number %d of pass %d", sync, when, i, step.Step, step.Pass)
				}
				if want := fmt.Sprintf("0.%d 1.%d ", i, i); sync && (string(step.Fetched[0].Stream) != want || step.Rows != 3) {
					t.Errorf("%s: step %d of %d rows is %s, want %s", when, i, step.Rows, step.Fetched[0].Stream, want)
				}
			}
		}
	}
}

// What cannot be merged ends the job, and is no step.
func TestReportThatCannotBeMerged(t *testing.T) {
	for _, sync := range []bool{true, false} {
		cfg := config(1)
		cfg.Sync = sync
		s := start(t, cfg)
		err := s.report(t.Context(), &rpc.TrainerStep{Id: firstID(0, 0), Rows: 1, GlobalRows: 1, Fetched: []*job.Value{{Name: "y", Stream: []byte("broken")}}})
		if err == nil || !strings.Contains(err.Error(), "cannot be merged") {
			t.Error(err)
		}
		if steps, last, err := s.watch(t.Context()); err != nil || len(steps) != 0 || last.GetState() != job.State_FAILED {
			t.Error(steps, last, err)
		}
	}
}
