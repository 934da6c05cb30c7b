package optim

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A rule declares one optimizer.
type rule struct {
	opType       string
	doc          string
	noRate       bool          // the algorithm has no learning rate
	accumulators []accumulator // state of the parameter's dims
	numbers      []ops.Slot    // inputs of one element besides LearningRate
	powers       []power       // of the numbers, those that the op may multiply for the next step
	unread       []ops.Slot    // inputs that do not count
	repeats      string        // an output that repeats the gradient; "" for none
	attrs        []ops.Attr
	flops        int64 // floating-point operations per element
	float32      prepare[float32]
	float64      prepare[float64]

	whole32 prepareWhole[float32] // in place of float32 and float64, for a rule that needs sums over the whole parameter; see whole.go
	whole64 prepareWhole[float64]

	// For a sparse gradient; see rows.go.
	lazy  string // when only rows of the gradient change: always, or with the BOOLEAN attribute of this name; "": never
	steps bool   // the update of a row is kernel.SGDRows, which needs no rows gathered
}

// An accumulator is a tensor that the update reads and writes.
type accumulator struct {
	in, out  string // slots
	doc      string
	onlyWith string // the slots may be empty unless this BOOLEAN attribute is true; "": never empty
}

// A power is a number that changes from step to step. Fluid multiplies it by a scale op of its own, and since 1.8 in the update op, which then names
// the output.
type power struct{ in, out, factor string } // slots, and the attribute that it is multiplied by

// needed reports whether the slots must hold variables.
func (a accumulator) needed(attrs interface{ Bool(string) bool }) bool {
	return a.onlyWith == "" || attrs.Bool(a.onlyWith)
}

// prepare reads the attributes once and returns the update, which is called once per step.
type prepare[T tensor.Float] func(*ops.Binding) func(*operands[T])

// operands are the slices that an update works on. All have one length. The update changes all but grad in place.
type operands[T tensor.Float] struct {
	param, grad  []T
	accumulators [][]T // in the order of the rule; nil where an optional one is absent
	rate         T
	numbers      []T // in the order of the rule
}

const (
	paramSlot    = "Param"
	paramOutSlot = "ParamOut"
	gradSlot     = "Grad"
	rateSlot     = "LearningRate"
)

// register turns a rule into an op.
func register(r rule) {
	def := ops.Def{
		Type:  r.opType,
		Class: ops.Optimize,
		Doc:   r.doc,
		Inputs: []ops.Slot{
			{Name: paramSlot, Doc: paramDoc(&r), Stored: r.stores()},
			{Name: gradSlot, Doc: "its gradient", Rows: true},
		},
		Outputs:   []ops.Slot{{Name: paramOutSlot, Doc: "the new parameter, usually the variable of Param"}},
		Attrs:     slices.Concat(r.attrs, storedAttrs(&r)),
		Infer:     r.infer,
		Cost:      opkit.PerElement(r.flops),
		Bind:      r.bind,
		RowSliced: r.whole32 == nil,
		InPlace:   map[string]string{paramOutSlot: paramSlot},

		TouchesRows: r.touchesRows,
	}
	if !r.noRate {
		def.Inputs = append(def.Inputs, ops.Slot{Name: rateSlot, Doc: "the learning rate, one element"})
	}
	for _, a := range r.accumulators {
		def.Inputs = append(def.Inputs, ops.Slot{Name: a.in, Doc: a.doc, Dispensable: a.onlyWith != ""})
		def.Outputs = append(def.Outputs, ops.Slot{Name: a.out, Doc: "the new " + a.in, Dispensable: a.onlyWith != ""})
		def.InPlace[a.out] = a.in
	}
	def.Inputs = slices.Concat(def.Inputs, r.numbers, r.unread)
	if r.repeats != "" {
		def.Outputs = append(def.Outputs, ops.Slot{Name: r.repeats, Doc: "Grad", Dispensable: true})
	}
	for _, p := range r.powers {
		def.Outputs = append(def.Outputs, ops.Slot{Name: p.out, Doc: p.in + "*" + p.factor + "; without it, another op multiplies", Dispensable: true})
		def.InPlace[p.out] = p.in
	}
	ops.Register(def)
}

// numberSlots names the inputs of one element.
func (r *rule) numberSlots() []string {
	var slots []string
	if !r.noRate {
		slots = append(slots, rateSlot)
	}
	for _, s := range r.numbers {
		slots = append(slots, s.Name)
	}
	return slots
}

// wholeSlots names the inputs that are no rows of the parameter.
func (r *rule) wholeSlots() []string {
	slots := r.numberSlots()
	for _, s := range r.unread {
		slots = append(slots, s.Name)
	}
	return slots
}

// stateSlots names the outputs that have the dims of the parameter.
func (r *rule) stateSlots() []string {
	slots := []string{paramOutSlot}
	for _, a := range r.accumulators {
		slots = append(slots, a.out)
	}
	return slots
}

