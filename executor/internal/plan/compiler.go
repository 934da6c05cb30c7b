package plan

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A compiler carries what the phases hand on to each other.
type compiler struct {
	Request
	plan      *Plan
	variables map[string]*variable
	order     []*variable // in the order in which ops meet them; scratch memory of an op is a variable without a name
	nodes     []node
	pieces    []*piece
	arenas    map[tensor.DType]*arena
	blanks    map[tensor.DType]*tensor.Tensor
	pace      pace
	spaces    int // numbers given out to pieces of memory so far
}

// A node is an op of the block with concrete shapes.
type node struct {
	op   *program.Op
	def  *ops.Def
	cost ops.Cost
}

// A place says where the value of a variable lives.
type place int

const (
	temporary place = iota // in the arena, for as long as pieces touch it
	own                    // in memory of its own, readable after the run
	fed                    // in the tensor that was fed
	scoped                 // in the scope
	valueless              // nowhere: readers and other variables that are no tensors
)

// A variable is what the compiler knows of one name.
type variable struct {
	name        string
	meta        ops.Meta // dims are concrete
	place       place
	rows        *variable // of program.SelectedRows: the numbers of its rows, which are touched whenever it is
	viewOf      *variable // the variable whose elements it shares, nil for elements of its own
	first, last int       // pieces that touch it; last includes those that hold it
	writer      int       // first piece that writes it, -1 when none does
	buffer      *buffer
	tensor      *tensor.Tensor
	span        span
}

func (v *variable) elements() int { return int(ops.Product(v.meta.Stored())) }

func (v *variable) bytes() int64 {
	if v.place == valueless {
		return 0
	}
	return int64(v.elements()) * int64(v.meta.DType.Size())
}

// A span is a piece of memory: elements [from, to) of a space. Pieces of different spaces never overlap.
type span struct {
	space    int
	from, to int
}

func (a span) overlaps(b span) bool { return a.space == b.space && a.from < b.to && b.from < a.to }

// newSpace returns the span of memory that nothing shares.
func (c *compiler) newSpace(n int) span {
	c.spaces++
	return span{space: c.spaces, to: max(n, 1)}
}

func (c *compiler) makeTensor(v *variable) (err error) {
	if v.rows != nil {
		defer func() {
			if err == nil {
				v.tensor, err = v.tensor.Select(v.rows.tensor, v.meta.Dims[0])
			}
		}()
	}
	switch v.place {
	case temporary:
		v.tensor, err = c.blank(v.meta.DType, v.meta.Stored())
		return err
	case own, fed:
		if v.tensor, err = tensor.New(v.meta.DType, v.meta.Stored()...); err != nil {
			return fault.E(fault.KindOf(err), fault.Var(v.name), fault.Cause(err))
		}
	case scoped:
		if v.tensor, err = c.Scope.Var(v.name, v.meta.DType, v.meta.Dims); err != nil {
			return err
		}
	case valueless:
	}
	v.span = c.newSpace(1)
	return nil
}

// blank returns a tensor of these dims whose elements mean nothing. All of a dtype share them, so only the largest counts.
func (c *compiler) blank(dtype tensor.DType, dims []int64) (*tensor.Tensor, error) {
	n, ok := tensor.Count(dims)
	if !ok {
		return tensor.New(dtype, dims...) // reports what is wrong with dims
	}
	if have := c.blanks[dtype]; have == nil || have.Len() < n {
		made, err := tensor.New(dtype, int64(n))
		if err != nil {
			return nil, err
		}
		c.blanks[dtype] = made
	}
	return view(c.blanks[dtype], 0, n, dims)
}

// view returns n elements of memory from offset on, with dims.
func view(memory *tensor.Tensor, offset, n int, dims []int64) (*tensor.Tensor, error) {
	rows, err := memory.Rows(int64(offset), int64(offset+n))
	if err != nil {
		return nil, err
	}
	return rows.Reshape(dims...)
}

// scratch makes memory that an op uses while it runs. It lives and is packed like a temporary.
func (c *compiler) scratch(dtype tensor.DType, n int) (*variable, error) {
	if n < 0 {
		return nil, fault.New(fault.Internal, "the op asked for scratch memory of a negative size")
	}
	v := c.add("", ops.Meta{Kind: program.LoDTensor, DType: dtype, Dims: []int64{int64(n)}}, temporary)
	return v, c.makeTensor(v)
}

func (c *compiler) tensors(slots map[string][]string) map[string][]*tensor.Tensor {
	bound := make(map[string][]*tensor.Tensor, len(slots))
	for slot, names := range slots {
		list := make([]*tensor.Tensor, len(names))
		for i, name := range names {
			if name != program.Empty {
				list[i] = c.variables[name].tensor
			}
		}
		bound[slot] = list
	}
	return bound
}
