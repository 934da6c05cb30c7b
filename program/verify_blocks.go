package program

import (
	"fmt"
	"strings"

	"github.com/edl-go/edl/fault"
)

// blocks checks the numbers by which blocks refer to each other. It returns false when following them is not safe.
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
	if cycle := p.blockCycle(); cycle != nil {
		v.report.add(fault.E(fault.InvalidProgram, fault.Cause(fmt.Errorf("invalid program: block cycle %s", arrows(cycle))),
			fault.Hint("a block may be neither its own parent nor its own sub-block, also not through others")))
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

// depth counts the enclosing blocks, up to one more than maxNesting. There is no cycle of parents.
func (b *Block) depth() int {
	n := 0
	for b = b.ParentBlock(); b != nil && n <= maxNesting; b = b.ParentBlock() {
		n++
	}
	return n
}

// blockCycle returns blocks that lead to each other, the first again at the end, or nil. A block leads to the blocks that it encloses and to the
// sub-blocks of its ops. References to blocks that do not exist are left out.
func (p *Program) blockCycle() []int {
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

// arrows shows a cycle from its smallest block on, shortened in the middle when it is long.
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
