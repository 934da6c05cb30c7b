package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A binder is the stage that makes tensors and binds ops to them. It takes the variables and the nodes, and hands on the pieces.
type binder struct {
	scope     Scope
	env       *ops.Env // that kernels point to
	pace      pace
	variables *variables
	spaces    *spaces
	store     *Store
	blanks    map[tensor.DType]*tensor.Tensor
	block     *program.Block
	room      *room
	grain     time.Duration // Request.Grain, for blocks that ops run
	tapes     *tapes
	pieces    []*piece
	held      []*variable // that pieces go on using until the end of the block
}

// bind makes the tensors and binds every op once. The tensors of temporaries have no memory of their own yet, because the layout decides later where
// it lies. Until then they share a blank, which no kernel reads or writes.
func (b *binder) bind(nodes []node) error {
	for _, v := range b.variables.order {
		if err := b.makeTensor(v); err != nil {
			if i := slices.IndexFunc(nodes, func(n node) bool { return slices.Contains(n.op.OutputNames(), v.name) }); i >= 0 {
				return ops.At(nodes[i].op, err)
			}
			return err
		}
		v.showSequences()
	}
	for i := range nodes {
		if err := b.bindNode(&nodes[i]); err != nil {
			return ops.At(nodes[i].op, err)
		}
	}
	b.hold()
	return nil
}

// hold finds the variables that a piece goes on reading or writing after its kernel has returned. A barrier waits for that, so it counts as a piece
// that reads or writes them: every barrier waits for sends, and a fetch_barrier for what is received, too (ops.Comm). What is sent may be sent again until
// the fetch_barrier, so each barrier up to it counts. Where there is no barrier, that may last until the end of the block.
func (b *binder) hold() {
	var reads, writes []*variable
	for _, p := range b.pieces {
		barrier := p.def.Class == ops.Dist && strings.HasSuffix(p.op.Type, "_barrier")
		switch {
		case barrier:
			p.reads = append(p.reads, reads...)
			if p.op.Type == "fetch_barrier" {
				p.writes, reads, writes = append(p.writes, writes...), nil, nil
			}
		case p.def.HoldsInputs:
			reads = append(reads, p.reads...)
		case p.def.Class == ops.Dist && !p.isLoop():
			writes = append(writes, p.writes...)
		}
	}
	b.held = slices.Concat(reads, writes)
}

// bindNode binds an op, and makes pieces of it.
func (b *binder) bindNode(n *node) error {
	var noScratch error
	kernel, loops, err := b.bindOp(n, &noScratch, func(dtype tensor.DType, elements int) *tensor.Tensor {
		v, err := (*variable)(nil), b.room.scratch(n, dtype, elements)
		if err == nil {
			v, err = b.scratch(dtype, elements)
		}
		if err != nil {
			noScratch = err
			return nil
		}
		n.scratch = append(n.scratch, v)
		return v.tensor
	})
	if err != nil {
		return err
	}
	if loops == nil {
		p := &piece{node: n, op: n.op, def: n.def, kernel: kernel, scratch: n.scratch, cost: n.cost, pace: b.pace,
			reads: b.variables.list(n.op.Inputs, nil), writes: b.variables.list(n.op.Outputs, nil)}
		if n.def.Class == ops.Control {
			b.complete(n, p)
		}
		n.bound = []*piece{p}
	}
	for _, l := range loops {
		p := &piece{node: n, op: n.op, def: n.def, loop: l, scratch: n.scratch, cost: share(n.cost, loops), pace: b.pace,
			reads: b.variables.list(n.op.Inputs, l.Reads), writes: b.variables.list(n.op.Outputs, l.Writes)}
		for _, v := range b.variables.list(n.op.Inputs, l.Whole) {
			if l.Whole != nil && uses(p.reads, v) {
				p.whole = append(p.whole, v)
			}
		}
		if err := p.check(); err != nil {
			return err
		}
		n.bound = append(n.bound, p)
	}
	b.pieces = append(b.pieces, n.bound...)
	return nil
}

// bindOp binds an op to the tensors of its variables. scratch gives it memory; where it cannot, it sets noScratch. An op that was bound to loops has no kernel.
func (b *binder) bindOp(n *node, noScratch *error, scratch func(tensor.DType, int) *tensor.Tensor) (kernel ops.Kernel, loops []ops.Loop, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = cmp.Or(*noScratch, panicked(r))
		}
	}()
	tensors := b.variables.tensorsOf(n)
	binding := ops.NewBinding(n.op, n.def, b.env, tensors.in, tensors.out, scratch)
	if n.def.Class == ops.Control {
		b.surround(n, binding)
	}
	kernel, err = n.def.Bind(binding)
	switch {
	case err != nil:
		return nil, nil, err
	case *noScratch != nil:
		return nil, nil, *noScratch
	case kernel == nil:
		return nil, nil, fault.New(fault.Internal, "the op was bound to no kernel")
	}
	return kernel, binding.Bound(), nil
}

func (b *binder) makeTensor(v *variable) (err error) {
	if v.rows != nil {
		defer func() {
			if err == nil {
				v.tensor, err = tensor.Select(v.tensor, v.rows.tensor, v.meta.Dims[0])
			}
		}()
	}
	switch v.place {
	case temporary:
		v.tensor, err = b.blank(v.meta.DType, v.meta.Stored())
		return err
	case own, fed:
		if v.tensor, err = tensor.New(v.meta.DType, v.meta.Stored()...); err != nil {
			return fault.E(fault.KindOf(err), fault.Var(v.name), fault.Cause(err))
		}
	case scoped:
		if v.tensor, err = b.scope.Var(v.name, v.meta.DType, v.meta.Dims); err != nil {
			return err
		}
	case dynamic:
		if v.tensor, err = tensor.New(v.meta.DType, 0); err != nil {
			return err
		}
		b.room.budget.Hold(v.tensor, v.name)
	case valueless:
		v.value = ops.NewValue(v.meta.Kind, v.name, b.room.budget)
	}
	v.span = b.spaces.next(1)
	return nil
}

