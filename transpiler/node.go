package transpiler

import (
	"maps"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A duty says what becomes of an op of the user's global block.
type duty int

const (
	dutyTrainer  duty = iota // runs on trainers: forward, backward, readers
	dutyRate                 // learning-rate block: once per round on every server that updates anything
	dutyUpdate               // part of the update of a group of parameters
	dutyScalar               // global part: scalars that follow from norms, on every server
	dutyConstant             // makes one number out of nothing: copied to each block that reads it
)

// A node is one op of the user's global block with what passes find out about it.
type node struct {
	op     *program.Op
	def    *ops.Def
	at     int // position in the block
	duty   duty
	reads  []string // every variable that the op or its sub-blocks read, each once, sorted
	writes []string

	norm  bool   // its output is the norm of a gradient or parameter that all servers combine
	late  bool   // depends on the global part, so it runs after it
	group *group // of dutyUpdate
}

// newNode looks up an op of the global block of a program that has been verified.
func newNode(b *program.Block, at int, op *program.Op) *node {
	def, _ := ops.Lookup(op.Type)
	n := &node{op: op, def: def, at: at}
	reads, writes := b.Touches(op)
	delete(reads, program.Empty)
	delete(writes, program.Empty)
	n.reads, n.writes = slices.Sorted(maps.Keys(reads)), slices.Sorted(maps.Keys(writes))
	return n
}

// A usage lists the nodes that read and write a variable, in order.
type usage struct{ readers, writers []*node }

// by reports whether one of nodes has the duty.
func by(nodes []*node, d duty) bool {
	return slices.ContainsFunc(nodes, func(n *node) bool { return n.duty == d })
}

// usages indexes nodes by variable.
func usages(nodes []*node) map[string]*usage {
	index := map[string]*usage{}
	of := func(name string) *usage {
		u := index[name]
		if u == nil {
			u = &usage{}
			index[name] = u
		}
		return u
	}
	for _, n := range nodes {
		for _, name := range n.reads {
			u := of(name)
			u.readers = append(u.readers, n)
		}
		for _, name := range n.writes {
			u := of(name)
			u.writers = append(u.writers, n)
		}
	}
	return index
}
