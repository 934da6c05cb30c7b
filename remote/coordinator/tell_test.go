package coordinator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/internal/rig"
)

// While the values of a step are merged, which takes long when they are large, others are answered; what they report is told afterwards.
func TestTasksWhileValuesAreMerged(t *testing.T) {
	for _, sync := range []bool{true, false} {
		t.Run(fmt.Sprintf("sync %v", sync), func(t *testing.T) {
			cfg := config(2)
			cfg.Sync = sync
			merge, merging, merged := cfg.Merge, make(chan struct{}, 10), make(chan struct{})
			cfg.Merge = func(reports []*rpc.TrainerStep) ([]*job.Value, error) {
				merging <- struct{}{}
				<-merged
				return merge(reports)
			}
			s := start(t, cfg)
			s.joinAll(0, 0, 1)
			s.reportDataset(t, 30)
			ends := make(chan error, 6)
			report := func(round uint64) {
				for rank := range uint32(2) {
					go func() { ends <- s.report(t.Context(), half(1, rank, round)) }()
				}
			}
			report(0)
			<-merging
			report(1)
			report(2)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := s.client.GetTask(ctx, &rpc.GetTaskRequest{Id: id(0, 0), Dataset: "d"}); err != nil {
				t.Error(err)
			}
			close(merged)
			for range cap(ends) {
				if err := <-ends; err != nil {
					t.Error(err)
				}
			}
			if err := rig.Each(2, func(rank int) error { return s.leave(t.Context(), uint32(rank)) }); err != nil {
				t.Fatal(err)
			}
			steps, _, err := s.watch(t.Context())
			if err != nil || len(steps) == 0 {
				t.Fatal(steps, err)
			}
			for i, step := range steps {
				if step.Step != uint64(i) || sync && string(step.Fetched[0].Stream) != strings.ReplaceAll("0.N 1.N ", "N", fmt.Sprint(i)) {
					t.Errorf("step %d is %v", i, step)
				}
			}
			if sync && len(steps) != 3 {
				t.Errorf("%d steps", len(steps))
			}
		})
	}
}
