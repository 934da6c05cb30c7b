package checkpoint

import (
	"testing"

	"github.com/edl-go/edl/internal/resident"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A table of 64 MB, of which few rows are in use, takes memory for these when it is read from a checkpoint, and what was in the others is gone.
func TestLoadTakesMemoryForWhatIsUsed(t *testing.T) {
	const rows, width = 1 << 20, 16
	table := func() (*tensor.Tensor, []byte) {
		v, err := tensor.New(tensor.Float32, rows, width)
		if err != nil {
			t.Fatal(err)
		}
		memory, err := wire.Memory(v)
		if err != nil {
			t.Fatal(err)
		}
		return v, memory
	}
	free := resident.ReadsAreFree()
	if free != nil { // Load reads what is there, and so does this test
		t.Log(free)
	}
	saved, _ := table()
	for i := range 1000 {
		saved.Float32s()[i] = float32(i + 1)
		saved.Float32s()[rows*width/2+i] = float32(i + 1)
	}
	for name, s := range stores(t) {
		for _, short := range []bool{false, true} {
			ctx, k := t.Context(), NewName("digits-1", 1)
			shard, err := s.WriteShard(ctx, k, 0, []Piece{{"w", []int64{rows, width}, 0, rows, saved, false, short, nil, 0}})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Publish(ctx, k, &state.Checkpoint{Job: "digits", Progress: &job.Progress{Reader: "abc"}, Shards: []*job.Shard{shard}}); err != nil {
				t.Fatal(err)
			}
			c, err := s.Read(ctx, k)
			if err != nil {
				t.Fatal(err)
			}
			v, memory := table()
			tensor.SmallPages(v)
			v.Float32s()[rows*width-1] = 7
			if err := c.Load(ctx, "w", 0, v); err != nil {
				t.Fatal(err)
			}
			for i, want := range saved.Float32s() {
				if got := v.Float32s()[i]; got != want {
					t.Fatalf("%s: element %d is %v, want %v", name, i, got, want)
				}
			}
			if have, err := resident.Bytes(memory); err == nil && free == nil && have > 512<<10 {
				t.Errorf("%s: %d bytes of memory for 8000", name, have)
			}
		}
	}
}
