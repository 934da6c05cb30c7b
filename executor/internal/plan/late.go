package plan

import (
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// An op that reads a tensor whose dims are known only when another op has run (masked_select, split_lod_tensor, a loop) is late: it cannot be compiled with the
// plan. So is an op that takes an attribute from a tensor whose value depends on data. Inference finds the late ops of the block. Then it begins again with a copy of the program, in which each run of late ops is a block of its own, which
// the op run_block runs. So late ops are compiled when they run, once for each list of dims and of such values that they meet, as those of loops are (body.go).

// isLate reports whether an op reads a tensor whose dims are not known yet. It is an error if such an op cannot wait.
func (in *inference) isLate(op *program.Op, def *ops.Def) (bool, error) {
	if !in.variables.dynamic {
		return false, nil
	}
	for _, name := range op.InputNames() {
		v := in.variables.named[name]
		if v == nil || v.place != dynamic {
			continue
		}
		if canWait(def) && in.Ops == nil {
			return true, nil
		}
		return false, fault.E(fault.Unsupported, fault.On(op), fault.Var(name), fault.Gotf("%v, whose dims are known only when the op that writes it has run", v.meta),
			fault.Want("a tensor whose dims follow from the feeds"), fault.Hint("fetch it, or reduce it to known dims before"))
	}
	return false, nil
}

// makesGrowing reports whether an op gives a first value to a variable that a block makes grow, and can wait for it.
func makesGrowing(in *inference, op *program.Op, def *ops.Def) bool {
	return len(in.grows) > 0 && in.Ops == nil && canWait(def) && slices.ContainsFunc(op.OutputNames(), func(name string) bool { return in.grows[name] })
}

// canWait reports whether an op may run in a block of late ops.
func canWait(def *ops.Def) bool {
	return def.Class == ops.Compute || def.Class == ops.Backward || def.Class == ops.Random
}

// waitsForValues reports whether an op waits for values that give it attributes, or decide its rows. It is an error if they are not known and it cannot wait.
func waitsForValues(in *inference, op *program.Op, shapes *ops.Shapes) (bool, error) {
	err := shapes.Decided()
	missing := ops.Undecided(shapes)
	if err == nil || len(missing) == 0 {
		return false, err
	}
	if def, ok := ops.Lookup(op.Type); !ok || !canWait(def) {
		return false, err
	}
	if in.Ops == nil {
		return true, nil
	}
	if in.Waits != nil {
		in.Waits(op, missing)
	}
	return false, err
}

// withLateOps returns the block in a copy of its program, in which late ops are in blocks of their own.
func withLateOps(block *program.Block, late map[*program.Op]bool) *program.Block {
	p := block.Program().Clone()
	c := p.Blocks[block.Index]
	list := c.Ops
	c.Ops = nil
	for i := 0; i < len(list); {
		end := i
		for end < len(list) && late[block.Ops[end]] && list[end].Role() == list[i].Role() {
			end++
		}
		if end == i {
			c.Append(list[i])
			i++
			continue
		}
		c.Append(lateBlock(c, list[i:end]))
		i = end
	}
	return c
}

// lateBlock makes the op that runs some ops of a block in a block of their own.
func lateBlock(block *program.Block, list []*program.Op) *program.Op {
	inner := block.Program().NewBlock(block)
	for _, op := range list {
		if def, ok := ops.Lookup(op.Type); ok {
			op = def.Changing(op)
		}
		inner.Append(op)
	}
	run := &program.Op{Type: "run_block", Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: map[string]program.Attr{"sub_block": program.BlockIndex(inner.Index)}}
	reads, writes := map[string]bool{}, map[string]bool{}
	for _, op := range inner.Ops {
		r, w := block.Touches(op)
		for name := range r {
			if !writes[name] && name != program.Empty {
				reads[name] = true
			}
		}
		maps.Copy(writes, w)
	}
	delete(writes, program.Empty)
	run.Inputs["X"], run.Outputs["Out"] = slices.Sorted(maps.Keys(reads)), slices.Sorted(maps.Keys(writes))
	run.SetRole(list[0].Role())
	run.SetLine(list[0].Line())
	return run
}
