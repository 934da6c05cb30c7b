package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

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
	memory    int64 // bytes that an array may take; 0 is no bound
	tapes     *tapes
	pieces    []*piece
	held      []*variable // that pieces go on using until the end of the block
}

// bind makes the tensors and binds every op once. The tensors of temporaries have no memory of their own yet, because the layout decides later where
// it lies. Until then they share a blank, which no kernel reads or writes.
func (b *binder) bind(nodes []node) error {
	for _, v := range b.variables.order {
		if err := b.makeTensor(v); err != nil {
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

func (b *binder) bindNode(n *node) (err error) {
	var scratch []*variable
	var noScratch error
	take := func(dtype tensor.DType, elements int) *tensor.Tensor {
		v, err := b.scratch(dtype, elements)
		if err != nil {
			noScratch = err
			return nil
		}
		scratch = append(scratch, v)
		return v.tensor
	}
	defer func() {
		if r := recover(); r != nil {
			err = cmp.Or(noScratch, panicked(r))
		}
	}()
	binding := ops.NewBinding(n.op, n.def, b.env, b.variables.tensors(n.op.Inputs), b.variables.tensors(n.op.Outputs), take)
	if n.def.Class == ops.Control {
		b.surround(n, binding)
	}
	kernel, err := n.def.Bind(binding)
	switch {
	case err != nil:
		return err
	case noScratch != nil:
		return noScratch
	case kernel == nil:
		return fault.New(fault.Internal, "the op was bound to no kernel")
	}
	loops := binding.Bound()
	if loops == nil {
		p := &piece{op: n.op, def: n.def, kernel: kernel, scratch: scratch, cost: n.cost, pace: b.pace,
			reads: b.variables.list(n.op.Inputs, nil), writes: b.variables.list(n.op.Outputs, nil)}
		if n.def.Class == ops.Control {
			b.complete(n, p)
		}
		b.pieces = append(b.pieces, p)
		return nil
	}
	for _, l := range loops {
		p := &piece{op: n.op, def: n.def, loop: l, scratch: scratch, cost: share(n.cost, loops), pace: b.pace,
			reads: b.variables.list(n.op.Inputs, l.Reads), writes: b.variables.list(n.op.Outputs, l.Writes)}
		for _, v := range b.variables.list(n.op.Inputs, l.Whole) {
			if l.Whole != nil && uses(p.reads, v) {
				p.whole = append(p.whole, v)
			}
		}
		if err := p.check(); err != nil {
			return err
		}
		b.pieces = append(b.pieces, p)
	}
	return nil
}

func (b *binder) makeTensor(v *variable) (err error) {
	if v.rows != nil {
		defer func() {
			if err == nil {
				v.tensor, err = v.tensor.Select(v.rows.tensor, v.meta.Dims[0])
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
	case valueless:
		v.value = ops.NewValue(v.meta.Kind, b.memory)
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
	if have := b.blanks[dtype]; have == nil || have.Len() < n {
		made, err := b.store.of(dtype, n)
		if err != nil {
			return nil, err
		}
		b.blanks[dtype] = made
	}
	return view(b.blanks[dtype], 0, n, dims)
}

// view returns n elements of memory from offset on, with dims.
func view(memory *tensor.Tensor, offset, n int, dims []int64) (*tensor.Tensor, error) {
	rows, err := memory.Rows(int64(offset), int64(offset+n))
	if err != nil {
		return nil, err
	}
	return rows.Reshape(dims...)
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
	for _, v := range slices.Concat(p.reads, p.writes) {
		if n := p.loop.N; n > 0 && !p.loop.Apart && v.place != valueless && !uses(p.whole, v) && v.elements()%n != 0 {
			return fault.E(fault.Internal, fault.Var(v.name), fault.Gotf("%d elements in a loop of %d iterations", v.elements(), n),
				fault.Want("as many for each iteration"))
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
