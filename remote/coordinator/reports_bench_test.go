package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/remote/wire"
)

// BenchmarkReports measures what a step of a sync job costs its coordinator: all trainers report a value of it over gRPC on loopback, with so many steps
// in each message, and one watcher reads the steps. The CPU time is that of both sides of these calls.
func BenchmarkReports(b *testing.B) {
	for _, trainers := range []int{2, 8, 64} {
		for _, batch := range []int{1, 10} {
			b.Run(fmt.Sprintf("trainers=%d/batch=%d", trainers, batch), func(b *testing.B) { benchReports(b, trainers, batch) })
		}
	}
}

func benchReports(b *testing.B, trainers, batch int) {
	cfg := config(trainers)
	if batch > 1 {
		cfg.TellEvery = 20 * time.Millisecond
	}
	client, end := begin(b, cfg)
	defer end()
	before := cpuTime()
	var all sync.WaitGroup
	all.Go(func() { watchSteps(b, client, b.N) })
	for rank := range uint32(trainers) {
		all.Go(func() {
			for first := 0; first < b.N; first += batch {
				m := &rpc.TrainerSteps{Id: firstID(rank, uint64(first))}
				for round := first; round < min(first+batch, b.N); round++ {
					m.Steps = append(m.Steps, &rpc.TrainerStep{Id: &rpc.Identity{Round: uint64(round)}, Rows: 4, GlobalRows: int64(4 * trainers),
						Trainers: uint32(trainers), Fetched: []*job.Value{{Name: "loss", Stream: make([]byte, 40)}}})
				}
				if err := wire.ReportSteps(b.Context(), client, m); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric((cpuTime()-before).Seconds()*1e6/float64(b.N), "cpu-us/step")
	b.ReportMetric(0, "ns/op")
}

// begin starts a coordinator, whose trainers have all joined.
func begin(b *testing.B, cfg coordinator.Config) (client rpc.CoordinatorClient, end func()) {
	cfg.Servers = []rpc.ParameterServerClient{&fakeServer{}}
	s, ended := coordinator.New(cfg), make(chan error, 1)
	lead := newStore().lead()
	go func() { ended <- s.Run(b.Context(), lead) }()
	service := wire.NewServer(nil)
	rpc.RegisterCoordinatorServer(service, s)
	client = rpc.NewCoordinatorClient(pstest.Serve(b, service))
	if err := pstest.Parallel(cfg.Trainers, func(rank int) error {
		_, err := client.Join(b.Context(), &rpc.JoinRequest{Id: idOf(0, uint32(rank), 0), Incarnation: 1})
		return err
	}); err != nil {
		b.Fatal(err)
	}
	return client, func() {
		s.Fail(errors.New("the benchmark ends"))
		<-ended
	}
}

// BenchmarkTasks measures what tasks cost the coordinator of a sync job: all trainers ask over gRPC on loopback for the tasks of 16 rounds at a time, of
// one task each. The store is in memory.
func BenchmarkTasks(b *testing.B) {
	for _, trainers := range []int{2, 8, 64} {
		b.Run(fmt.Sprintf("trainers=%d", trainers), func(b *testing.B) {
			client, end := begin(b, config(trainers))
			defer end()
			records := int64(10 * (b.N + 16))
			if err := wire.ReportDataset(b.Context(), client, &rpc.ReportDatasetRequest{Id: firstID(0, 0),
				Dataset: &rpc.Dataset{Name: "d", Files: filesOf(records)}}); err != nil {
				b.Fatal(err)
			}
			before := cpuTime()
			if err := pstest.Parallel(trainers, func(rank int) error {
				m := &rpc.GetTaskRequest{Id: firstID(uint32(rank), 0), Dataset: "d", Records: 160, Wait: true}
				for m.Position < int64(10*b.N) {
					r, err := client.GetTask(b.Context(), m)
					if err != nil {
						return err
					}
					last := append([]*rpc.Task{r.Task}, r.Next...)[len(r.Next)]
					m.Position, m.Finished = last.Records[0].To, []*rpc.Task{last}
				}
				return nil
			}); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric((cpuTime()-before).Seconds()*1e6/float64(b.N), "cpu-us/step")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// watchSteps reads events until there are so many.
func watchSteps(b *testing.B, client rpc.CoordinatorClient, steps int) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	stream, err := client.Watch(ctx, &rpc.WatchRequest{Job: pstest.Identity.Job})
	for seen := 0; err == nil && seen < steps; {
		var m *rpc.WatchResponse
		if m, err = stream.Recv(); err == nil {
			seen += len(m.Events)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.Error(err)
	}
}

// cpuTime is the time that this process has computed.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
