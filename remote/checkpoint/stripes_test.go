package checkpoint

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/tensor"
)

// A variable that servers keep in the order of stripes is read in either order, and so is one that they keep in its own. Changes are in the order of their base.
func TestStripedVariables(t *testing.T) {
	const rows, width = 300_001, 2 // more than are read at once
	stripes, whole, ordered := kernel.StripesOf(rows), numbers(t, 0, rows, width), numbers(t, 0, rows, width)
	for i := range int64(rows) {
		copy(ordered.Float32s()[i*width:][:width], whole.Float32s()[stripes.Row(i)*width:][:width])
	}
	for name, s := range stores(t) {
		for _, striped := range []bool{false, true} {
			written := whole
			if striped {
				written = ordered
			}
			ctx, m := t.Context(), &state.Checkpoint{Job: "digits", Progress: &job.Progress{Reader: "abc"}}
			k := NewName("digits-1", 1)
			for i, cut := range [][2]int64{{0, 100_000}, {100_000, rows}} {
				piece, err := written.Rows(cut[0], cut[1])
				if err != nil {
					t.Fatal(err)
				}
				shard, err := s.WriteShard(ctx, k, i, []Piece{{"w", []int64{rows, width}, cut[0], cut[1] - cut[0], piece, striped, false, nil, 0}})
				if err != nil {
					t.Fatal(err)
				}
				m.Shards = append(m.Shards, shard)
			}
			if err := s.Publish(ctx, k, m); err != nil {
				t.Fatal(err)
			}
			c, err := s.Read(ctx, k)
			if err != nil {
				t.Fatal(err)
			}
			for _, cut := range [][2]int64{{0, rows}, {7, 9}, {99_990, 200_000}} {
				for want, load := range map[*tensor.Tensor]func() (*tensor.Tensor, error){
					whole: func() (*tensor.Tensor, error) {
						v := numbers(t, -1, cut[1]-cut[0], width)
						return v, c.Load(ctx, "w", cut[0], v)
					},
					ordered: func() (*tensor.Tensor, error) {
						v := numbers(t, -1, cut[1]-cut[0], width)
						return v, c.LoadStriped(ctx, "w", cut[0], v)
					},
				} {
					got, err := load()
					if err != nil || !slices.Equal(got.Float32s(), want.Float32s()[cut[0]*width:cut[1]*width]) {
						t.Errorf("%s, written in stripes: %v: rows %v in stripes: %v differ, %v", name, striped, cut, want == ordered, err)
					}
				}
			}
			m.Shards[1].Pieces[0].Striped = !striped
			if _, err := encodeManifest(m); err == nil {
				t.Errorf("two orders of one variable are taken")
			}
		}
	}
}
