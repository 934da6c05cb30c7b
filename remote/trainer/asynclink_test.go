package trainer

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/internal/pstest"
)

// An async job of one trainer computes the bits of one machine, and trains each record once, over every transport, however its connections break.
func TestLawOfOneAsyncTrainer(t *testing.T) {
	overEach(t, func(t *testing.T, transport string) {
		for _, every := range []int{0, 61, 97} {
			l := lawCase{model: testkit.Reading(t, 5, optimizer.Momentum(0.05, 0.9)), data: testkit.Samples(t, t.TempDir(), 48), records: 48, passes: 2}
			spec := &job.JobSpec{Trainers: 1, Pservers: 2, Mode: job.Mode_ASYNC, Save: t.TempDir(), Fetch: []string{l.model.Loss}}
			c := newTestJob(t, l.model, l.data, spec, queue.Policy{Passes: l.passes, RecordsPerTask: 48, MaxFailures: 3})
			var mu sync.Mutex
			calls := 0
			c.over, c.cut = transport, func() bool {
				mu.Lock()
				defer mu.Unlock()
				calls++
				return every > 0 && calls%every == 0
			}
			local := executor.New()
			defer local.Close()
			if _, err := local.Train(bounded(t), l.model.Program, executor.TrainOptions{Data: l.data, Passes: l.passes}, nil); err != nil {
				t.Fatal(err)
			}
			if err := c.train(bounded(t), 1); err != nil {
				t.Fatal(err)
			}
			if err := testkit.Difference(testkit.Saved(t, spec.Save, l.model.Program), testkit.Persistables(local.Scope(), l.model.Program)); err != nil {
				t.Errorf("cut at every %dth call: %v", every, err)
			}
			l.checkLedger(t, c, 0)
			l.checkReports(t, c, true)
			if transport != "grpc" && calls < 100 {
				t.Errorf("only %d reads and writes of data connections", calls)
			}
		}
	})
}

// The first Send of an async step waits until the step before is in the ledger, and no step follows one that is not.
func TestAsyncSendsAwaitTheLedger(t *testing.T) {
	overEach(t, func(t *testing.T, transport string) {
		ctx := t.Context()
		list := servers(t, 2, 1, false, 4)
		c, m := commOf(0, false, list...), newModel(2, 4)
		if err := openOver(ctx, c, transport, 1); err != nil {
			t.Fatal(err)
		}
		defer c.Abort()
		for step := range uint64(4) {
			rows := int64(1)
			if step == 2 {
				rows = -1 // the server refuses it
			}
			c.BeginStep(ops.Step{Round: step, Rows: rows}, 0, []ranges.Range{{From: int64(step), To: int64(step) + 1}})
			m.fill(1)
			err := m.send(ctx, c)
			if step == 3 {
				if !errors.Is(err, fault.InvalidArgument) {
					t.Errorf("the step after one that is in no ledger sends, and is told %v", err)
				}
				break
			}
			if err := errors.Join(err, m.recv(ctx, c), m.check(-float32(step+1))); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		}
		for i, s := range list {
			if w, _, err := (pstest.Trainer{Client: s.Client}).GetAs(ctx, &rpc.GetRequest{Id: pstest.Trainer{}.ID(0), Name: "w0", AnyVersion: true}, 4); err != nil ||
				w.Float32s()[0] != -3 {
				t.Errorf("server %d has %v, %v", i, w, err)
			}
		}
	})
}

// A server that holds no slices has a data connection, too: nobody falls back to calls for want of something to share.
func TestServerWithoutSlices(t *testing.T) {
	for _, transport := range []string{"auto", "shm", "unix", "tcp"} {
		for _, sync := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, sync %v", transport, sync), func(t *testing.T) {
				ctx := t.Context()
				var list []*pstest.Server
				for i, sizes := range [][]int64{nil, {3}} {
					cfg := pstest.WithData(t, pstest.Config(1))
					cfg.Index, cfg.Servers = i, 2
					list = append(list, pstest.Start(t, cfg, pstest.SGD(i, sync, 1, sizes...)))
				}
				c, m := commOf(0, sync, list...), newModel(2, 3)
				m.params[0], m.grads[0] = nil, nil
				c.Log, c.Data = slog.New(slog.DiscardHandler), &dataplane.Dialer{Carrier: carriers[transport]}
				p := trafficProgram(2, 1)
				p.Global().Ops = p.Global().Ops[2:] // those of server 1
				var err error
				if c.links, err = openLinks(ctx, c, p); err != nil || slices.Contains(c.links, nil) {
					t.Fatalf("links %v, %v", c.links, err)
				}
				defer c.Abort()
				for round := range uint64(3) {
					c.BeginStep(ops.Step{Round: round, Rows: 1}, 0, nil)
					m.fill(1)
					if err := errors.Join(m.send(ctx, c), c.SendBarrier(ctx), m.recv(ctx, c), m.check(-float32(round+1))); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.Complete(ctx); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
