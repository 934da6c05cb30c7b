// Package ops owns the contract of an operator, the registry of operators, and the rules for programs that follow from them.
//
// One Def holds everything about an op: slots and attributes, shape inference, gradient, cost, how the state of several trainers merges, kernel
// and documentation. The ops are in sub-packages (math, nn, sequence, detection, random, optim, reader, comm, fileio). Importing package ops/all registers
// all of them. Package opkit helps to write new ones. Numeric loops are in ops/kernel and know only slices.
//
// What happens to an op:
//
//	layers     append the op; Infer finds the shapes of its outputs
//	Verify     checks the op, whether its program was built here or came from outside
//	optimizer  calls Gradient, which writes the ops that compute gradients
//	executor   calls Bind once per plan, when all shapes and buffers are known, again when they change, and runs the Kernel once per step
//
// Running a Kernel allocates nothing.
//
// Files in reading order: def.go (Def and the registry), shapes.go, known.go and lod.go (what Infer sees), check.go (slots and attributes), binding.go and
// env.go (what Bind and kernels see), control.go (blocks and arrays), steps.go (blocks of recurrent networks), tape.go, ranktable.go, accepted.go (attributes of other writers), grad.go, merge.go, totals.go, sharetotals.go and recomputed.go (what trainers share in a step), divide.go, chosen.go, found.go, stage.go (which ops are legal where), verify.go, checks.go (what tests check of every op), describe.go,
// table.go (the table in docs/ops.md), introduced.go and probe.go (columns of it).
package ops