// missing makes the error of a slot that holds no variable.
func missing(slot string) error {
	return fault.E(fault.InvalidProgram, fault.Got("no variable in slot "+slot), fault.Want("one"))
}

// infer checks that gradient and accumulators have the dims of the parameter, that numbers have one element, and that all have one type. Every
// output is like the input that it updates.
func (r *rule) infer(s *ops.Shapes) error {
	if !s.Wants(paramOutSlot) {
		return missing(paramOutSlot)
	}
	shaped := []string{paramSlot, gradSlot}
	for _, a := range r.accumulators {
		needed := a.needed(s)
		if needed && !s.Wants(a.out) {
			return missing(a.out)
		}
		if (needed || s.Wants(a.out)) && !s.Has(a.in) {
			return missing(a.in)
		}
		if s.Has(a.in) {
			shaped = append(shaped, a.in)
		}
	}
	numbers := r.numberSlots()
	want := s.In(paramSlot).Dims
	if s.In(paramSlot).DType == tensor.BFloat16 && r.stores() {
		if err := inferStored(s, slices.Concat(shaped, numbers)); err != nil {
			return err
		}
	} else {
		if err := s.IsFloat(paramSlot); err != nil {
			return err
		}
		if err := s.SameType(slices.Concat(shaped, numbers)...); err != nil {
			return err
		}
	}
	for _, slot := range shaped {
		if !ops.Compatible(s.In(slot).Dims, want) {
			return s.Errorf(slot, "%v, the dims of Param", want)
		}
	}
	for _, slot := range numbers {
		if ops.Product(s.In(slot).Dims) != 1 {
			return s.Errorf(slot, "one element")
		}
	}
	s.Like(paramOutSlot, paramSlot)
	for _, a := range r.accumulators {
		s.Like(a.out, a.in)
	}
	for _, p := range r.powers {
		s.Like(p.out, p.in)
	}
	if r.repeats != "" && s.Wants(r.repeats) {
		if s.In(gradSlot).Kind == program.SelectedRows || !s.In(paramSlot).DType.IsFloat() {
			return fault.E(fault.Unsupported, fault.On(s.Op()), fault.Gotf("%s of a sparse gradient, or of a parameter that is stored as bfloat16", r.repeats),
				fault.Want("no variable in "+r.repeats))
		}
		s.Like(r.repeats, gradSlot)
	}
	return nil
}

func (r *rule) bind(b *ops.Binding) (ops.Kernel, error) {
	param := b.In(paramSlot)
	if param == nil {
		return nil, missing(paramSlot)
	}
	switch {
	case param.DType() == tensor.Float32 && r.whole32 != nil:
		return bindWhole(r, b, r.whole32)
	case param.DType() == tensor.Float64 && r.whole64 != nil:
		return bindWhole(r, b, r.whole64)
	case param.DType() == tensor.Float32:
		return bindAs(r, b, r.float32)
	case param.DType() == tensor.Float64:
		return bindAs(r, b, r.float64)
	case param.DType() == tensor.BFloat16 && r.stores():
		return bindStored(r, b)
	}
	return nil, fault.E(fault.TypeMismatch, fault.Got("Param "+param.String()), fault.Want("float32 or float64"))
}

// collect returns the tensors of all slots. It checks them again, because nobody has inferred the shapes of the tensors that a plan binds.
func collect[T tensor.Float](r *rule, b *ops.Binding) (*bound[T], error) {
	param := b.In(paramSlot)
	updated := []state{{in: param, out: b.Out(paramOutSlot), slot: paramOutSlot}}
	for _, a := range r.accumulators {
		updated = append(updated, state{in: b.In(a.in), out: b.Out(a.out), slot: a.out, optional: !a.needed(b)})
	}
	for i, u := range updated {
		as := tensor.Of[T]()
		if i == 0 {
			as = param.DType() // a stored parameter has another type
		}
		if err := u.check(as, param); err != nil {
			return nil, err
		}
	}
	if err := checkGradient(b.In(gradSlot), tensor.Of[T](), param); err != nil {
		return nil, err
	}
	var numbers []*tensor.Tensor
	for _, slot := range r.numberSlots() {
		t := b.In(slot)
		if t == nil {
			return nil, missing(slot)
		}
		if t.DType() != tensor.Of[T]() || t.Len() != 1 {
			return nil, fault.E(fault.ShapeMismatch, fault.Got(slot+" "+t.String()), fault.Want("one element of "+tensor.Of[T]().String()))
		}
		numbers = append(numbers, t)
	}
	return &bound[T]{updated: updated, numbers: numbers, noRate: r.noRate}, nil
}

