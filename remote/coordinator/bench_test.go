package coordinator_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
)

// BenchmarkDispatch measures tasks given a second, each reported finished with the request for the next, over gRPC on loopback, with durable queues
// in an etcd server of this process.
func BenchmarkDispatch(b *testing.B) {
	server, err := cluster.Embed(b.Context(), filepath.Join(b.TempDir(), "etcd"), nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	for _, tasks := range []int64{1e3, 1e5, 1e6} {
		for _, trainers := range []int{1, 10, 100, 1000} {
			b.Run(fmt.Sprintf("tasks=%d/trainers=%d", tasks, trainers), func(b *testing.B) {
				if testing.Short() && tasks > 1e3 {
					b.Skip("many tasks")
				}
				d := newDispatch(b, server, tasks, trainers, false)
				defer d.stop()
				b.ResetTimer()
				began := time.Now()
				d.take(int64(b.N))
				b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "tasks/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// dispatch is a job whose trainers do nothing but ask for tasks. It has as many passes as the benchmark takes.
type dispatch struct {
	b       *testing.B
	clients []rpc.CoordinatorClient
	numbers []uint64
	passes  []int32
	last    [][]*rpc.Task
	stop    func()
}

func newDispatch(b *testing.B, server *cluster.Embedded, tasks int64, trainers int, sync bool) *dispatch {
	registry, err := cluster.Open(b.Context(), cluster.Config{Endpoints: server.Endpoints(),
		Prefix: cluster.Prefix(fmt.Sprintf("bench-%d-%d-%d", tasks, trainers, time.Now().UnixNano())), Lease: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	member, err := registry.LeadCoordinator(b.Context(), "here")
	if err != nil {
		b.Fatal(err)
	}
	cfg := config(trainers)
	cfg.Sync, cfg.RecordsPerTask, cfg.Passes, cfg.Servers = sync, 1, 1<<30, []rpc.ParameterServerClient{&fakeServer{}}
	s := coordinator.New(cfg)
	service := wire.NewServer(nil)
	rpc.RegisterCoordinatorServer(service, s)
	address := pstest.Serve(b, service).Target()[len("passthrough:///"):]
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, coordinator.Lead{Fence: member.Fence(), State: registry.State(member)}) }()
	d := &dispatch{b: b, numbers: make([]uint64, trainers), passes: make([]int32, trainers), last: make([][]*rpc.Task, trainers)}
	var hangUp []func() error
	for range min(trainers, 32) {
		conn, err := wire.Dial(address, nil)
		if err != nil {
			b.Fatal(err)
		}
		hangUp = append(hangUp, conn.Close)
		d.clients = append(d.clients, rpc.NewCoordinatorClient(conn))
	}
	d.stop = func() {
		b.StopTimer()
		for _, f := range hangUp {
			_ = f()
		}
		cancel()
		<-ended
		_ = registry.Close()
	}
	if err := pstest.Parallel(trainers, func(i int) error {
		_, err := d.client(i).Join(ctx, &rpc.JoinRequest{Id: idOf(0, uint32(i), 0), Incarnation: 1})
		return err
	}); err != nil {
		b.Fatal(err)
	}
	if err := wire.ReportDataset(ctx, d.client(0), &rpc.ReportDatasetRequest{Id: firstID(0, 0),
		Dataset: &rpc.Dataset{Name: "d", Files: filesOf(tasks)}}); err != nil {
		b.Fatal(err)
	}
	return d
}

func (d *dispatch) client(i int) rpc.CoordinatorClient { return d.clients[i%len(d.clients)] }

// take takes n tasks by all trainers together.
func (d *dispatch) take(n int64) {
	var taken atomic.Int64
	var all sync.WaitGroup
	for i := range d.numbers {
		all.Go(func() {
			for taken.Add(1) <= n {
				if err := d.one(i); err != nil {
					d.b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func (d *dispatch) one(i int) error {
	for {
		r, err := d.client(i).GetTask(d.b.Context(), &rpc.GetTaskRequest{Id: firstID(uint32(i), d.numbers[i]), Dataset: "d", Pass: d.passes[i],
			Finished: d.last[i]})
		if err != nil {
			return err
		}
		d.numbers[i]++
		d.last[i] = nil
		switch {
		case r.EndOfData:
			return fault.New(fault.Internal, "no more data")
		case r.EndOfPass:
			d.passes[i]++
		case r.Task != nil:
			d.last[i] = []*rpc.Task{r.Task}
			return nil
		}
	}
}

// BenchmarkDispatchSync measures tasks of one record in sync mode, as BenchmarkDispatch does: how many a second all trainers are given, when each
// makes b.N requests for so many at a time.
func BenchmarkDispatchSync(b *testing.B) {
	server, err := cluster.Embed(b.Context(), filepath.Join(b.TempDir(), "etcd"), nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	for _, wanted := range []int64{1, 16, 256} {
		for _, trainers := range []int{1, 10} {
			b.Run(fmt.Sprintf("wanted=%d/trainers=%d", wanted, trainers), func(b *testing.B) {
				d := newDispatch(b, server, 1e6, trainers, true)
				defer d.stop()
				b.ResetTimer()
				began := time.Now()
				if err := pstest.Parallel(trainers, func(i int) error { return d.read(i, int64(b.N)*wanted, wanted) }); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(b.N)*float64(wanted)/time.Since(began).Seconds(), "tasks/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// read takes the first n tasks of passes as one trainer.
func (d *dispatch) read(i int, n, wanted int64) error {
	m := &rpc.GetTaskRequest{Id: firstID(uint32(i), 0), Dataset: "d"}
	for left := n; left > 0; {
		m.Records = min(wanted, left)
		r, err := d.client(i).GetTask(d.b.Context(), m)
		switch {
		case err != nil:
			return err
		case r.EndOfPass:
			m.Id.Round++
			m.Pass, m.Position, m.Finished = m.Pass+1, 0, nil
			continue
		case r.Task == nil:
			return fault.New(fault.Internal, "no task")
		}
		last := append([]*rpc.Task{r.Task}, r.Next...)[len(r.Next)]
		left -= 1 + int64(len(r.Next))
		m.Position, m.Finished = last.Records[0].To, []*rpc.Task{last}
	}
	return nil
}
