package coordinator_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/internal/rig"
)

// BenchmarkDispatchSync measures tasks of one record in sync mode, as BenchmarkDispatch does: how many a second all trainers are given, when each
// makes b.N requests for so many at a time.
func BenchmarkDispatchSync(b *testing.B) {
	server, err := cluster.Embed(b.Context(), filepath.Join(b.TempDir(), "etcd"), nil)
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
				if err := rig.Each(trainers, func(i int) error { return d.read(i, int64(b.N)*wanted, wanted) }); err != nil {
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
	m := &rpc.GetTaskRequest{Id: id(uint32(i), 0), Dataset: "d"}
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