import (
	"context"
	"fmt"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// A Def defines one op.
type Def struct {
	Type    string // name in programs, Fluid's where Fluid has the op
	Class   Class
	Doc     string // what the op computes, with the formula; the first sentence is the summary
	Inputs  []Slot
	Outputs []Slot
	Attrs   []Attr

	// Infer sets dtype and dims of every output. Callers have checked slots and attributes against the lists above. An extent of
	// program.Unknown is open: it stands for any.
	Infer func(*Shapes) error

	// Gradient returns the ops that compute the gradients of the inputs, in order. Nil: no gradient flows through the op.
	Gradient func(*Grad) ([]*program.Op, error)

	// Cost estimates the work of one run. Nil: only the bytes of inputs and outputs count.
	Cost func(*Shapes) Cost

	// Bind prepares the kernel for given shapes and buffers. It depends on them, on attributes and on nothing else, and changes nothing outside of the kernel. It may be nil for Class Feed and Class Read: executors handle these themselves.
	Bind func(*Binding) (Kernel, error)

	// RowSliced says that rows of axis 0 are independent. If the op gets only rows [a, b) of every argument with the shape of the parameter, it
	// gives exactly the bits of these rows. The transpiler slices a parameter over pservers only if all ops of its update are RowSliced.
	RowSliced bool

	// MakesLoD reports whether dims or the LoD of outputs follow from the offsets of inputs, or from integers in a slot with Slot.Decides. Executors compile a
	// program with such an op for the offsets, and for these values, of each batch (Dependence). Nil: never.
	MakesLoD func(*program.Op) bool

	// MixesRows reports whether the outputs lack what lets trainers divide a batch by rows: that they have the rows of the batch, in its order, and that
	// each depends on no other row. divided says of an input slot whether it holds rows of the batch; other slots are equal on all trainers. At least
	// one slot is divided, and extents of the batch may be open. The transpiler refuses such an op where the loss depends on it. Nil: never.
	MixesRows func(s *Shapes, divided func(slot string) bool) bool

	// RecordsAlong says of an op that MixesRows, along which axis of slots the records of a batch lie where it keeps them apart all the same: a recurrent network has steps
	// along axis 0, and records along axis 1. What is in other inputs must be the same on all trainers.
	RecordsAlong map[string]int

	// Finds says of an op that MixesRows how the rows lie that it finds in each record of a batch. Nil: it finds none, or it needs other records.
	Finds *Finding

	// RowsOf names the slot whose rows the outputs have, of an op that computes each of them from other inputs of its record: regions of pictures.
	RowsOf string

	// FromDims says that the outputs follow from dims of a row and from attributes alone, as boxes laid over images do: they are the same for every batch, and on every
	// trainer.
	FromDims bool

	// TouchesRows reports, of an update op whose Grad is sparse, whether it changes only the rows that Grad holds: of Param, and of the outputs with as many rows that
	// are updated in place. Nil: never.
	TouchesRows func(*program.Op) bool

	// TellsRows lists slots: inputs, updated in place, of which the op tells Env.Rows each row before it changes it, and outputs that are sparse gradients, of
	// which it tells each row of the table that it finds.
	TellsRows []string

	// InPlace maps an output slot to the input slot whose buffer it may share.
	InPlace map[string]string

	// Leaves maps output slots to the input slots whose variable they may be: op then leaves it as it is, as batch_norm does with its statistics when it tests. An output slot
	// that maps to "" is not written at all. An executor counts neither as written, so several goroutines may run the op on one state. Nil: none.
	Leaves func(op *program.Op) map[string]string

	// State lists the outputs that a forward pass writes to persistable variables, and how the values of several trainers merge.
	State map[string]Merge

	// Recounts names an op that computes an output again from counts that several trainers have merged; nil for none.
	Recounts *Recount

	// Totals lists outputs that are sums over the rows of the batch, such as a number of errors.
	Totals []string

	// Effect says that a run does more than write its outputs: it writes to the log, or ends the step with an error. An executor runs such an op even if nobody
	// reads what it writes, and keeps the order of those of a block.
	Effect bool

	// Exempt says of a check that tests make of every op why this one cannot have it. Tests refuse an exemption of an op that has the check.
	Exempt map[Check]string

	// Asks says of an op of class Dist that it belongs to the forward pass: it asks others for what the pass goes on with, changes nothing there, and is told the same when
	// the step runs again. So executors may run it again, and bind it to other dims.
	Asks bool

	// HoldsInputs says that the op reads its inputs even after the kernel has returned, until the next barrier.
	HoldsInputs bool

	defaults *program.Op // has the defaults as attributes; Register makes it
	callers  []uintptr   // of Register
}

// A Kernel runs the op once on the buffers that it was bound to. One goroutine at a time calls it. It allocates nothing. A kernel that can block
// returns soon after ctx ends.
type Kernel func(ctx context.Context) error

// A Class is the sort of an op. The table of stages (stage.go) says where ops of a class are legal.
type Class int

// Classes of ops.
const (
	Compute  Class = iota // computes a function of its inputs
	Backward              // gradient of a Compute op
	Random                // depends on a seed and a position too
	Optimize              // updates a parameter in place
	Feed                  // feed and fetch
	Read                  // readers and their decorators
	Dist                  // send, recv and barriers
	Serve                 // listen_and_serv
	FileIO                // save and load
	Control               // runs blocks of the program, or handles values whose dims are known only when it runs (control.go)
)

// A Slot is a named list of variables.
type Slot struct {
	Name        string
	Doc         string
	Duplicable  bool // takes any number of variables
	Dispensable bool // may be absent
	// Intermediate marks an output that only the gradient op reads. A program for inference may leave it out.
	Intermediate bool
	// Rows says that a variable in the slot may also be a sparse gradient (program.SelectedRows). Other slots refuse one, so that no kernel
	// mistakes a few rows for the whole.
	Rows bool
	// Stored says that a variable in the slot may also be bfloat16, in which tables are stored. Other slots refuse it.
	Stored bool
	// Decides says that the values of the variable, integers, may decide dims or LoD of outputs. Infer reads them with Decide.
	Decides bool
}

// An Attr is an attribute with its default and check.
type Attr struct {
	Name    string
	Doc     string
	Default program.Attr // also gives the attribute its type; nil for a required attribute
	Kind    program.Attr // for a required attribute: the zero value of its type
	// Check refuses values, with the kind fault.Unsupported those that Fluid has and this build does not. Nil: every value of the type is legal.
	Check func(op *program.Op) error
	// Tensor and Tensors name input slots that may give the value instead: one tensor with all numbers, or as many variables of one number each.
	// The definition lists the slots as dispensable inputs. Infer sees the value in the attribute, ops.Open where it is not known.
	Tensor, Tensors string
	// Whole says that Infer needs all numbers of such a tensor: a program in which one is not known is refused.
	Whole bool
	// Opens says of a single number that Infer sees Open, too, if it is not known. Else a program is refused in which it is not.
	Opens bool
}

// Merge says how the values that several trainers computed for one variable become one value.
type Merge int

// Ways to merge.
const (
	MergeNone  Merge = iota
	MergeMean        // the mean, weighted by rows: gradients of a mean loss, moving statistics
	MergeSum         // the sum: gradients of a summed loss; for state, the sum of the changes
	MergeFirst       // the value of the first trainer that has rows: state that does not depend on rows
)

// Cost estimates one run of an op.
type Cost struct {
	Flops int64 // floating-point operations
	Bytes int64 // bytes read and written
}

// String returns the name of the constant.
func (c Class) String() string {
	names := [...]string{"Compute", "Backward", "Random", "Optimize", "Feed", "Read", "Dist", "Serve", "FileIO", "Control"}
	if c < 0 || int(c) >= len(names) {
		return fmt.Sprintf("class %d", int(c))
	}
	return names[c]
}

var registry = map[string]*Def{}

// Register adds an op. Call it from init functions. It panics if the type is taken or a part is missing, because a process with a broken
// registry must not start.
func Register(d Def) {
	d.callers = make([]uintptr, 0, 8)
	if d.Type == "" || d.Doc == "" {
		panic("ops: an op without type or documentation: " + d.Type)
	}
	if _, ok := registry[d.Type]; ok {
		panic("ops: registered twice: " + d.Type)
	}
	if d.Infer == nil {
		panic("ops: no shape inference: " + d.Type)
	}
	if d.Bind == nil && d.Class != Feed && d.Class != Read {
		panic("ops: no kernel: " + d.Type)
	}
	for check, reason := range d.Exempt {
		if !check.known() || reason == "" {
			panic(fmt.Sprintf("ops: %s is exempt from the check %q for the reason %q", d.Type, check, reason))
		}
	}
	seen := map[string]bool{}
	for _, s := range slices.Concat(d.Inputs, d.Outputs) {
		if s.Name == "" {
			panic("ops: a slot without name: " + d.Type)
		}
	}
	for _, a := range d.Attrs {
		if a.Name == "" || seen[a.Name] || (a.Default == nil) == (a.Kind == nil) {
			panic(fmt.Sprintf("ops: attribute %q of %s: a unique name and either a default or a kind", a.Name, d.Type))
		}
		seen[a.Name] = true
	}
	d.defaults = defaultsOf(&d)
	d.callers = d.callers[:runtime.Callers(2, d.callers[:cap(d.callers)])]
	registry[d.Type] = &d
}

// Family returns the last element of the import path of the package that has registered the op, such as math.
func (d *Def) Family() string {
	frames := runtime.CallersFrames(d.callers)
	for {
		frame, more := frames.Next()
		folder, function := path.Split(frame.Function)
		family, _, _ := strings.Cut(function, ".")
		if helper := folder == "github.com/edl-go/edl/" && family == "ops" || folder == "github.com/edl-go/edl/ops/" && family == "opkit"; !helper || !more {
			return family
		}
	}
}

// Lookup returns the op of a type.
func Lookup(opType string) (*Def, bool) {
	d, ok := registry[opType]
	return d, ok
}

// foreign says of ops of Fluid what they need that a file does not hold.
var foreign = map[string]string{
	"py_func":                  "a Python function of the process that built the program",
	"run_program":              "a program that lives in the memory of a Python process",
	"create_custom_reader":     "a reader that lives in the memory of a Python process",
	"create_ctr_reader":        "a reader that lives in the memory of a Python process",
	"enqueue":                  "a queue that lives in the memory of a Python process",
	"dequeue":                  "a queue that lives in the memory of a Python process",
	"queue_generator":          "a queue that lives in the memory of a Python process",
	"pull_box_sparse":          "a table in a server of BoxPS",
	"pull_sparse":              "a table in a server of Fleet",
	"pull_sparse_v2":           "a table in a server of Fleet",
	"distributed_lookup_table": "a table in a server of Fleet",
	"tensorrt_engine":          "an engine that TensorRT has built for a GPU",
	"lite_engine":              "an engine that Paddle-Lite has built",
	"as_complex":               complexNumbers,
	"as_real":                  complexNumbers,
	"complex":                  complexNumbers,
	"eig":                      complexNumbers,
	"eigvals":                  complexNumbers,
	"fft_c2c":                  complexNumbers,
	"fft_c2r":                  complexNumbers,
	"fft_r2c":                  complexNumbers,
	"imag":                     complexNumbers,
	"real":                     complexNumbers,
}

const complexNumbers = "complex numbers, a type that EDL does not have yet"

// divided are ops that only Fluid's transpilers and fleet write, and that EDL has no use for.
var divided = []string{"all_gather", "all_reduce", "all_to_all", "allreduce", "alltoall", "barrier", "broadcast", "c_allgather", "c_allreduce_avg",
	"c_allreduce_max", "c_allreduce_min", "c_allreduce_prod", "c_allreduce_sum", "c_broadcast", "c_comm_init", "c_comm_init_all", "c_comm_init_hccl",
	"c_comm_init_multitrainer", "c_concat", "c_embedding", "c_gen_bkcl_id", "c_gen_hccl_id", "c_gen_nccl_id", "c_gen_xccl_id", "c_identity", "c_reduce_avg",
	"c_reduce_max", "c_reduce_min", "c_reduce_prod", "c_reduce_sum", "c_reducescatter", "c_scatter", "c_softmax_with_cross_entropy", "c_split",
	"c_sync_calc_stream", "c_sync_comm_stream", "c_wait_comm", "c_wait_compute", "checkpoint_notify", "delete_var", "depend", "dist_concat",
	"distributed_notify", "fake_init", "fl_listen_and_serv", "gen_bkcl_id", "gen_hccl_id", "gen_nccl_id", "heter_listen_and_serv", "mp_allreduce_sum", "p_recv",
	"p_send", "partial_allgather", "partial_recv", "partial_send", "recv_save", "recv_v2", "reduce_scatter", "ref_by_trainer_id", "send_and_recv", "send_v2"}

// quantized are ops that passes for integers of 8 bits write between others, for oneDNN.
var quantized = []string{"dequantize", "quantize", "requantize"}

// beforeQuantized says what to do with a program that such passes have changed.
const beforeQuantized = "give the program as it was before the passes for int8: in float32, or with the fake_quantize and quantize_linear ops of training or calibration, which EDL computes"

// Unregistered makes the error of an op whose type Lookup does not know. The fields say where it is.
func Unregistered(opType string, fields ...fault.Field) *fault.Fault {
	if needs := foreign[opType]; needs != "" {
		return fault.E(fault.Unsupported, append(fields, fault.Got("an op that needs "+needs), fault.Want("ops that a file describes"))...)
	}
	if slices.Contains(divided, opType) {
		return fault.E(fault.Unsupported, append(fields, fault.Got("an op that a transpiler has written, for a part of a job"), fault.Want("the whole program"),
			fault.Hint(beforeTranspiled))...)
	}
	if slices.Contains(quantized, opType) {
		return fault.E(fault.Unsupported, append(fields, fault.Got("an op that a pass for int8 has written, for oneDNN"), fault.Want("a program that computes in float32"),
			fault.Hint(beforeQuantized))...)
	}
	return fault.E(fault.Unsupported, append(fields, fault.Got("an op type that is not registered"), fault.Want("an op that `edl show ops` lists"),
		fault.DidYouMean(opType, slices.Sorted(maps.Keys(registry))))...)
}

// Changing returns op without the outputs that it leaves as they are. It is op itself if there are none.
func (d *Def) Changing(op *program.Op) *program.Op {
	if d.Leaves == nil {
		return op
	}
	changing := op
	for out, in := range d.Leaves(op) {
		if names := op.Outputs[out]; len(names) == 0 || in != "" && !slices.Equal(names, op.Inputs[in]) {
			continue
		}
		if changing == op {
			c := *op
			c.Outputs, changing = maps.Clone(op.Outputs), &c
		}
		delete(changing.Outputs, out)
	}
	return changing
}

// All returns every registered op, sorted by type.
func All() []*Def {
	defs := make([]*Def, 0, len(registry))
	for _, t := range slices.Sorted(maps.Keys(registry)) {
		defs = append(defs, registry[t])
	}
	return defs
}

// zero returns a value of the attribute's type.
func (a Attr) zero() any {
	if a.Default != nil {
		return a.Default
	}
	return a.Kind
}

// A Check is a check that tests make of every op of the registry (ops/gradcheck, internal/lawcheck), so that no op lacks one unnoticed. They also draw hostile slots, dims, types and attributes
// for every op, which need no reason to be left out.
type Check string

// Checks of every op.
const (
	CheckGradient Check = "gradient" // the gradient, where the op has one, equals central differences
	CheckLaw      Check = "law"      // a model with the op has on clusters the bits of the reference executor
)

// RowsOfData exempts ops without gradient of class Control that write as many rows as their data says.
var RowsOfData = map[Check]string{CheckLaw: "it writes as many rows as its data says, and no gradient flows through it: no loss of a cluster can depend on them"}

// FoundRows exempts ops with a Finding: cases of single ops have no loss that ends with a sum or mean over the rows that they find. Package transpiler checks the losses of detectors.
var FoundRows = map[Check]string{CheckLaw: "no gradient flows through it, and a loss of the rows that it finds needs other ops: package transpiler checks the losses of detectors"}

// known reports whether c is one of the checks above.
func (c Check) known() bool { return c == CheckGradient || c == CheckLaw }
