package ops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// testOps replaces the registry for one test by ops that stand for their classes.
func testOps(t *testing.T) {
	real := registry
	registry = map[string]*Def{}
	t.Cleanup(func() { registry = real })
	bind := func(*Binding) (Kernel, error) { return func(context.Context) error { return nil }, nil }
	x, out := []Slot{{Name: "X"}}, []Slot{{Name: "Out"}}
	many, none := []Slot{{Name: "X", Duplicable: true, Dispensable: true}}, []Slot{{Name: "Out", Duplicable: true, Dispensable: true}}
	like := func(s *Shapes) error { s.Like("Out", "X"); return nil }
	open := func(*Shapes) error { return nil }
	def := func(opType string, class Class, in, out []Slot, infer func(*Shapes) error, attrs ...Attr) {
		d := Def{Type: opType, Class: class, Doc: "Stands for an op in tests.", Inputs: in, Outputs: out, Attrs: attrs, Infer: infer, Bind: bind}
		if len(in) > 0 && len(out) > 0 && opType != "mul" {
			d.InPlace = map[string]string{"Out": "X"}
		}
		Register(d)
	}
	def("relu", Compute, x, out, like)
	def("mul", Compute, x, out, like)
	def("relu_grad", Backward, x, out, like)
	def("dropout", Random, x, out, like, Attr{Name: "dropout_prob", Default: float32(0.5), Check: probability}, Attr{Name: "seed", Default: int32(0)})
	def("dropout_grad", Backward, x, out, like)
	def("while", Compute, many, none, open, Attr{Name: "sub_block", Kind: program.BlockIndex(0)})
	def("fill", Compute, nil, out, func(s *Shapes) error { s.Set("Out", tensor.DType(s.Int("dtype")), s.Ints("shape")...); return nil },
		Attr{Name: "shape", Kind: []int64(nil)}, Attr{Name: "dtype", Default: int32(5)})
	def("sgd", Optimize, x, out, like)
	def("feed", Feed, many, none, open, Attr{Name: "col", Default: int32(0)})
	def("save", FileIO, many, nil, open)
	def("broken", Compute, x, out, func(s *Shapes) error { _ = s.Ins("Absent")[3]; return nil })
	for _, opType := range []string{"send", "recv", "send_barrier", "fetch_barrier", "exchange"} {
		def(opType, Dist, many, none, open)
	}
	def("listen_and_serv", Serve, many, none, open, Attr{Name: "optimize_blocks", Default: []program.BlockIndex(nil)})
}

func probability(op *program.Op) error {
	if p, ok := op.Float("dropout_prob"); ok && (p < 0 || p > 1) {
		return errors.New("0 to 1")
	}
	return nil
}

// A draft makes programs for tests. Each variable is float32[-1 4].
type draft struct {
	t *testing.T
	p *program.Program
}

func newDraft(t *testing.T, names ...string) draft {
	d := draft{t, program.New()}
	d.declare(d.p.Global(), names...)
	return d
}

func (d draft) declare(b *program.Block, names ...string) {
	for _, name := range names {
		v := program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 4}}
		v.Name, v.Persistable = strings.CutPrefix(name, "persistable ")
		if _, err := b.AddVar(v); err != nil {
			d.t.Fatal(err)
		}
	}
}

// op appends an op that reads in and writes out; either may be empty.
func (d draft) op(b *program.Block, opType, in, out string) *program.Op {
	op := &program.Op{Type: opType}
	if in != "" {
		op.Inputs = map[string][]string{"X": {in}}
	}
	if out != "" {
		op.Outputs = map[string][]string{"Out": {out}}
	}
	op.SetLine(fmt.Sprintf("model/net.go:%d", 10+len(b.Ops)))
	return b.Append(op)
}

func (d draft) requireFaults(stage program.Stage, want ...string) {
	d.t.Helper()
	err := Verify(d.p, stage)
	if len(want) == 0 {
		if err != nil {
			d.t.Errorf("a legal %v program: %v", stage, err)
		}
		return
	}
	var list fault.List
	if !errors.As(err, &list) || len(list) != len(want) {
		d.t.Fatalf("faults of a %v program: %v, want %d", stage, err, len(want))
	}
	for i, f := range list {
		for word := range strings.SplitSeq(want[i], "; ") {
			if !strings.Contains(f.Error(), word) {
				d.t.Errorf("fault %d is %q, which does not say %q", i, f, word)
			}
		}
	}
}
