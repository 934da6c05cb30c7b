package program

import (
	"maps"
	"math"
	"slices"
)

// readCollective writes a program that Fluid's collective transpiler or fleet has changed for a job of several equal trainers as the program that it was before. They insert ops
// and change none: the factor 1/n on the gradient of the loss or on each gradient, sums of gradients over the n trainers, and waits. So sums of scaled gradients are the gradient
// of the mean of n losses, which is what EDL computes of a batch, on one machine or on a cluster. In a startup program they make connections, and let all trainers begin with the
// values of the first one. What divides a model or changes parameters (a sum of other values, send_v2) stays, and so do sums without the factor: verification refuses them.
func readCollective(p *Program) {
	both := []*Program{p}
	if p.Startup != nil {
		both = append(both, p.Startup)
	}
	var ranks []int64 // of the connections that the startup program makes
	for _, p := range both {
		for _, op := range p.Global().Ops {
			if n, ok := op.Int("nranks"); ok && slices.Contains(connecting, op.Type) {
				ranks = append(ranks, n)
			}
		}
	}
	for _, p := range both {
		removeWaits(p)
		removeConnections(p)
	}
	c := collective{program: p, ranks: ranks, removed: map[*Op]bool{}}
	if c.findSums(); len(c.sums) > 0 && c.whole() && c.averages() {
		for _, b := range p.Blocks {
			b.Ops = slices.DeleteFunc(b.Ops, func(op *Op) bool { return c.removed[op] })
		}
		removeUnused(p, slices.Collect(maps.Keys(c.buffers)))
	}
}

var (
	connecting = []string{"c_comm_init", "c_comm_init_all", "c_comm_init_hccl", "c_comm_init_multitrainer", "c_gen_bkcl_id", "c_gen_hccl_id", "c_gen_nccl_id", "c_gen_xccl_id", "gen_bkcl_id", "gen_hccl_id", "gen_nccl_id"}
	waiting    = []string{"c_sync_calc_stream", "c_sync_comm_stream", "c_wait_comm", "c_wait_compute", "depend"}
	summing    = []string{"all_reduce", "c_allreduce_avg", "c_allreduce_sum"}
)

// reduceMean is the reduce_type of all_reduce that divides by the number of trainers. 0 is a sum.
const reduceMean = 4

// changes returns the one variable that an op of collectives reads and writes, "" if it has another form. Later releases write its slots in small letters.
func changes(op *Op) string {
	for _, slots := range [][2]string{{"X", "Out"}, {"x", "out"}} {
		if in, out := op.Inputs[slots[0]], op.Outputs[slots[1]]; len(in) == 1 && slices.Equal(in, out) {
			return in[0]
		}
	}
	return ""
}

// removeWaits removes what orders streams of a GPU, and leaves its variables as they are.
func removeWaits(p *Program) {
	for _, b := range p.Blocks {
		b.Ops = slices.DeleteFunc(b.Ops, func(op *Op) bool {
			return slices.Contains(waiting, op.Type) && slices.Equal(op.Inputs["X"], op.Outputs["Out"])
		})
	}
}

// removeConnections removes from a startup program what connects trainers, and what gives all of them the values of the first. A program that makes no connections stays as it is.
func removeConnections(p *Program) {
	b := p.Global()
	connects := func(op *Op) bool { return slices.Contains(connecting, op.Type) }
	if !slices.ContainsFunc(b.Ops, connects) {
		return
	}
	var unread []string // what names a connection, and what trainers only wait for
	for _, op := range b.Ops {
		if connects(op) {
			unread = append(unread, op.OutputNames()...)
		}
	}
	uses := b.Uses()
	b.Ops = slices.DeleteFunc(b.Ops, func(op *Op) bool {
		name := changes(op)
		switch {
		case connects(op):
			return true
		case op.Type == "broadcast" || op.Type == "c_broadcast":
			root, _ := op.Int("root")
			return name != "" && root == 0
		case op.Type == "c_allreduce_sum": // of a number that nobody reads, so that all trainers wait for each other
			if v, ok := b.Find(name); !ok || v.Persistable || len(uses[name].Readers) > 1 {
				return false
			}
			unread = append(unread, name)
			return true
		}
		return false
	})
	remove := map[string]bool{}
	for _, name := range unread {
		remove[name] = true
	}
	b.Ops = slices.DeleteFunc(b.Ops, func(op *Op) bool { return op.Type == "fill_constant" && remove[op.Out("Out")] })
	removeUnused(p, unread)
}

// removeUnused removes the declarations of those variables that no op names.
func removeUnused(p *Program, names []string) {
	used := map[string]bool{}
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			for _, name := range slices.Concat(op.InputNames(), op.OutputNames()) {
				used[name] = true
			}
		}
	}
	for _, name := range names {
		if used[name] {
			continue
		}
		for _, b := range p.Blocks {
			b.RemoveVar(name)
		}
	}
}

// A collective is what of a program belongs to sums of gradients over trainers.
type collective struct {
	program *Program
	ranks   []int64
	removed map[*Op]bool
	sums    map[string]*Op  // by the gradient, or the buffer with several gradients
	means   int             // how many of the sums divide by the number of trainers
	summed  map[string]bool // all gradients that are summed
	buffers map[string]bool
	failed  bool // a gradient is summed twice
}

