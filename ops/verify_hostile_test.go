package ops_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// alone returns a program of one op of a type: every slot holds a variable of its own, of the given type.
func alone(def *ops.Def, dtype tensor.DType, dims []int64) (*program.Program, *program.Op) {
	p := program.New()
	p.NewBlock(p.Global())
	op := &program.Op{Type: def.Type, Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: map[string]program.Attr{}}
	fill := func(side string, slots []ops.Slot, into map[string][]string) {
		for _, slot := range slots {
			count := 1
			if slot.Duplicable {
				count = 2
			}
			for i := range count {
				name := fmt.Sprintf("%s.%s.%d", side, slot.Name, i)
				p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: dtype, Dims: dims, Persistable: true})
				into[slot.Name] = append(into[slot.Name], name)
			}
		}
	}
	fill("in", def.Inputs, op.Inputs)
	fill("out", def.Outputs, op.Outputs)
	for _, a := range def.Attrs {
		op.Attrs[a.Name] = a.Default
		if a.Default == nil {
			op.Attrs[a.Name] = a.Kind
		}
	}
	p.Global().Append(op)
	return p, op
}

// requireNoPanic fails when the rules of an op panicked. Other faults are what hostile programs deserve.
func requireNoPanic(t *testing.T, p *program.Program, stage program.Stage, what string) {
	t.Helper()
	var list fault.List
	errors.As(ops.Verify(p, stage), &list)
	for _, f := range list {
		if f.Kind == fault.Internal {
			t.Errorf("%s: %v", what, f)
		}
	}
}

var hostileDims = [][]int64{
	nil, {0}, {1}, {3}, {-1}, {0, 0}, {2, 3}, {-1, 3}, {2, -1}, {-1, 0}, {2, 3, 4}, {0, 3, 4}, {2, 0, 4, 4}, {2, 3, 4, 4}, {-1, 3, -1, -1},
	{1, 1, 1, 1, 1}, {1 << 40}, {1 << 31, 1 << 31}, {1 << 62, -1}, {math.MaxInt64}, make([]int64, tensor.MaxRank),
}

func TestNoShapeMakesTheRulesOfAnOpPanic(t *testing.T) {
	for _, def := range ops.All() {
		for _, dims := range hostileDims {
			for _, dtype := range []tensor.DType{tensor.Float32, tensor.Int64, tensor.Float16} {
				p, _ := alone(def, dtype, dims)
				requireNoPanic(t, p, program.StageLocal, fmt.Sprintf("%s of %v%v", def.Type, dtype, dims))
			}
		}
	}
}

// hostileValues returns values of an attribute's own type that a careless rule stumbles over.
func hostileValues(a program.Attr) []program.Attr {
	switch a.(type) {
	case int32, int64:
		return []program.Attr{int64(0), int64(-1), int64(-5), int64(math.MinInt64), int64(math.MaxInt64), int64(1 << 40), true, []int32{7}}
	case float32, float64:
		return []program.Attr{float32(0), float32(-1), float32(math.NaN()), math.Inf(1), int32(math.MinInt32)}
	case bool:
		return []program.Attr{true, false, int64(math.MinInt64)}
	case string:
		return []program.Attr{"", "../../x", "\x00", "NHWC"}
	case []int32, []int64:
		return []program.Attr{[]int32{}, []int64{0}, []int64{0, 0}, []int64{-1, -1}, []int64{-1, 0}, []int64{math.MinInt64, math.MaxInt64},
			[]int64{1 << 32, 1 << 32, 1 << 32}, []int64{-5, 9}, make([]int64, 1000), int64(math.MinInt64)}
	case []float32, []float64:
		return []program.Attr{[]float32{}, []float64{math.NaN()}, make([]float32, 1000)}
	case []string:
		return []program.Attr{[]string{}, []string{""}, []string{"a", "a", "\x00"}}
	case []bool:
		return []program.Attr{[]bool{}, make([]bool, 1000)}
	}
	return nil
}

func TestNoAttributeMakesTheRulesOfAnOpPanic(t *testing.T) {
	for _, def := range ops.All() {
		for _, dims := range [][]int64{{2, 3}, {-1, 3}, {0, 3, 4, 4}, {2, 4, 8, 8}} {
			for _, a := range def.Attrs {
				kind := a.Default
				if kind == nil {
					kind = a.Kind
				}
				for _, value := range hostileValues(kind) {
					p, op := alone(def, tensor.Float32, dims)
					op.Attrs[a.Name] = value
					requireNoPanic(t, p, program.StageLocal, fmt.Sprintf("%s of float32%v with %s = %v", def.Type, dims, a.Name, value))
				}
			}
		}
	}
}

func TestNoMissingOrSurplusVariableMakesTheRulesOfAnOpPanic(t *testing.T) {
	for _, def := range ops.All() {
		change := func(slot string, args func(*program.Op) map[string][]string, to ...string) {
			p, op := alone(def, tensor.Float32, []int64{2, 3})
			names := args(op)
			if names[slot] = to; to == nil {
				delete(names, slot)
			} else {
				p.Global().EnsureVar(program.Var{Name: "reader", Kind: program.Reader, Persistable: true})
			}
			requireNoPanic(t, p, program.StageLocal, fmt.Sprintf("%s with %v in slot %s", def.Type, to, slot))
		}
		inputs := func(op *program.Op) map[string][]string { return op.Inputs }
		outputs := func(op *program.Op) map[string][]string { return op.Outputs }
		for _, side := range []struct {
			slots []ops.Slot
			args  func(*program.Op) map[string][]string
		}{{def.Inputs, inputs}, {def.Outputs, outputs}} {
			for _, slot := range side.slots {
				change(slot.Name, side.args)
				change(slot.Name, side.args, []string{}...)
				change(slot.Name, side.args, program.Empty)
				change(slot.Name, side.args, program.Empty, "reader", program.Empty)
				change(slot.Name, side.args, "reader")
			}
		}
	}
}

// FuzzVerify looks for programs that make the rules of an op panic.
func FuzzVerify(f *testing.F) {
	for _, def := range ops.All() {
		p, _ := alone(def, tensor.Float32, []int64{2, 3})
		data, err := p.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := program.Decode(data, program.Limits{Bytes: 1 << 16, Elements: 1 << 12})
		if err != nil {
			return
		}
		for stage := program.StageLocal; stage <= program.StagePServerStartup; stage++ {
			requireNoPanic(t, p, stage, stage.String())
		}
	})
}
