package trainer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/remote/internal/pstest"
)

// BenchmarkSyncRound is what a sync round costs beside computing: one trainer sends the gradients of a model to two servers, declares them, and
// receives the parameters that SGD made of them. The throughput counts the model once; it moves twice.
func BenchmarkSyncRound(b *testing.B) {
	for _, megabytes := range []int64{1, 16, 256} {
		b.Run(fmt.Sprintf("%dMB", megabytes), func(b *testing.B) { benchmarkRound(b, megabytes<<20) })
	}
}

func benchmarkRound(b *testing.B, bytes int64) {
	const servers, slices = 2, 8 // of each server
	sizes := make([]int64, slices)
	for i := range sizes {
		sizes[i] = bytes / (4 * servers * slices)
	}
	c, m := &Comm{Sync: true, Deadline: time.Hour}, newModel(servers, sizes...)
	for i := range servers {
		cfg := pstest.Config(1)
		cfg.Index, cfg.Servers = i, servers
		c.Servers = append(c.Servers, pstest.Start(b, cfg, pstest.SGD(i, true, 1, sizes...)).Client)
	}
	c.BeginGeneration(pstest.Identity, 0)
	m.fill(1)
	round := uint64(0)
	b.SetBytes(bytes)
	b.ReportAllocs()
	for b.Loop() {
		c.BeginStep(ops.Step{Round: round, Rows: 1}, 0, nil)
		if err := errors.Join(m.send(b.Context(), c), c.SendBarrier(b.Context()), m.recv(b.Context(), c)); err != nil {
			b.Fatal(err)
		}
		round++
	}
	if err := m.check(-float32(round)); err != nil {
		b.Fatal(err)
	}
}
