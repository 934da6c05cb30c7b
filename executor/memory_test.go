package executor_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A small program that asks for terabytes is refused before they are allocated, and the message says which op asks.
func TestAProgramThatNeedsTooMuchMemoryIsRefused(t *testing.T) {
	filled := func(rows int64, persistable bool) *program.Program {
		p := program.New()
		b := p.Global()
		b.EnsureVar(program.Var{Name: "huge", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{rows, 1 << 10}, Persistable: persistable})
		op := b.Append(&program.Op{Type: "fill_constant", Outputs: map[string][]string{"Out": {"huge"}}})
		op.SetAttr("shape", []int64{rows, 1 << 10})
		return p
	}
	for name, c := range map[string]struct {
		rows        int64
		persistable bool
		options     []executor.Option
		refused     bool
	}{
		"4 TiB on any machine":  {1 << 30, false, nil, true},
		"a parameter of 4 TiB":  {1 << 30, true, nil, true},
		"a bound of the caller": {1 << 10, false, []executor.Option{executor.WithMemory(1 << 20)}, true},
		"within this bound":     {1 << 10, false, []executor.Option{executor.WithMemory(1 << 23)}, false},
	} {
		e := executor.New(c.options...)
		_, err := e.Run(t.Context(), filled(c.rows, c.persistable), nil, "huge")
		if refused := fault.KindOf(err) == fault.TooLarge; refused != c.refused || err != nil && !refused {
			t.Errorf("%s: %v", name, err)
		}
		if c.refused && (!strings.Contains(err.Error(), "op fill_constant") || !strings.Contains(err.Error(), `"huge"`)) {
			t.Errorf("%s: the op and the variable are not in %q", name, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// An asker builds small programs that ask for much.
type asker struct {
	p *program.Program
	b *program.Block
}

func (a *asker) declare(kind program.VarKind, dtype tensor.DType, name string, dims ...int64) string {
	a.b.EnsureVar(program.Var{Name: name, Kind: kind, DType: dtype, Dims: dims})
	return name
}

func (a *asker) op(kind string, in, out map[string][]string, attrs map[string]program.Attr) {
	a.b.Append(&program.Op{Type: kind, Inputs: in, Outputs: out, Attrs: attrs})
}

// filled appends a variable of elements that are all value.
func (a *asker) filled(dtype tensor.DType, value float32, name string, dims ...int64) string {
	a.declare(program.LoDTensor, dtype, name, dims...)
	a.op("fill_constant", nil, map[string][]string{"Out": {name}}, map[string]program.Attr{"shape": dims, "value": value, "dtype": int32(dtype)})
	return name
}

// written appends an array that has x at place i.
func (a *asker) written(array, x, i string) string {
	a.declare(program.LoDTensorArray, tensor.Float32, array)
	a.op("write_to_array", map[string][]string{"X": {x}, "I": {i}}, map[string][]string{"Out": {array}}, nil)
	return array
}

// length appends a variable that has the length of an array.
func (a *asker) length(array string) string {
	n := a.declare(program.LoDTensor, tensor.Int64, array+".length", 1)
	a.op("lod_array_length", map[string][]string{"X": {array}}, map[string][]string{"Out": {n}}, nil)
	return n
}

// loop appends a loop of runs over body, and returns its counter.
func (a *asker) loop(name string, runs float32, arrays []string, body func(i string)) string {
	i, n, c := a.filled(tensor.Int64, 0, name+".i", 1), a.filled(tensor.Int64, runs, name+".n", 1), a.declare(program.LoDTensor, tensor.Bool, name+".c", 1)
	less := func() {
		a.op("less_than", map[string][]string{"X": {i}, "Y": {n}}, map[string][]string{"Out": {c}}, nil)
	}
	less()
	outer := a.b
	a.b = a.p.NewBlock(outer)
	inner := a.b.Index
	body(i)
	a.op("increment", map[string][]string{"X": {i}}, map[string][]string{"Out": {i}}, map[string]program.Attr{"step": float32(1)})
	less()
	a.b = outer
	scopes := a.declare(program.StepScopes, tensor.Float32, name+".scopes")
	a.op("while", map[string][]string{"X": append([]string{i, n}, arrays...), "Condition": {c}}, map[string][]string{"Out": append([]string{i, c}, arrays...), "StepScopes": {scopes}},
		map[string]program.Attr{"sub_block": program.BlockIndex(inner)})
	return i
}

// added appends the sum of variables of some dims, two at a time, the last ones first.
func (a *asker) added(dtype tensor.DType, names []string, dims ...int64) string {
	last := names[len(names)-1]
	for i := len(names) - 2; i >= 0; i-- {
		sum := a.declare(program.LoDTensor, dtype, fmt.Sprint("sum", i), dims...)
		a.op("elementwise_add", map[string][]string{"X": {last}, "Y": {names[i]}}, map[string][]string{"Out": {sum}}, nil)
		last = sum
	}
	return last
}

// TestASmallProgramTakesNoMoreThanItMay bounds what the variables of a program take together: each alone would fit.
func TestASmallProgramTakesNoMoreThanItMay(t *testing.T) {
	const most, n = 16 << 20, 1 << 20 // bytes; elements of 4 MB
	each := func(count int, name func(i int) string) (all []string) {
		for i := range count {
			all = append(all, name(i))
		}
		return all
	}
	for name, build := range map[string]func(a *asker) string{
		"temporaries": func(a *asker) string {
			return a.added(tensor.Float32, each(100, func(i int) string { return a.filled(tensor.Float32, 1, fmt.Sprint("t", i), n) }), n)
		},
		"arrays": func(a *asker) string {
			x, i := a.filled(tensor.Float32, 1, "x", n), a.filled(tensor.Int64, 0, "i", 1)
			return a.added(tensor.Int64, each(60, func(k int) string { return a.length(a.written(fmt.Sprint("a", k), x, i)) }), 1)
		},
		"items without elements": func(a *asker) string {
			x, i := a.filled(tensor.Float32, 1, "x", 1), a.filled(tensor.Int64, 1<<20-1, "i", 1)
			return a.added(tensor.Int64, each(8, func(k int) string { return a.length(a.written(fmt.Sprint("a", k), x, i)) }), 1)
		},
		"arrays in a loop": func(a *asker) string {
			return a.loop("loop", 3, nil, func(i string) {
				for k := range 40 {
					a.written(fmt.Sprint("a", k), a.filled(tensor.Float32, 1, fmt.Sprint("x", k), n), i)
				}
			})
		},
		"loops": func(a *asker) string {
			return a.added(tensor.Int64, each(40, func(k int) string {
				return a.loop(fmt.Sprint("loop", k), 1, nil, func(i string) {
					a.written(fmt.Sprint("a", k), a.filled(tensor.Float32, 1, fmt.Sprint("x", k), n), i)
				})
			}), 1)
		},
		"a loop that doubles": func(a *asker) string {
			array := a.written("a", a.filled(tensor.Float32, 1, "x", 1), a.filled(tensor.Int64, 0, "zero", 1))
			return a.loop("loop", 60, []string{array}, func(i string) {
				item, double, next := a.declare(program.LoDTensor, tensor.Float32, "item", -1), a.declare(program.LoDTensor, tensor.Float32, "double", -1), a.declare(program.LoDTensor, tensor.Int64, "next", 1)
				a.op("read_from_array", map[string][]string{"X": {array}, "I": {i}}, map[string][]string{"Out": {item}}, nil)
				a.op("concat", map[string][]string{"X": {item, item}}, map[string][]string{"Out": {double}}, map[string]program.Attr{"axis": int32(0)})
				a.op("scale", map[string][]string{"X": {i}}, map[string][]string{"Out": {next}}, map[string]program.Attr{"scale": float32(1), "bias": float32(1)})
				a.op("write_to_array", map[string][]string{"X": {double}, "I": {next}}, map[string][]string{"Out": {array}}, nil)
			})
		},
	} {
		p := program.New()
		fetch := build(&asker{p, p.Global()})
		exe := executor.New(executor.WithMemory(most))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := exe.Run(t.Context(), p, nil, fetch)
		runtime.ReadMemStats(&after)
		if fault.KindOf(err) != fault.TooLarge || !strings.Contains(err.Error(), "op ") || !strings.Contains(err.Error(), "variable ") {
			t.Errorf("%s: %v", name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 3*most {
			t.Errorf("%s: took %d bytes before it was refused", name, took)
		}
		if err := exe.Close(); err != nil {
			t.Error(err)
		}
	}
}