func bindAs[T tensor.Float](r *rule, b *ops.Binding, prepare prepare[T]) (ops.Kernel, error) {
	all, err := collect[T](r, b)
	if err != nil {
		return nil, err
	}
	grad, update := b.In(gradSlot), prepare(b)
	powers, err := bindPowers[T](r, b)
	if err != nil {
		return nil, err
	}
	if grad.IsSelected() {
		return bindRows(r, b, all, update, powers)
	}
	parts := make([]operands[T], b.Parts())
	for i := range parts {
		parts[i] = all.operands()
	}
	return b.Loops(append([]ops.Loop{{N: b.In(paramSlot).Len(), Whole: r.wholeSlots(), Writes: r.stateSlots(), Run: func(part, from, to int) error {
		o := &parts[part]
		all.load(o, from, to)
		o.grad = tensor.Data[T](grad)[from:to]
		update(o)
		return nil
	}}}, append(powers, repeat[T](r, b)...)...)...)
}

// repeat returns the loop that copies the gradient, none if the op names no output for it.
func repeat[T tensor.Float](r *rule, b *ops.Binding) []ops.Loop {
	from, to := b.In(gradSlot), b.Out(r.repeats)
	if to == nil {
		return nil
	}
	return []ops.Loop{{N: from.Len(), Reads: []string{gradSlot}, Writes: []string{r.repeats}, Run: func(_, first, end int) error {
		copy(tensor.Data[T](to)[first:end], tensor.Data[T](from)[first:end])
		return nil
	}}}
}

// bindPowers returns the loop that multiplies numbers for the next step, none if the op names no outputs for them.
func bindPowers[T tensor.Float](r *rule, b *ops.Binding) ([]ops.Loop, error) {
	var in, out []*tensor.Tensor
	var factors []T
	var reads, writes []string
	for _, p := range r.powers {
		to := b.Out(p.out)
		if to == nil {
			continue
		}
		if to.DType() != tensor.Of[T]() || to.Len() != 1 {
			return nil, fault.E(fault.ShapeMismatch, fault.Got(p.out+" "+to.String()), fault.Want("one element of "+tensor.Of[T]().String()))
		}
		in, out, factors = append(in, b.In(p.in)), append(out, to), append(factors, T(b.Float(p.factor)))
		reads, writes = append(reads, p.in), append(writes, p.out)
	}
	if len(out) == 0 {
		return nil, nil
	}
	return []ops.Loop{{N: 1, Apart: true, Reads: reads, Writes: writes, Run: func(int, int, int) error {
		for i, to := range out {
			tensor.Data[T](to)[0] = tensor.Data[T](in[i])[0] * factors[i]
		}
		return nil
	}}}, nil
}

// bound is what an update is bound to, without the gradient.
type bound[T tensor.Float] struct {
	updated []state // the parameter and then the accumulators
	numbers []*tensor.Tensor
	noRate  bool // the numbers have no learning rate in front
}

func (a *bound[T]) operands() operands[T] {
	return operands[T]{accumulators: make([][]T, len(a.updated)-1), numbers: make([]T, len(a.numbers))}
}

// load points o at elements [from, to) and reads the numbers.
func (a *bound[T]) load(o *operands[T], from, to int) {
	if a.updated[0].in.DType() == tensor.Of[T]() { // a stored parameter is loaded by blocks
		o.param = inPlace[T](a.updated[0], from, to)
	}
	for i, u := range a.updated[1:] {
		o.accumulators[i] = inPlace[T](u, from, to)
	}
	given := a.numbers
	if !a.noRate {
		o.rate, given = tensor.Data[T](given[0])[0], given[1:]
	}
	for i, t := range given {
		o.numbers[i] = tensor.Data[T](t)[0]
	}
}

// A state is a tensor before and after the update, often the same tensor.
type state struct {
	in, out  *tensor.Tensor
	slot     string // of out
	optional bool
}

func (u state) absent() bool { return u.optional && (u.in == nil || u.out == nil) }

func (u state) check(dtype tensor.DType, param *tensor.Tensor) error {
	if u.absent() {
		return nil
	}
	if err := like("the input of "+u.slot, u.in, dtype, param); err != nil {
		return err
	}
	return like(u.slot, u.out, dtype, param)
}

// like checks that t has a type, and the dims of the parameter.
func like(slot string, t *tensor.Tensor, dtype tensor.DType, param *tensor.Tensor) error {
	if t == nil {
		return missing(slot)
	}
	if t.DType() != dtype || !slices.Equal(t.Dims(), param.Dims()) {
		return fault.E(fault.ShapeMismatch, fault.Got(slot+" "+t.String()), fault.Wantf("%v%v, like Param", dtype, param.Dims()))
	}
	return nil
}

// inPlace returns elements [from, to) of the output, which hold the input's values: the loops update in place.
func inPlace[T tensor.Bits](u state, from, to int) []T {
	if u.absent() {
		return nil
	}
	in, out := tensor.Data[T](u.in)[from:to], tensor.Data[T](u.out)[from:to]
	if len(out) > 0 && &in[0] != &out[0] {
		copy(out, in)
	}
	return out
}
