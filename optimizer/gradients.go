package optimizer

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/program"
)

// gradients are the ops of a backward pass so far, and the gradients that they write. A variable that several ops use has a gradient of several parts. They are
// renamed to x@GRAD@RENAME@0 and so on, and a sum op follows the last of them.
type gradients struct {
	block   *program.Block // the forward one
	steps   []*program.Op
	arrived map[string]bool             // forward variables by whether they have a gradient; those of enclosing blocks only if the block has changed that
	parts   map[string][]argument       // of gradients that are not complete, in order
	live    map[string]bool             // forward variables whose gradient has a value already, to which parts are added
	renamed map[string]int              // how many parts of a gradient have got names
	written map[string]bool             // forward variables whose gradient some step writes
	origin  map[*program.Op]*program.Op // the forward op of a step
}

func newGradients(block *program.Block) gradients {
	return gradients{block: block, arrived: map[string]bool{}, parts: map[string][]argument{}, live: map[string]bool{}, renamed: map[string]int{},
		written: map[string]bool{}, origin: map[*program.Op]*program.Op{}}
}

// An argument is a place where an op writes a variable.
type argument struct {
	op    *program.Op
	slot  string
	index int
}

// add appends a step, and notes the gradients that it writes.
func (g *gradients) add(op *program.Op) {
	g.steps = append(g.steps, op)
	for _, slot := range slots(op.Outputs) {
		op.Outputs[slot] = slices.Clone(op.Outputs[slot])
		for i, name := range op.Outputs[slot] {
			forward, ok := forwardName(name)
			if !ok {
				continue
			}
			g.arrived[forward], g.written[forward] = true, true
			if v, found := g.block.Find(forward); found && v.Kind == program.LoDTensorArray || g.live[forward] && len(op.SubBlocks()) > 0 && slices.Contains(op.InputNames(), name) {
				continue // changed where it is
			}
			g.parts[name] = append(g.parts[name], argument{op, slot, i})
		}
	}
}

// has reports whether a forward variable has a gradient.
func (b *backward) has(name string) bool {
	if has, known := b.arrived[name]; known || b.outer == nil {
		return has
	}
	return b.through[name] && b.outer.has(name)
}

// forget takes away the gradient of a variable, because ops before give it another value.
func (g *gradients) forget(name string) {
	g.arrived[name] = false
	delete(g.live, name)
	delete(g.parts, program.GradName(name))
}

// complete sums the parts of the gradient of a variable.
func (g *gradients) complete(name string) {
	grad := program.GradName(name)
	parts := g.parts[grad]
	delete(g.parts, grad)
	live := g.live[name]
	if len(parts) == 0 || len(parts) == 1 && !live {
		return
	}
	sum := &program.Op{Type: "sum", Inputs: map[string][]string{}, Outputs: map[string][]string{"Out": {grad}}}
	if live {
		sum.Inputs["X"] = []string{grad}
	}
	for _, part := range parts {
		renamed := fmt.Sprintf("%s%s%d", grad, program.RenameMark, g.renamed[grad])
		g.renamed[grad]++
		part.op.Outputs[part.slot][part.index] = renamed
		sum.Inputs["X"] = append(sum.Inputs["X"], renamed)
	}
	last := parts[len(parts)-1].op
	sum.SetLine(parts[0].op.Line())
	at := slices.Index(g.steps, last) + 1
	for at < len(g.steps) && g.steps[at].Type == "sum" && follows(g.steps[at], last) {
		at++
	}
	g.steps = slices.Insert(g.steps, at, sum)
}

// follows reports whether a sum adds a part that op writes.
func follows(sum, op *program.Op) bool {
	return slices.ContainsFunc(sum.Inputs["X"], func(name string) bool { return slices.Contains(op.OutputNames(), name) })
}

// completeAll sums all parts that are left, in the order of the ops that write the last of them.
func (g *gradients) completeAll() {
	for _, op := range slices.Clone(g.steps) {
		for _, name := range op.OutputNames() {
			forward, ok := forwardName(name)
			if parts := g.parts[name]; ok && len(parts) > 0 && parts[len(parts)-1].op == op {
				g.complete(forward)
			}
		}
	}
}
