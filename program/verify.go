package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// OpRules answers the questions of Verify about ops.
type OpRules interface {
	// CheckOp returns the faults of an op by itself: its type, slots and attributes.
	CheckOp(b *Block, op *Op) fault.List
	// CheckTypes returns the faults in the types of the variables of an op. Verify calls it if all of them are declared and CheckOp found nothing.
	CheckTypes(b *Block, op *Op) fault.List
}

// A Spec says what Verify checks in addition to the rules of the IR.
type Spec struct {
	Ops OpRules // nil: Verify does not check what ops mean
	// Fed lets ops read variables of the global block that no op writes. They come from a feed or from the network.
	Fed bool
	// Hint reports whether the declared type of a variable is a hint, because inference finds the type anew. Fluid has written extents such as -49, and
	// no type at all. Of a hint only the kind is checked. Nil: no declaration is a hint.
	Hint func(*Var) bool
	// Linked returns the variables of the blocks of an op that the op itself sets before each run, and those that it reads after it. They may have other dims
	// than a variable of the same name outside. Nil: there are none.
	Linked func(op *Op) (given, left []string)
	// Shape checks the program as a whole and reports its faults. Nil allows everything. Verify calls it only on a program without other faults.
	Shape func(p *Program, report func(*fault.Fault))
}

// maxNesting bounds how many blocks may enclose each other. To find a name takes as many steps.
const maxNesting = 64

// Verify checks a program, which may come from anywhere. It checks blocks and their references, variables and their types, names, the order of
// writing and reading, and what spec adds. It returns all faults, up to a hundred, as a fault.List. It does not check the startup program, which is
// a program of another stage.
func Verify(p *Program, spec Spec) error {
	v := verifier{program: p, spec: spec, given: map[*Var]bool{}, linked: map[*Var]bool{}}
	if !v.blocks() {
		return v.report.err()
	}
	v.links()
	sound := len(v.report.list) == 0
	for _, b := range p.Blocks {
		v.variables(b)
	}
	for _, b := range p.Blocks {
		for i, op := range b.Ops {
			v.op(b, i, op)
		}
	}
	v.flow()
	if spec.Shape != nil && sound {
		spec.Shape(p, v.report.add)
	}
	return v.report.err()
}

type verifier struct {
	program *Program
	spec    Spec
	report  report
	given   map[*Var]bool // an op sets it before each run of its block
	linked  map[*Var]bool // an op sets or reads it between runs of its block
}

// links finds the variables that ops hand to their blocks, and take from them.
func (v *verifier) links() {
	if v.spec.Linked == nil {
		return
	}
	for _, b := range v.program.Blocks {
		for _, op := range b.Ops {
			given, left := v.spec.Linked(op)
			for _, index := range op.SubBlocks() {
				if !v.isBlock(int(index)) {
					continue
				}
				for i, name := range slices.Concat(given, left) {
					if own, ok := v.program.Blocks[index].Var(name); ok {
						v.linked[own] = true
						v.given[own] = v.given[own] || i < len(given)
					}
				}
			}
		}
	}
}

// WhereOp returns the place of a fault of an op: block and position.
func WhereOp(block, position int) string { return fmt.Sprintf("block %d, op %d", block, position) }

// at adds the place, the type and the user's line of an op to a fault.
func at(b *Block, position int, op *Op, f *fault.Fault) *fault.Fault {
	c := *f
	if c.Where == "" {
		c.Where = WhereOp(b.Index, position)
	}
	if c.Op == "" {
		c.Op = op.Type
	}
	if c.Line == "" {
		c.Line = op.Line()
	}
	return &c
}

// maxFaults bounds the faults of one check. Without it a hostile file could fill a log.
const maxFaults = 100

// A report collects up to maxFaults faults of one check and counts the others.
type report struct {
	list fault.List
	more int
}

func (r *report) add(f *fault.Fault) {
	if len(r.list) < maxFaults {
		r.list.Add(f)
	} else {
		r.more++
	}
}

func (r *report) err() error {
	if r.more > 0 {
		r.list.Add(fault.E(r.list[0].Kind, fault.Cause(fmt.Errorf("and %d more faults", r.more))))
		r.more = 0
	}
	return r.list.Err()
}

