package trainer

import (
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/internal/pstest"
)

// While one trainer is slow, the others go on until they are too far ahead. Then they wait, which server 0 lists with the name of the slow one, and all end
// when it does. Each record is trained once.
func TestTrainersWaitForTheSlowest(t *testing.T) {
	overEach(t, func(t *testing.T, transport string) {
		l := lawCase{model: testkit.Reading(t, 5, optimizer.SGD(0.05)), data: testkit.Samples(t, t.TempDir(), 300), records: 300, passes: 2}
		lead := int32(2)
		spec := &job.JobSpec{Trainers: 3, Pservers: 2, Mode: job.Mode_ASYNC, Save: t.TempDir(), Fetch: []string{l.model.Loss}, Staleness: &lead}
		c := newTestJob(t, l.model, l.data, spec, queue.Policy{Passes: 2, RecordsPerTask: 10, MaxFailures: 3})
		c.over = transport
		ctx := bounded(t)
		var slow atomic.Bool
		steps := [3]atomic.Int64{} // whose declaration was begun
		held := make(chan error, 1)
		c.call = func(rank uint32, server int, when string, round uint64) {
			if server != 0 || when != "before barrier" && when != "before writing declare" {
				return
			}
			for rank != 1 && steps[1].Load() == 0 && ctx.Err() == nil { // all take part from the beginning
				runtime.Gosched()
			}
			if steps[rank].Add(1) < 4 || rank != 1 || !slow.CompareAndSwap(false, true) {
				return
			}
			var others []string
			for len(others) < 2 && ctx.Err() == nil { // it stands still until both others wait for it
				runtime.Gosched()
				s, err := c.servers[0].Status(ctx, &rpc.StatusRequest{Job: pstest.Identity.Job})
				if err != nil {
					held <- err
					return
				}
				others = nil
				for _, w := range s.Waits {
					if strings.Contains(w.What, "is 3 pushes ahead, and may be 2") && len(w.By) == 1 && w.By[0] == "trainer 1" {
						others = append(others, w.What)
					}
				}
			}
			held <- ctx.Err()
		}
		if err := errors.Join(c.train(ctx, 3), <-held); err != nil {
			t.Fatal(err)
		}
		l.checkLedger(t, c, 0)
		l.checkReports(t, c, true)
	})
}
