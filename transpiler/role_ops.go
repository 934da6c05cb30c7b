package transpiler

import (
	"fmt"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
)

// A slots maps slot names to variables.
type slots = map[string][]string

// newOp makes an op with the user's line of another.
func newOp(opType string, role program.Role, line string, in, out slots) *program.Op {
	op := &program.Op{Type: opType, Inputs: in, Outputs: out}
	op.SetRole(role)
	op.SetLine(line)
	return op
}

// A part is a variable of a trainer program and its place at a server.
type part struct {
	local  string // in the trainer's program
	remote string // at the server
	server int
}

func locals(parts []part) []string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.local
	}
	return names
}

// setDestinations sets the attributes of a send or recv that say where its variables are kept.
func setDestinations(op *program.Op, namesAttr string, parts []part) {
	addresses, names := make([]string, len(parts)), make([]string, len(parts))
	for i, p := range parts {
		addresses[i], names[i] = comm.Address(p.server), p.remote
	}
	op.SetAttr("epmap", addresses)
	op.SetAttr(namesAttr, names)
}

// sendOp sends parts. An op that reads the variable control comes later.
func sendOp(line string, parts []part, merge ops.Merge, control string) *program.Op {
	op := newOp("send", program.RoleRPC, line, slots{"X": locals(parts)}, slots{"Out": {control}})
	setDestinations(op, "send_varnames", parts)
	op.SetAttr("merge", int32(merge))
	return op
}

// recvOp receives parts. It comes after the ops that write the control variables.
func recvOp(line string, parts []part, after []string) *program.Op {
	op := newOp("recv", program.RoleRPC, line, nil, slots{"Out": locals(parts)})
	if len(after) > 0 {
		op.Inputs = slots{"X": after}
	}
	setDestinations(op, "recv_varnames", parts)
	return op
}

// barrierOp makes a send_barrier or fetch_barrier.
func barrierOp(opType string, after []string, control string) *program.Op {
	return newOp(opType, program.RoleRPC, "", slots{"X": after}, slots{"Out": {control}})
}

// splitOp divides a variable into runs of rows.
func splitOp(role program.Role, line, from string, into []string, rows []int64) *program.Op {
	sections := make([]int32, len(rows))
	for i, n := range rows {
		sections[i] = int32(n)
	}
	op := newOp("split_byref", role, line, slots{"X": {from}}, slots{"Out": into})
	op.SetAttr("sections", sections)
	return op
}

// concatOp joins runs of rows.
func concatOp(role program.Role, line string, from []string, into string) *program.Op {
	op := newOp("concat", role, line, slots{"X": from}, slots{"Out": {into}})
	op.SetAttr("axis", int32(0))
	return op
}

// cutOp is splitOp for a startup program, where only ops that compute are legal.
func cutOp(from string, into []string, rows []int64) *program.Op {
	op := splitOp(program.RoleForward, "", from, into, rows)
	op.Type = "split"
	op.SetAttr("axis", int32(0))
	return op
}

// nameSpace returns names that no variable of the user's program has, in any block. All role programs share one, so a name means the same in all of
// them.
type nameSpace map[string]bool

// newNameSpace contains the names of all variables of p and of its startup program.
func newNameSpace(p *program.Program) nameSpace {
	taken := nameSpace{}
	for _, q := range []*program.Program{p, p.Startup} {
		if q == nil {
			continue
		}
		for _, b := range q.Blocks {
			for _, v := range b.Vars() {
				taken[v.Name] = true
			}
		}
	}
	return taken
}

// free returns want, or if it is taken, the first free name of want_1, want_2, ... The result is taken from then on.
func (n nameSpace) free(want string) string {
	name := want
	for i := 1; n[name]; i++ {
		name = fmt.Sprintf("%s_%d", want, i)
	}
	n[name] = true
	return name
}

// slice returns the name of slice i of a variable: Fluid's <variable>.block<i> if that is free. Nobody parses it.
func (n nameSpace) slice(variable string, i int) string {
	return n.free(fmt.Sprintf("%s.block%d", variable, i))
}
