package optim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// stored returns a copy of u whose parameter is stored as bfloat16. The parameter of u becomes what bfloat16 holds of it.
func (u *update) stored(t testing.TB) *update {
	t.Helper()
	param := u.in[paramSlot]
	halves, err := tensor.New(tensor.BFloat16, param.Dims()...)
	if err != nil {
		t.Fatal(err)
	}
	kernel.ToBFloat16(tensor.Data[uint16](halves), param.Float32s())
	kernel.FromBFloat16(param.Float32s(), tensor.Data[uint16](halves))
	s := u.rows(t, 0, param.Dims()[0])
	s.op = u.op.Clone()
	s.in[paramSlot], s.out[paramOutSlot] = halves, halves
	s.in[gradSlot] = u.in[gradSlot]
	return s
}

// slice returns rows [from, to) of a stored update with a dense gradient, as the transpiler cuts it.
func (u *update) slice(t testing.TB, from, to int64) *update {
	s := u.rows(t, from, to)
	s.op = u.op.Clone()
	s.op.SetAttr(firstAttr, from)
	return s
}

// runAt runs an update in a step, with garbage in scratch memory, in parts of its loops.
func (u *update) runAt(t testing.TB, round uint64) {
	t.Helper()
	scratch := func(dtype tensor.DType, n int) *tensor.Tensor {
		return filled(t, dtype, func() float64 { return 1e30 }, int64(n))
	}
	b := u.binding(&ops.Env{Step: &ops.Step{Round: round}, Workers: 3}, scratch)
	if _, err := u.def.Bind(b); err != nil {
		t.Fatal(err)
	}
	for _, loop := range b.Bound() {
		for i, cut := range [][2]int{{loop.N / 2, loop.N}, {0, loop.N / 2}} {
			if err := loop.Run(i, cut[0], cut[1]); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestStoredIsRounded holds the update of a table of bfloat16 to that of float32, rounded once, with the gradient dense and as rows. A slice gets the bits of the whole,
// also in the order of stripes.
func TestStoredIsRounded(t *testing.T) {
	for _, f := range formulas {
		if slices.Contains(wholes, f.opType) {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				height, width := rapid.Int64Range(1, 600).Draw(r, "height"), rapid.Int64Range(1, 12).Draw(r, "width")
				round, seed := rapid.Uint64Range(0, 9).Draw(r, "round"), rapid.Int64().Draw(r, "seed")
				want := newUpdate(t, f.opType, f.attrs, tensor.Float32, 3, height, width)
				if rapid.Bool().Draw(r, "sparse") {
					want.sparse(t, rapid.SliceOfN(rapid.Int64Range(0, height-1), 0, 60).Draw(r, "rows"), 4)
				}
				got := want.stored(t)
				got.op.SetAttr(seedAttr, seed)
				whole := got.rows(t, 0, height)
				got.runAt(t, round)
				want.runAt(t, round)
				rounded := make([]uint16, height*width)
				chance := kernel.Rounding{Seed: seed, Stream: opkit.StreamAt(kernel.StreamOf("bfloat16"), &ops.Step{Round: round})}
				chance.Round(rounded, want.out[paramOutSlot].Float32s(), 0)
				if !slices.Equal(tensor.Data[uint16](got.out[paramOutSlot]), rounded) {
					r.Fatal("the table differs from that of float32, rounded")
				}
				for out := range want.def.InPlace {
					if out != paramOutSlot && !slices.Equal(bitsOf(got.out[out]), bitsOf(want.out[out])) {
						r.Fatalf("%s differs from that of float32", out)
					}
				}
				if want.in[gradSlot].IsSelected() {
					return
				}
				from := rapid.Int64Range(0, height-1).Draw(r, "first row of a slice")
				part := whole.slice(t, from, height)
				part.op.SetAttr(seedAttr, seed)
				part.runAt(t, round)
				if !slices.Equal(tensor.Data[uint16](part.out[paramOutSlot]), rounded[from*width:]) {
					r.Fatalf("the slice from row %d on differs", from)
				}
			})
		})
	}
}

