package merge_test

import (
	"fmt"
	"testing"

	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
)

// Small gradients stay in the cache of a core as a whole; large ones do not.
func BenchmarkGradients(b *testing.B) {
	for _, c := range []struct{ shares, size int }{{2, 2 << 20}, {2, 90_000}, {8, 45_000}, {8, 2 << 20}} {
		b.Run(fmt.Sprintf("%dx%d", c.shares, c.size), func(b *testing.B) {
			var shares []merge.Share
			for range c.shares {
				shares = append(shares, merge.Share{Value: of(b, make([]float32, c.size)...), Rows: 3})
			}
			dst := of(b, make([]float32, c.size)...)
			for b.Loop() {
				if err := merge.Gradients(dst, shares, ops.MergeMean); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