// blocks checks the indices by which blocks refer to each other. It returns false if it is not safe to follow them.
func (v *verifier) blocks() bool {
	p := v.program
	if len(p.Blocks) == 0 {
		v.report.add(fault.E(fault.InvalidProgram, fault.Got("no block"), fault.Want("at least one")))
		return false
	}
	for i, b := range p.Blocks {
		wrong := func(got, want string) {
			v.report.add(fault.E(fault.InvalidProgram, fault.Atf("block %d", i), fault.Got(got), fault.Want(want)))
		}
		if b.Index != i {
			wrong(fmt.Sprintf("index %d", b.Index), "its position")
		}
		if i == 0 && b.Parent != NoBlock {
			wrong(fmt.Sprintf("parent %d", b.Parent), "none for the global block")
		} else if !v.isBlock(b.Parent) && b.Parent != NoBlock {
			wrong(fmt.Sprintf("parent %d", b.Parent), fmt.Sprintf("-1 to %d", len(p.Blocks)-1))
		}
		if !v.isBlock(b.Forward) && b.Forward != NoBlock {
			wrong(fmt.Sprintf("forward block %d", b.Forward), fmt.Sprintf("-1 to %d", len(p.Blocks)-1))
		}
	}
	if len(v.report.list) > 0 {
		return false
	}
	if cycle := blockCycle(p); cycle != nil {
		v.report.add(fault.E(fault.InvalidProgram, fault.Cause(fmt.Errorf("invalid program: block cycle %s", arrows(cycle))),
			fault.Hint("a block must not be its own parent or its own sub-block, directly or through others")))
		return false
	}
	for _, b := range p.Blocks {
		if depth := b.depth(); depth > maxNesting {
			v.report.add(fault.E(fault.TooLarge, fault.Atf("block %d", b.Index), fault.Gotf("%d enclosing blocks", depth),
				fault.Wantf("at most %d", maxNesting)))
			return false
		}
	}
	return true
}

func (v *verifier) isBlock(index int) bool { return index >= 0 && index < len(v.program.Blocks) }

// depth counts the enclosing blocks, up to maxNesting+1. The parents must not form a cycle.
func (b *Block) depth() int {
	n := 0
	for b = b.ParentBlock(); b != nil && n <= maxNesting; b = b.ParentBlock() {
		n++
	}
	return n
}

// blockCycle returns a cycle of blocks, with the first block again at the end, or nil. A block leads to the blocks that it encloses and to the
// sub-blocks of its ops. References to blocks that do not exist do not count.
func blockCycle(p *Program) []int {
	next := make([][]int, len(p.Blocks))
	for i, b := range p.Blocks {
		if b.Parent != NoBlock {
			next[b.Parent] = append(next[b.Parent], i)
		}
		for _, op := range b.Ops {
			for _, sub := range op.SubBlocks() {
				if int(sub) >= 0 && int(sub) < len(p.Blocks) {
					next[i] = append(next[i], int(sub))
				}
			}
		}
	}
	const (
		unseen = iota
		open
		done
	)
	state := make([]int, len(p.Blocks))
	for start := range p.Blocks {
		path := []int{}
		if state[start] == unseen {
			state[start] = open
			path = append(path, start)
		}
		for len(path) > 0 {
			last := path[len(path)-1]
			if len(next[last]) == 0 {
				state[last] = done
				path = path[:len(path)-1]
				continue
			}
			to := next[last][0]
			next[last] = next[last][1:]
			switch state[to] {
			case open:
				for path[0] != to {
					path = path[1:]
				}
				return append(path, to)
			case unseen:
				state[to] = open
				path = append(path, to)
			}
		}
	}
	return nil
}

// arrows shows a cycle from its smallest block on. It cuts the middle of a long cycle.
func arrows(cycle []int) string {
	cycle = cycle[:len(cycle)-1]
	smallest := 0
	for i := range cycle {
		if cycle[i] < cycle[smallest] {
			smallest = i
		}
	}
	const shown = 20
	var steps []string
	for i := range min(len(cycle), shown) {
		steps = append(steps, fmt.Sprint(cycle[(smallest+i)%len(cycle)]))
	}
	if len(cycle) > shown {
		steps = append(steps, "...")
	}
	return strings.Join(append(steps, fmt.Sprint(cycle[smallest])), " → ")
}

// maxLoDLevel bounds the levels of sequences within sequences.
const maxLoDLevel = 8

