package ops

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Ops of class Control run blocks of the program (BLOCK attributes), or read and write arrays. Their rules differ from those of other ops in three points:
//
//   - Infer may leave the type of an output open, by not setting it, and extents of it open also when all inputs are known. Then the dims change from run to
//     run, and only ops of this class, and ops of a block that one of them runs, can read the variable.
//   - The kernel gives such an output its dims (tensor.Resize or tensor.Assign). It reads the dims of its inputs on every run.
//   - The executor makes what a variable of another kind holds, and empties it before each run of its block. Binding.ArrayIn and Binding.ArrayOut return it.
//
// What a block writes are the variables that it does not declare; they count as outputs of the op whether its slots list them or not.

// A Body is a block that an op runs.
type Body interface {
	// Run runs the ops of the block once, on the goroutine of the caller. n counts the runs since the op began, from 0.
	Run(ctx context.Context, n int64) error
	// Skip makes up for a run that does not happen: variables that would have got their first value from it become zero.
	Skip()
	// Inside returns the tensor of a variable that the block itself declares, which keeps its value between runs. It is nil if the block declares no such tensor.
	// It is called before the first run.
	Inside(name string) *tensor.Tensor
}

// A Reverse is the block of the gradient of an op that runs a block. Each of its runs begins with the values that a run of the forward block has left, the
// last one first.
type Reverse interface {
	Body
	// Begin begins the gradient of the last run of the forward op that has none yet. It returns how often the op ran its block then.
	Begin() (int64, error)
}

// Surroundings give a Binding what an op of class Control needs besides tensors.
type Surroundings interface {
	// Value returns what a variable that is no tensor holds, nil if nothing.
	Value(name string) any
	// Body prepares the block of a BLOCK attribute.
	Body(block program.BlockIndex) (Body, error)
	// Reverse prepares the block of a gradient. tape is what the op that runs the forward block has written to the variable of kind program.StepScopes.
	// A name of links means in the block what the name beside it means outside.
	Reverse(block program.BlockIndex, tape *Tape, links map[string]string) (Reverse, error)
}

// Within sets the surroundings. It is for executors, before Bind.
func (b *Binding) Within(s Surroundings) *Binding {
	b.around = s
	return b
}

// Body prepares the block of a BLOCK attribute.
func (b *Binding) Body(attr string) (Body, error) {
	index, ok := b.op.SubBlock(attr)
	if !ok || b.around == nil {
		return nil, fault.E(fault.InvalidProgram, fault.On(b.op), fault.Got("no block in attribute "+attr), fault.Want("one, in a program that has it"))
	}
	return b.around.Body(index)
}

// Reverse prepares the block of a gradient. scopes is the slot of the tape that the forward op has left. A name of links means in the block what the name
// beside it means outside.
func (b *Binding) Reverse(attr, scopes string, links map[string]string) (Reverse, error) {
	index, ok := b.op.SubBlock(attr)
	if !ok || b.around == nil {
		return nil, fault.E(fault.InvalidProgram, fault.On(b.op), fault.Got("no block in attribute "+attr), fault.Want("one, in a program that has it"))
	}
	tape, err := valueOf[*Tape](b, b.op.In(scopes), scopes)
	if err != nil {
		return nil, err
	}
	return b.around.Reverse(index, tape, links)
}

// KeptAtEntry reports whether the gradient of a block reads a variable from outside as it was when a run of the block began. So it does if the block writes the
// variable, unless an op changes it in place, as increment does with counters: the gradient of that op undoes the change, in programs of Fluid.
func KeptAtEntry(block *program.Block, name string) bool {
	for _, op := range block.Ops {
		if subs := op.SubBlocks(); len(subs) > 0 {
			for _, index := range subs {
				if sub, err := block.Program().Block(index); err == nil && !sub.Declares(name) && !KeptAtEntry(sub, name) {
					return false
				}
			}
			continue
		}
		if slices.Contains(op.InputNames(), name) && slices.Contains(op.OutputNames(), name) {
			return false
		}
	}
	return true
}

// ArrayIn returns the array in an input slot.
func (b *Binding) ArrayIn(slot string) (*Array, error) {
	return valueOf[*Array](b, b.op.In(slot), slot)
}

// ArrayOut returns the array in an output slot.
func (b *Binding) ArrayOut(slot string) (*Array, error) {
	return valueOf[*Array](b, b.op.Out(slot), slot)
}

