package gradcheck

import (
	"fmt"
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Case is one op with concrete inputs.
type Case struct {
	Name    string // what the case is about
	Type    string
	Inputs  map[string][]*tensor.Tensor // floats as float64; nil stands for program.Empty
	Outputs map[string]int              // number of variables of duplicable outputs; others have one
	Attrs   map[string]program.Attr

	Want map[string][]*tensor.Tensor // expected outputs, within 1e-12; slots may be left out

	// Loss names the output slots whose sum is differentiated. Nil: all floats that are not intermediate.
	Loss []string
	// Constant names the float input slots that no gradient flows to.
	Constant []string
	// NoDifferences leaves out the comparison of the gradient with finite differences, for an op whose gradient is by design not that of its steps, such as
	// rounding. A test of its own states the gradient.
	NoDifferences bool
	// NoFloat32 leaves out the comparison with float32, for a case whose result jumps.
	NoFloat32 bool

	Step ops.Step
}

// String names the case.
func (c Case) String() string {
	if c.Name == "" {
		return c.Type
	}
	return c.Type + "/" + c.Name
}

func variable(slot string, i int) string { return fmt.Sprint(slot, ".", i) }

// op builds the op of the case. Variables are named after their slots.
func (c Case) op() *program.Op {
	def, _ := ops.Lookup(c.Type)
	op := &program.Op{Type: c.Type, Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: c.Attrs}
	for slot, values := range c.Inputs {
		for i, t := range values {
			name := variable(slot, i)
			if t == nil {
				name = program.Empty
			}
			op.Inputs[slot] = append(op.Inputs[slot], name)
		}
	}
	for _, slot := range def.Outputs {
		n, ok := c.Outputs[slot.Name]
		if !ok {
			n = 1
		}
		for i := range n {
			op.Outputs[slot.Name] = append(op.Outputs[slot.Name], variable(slot.Name, i))
		}
	}
	return op
}

// variables returns copies of the inputs by name, floats converted to the given type.
func (c Case) variables(float tensor.DType) map[string]*tensor.Tensor {
	vars := map[string]*tensor.Tensor{}
	for slot, values := range c.Inputs {
		for i, t := range values {
			if t != nil {
				vars[variable(slot, i)] = convert(t, float)
			}
		}
	}
	return vars
}

// losses returns the outputs that the gradient is checked from.
func (c Case) losses(op *program.Op, vars map[string]*tensor.Tensor) []string {
	def, _ := ops.Lookup(c.Type)
	var names []string
	for _, slot := range def.Outputs {
		if c.Loss == nil && slot.Intermediate || c.Loss != nil && !slices.Contains(c.Loss, slot.Name) {
			continue
		}
		for _, name := range op.Outputs[slot.Name] {
			if t := vars[name]; t != nil && t.DType().IsFloat() {
				names = append(names, name)
			}
		}
	}
	return names
}

// wanted returns the inputs whose gradient is checked.
func (c Case) wanted() []string {
	var names []string
	for slot, values := range c.Inputs {
		for i, t := range values {
			if t != nil && t.DType().IsFloat() && !slices.Contains(c.Constant, slot) {
				names = append(names, variable(slot, i))
			}
		}
	}
	slices.Sort(names)
	return names
}

// Floats makes a float64 tensor. It panics if the values do not fill dims, because cases are written by hand.
func Floats(dims []int64, values ...float64) *tensor.Tensor {
	return must(tensor.FromSlice(values, some(dims)...))
}

// Ints makes an int64 tensor.
func Ints(dims []int64, values ...int64) *tensor.Tensor {
	return must(tensor.FromSlice(values, some(dims)...))
}

// Int32s makes an int32 tensor.
func Int32s(dims []int64, values ...int32) *tensor.Tensor {
	return must(tensor.FromSlice(values, some(dims)...))
}

// Bools makes a bool tensor.
func Bools(dims []int64, values ...bool) *tensor.Tensor {
	return must(tensor.FromSlice(values, some(dims)...))
}

// Spread makes a float64 tensor of numbers between -1 and 1 that depend on seed. They differ by at least 1/(2n) from each other and from 0, so that
// finite differences do not cross a kink or change an order.
func Spread(seed int, dims ...int64) *tensor.Tensor {
	n, _ := tensor.Count(dims)
	values := make([]float64, n)
	step := 1 + seed%7
	for gcd(step, n) != 1 {
		step++
	}
	for i := range values {
		place := (i*step + seed) % n
		values[i] = (2*float64(place)+1)/float64(n) - 1
		if math.Abs(values[i]) < 1/float64(4*n) {
			values[i] = 1 / float64(2*n)
		}
	}
	return Floats(dims, values...)
}

// One makes a slot of one tensor each.
func One(values ...*tensor.Tensor) []*tensor.Tensor { return values }

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func some(dims []int64) []int64 {
	if dims == nil {
		return []int64{}
	}
	return dims
}

func must(t *tensor.Tensor, err error) *tensor.Tensor {
	if err != nil {
		panic(err)
	}
	return t
}

// convert copies t; a float64 tensor becomes one of the given type.
func convert(t *tensor.Tensor, float tensor.DType) *tensor.Tensor {
	if t.DType() != tensor.Float64 || float == tensor.Float64 {
		return t.Clone()
	}
	c := must(tensor.New(float, t.Dims()...))
	for i, v := range t.Float64s() {
		c.Float32s()[i] = float32(v)
	}
	c.SetLoD(t.LoD())
	return withRows(c, t)
}

// numbers returns the elements of any tensor as float64.
func numbers(t *tensor.Tensor) []float64 {
	out := make([]float64, t.Len())
	for i := range out {
		switch t.DType() {
		case tensor.Float64:
			out[i] = t.Float64s()[i]
		case tensor.Float32:
			out[i] = float64(t.Float32s()[i])
		case tensor.Int64:
			out[i] = float64(t.Int64s()[i])
		case tensor.Int32:
			out[i] = float64(t.Int32s()[i])
		case tensor.Bool:
			if t.Bools()[i] {
				out[i] = 1
			}
		}
	}
	return out
}

// garble fills a tensor with values that reveal a kernel which reads before it writes.
func garble(t *tensor.Tensor) *tensor.Tensor {
	for i := range t.Len() {
		switch t.DType() {
		case tensor.Float64:
			t.Float64s()[i] = math.NaN()
		case tensor.Float32:
			t.Float32s()[i] = float32(math.NaN())
		case tensor.Int64:
			t.Int64s()[i] = -1 << 40
		case tensor.Int32:
			t.Int32s()[i] = -1 << 20
		case tensor.Bool:
			t.Bools()[i] = i%2 == 0
		}
	}
	return t
}

// near reports whether two numbers agree within tolerance, relative to the larger of 1 and want.
func near(got, want, tolerance float64) bool {
	if math.IsNaN(want) || math.IsInf(want, 0) {
		return math.IsNaN(want) && math.IsNaN(got) || got == want
	}
	return math.Abs(got-want) <= tolerance*max(1, math.Abs(want))
}

// firstFar returns the index of the first element of got that is not near that of want, -1 when all are.
func firstFar(got, want *tensor.Tensor, tolerance float64) int {
	g, w := numbers(got), numbers(want)
	for i := range w {
		if !near(g[i], w[i], tolerance) {
			return i
		}
	}
	return -1
}

// Rows makes a sparse float64 tensor: rows of a tensor of the given height.
func Rows(height int64, rows []int64, dims []int64, values ...float64) *tensor.Tensor {
	return must((&tensor.SelectedRows{Rows: rows, Height: height, Value: Floats(dims, values...)}).Tensor())
}

// allocate makes the garbled tensor of an output.
func allocate(meta ops.Meta) (*tensor.Tensor, error) {
	t, err := tensor.New(meta.DType, meta.Stored()...)
	if err != nil {
		return nil, err
	}
	garble(t)
	if meta.Kind != program.SelectedRows {
		return t, nil
	}
	rows, err := tensor.New(tensor.Int64, meta.Rows)
	if err != nil {
		return nil, err
	}
	return tensor.Select(t, garble(rows), meta.Dims[0])
}

// withRows returns t with the row numbers of like, when like is sparse.
func withRows(t, like *tensor.Tensor) *tensor.Tensor {
	if !like.IsSelected() {
		return t
	}
	rows, height := like.Selected()
	return must(tensor.Select(t, rows.Clone(), height))
}

// dense returns t as a whole, when it is sparse float64: rows that repeat are summed.
func dense(t *tensor.Tensor) *tensor.Tensor {
	if !t.IsSelected() {
		return t
	}
	rows, _ := t.Selected()
	whole := must(tensor.New(tensor.Float64, ops.MetaOfValue(t).Dims...))
	width := t.Len() / max(1, rows.Len())
	for i, row := range tensor.UsedRows(t) {
		for j := range width {
			whole.Float64s()[int(row)*width+j] += t.Float64s()[i*width+j]
		}
	}
	return whole
}

// sameRows reports whether two tensors are both dense or hold the same rows of equally tall tensors.
func sameRows(a, b *tensor.Tensor) bool {
	if !a.IsSelected() || !b.IsSelected() {
		return a.IsSelected() == b.IsSelected()
	}
	x, tall := a.Selected()
	y, height := b.Selected()
	return tall == height && slices.Equal(x.Int64s(), y.Int64s())
}