// TestStoredInStripes updates a table whose rows are in the order of stripes: each row is rounded as in its own place.
func TestStoredInStripes(t *testing.T) {
	const height, width = 70, 3
	want := newUpdate(t, "sgd", nil, tensor.Float32, 3, height, width).stored(t)
	striped := want.rows(t, 0, height)
	striped.op = want.op.Clone()
	striped.op.SetAttr(stripedAttr, int64(height))
	order := kernel.StripesOf(height)
	for position := range int64(height) {
		row := order.Row(position)
		copy(tensor.Data[uint16](striped.in[paramSlot])[position*width:][:width], tensor.Data[uint16](want.in[paramSlot])[row*width:])
		copy(striped.in[gradSlot].Float32s()[position*width:][:width], want.in[gradSlot].Float32s()[row*width:])
	}
	want.runAt(t, 2)
	striped.runAt(t, 2)
	for position := range int64(height) {
		a, b := tensor.Data[uint16](striped.out[paramOutSlot])[position*width:][:width], tensor.Data[uint16](want.out[paramOutSlot])[order.Row(position)*width:][:width]
		if !slices.Equal(a, b) {
			t.Fatalf("row %d: %v, want %v", order.Row(position), a, b)
		}
	}
}

// TestSmallUpdatesOfStoredTables steps by a thousandth of the distance of neighbours. Rounded to nearest, the table would never change.
func TestSmallUpdatesOfStoredTables(t *testing.T) {
	const steps, elements = 1000, 4000
	u := newUpdate(t, "sgd", nil, tensor.Float32, 3, elements/4, 4)
	for i := range elements {
		u.in[paramSlot].Float32s()[i], u.in[gradSlot].Float32s()[i] = 1, -1
	}
	u.in[rateSlot].Float32s()[0] = 0x1p-7 / 1000
	u = u.stored(t)
	step := &ops.Step{}
	run, err := u.bind(&ops.Env{Step: step})
	if err != nil {
		t.Fatal(err)
	}
	for step.Round = range steps {
		if err := run(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	mean := 0.0
	for _, bits := range tensor.Data[uint16](u.out[paramOutSlot]) {
		mean += float64(tensor.Widen(bits)) / elements
	}
	if moved := (mean - 1) / 0x1p-7; moved < 0.9 || moved > 1.1 { // the deviation of the mean is below 0.016
		t.Errorf("the table has moved by %v of what the updates are together", moved)
	}
}

func TestStoredKernelsAllocateNothing(t *testing.T) {
	for _, sparse := range []bool{false, true} {
		u := newUpdate(t, "adam", map[string]program.Attr{"lazy_mode": true}, tensor.Float32, 5, 100, 8)
		if sparse {
			u.sparse(t, []int64{3, 99, 3}, 1)
		}
		_, run := u.stored(t).bindParts(t, 1)
		if n := testing.AllocsPerRun(20, func() { _ = run(context.Background()) }); n != 0 {
			t.Errorf("sparse %v: %v allocations a run", sparse, n)
		}
	}
}

func TestWhatStoredTablesDoNotTake(t *testing.T) {
	half := func(m map[string]ops.Meta, slots ...string) {
		for _, slot := range slots {
			meta := m[slot]
			meta.DType = tensor.BFloat16
			m[slot] = meta
		}
	}
	for name, c := range map[string]struct {
		opType string
		attrs  map[string]program.Attr
		slots  []string
		kind   fault.Kind
	}{
		"norms":           {"lamb", nil, []string{paramSlot}, fault.Unsupported},
		"another slot":    {"adagrad", nil, []string{paramSlot, "Moment"}, fault.Unsupported},
		"a gradient":      {"sgd", nil, []string{paramSlot, gradSlot}, fault.Unsupported},
		"too few stripes": {"sgd", map[string]program.Attr{stripedAttr: int64(7), firstAttr: int64(2)}, []string{paramSlot}, fault.InvalidArgument},
		"a negative row":  {"sgd", map[string]program.Attr{firstAttr: int64(-1)}, []string{paramSlot}, fault.InvalidArgument},
	} {
		u := newUpdate(t, c.opType, c.attrs, tensor.Float32, 1, 6, 2)
		if _, err := u.infer(func(m map[string]ops.Meta) { half(m, c.slots...) }); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
	}
	u := newUpdate(t, "sgd", nil, tensor.Float32, 1, 6, 2)
	if _, err := u.infer(func(m map[string]ops.Meta) { half(m, paramSlot) }); err != nil {
		t.Error(err)
	}
	s := u.stored(t)
	s.in[rateSlot] = filled(t, tensor.Float64, func() float64 { return 1 }, 1)
	if _, err := s.bind(nil); !errors.Is(err, fault.ShapeMismatch) {
		t.Error(fmt.Sprint("a rate of float64: ", err))
	}
}