// RankIn returns the rank table in an input slot.
func (b *Binding) RankIn(slot string) (*RankTable, error) {
	return valueOf[*RankTable](b, b.op.In(slot), slot)
}

// RankOut returns the rank table in an output slot.
func (b *Binding) RankOut(slot string) (*RankTable, error) {
	return valueOf[*RankTable](b, b.op.Out(slot), slot)
}

func valueOf[T any](b *Binding, name, slot string) (T, error) {
	var value T
	if b.around != nil {
		if v, ok := b.around.Value(name).(T); ok {
			return v, nil
		}
	}
	return value, fault.E(fault.TypeMismatch, fault.On(b.op), fault.Var(name), fault.Got("a variable of another kind in slot "+slot), fault.Wantf("%T", value))
}

// NewValue makes what a variable of a kind holds, nil for a kind that holds nothing. An array and a tape take what they hold from the budget, which may be nil.
func NewValue(kind program.VarKind, name string, budget *tensor.Budget) any {
	switch kind {
	case program.LoDTensorArray:
		return &Array{name: name, budget: budget}
	case program.StepScopes:
		return &Tape{name: name, budget: budget}
	case program.LoDRankTable:
		return &RankTable{}
	}
	return nil
}

// ClearValue empties what NewValue has made. The memory stays for the next run.
func ClearValue(value any) {
	switch v := value.(type) {
	case *Array:
		v.Clear()
	case *Tape:
		v.clear()
	case *RankTable:
		v.Set(nil)
	}
}

// mostItems bounds the length of an array, so that a wrong index is an error and not a huge allocation.
const mostItems = 1 << 20

// An Array is a list of tensors of any dims: the value of a variable of kind program.LoDTensorArray. It keeps the memory of items for later runs.
type Array struct {
	name   string           // of the variable
	items  []*tensor.Tensor // the first n are in use
	n      int
	budget *tensor.Budget // of what the items take, in use or not; nil for none
}

// itemBytes is what an item without elements takes, about.
const itemBytes = 256

// Len returns the number of items.
func (a *Array) Len() int { return a.n }

// Clear takes out all items.
func (a *Array) Clear() { a.n = 0 }

// Holds reports whether item i has elements.
func (a *Array) Holds(i int64) bool { return i >= 0 && i < int64(a.n) && a.items[i].Len() > 0 }

// At returns item i, which belongs to the array.
func (a *Array) At(i int64) (*tensor.Tensor, error) {
	if i < 0 || i >= int64(a.n) {
		return nil, fault.E(fault.InvalidArgument, fault.Gotf("item %d of an array", i), fault.Wantf("one of its %d items", a.n))
	}
	return a.items[i], nil
}

// Grow makes the array longer, up to n items. New items have no elements.
func (a *Array) Grow(n int64) error {
	if n > mostItems {
		return fault.E(fault.TooLarge, fault.Gotf("item %d of an array", n-1), fault.Wantf("at most %d items", mostItems))
	}
	for int64(a.n) < n {
		if a.n == len(a.items) {
			if err := a.budget.Take(a.name, itemBytes); err != nil {
				return err
			}
			item, err := tensor.New(tensor.Float32, 0)
			if err != nil {
				return err
			}
			a.budget.Hold(item, a.name)
			a.items = append(a.items, item)
		}
		if item := a.items[a.n]; item.Len() > 0 {
			if err := tensor.Resize(item, item.DType(), nothing...); err != nil {
				return err
			}
		}
		a.n++
	}
	return nil
}

// nothing is the dims of an item that was not written.
var nothing = []int64{0}

// Put copies value to item i. The array grows if it is shorter.
func (a *Array) Put(i int64, value *tensor.Tensor) error {
	if i < 0 {
		return fault.E(fault.InvalidArgument, fault.Gotf("item %d of an array", i), fault.Want("0 or more"))
	}
	if err := a.Grow(i + 1); err != nil {
		return err
	}
	return tensor.Assign(a.items[i], value)
}

// Empty takes the elements out of item i, which an array may lack.
func (a *Array) Empty(i int64) error {
	if i < 0 || i >= int64(a.n) {
		return nil
	}
	item := a.items[i]
	return tensor.Resize(item, item.DType(), nothing...)
}
