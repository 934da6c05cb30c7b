package transpiler

import (
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A gather builds the ops that bring variables from servers into a program: a recv for each, one fetch barrier, and then a
// concat for each that is sliced.
type gather struct {
	*controls
	role    program.Role // of the concat ops
	recvs   []*program.Op
	concats []*program.Op
}

// variable brings in one variable from the parts that servers hold, after what the control variables stand for. v is its
// declaration, which the block gets unless it has one.
func (g *gather) variable(v *program.Var, parts []heldVar, line string, after, pair []string) {
	g.block.EnsureVar(v.Copy(""))
	var from []part
	for _, h := range parts {
		local := v.Name
		if h.cut {
			local = h.at.Name
			piece := h.at.Copy("")
			piece.Persistable, piece.IsParameter = false, false
			g.block.EnsureVar(piece)
		}
		from = append(from, part{local: local, remote: h.at.Name, server: h.server})
	}
	recv := recvOp(line, from, after)
	g.recvs = append(g.recvs, recv)
	if pair != nil {
		recv.SetAttr(program.AttrRoleVar, pair)
	}
	if parts[0].cut {
		g.concats = append(g.concats, concatOp(g.role, line, locals(from), v.Name))
	}
}

// ops returns what was built, nothing when no variable was added.
func (g *gather) ops() []*program.Op {
	if len(g.recvs) == 0 {
		return nil
	}
	var received []string
	for _, op := range g.recvs {
		received = append(received, op.Outputs["Out"]...)
	}
	all := append(g.recvs, barrierOp("fetch_barrier", received, g.add()))
	return append(all, g.concats...)
}

// controls makes variables without elements that only fix the order of ops. Fluid calls them __control_var@<n>.
type controls struct {
	block *program.Block
	names nameSpace
	next  int
}

// add declares the next control variable and returns its name.
func (c *controls) add() string {
	for {
		name := fmt.Sprintf("__control_var@%d", c.next)
		c.next++
		if _, taken := c.block.Var(name); taken || c.names[name] {
			continue
		}
		c.block.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{0}, StopGradient: true})
		return name
	}
}

// checkSections checks that the rows of a variable fit the attribute that cuts it.
func checkSections(name string, rows int64) error {
	if rows != int64(int32(rows)) {
		return fault.E(fault.TooLarge, fault.Var(name), fault.Gotf("%d rows", rows), fault.Want("fewer than 2^31"))
	}
	return nil
}