// blank returns a tensor of these dims whose elements mean nothing. All blanks of a dtype share one memory, which is as large as the largest.
func (b *binder) blank(dtype tensor.DType, dims []int64) (*tensor.Tensor, error) {
	n, ok := tensor.Count(dims)
	if !ok {
		return tensor.New(dtype, dims...) // reports what is wrong with dims
	}
	t, err := tensor.New(dtype, 0)
	if err != nil {
		return nil, err
	}
	memory, err := b.blankMemory(dtype, n)
	if err != nil {
		return nil, err
	}
	return t, tensor.Lay(t, memory, 0, dims...)
}

// blankMemory returns a vector of at least n elements.
func (b *binder) blankMemory(dtype tensor.DType, n int) (*tensor.Tensor, error) {
	if have := b.blanks[dtype]; have != nil && have.Len() >= n {
		return have, nil
	}
	made, err := b.store.of(dtype, n)
	if err == nil {
		b.blanks[dtype] = made
	}
	return made, err
}

// scratch makes memory that an op uses while it runs. The layout packs it like a temporary.
func (b *binder) scratch(dtype tensor.DType, n int) (*variable, error) {
	if n < 0 {
		return nil, fault.New(fault.Internal, "the op asked for scratch memory of a negative size")
	}
	v := b.variables.add("", ops.Meta{Kind: program.LoDTensor, DType: dtype, Dims: []int64{int64(n)}}, temporary)
	return v, b.makeTensor(v)
}

// share returns the cost of one of the loops of an op.
func share(whole ops.Cost, loops []ops.Loop) ops.Cost {
	n := int64(len(loops))
	return ops.Cost{Flops: whole.Flops / n, Bytes: whole.Bytes / n}
}

// check makes sure that each iteration owns an equal part of every variable. The later stages rely on it.
func (p *piece) check() error {
	if p.loop.N <= 0 || p.loop.Apart {
		return nil
	}
	for _, list := range [...][]*variable{p.reads, p.writes} {
		for _, v := range list {
			if n := p.loop.N; v.place != valueless && v.elements()%n != 0 && !uses(p.whole, v) {
				return fault.E(fault.Internal, fault.Var(v.name), fault.Gotf("%d elements in a loop of %d iterations", v.elements(), n),
					fault.Want("as many for each iteration"))
			}
		}
	}
	return nil
}

// panicked makes a fault of the panic of a kernel, because no program may end the process.
func panicked(r any) error {
	return fault.E(fault.Internal, fault.Cause(fmt.Errorf("the kernel panicked: %v", r)),
		fault.Hint("this is a bug of the op, or a tensor that the verifier should have refused"))
}

// A piece is an op that was bound to a kernel, or one loop of an op that was bound to loops.
type piece struct {
	node    *node
	op      *program.Op
	def     *ops.Def
	kernel  ops.Kernel // nil for a loop
	loop    ops.Loop
	reads   []*variable
	writes  []*variable
	whole   []*variable // the reads that each iteration of the loop may read in full
	parts   []*variable // of which the piece touches only some elements, through views: its iterations own others than their share
	scratch []*variable
	term    *variable // the variable of reads that the loop adds its result to; nil for none
	cost    ops.Cost
	pace    pace
	also    []string // types of the ops that it has taken over

	from  *piece  // that the binder has made, and whose loop it has; nil for itself
	taken []taken // what the loop does, too, in this order
}

// A taken is the loop of an epilogue that the loop of a piece has taken over (ops.Loop.TakeOver), or the term that it adds (ops.Loop.Accumulate).
type taken struct {
	epilogue *piece
	between  *variable // what the piece then does not store
	to, term *variable // if there is no epilogue
}

// origin returns the piece of the binder whose loop p has.
func (p *piece) origin() *piece {
	if p.from != nil {
		return p.from
	}
	return p
}

func (p *piece) isLoop() bool { return p.kernel == nil }

func (p *piece) isUpdate() bool { return isUpdate(p.op, p.def) }

// run runs a whole piece on the goroutine of the caller.
func (p *piece) run(ctx context.Context) error {
	if !p.isLoop() {
		return p.kernel(ctx)
	}
	if p.loop.N == 0 {
		return nil
	}
	return p.loop.Run(0, 0, p.loop.N)
}

// touches calls f with every variable that the piece reads or writes, and with its scratch memory.
func (p *piece) touches(f func(v *variable, write bool)) {
	for _, v := range p.reads {
		f(v, false)
	}
	for _, v := range p.writes {
		f(v, true)
	}
	for _, v := range p.scratch {
		f(v, true)
	}
}

// goesOutside reports whether the op reaches out of the process, or has another effect than its outputs. Such ops keep their order.
func (p *piece) goesOutside() bool {
	return p.def.Effect || p.def.Class == ops.Dist || p.def.Class == ops.Serve || p.def.Class == ops.FileIO
}

// isApart reports whether iterations of the piece may touch other elements of v than their share.
func (p *piece) isApart(v *variable) bool { return uses(p.whole, v) || uses(p.parts, v) }

// optimizes reports whether a piece belongs to the update of a parameter or to the schedule of the learning rate.
func (p *piece) optimizes() bool {
	role := p.op.Role()
	return role.Has(program.RoleOptimize) || role.Has(program.RoleLRSched)
}

// nanoseconds estimates how long one core needs for the piece.
func (p *piece) nanoseconds() float64 { return p.pace.nanoseconds(p.cost) }
