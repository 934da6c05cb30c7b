package optim

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// A rule declares one optimizer.
type rule struct {
	opType       string
	doc          string
	noRate       bool          // the algorithm has no learning rate
	accumulators []accumulator // state of the parameter's dims
	numbers      []ops.Slot    // inputs of one element besides LearningRate
	attrs        []ops.Attr
	flops        int64 // floating-point operations per element
	float32      prepare[float32]
	float64      prepare[float64]

	// Of a sparse gradient; see rows.go.
	lazy     func(*ops.Binding) bool // leaves rows alone that the gradient does not hold; nil: never
	rowByRow bool                    // is that of sgd, which is linear in the gradient: rows that repeat are applied in turn
}

// An accumulator is a tensor that the update reads and writes.
type accumulator struct {
	in, out  string // slots
	doc      string
	onlyWith string // BOOLEAN attribute without which both slots may be absent; empty when they never may
}

// needed reports whether the slots must hold variables.
func (a accumulator) needed(attrs interface{ Bool(string) bool }) bool {
	return a.onlyWith == "" || attrs.Bool(a.onlyWith)
}

// prepare reads the attributes once and returns the update, which is called once per step.
type prepare[T tensor.Float] func(*ops.Binding) func(*operands[T])

// operands are what an update works on. All slices are of one length and are updated in place, grad excepted.
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
			{Name: paramSlot, Doc: "the parameter, float32 or float64"},
			{Name: gradSlot, Doc: "its gradient", Rows: true},
		},
		Outputs:   []ops.Slot{{Name: paramOutSlot, Doc: "the new parameter, usually the variable of Param"}},
		Attrs:     r.attrs,
		Infer:     r.infer,
		Cost:      opkit.PerElement(r.flops),
		Bind:      r.bind,
		RowSliced: true,
		InPlace:   map[string]string{paramOutSlot: paramSlot},
	}
	if !r.noRate {
		def.Inputs = append(def.Inputs, ops.Slot{Name: rateSlot, Doc: "the learning rate, one element"})
	}
	for _, a := range r.accumulators {
		def.Inputs = append(def.Inputs, ops.Slot{Name: a.in, Doc: a.doc, Dispensable: a.onlyWith != ""})
		def.Outputs = append(def.Outputs, ops.Slot{Name: a.out, Doc: "the new " + a.in, Dispensable: a.onlyWith != ""})
		def.InPlace[a.out] = a.in
	}
	def.Inputs = append(def.Inputs, r.numbers...)
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

// missing is the fault of a slot that holds no variable where one is needed.
func missing(slot string) error {
	return fault.E(fault.InvalidProgram, fault.Got("no variable in slot "+slot), fault.Want("one"))
}
