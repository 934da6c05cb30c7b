package plan

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// A compiler carries what the phases hand on to each other.
type compiler struct {
	Request
	plan      *Plan
	variables map[string]*variable
	order     []*variable // in the order in which steps meet them
	arenas    map[tensor.DType]*arena
	chunks    []*chunk
	spaces    int // numbers given out to pieces of memory so far
}

// A place says where the value of a variable lives.
type place int

const (
	temporary place = iota // in the arena, for as long as steps touch it
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
	first, last int // steps that touch it; last includes those that hold it
	writer      int // first step that writes it, -1 when none does
	buffer      *buffer
	tensor      *tensor.Tensor
	span        span
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