func (v *verifier) variables(b *Block) {
	for _, variable := range b.Vars() {
		wrong := func(f *fault.Fault) {
			f.Where, f.Variable = fmt.Sprintf("block %d", b.Index), variable.Name
			v.report.add(f)
		}
		if b.vars[variable.Name] != variable || variable.Name == "" || variable.Name == Empty {
			wrong(fault.E(fault.InvalidProgram, fault.Got("the name "+fault.Quote(variable.Name)),
				fault.Want("the name under which it was added, not empty and not "+Empty)))
		}
		hint := variable.Kind.known() && v.spec.Hint != nil && v.spec.Hint(variable)
		if f := checkVar(variable); f != nil && !hint {
			wrong(f)
		}
		parent := b.ParentBlock()
		if parent == nil {
			continue
		}
		if outer, ok := parent.Find(variable.Name); ok && !sameType(outer, variable) && !v.linked[variable] {
			wrong(fault.E(fault.TypeMismatch, fault.Got(describe(variable)),
				fault.Want(describe(outer)+", as an enclosing block declares this name")))
		}
	}
}

// checkVar checks the declaration of a variable.
func checkVar(v *Var) *fault.Fault {
	switch {
	case !v.Kind.known():
		return fault.E(fault.TypeMismatch, fault.Gotf("kind %d", v.Kind), fault.Want("a kind of variable, 7 to 31"))
	case v.LoDLevel < 0 || v.LoDLevel > maxLoDLevel:
		return fault.E(fault.InvalidProgram, fault.Gotf("LoD level %d", v.LoDLevel), fault.Wantf("0 to %d", maxLoDLevel))
	case v.Kind == Reader:
		for i := range v.Fields {
			if f := checkTensor(&v.Fields[i]); f != nil {
				f.Got = fmt.Sprintf("field %d: %s", i, f.Got)
				return f
			}
		}
		return nil
	case v.Kind.isTensor():
		return checkTensor(v)
	}
	return nil
}

func checkTensor(v *Var) *fault.Fault {
	known := slices.DeleteFunc(slices.Clone(v.Dims), func(d int64) bool { return d == Unknown })
	switch {
	case v.DType == noDType:
		return fault.E(fault.TypeMismatch, fault.Got("no element type"), fault.Want("one"))
	case v.DType.Size() == 0:
		return fault.E(fault.Unsupported, fault.Got("element type "+v.DType.String()),
			fault.Want("one of bool, int8 to int64, uint8, float16 to float64, bfloat16"))
	case len(v.Dims) > tensor.MaxRank:
		return fault.E(fault.TooLarge, fault.Gotf("rank %d", len(v.Dims)), fault.Wantf("at most %d", tensor.MaxRank))
	case slices.ContainsFunc(known, func(d int64) bool { return d < 0 }):
		return fault.E(fault.ShapeMismatch, fault.Gotf("dims %v", v.Dims), fault.Want("-1 where open, else 0 or more"))
	}
	if _, ok := tensor.Count(append(known, int64(v.DType.Size()))); !ok {
		return fault.E(fault.TooLarge, fault.Gotf("dims %v", v.Dims), fault.Want("fewer bytes than 2^63"))
	}
	return nil
}

// known reports whether Fluid has the kind. Kinds share the numbers of their enum with element types.
func (k VarKind) known() bool {
	return k >= LoDTensor && k <= 31 && tensor.DType(k).Size() == 0
}

// isTensor reports whether variables of the kind have an element type and dims.
func (k VarKind) isTensor() bool { return k == LoDTensor || k == SelectedRows || k == LoDTensorArray }

// sameType reports whether two declarations can declare one variable.
func sameType(a, b *Var) bool {
	if a.Kind != b.Kind {
		return false
	}
	if !a.Kind.isTensor() {
		return true
	}
	return a.DType == b.DType && slices.EqualFunc(a.Dims, b.Dims, func(x, y int64) bool { return x == y || x == Unknown || y == Unknown })
}

// describe names kind, dtype and dims, such as "float32[-1 784]".
func describe(v *Var) string {
	if !v.Kind.isTensor() {
		return v.Kind.String()
	}
	text := fmt.Sprintf("%v%v", v.DType, v.Dims)
	if v.Kind != LoDTensor {
		text = v.Kind.String() + " of " + text
	}
	if v.LoDLevel > 0 {
		text += fmt.Sprintf(" lod %d", v.LoDLevel)
	}
	return text
}
