package cluster

import (
	"fmt"
	"path/filepath"
	"testing"
)

// BenchmarkCommit measures one commit of a coordinator: with an embedded server, with a server that syncs to disk, and in memory.
func BenchmarkCommit(b *testing.B) {
	for name, synced := range map[string]bool{"embedded": false, "synced": true} {
		b.Run(name, func(b *testing.B) {
			server, err := start(b.Context(), "127.0.0.1", filepath.Join(b.TempDir(), "etcd"), nil, nil, synced)
			if err != nil {
				b.Fatal(err)
			}
			defer server.Close()
			benchmarkCommit(b, func() (Registry, error) {
				return Open(b.Context(), Config{Endpoints: server.Endpoints(), Prefix: Prefix("bench")})
			})
		})
	}
	b.Run("memory", func(b *testing.B) {
		memory := NewMemory()
		benchmarkCommit(b, func() (Registry, error) { return memory.Open(Prefix("bench")) })
	})
}

func benchmarkCommit(b *testing.B, open func() (Registry, error)) {
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprint("changes=", n), func(b *testing.B) {
			r, err := open()
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			leader, err := r.LeadCoordinator(b.Context(), "host:1")
			if err != nil {
				b.Fatal(err)
			}
			s := r.State(leader)
			changes := make([]Change, n)
			for i := 0; b.Loop(); i++ {
				for j := range changes {
					changes[j] = Change{fmt.Sprintf("images/pending/%d", (i*n+j)%10_000), make([]byte, 64)}
				}
				if err := s.Commit(b.Context(), changes); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "changes/s")
		})
	}
}
