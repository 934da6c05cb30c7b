package plan

import (
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
