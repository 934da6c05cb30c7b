package pserver_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/remote/internal/pstest"
	"github.com/edl-go/edl/tensor"
)

// halves is a program whose trainers send bfloat16 for its one gradient.
func halves(t *testing.T, sync bool) *pstest.Program {
	p := pstest.SGD(0, sync, 1, syncSize)
	form, err := tensor.New(tensor.BFloat16, syncSize)
	if err != nil {
		t.Fatal(err)
	}
	p.Variables["w0@GRAD.bf16"] = form
	p.Service.Grads = []comm.Contribution{{Name: "w0@GRAD.bf16", Block: 1, Merge: ops.MergeSum, Into: "w0@GRAD"}}
	return p
}

// One contribution of 16 bits is widened, also where an update alone reads the gradient.
func TestOneCompressedContribution(t *testing.T) {
	p := halves(t, true)
	p.InPlace = true
	s := pstest.Start(t, pstest.Config(1), p)
	half, err := compress.Narrowed(pstest.Filled(syncSize, 300), compress.BFloat16)
	if err != nil {
		t.Fatal(err)
	}
	a := pstest.Trainer{Client: s.Client}
	if _, err := a.Send(t.Context(), 0, "w0@GRAD.bf16", half); err != nil {
		t.Fatal(err)
	}
	if err := a.Barrier(t.Context(), 0, 1, 1); err != nil {
		t.Fatal(err)
	}
	if w, _, err := a.Get(t.Context(), 1, "w0", syncSize); err != nil || w.Float32s()[syncSize-1] != -300 {
		t.Errorf("w0 is %v, %v; want -300", w, err)
	}
}

// Contributions of 16 bits are added up in float32, and applied one by one in async mode. A trainer that sends another type is refused, and what it
// has sent changes nothing.
func TestCompressedContributions(t *testing.T) {
	for _, sync := range []bool{true, false} {
		s := pstest.Start(t, pstest.Config(2), halves(t, sync))
		for rank, x := range []float32{0.1, 300} {
			trainer := pstest.Trainer{Client: s.Client, Rank: uint32(rank)}
			wide := pstest.Filled(syncSize, x)
			if _, err := trainer.Send(t.Context(), 0, "w0@GRAD.bf16", wide); !errors.Is(err, fault.ShapeMismatch) && !errors.Is(err, fault.TypeMismatch) {
				t.Errorf("float32: %v", err)
			}
			if _, err := trainer.Send(t.Context(), 0, "w0@GRAD", wide); !errors.Is(err, fault.Foreign) {
				t.Errorf("the merged variable: %v", err)
			}
			half, err := compress.Narrowed(wide, compress.BFloat16)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := trainer.Send(t.Context(), 0, "w0@GRAD.bf16", half); err != nil {
				t.Fatal(err)
			}
		}
		if sync {
			if err := pstest.Parallel(2, func(rank int) error {
				return pstest.Trainer{Client: s.Client, Rank: uint32(rank)}.Barrier(t.Context(), 0, 1, 1)
			}); err != nil {
				t.Fatal(err)
			}
		}
		var tenth float32 = 0.10009765625 // the bfloat16 that is nearest to 0.1
		want := -(tenth + 300)
		if !sync { // each is subtracted by itself
			want = -tenth - 300
		}
		// In async mode, the value that a trainer gets has its own contribution; that of the other may come later, so both ask.
		for rank := range 2 {
			got, _, err := pstest.Trainer{Client: s.Client, Rank: uint32(rank)}.Get(t.Context(), 1, "w0", syncSize)
			if err != nil {
				t.Fatal(err)
			}
			if x := got.Float32s()[0]; x != want && (sync || rank == 1) {
				t.Errorf("sync %v: %v, want %v", sync, x, want)
			}
		}
	}
}

// A program whose contributions do not fit what they merge into is refused before it serves.
func TestCompressedContributionsThatDoNotFit(t *testing.T) {
	for name, change := range map[string]func(*pstest.Program){
		"nowhere":        func(p *pstest.Program) { p.Service.Grads[0].Into = "gone" },
		"another length": func(p *pstest.Program) { p.Variables["w0@GRAD"] = pstest.Vector(syncSize + 1) },
		"more entries than elements": func(p *pstest.Program) {
			p.Variables["w0@GRAD.bf16"], _ = tensor.New(tensor.Int32, 2, syncSize+1)
		},
		"int32 into float32": func(p *pstest.Program) {
			p.Variables["w0@GRAD.bf16"], _ = tensor.New(tensor.Int32, syncSize)
		},
	} {
		p := halves(t, true)
		change(p)
		s := pstest.New(t, pstest.Config(1))
		s.Serve(p)
		if err := s.Wait(); !errors.Is(err, fault.InvalidProgram) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// entries is a program whose trainers send entries of its one gradient.
func entries(t *testing.T, sync bool, k int64) *pstest.Program {
	p := halves(t, sync)
	form, err := tensor.New(tensor.Int32, 2, k)
	if err != nil {
		t.Fatal(err)
	}
	p.Variables["w0@GRAD.bf16"] = form
	return p
}

// Entries are added up, and applied one by one in async mode. A trainer that sends entries of elements that are not there is refused by name, and what it has
// sent changes nothing: it may send others.
func TestContributionsOfEntries(t *testing.T) {
	for _, sync := range []bool{true, false} {
		s := pstest.Start(t, pstest.Config(2), entries(t, sync, 2))
		send := func(rank int, indices [2]int32, x float32) error {
			bits := int32(math.Float32bits(x))
			v, err := tensor.FromSlice([]int32{indices[0], indices[1], bits, bits}, 2, 2)
			if err != nil {
				t.Fatal(err)
			}
			_, err = pstest.Trainer{Client: s.Client, Rank: uint32(rank)}.Send(t.Context(), 0, "w0@GRAD.bf16", v)
			return err
		}
		for rank, good := range [][2]int32{{0, 1}, {1, syncSize - 1}} {
			for _, bad := range [][2]int32{{-1, 0}, {0, syncSize}, {1, 1}, {1, 0}, {0, math.MaxInt32}} {
				if err := send(rank, bad, 1e9); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "w0@GRAD.bf16") {
					t.Errorf("entries of %v: %v", bad, err)
				}
			}
			if err := send(rank, good, float32(1+rank)); err != nil {
				t.Fatal(err)
			}
		}
		if sync {
			if err := pstest.Parallel(2, func(rank int) error {
				return pstest.Trainer{Client: s.Client, Rank: uint32(rank)}.Barrier(t.Context(), 0, 1, 1)
			}); err != nil {
				t.Fatal(err)
			}
		}
		for rank := range 2 { // both ask, as above
			got, _, err := pstest.Trainer{Client: s.Client, Rank: uint32(rank)}.Get(t.Context(), 1, "w0", syncSize)
			if err != nil {
				t.Fatal(err)
			}
			want := make([]float32, syncSize)
			want[0], want[1], want[syncSize-1] = -1, -3, -2
			if !slices.Equal(got.Float32s(), want) && (sync || rank == 1) {
				t.Errorf("sync %v: %v, want %v", sync, got.Float32s(), want)
			}
		}
	}
}