// findSums finds the sums of gradients of parameters, one by one or several that a buffer holds.
func (c *collective) findSums() {
	c.sums, c.summed, c.buffers = map[string]*Op{}, map[string]bool{}, map[string]bool{}
	gradients := gradientsOf(c.program)
	all := map[string]bool{}
	for _, names := range gradients {
		for _, name := range names {
			all[name] = true
		}
	}
	buffers := map[string]*Op{}
	for _, b := range c.program.Blocks {
		for _, op := range b.Ops {
			if op.Type == "coalesce_tensor" {
				buffers[op.Out("FusedOutput")] = op
			}
		}
	}
	for _, b := range c.program.Blocks {
		for _, op := range b.Ops {
			name := changes(op)
			if divided, _ := op.Bool("use_model_parallel"); divided || name == "" || !slices.Contains(summing, op.Type) {
				continue
			}
			names := []string{name}
			buffer := buffers[name]
			if buffer != nil {
				names = buffer.Outputs["Output"]
			}
			if slices.ContainsFunc(names, func(n string) bool { return !all[n] }) {
				continue
			}
			kind, _ := op.Int("reduce_type")
			if op.Type == "all_reduce" && kind != 0 && kind != reduceMean {
				continue
			}
			if op.Type == "c_allreduce_avg" || op.Type == "all_reduce" && kind == reduceMean {
				c.means++
			}
			c.failed = c.failed || c.sums[name] != nil
			c.sums[name], c.removed[op] = op, true
			for _, name := range names {
				c.summed[name] = true
			}
			if buffer != nil {
				c.removed[buffer] = true
				c.buffers[name] = true
			}
		}
	}
}

// gradientsOf returns by parameter the variables that the backward pass says to hold its gradient. Transpilers go by the same attribute.
func gradientsOf(p *Program) map[string][]string {
	gradients, seen := map[string][]string{}, map[[2]string]bool{}
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			if !op.Role().Has(RoleBackward) {
				continue
			}
			for _, pair := range op.RoleVars() {
				if !seen[pair] {
					seen[pair] = true
					gradients[pair[0]] = append(gradients[pair[0]], pair[1])
				}
			}
		}
	}
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			for _, param := range op.Inputs["Param"] {
				if isUpdate(op) && gradients[param] == nil {
					gradients[param] = []string{GradName(param)}
				}
			}
		}
	}
	return gradients
}

// whole reports whether the gradient of each parameter that is updated is summed, and nothing else needs a buffer that holds gradients.
func (c *collective) whole() bool {
	gradients := gradientsOf(c.program)
	updated := false
	for _, b := range c.program.Blocks {
		for _, op := range b.Ops {
			if isUpdate(op) {
				updated = true
				for _, param := range op.Inputs["Param"] {
					names := gradients[param]
					if len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return !c.summed[n] }) {
						return false
					}
				}
			}
		}
	}
	return updated && !c.failed
}

// averages finds the factors 1/n: on each gradient of a loss, or on each gradient that is summed. It reports whether sums with them are means over n trainers.
func (c *collective) averages() bool {
	losses := map[string]bool{}
	for _, b := range c.program.Blocks {
		for _, op := range b.Ops {
			if op.Role().Has(RoleBackward | RoleLoss) {
				for _, name := range op.OutputNames() {
					losses[name] = true
				}
			}
		}
	}
	scaled := map[string]bool{}
	ofLosses, trainers := 0, int64(0)
	for _, b := range c.program.Blocks {
		for _, op := range b.Ops {
			if c.removed[op] {
				continue
			}
			for _, name := range slices.Concat(op.InputNames(), op.OutputNames()) {
				if c.buffers[name] && op.Type != "scale" {
					return false
				}
			}
			name := changes(op)
			if op.Type != "scale" || !losses[name] && c.sums[name] == nil {
				continue
			}
			n, ok := inverse(op)
			if !ok || scaled[name] || trainers != 0 && n != trainers {
				return false
			}
			if losses[name] {
				ofLosses++
			}
			scaled[name], trainers, c.removed[op] = true, n, true
		}
	}
	if trainers != 0 && len(c.ranks) > 0 && !slices.Contains(c.ranks, trainers) {
		return false
	}
	switch {
	case c.means > 0:
		return c.means == len(c.sums) && len(scaled) == 0
	case len(scaled) == 0:
		return len(c.ranks) > 0 && !slices.ContainsFunc(c.ranks, func(n int64) bool { return n != 1 })
	}
	return ofLosses == 0 && len(scaled) == len(c.sums) || ofLosses == len(scaled) && len(scaled) == len(losses)
}

// inverse returns n for an op that multiplies by 1/n and does nothing else.
func inverse(op *Op) (int64, bool) {
	factor, ok := op.Float("scale")
	bias, _ := op.Float("bias")
	if !ok || bias != 0 || !(factor > 0 && factor <= 1) || op.In("ScaleTensor") != "" {
		return 0, false
	}
	n := math.Round(1 / float64(factor))
	return int64(n), n < 1<<20 && float32(1/n) == float32(factor)
}
