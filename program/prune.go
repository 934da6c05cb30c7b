package program

import (
	"cmp"
	"slices"

	"github.com/edl-go/edl/fault"
)

// Prune returns a copy with only the ops of the global block that the targets depend on. It keeps sub-blocks of these ops as a whole, the variables
// in use, and the part of the startup program that initializes them. It removes unused blocks, so block indices may change.
func (p *Program) Prune(targets ...string) (*Program, error) {
	c := p.Clone()
	if err := pruneInPlace(c, targets, nil); err != nil {
		return nil, err
	}
	return c, nil
}

// pruneInPlace reduces the program in place. It drops the ops that only compute given variables.
func pruneInPlace(p *Program, targets, given []string) error {
	b := p.Global()
	needed, cut := map[string]bool{}, map[string]bool{}
	for _, name := range given {
		cut[name] = true
	}
	for _, name := range targets {
		if _, ok := b.Var(name); !ok {
			return b.Unknown(name, "a variable of the program")
		}
		needed[name] = !cut[name]
	}
	kept := make([]*Op, 0, len(b.Ops))
	for _, op := range slices.Backward(b.Ops) {
		reads, writes := b.Touches(op)
		if !anyOf(writes, needed) {
			continue
		}
		kept = append(kept, op)
		for name := range reads {
			needed[name] = needed[name] || !cut[name]
		}
	}
	slices.Reverse(kept)
	b.Ops = kept
	dropUnreachableBlocks(p)
	dropUnusedVars(p, func(v *Var) bool { return slices.Contains(targets, v.Name) || cut[v.Name] })
	return pruneStartup(p)
}

// namesOf returns the names of the variables of a block.
func namesOf(b *Block) (names []string) {
	for _, v := range b.Vars() {
		names = append(names, v.Name)
	}
	return names
}

func anyOf(names, among map[string]bool) bool {
	for name := range names {
		if among[name] {
			return true
		}
	}
	return false
}

// dropUnusedVars removes the variables that no op uses, unless keep reports true. It also removes the op_role_var attributes that name a removed
// variable.
func dropUnusedVars(p *Program, keep func(*Var) bool) {
	used := usedVars(p)
	for _, b := range p.Blocks {
		for _, v := range b.Vars() {
			if !used[v] && !keep(v) {
				delete(b.vars, v.Name)
			}
		}
		b.order = slices.DeleteFunc(b.order, func(name string) bool { return b.vars[name] == nil })
	}
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			for _, pair := range op.RoleVars() {
				_, param := b.Find(pair[0])
				if _, grad := b.Find(pair[1]); !param || !grad {
					delete(op.Attrs, AttrRoleVar)
					break
				}
			}
		}
	}
}

// usedVars returns the variables that any op reads or writes.
func usedVars(p *Program) map[*Var]bool {
	used := map[*Var]bool{}
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			for _, name := range slices.Concat(op.InputNames(), op.OutputNames()) {
				if v, ok := b.Find(name); ok {
					used[v] = true
				}
			}
		}
	}
	return used
}

// pruneStartup reduces the startup program to the ops that initialize the persistable variables of the global block.
func pruneStartup(p *Program) error {
	if p.Startup == nil {
		return nil
	}
	var targets []string
	for _, v := range p.Startup.Global().Vars() {
		if own, ok := p.Global().Var(v.Name); ok && own.Persistable {
			targets = append(targets, v.Name)
		}
	}
	return pruneInPlace(p.Startup, targets, nil)
}

// Reachable reports for every block whether a run can enter it. A run can enter the global block, and the sub-blocks of ops of such blocks. The
// blocks that enclose them count, too.
func (p *Program) Reachable() []bool {
	seen := make([]bool, len(p.Blocks))
	pending := []int{0}
	for len(pending) > 0 {
		index := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if index < 0 || index >= len(seen) || seen[index] {
			continue
		}
		seen[index] = true
		pending = append(pending, p.Blocks[index].Parent)
		for _, op := range p.Blocks[index].Ops {
			for _, sub := range op.SubBlocks() {
				pending = append(pending, int(sub))
			}
		}
	}
	return seen
}

// DropUnreachable removes the blocks that Reachable does not report, such as those of ops that were taken out, and renumbers the others.
func (p *Program) DropUnreachable() { dropUnreachableBlocks(p) }

// dropUnreachableBlocks removes the blocks that Reachable does not report, and renumbers the others.
func dropUnreachableBlocks(p *Program) {
	reachable := p.Reachable()
	index := make([]int, len(p.Blocks)) // new index of each block
	kept := p.Blocks[:0]
	for i, b := range p.Blocks {
		index[i] = NoBlock
		if reachable[i] {
			index[i] = len(kept)
			kept = append(kept, b)
		}
	}
	if len(kept) == len(reachable) {
		return
	}
	p.Blocks = kept
	renumber := func(old int) int {
		if old < 0 || old >= len(index) {
			return old
		}
		return index[old]
	}
	for i, b := range p.Blocks {
		b.Index, b.Parent, b.Forward = i, renumber(b.Parent), renumber(b.Forward)
		for _, op := range b.Ops {
			renumberBlocks(op, renumber)
		}
	}
}

// renumberBlocks replaces block indices in the attributes of the op.
func renumberBlocks(op *Op, renumber func(old int) int) {
	for name, a := range op.Attrs {
		switch v := a.(type) {
		case BlockIndex:
			op.Attrs[name] = BlockIndex(renumber(int(v)))
		case []BlockIndex:
			for k := range v {
				v[k] = BlockIndex(renumber(int(v[k])))
			}
		}
	}
}

// Variables and attribute of feed and fetch ops, as in Fluid.
const (
	feedVar    = "feed"
	fetchVar   = "fetch"
	attrColumn = "col"
)

// InferenceProgram returns the form in which Fluid saves a model for inference: a CloneForTest, pruned to the ops that compute the targets from the
// feeds, with feed ops at the front and fetch ops at the end. Attribute "col" numbers them. As in Fluid's files, the feed op with the last number
// comes first. InferenceProgram fails if a feed is not needed, or if an input is neither fed, computed nor persistable.
func (p *Program) InferenceProgram(feeds, targets []string) (*Program, error) {
	c := p.CloneForTest()
	b := c.Global()
	b.Ops = slices.DeleteFunc(b.Ops, func(op *Op) bool { return op.Type == "feed" || op.Type == "fetch" })
	if len(targets) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.Got("no target"), fault.Want("the variables to compute"))
	}
	for _, name := range feeds {
		if _, ok := b.Var(name); !ok {
			return nil, b.Unknown(name, "a variable to feed")
		}
	}
	if err := pruneInPlace(c, targets, feeds); err != nil {
		return nil, err
	}
	if err := checkFeeds(c, feeds, targets); err != nil {
		return nil, err
	}
	return c, addFeedAndFetch(c, feeds, targets)
}

// checkFeeds compares the feeds with the inputs that the pruned program needs.
func checkFeeds(p *Program, feeds, targets []string) error {
	var report report
	b := p.Global()
	uses := b.Uses()
	for _, name := range feeds {
		if len(uses[name].Readers) == 0 && !slices.Contains(targets, name) {
			report.add(fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("a feed that the targets do not depend on"),
				fault.Want("only what they need")))
		}
	}
	for _, name := range sortedKeys(uses) {
		v, ok := b.Var(name)
		if ok && !v.Persistable && len(uses[name].Writers) == 0 && !slices.Contains(feeds, name) {
			op := b.Ops[uses[name].Readers[0]]
			report.add(fault.E(fault.InvalidArgument, fault.On(op), fault.Var(name),
				fault.Got("an input that is neither fed, computed nor persistable"), fault.Want("it among the feeds")))
		}
	}
	return report.err()
}

func addFeedAndFetch(p *Program, feeds, targets []string) error {
	b := p.Global()
	for _, border := range []Var{{Name: feedVar, Kind: FeedMinibatch, Persistable: true}, {Name: fetchVar, Kind: FetchList, Persistable: true}} {
		if v := b.EnsureVar(border); v.Kind != border.Kind {
			return fault.E(fault.InvalidProgram, fault.Var(v.Name), fault.Got("a variable with a name that inference programs need"),
				fault.Want("another name"))
		}
	}
	for i, name := range feeds {
		op := &Op{Type: "feed", Inputs: map[string][]string{"X": {feedVar}}, Outputs: map[string][]string{"Out": {name}}}
		op.SetAttr(attrColumn, int32(i))
		b.Insert(0, op)
	}
	for i, name := range targets {
		op := &Op{Type: "fetch", Inputs: map[string][]string{"X": {name}}, Outputs: map[string][]string{"Out": {fetchVar}}}
		op.SetAttr(attrColumn, int32(i))
		b.Append(op)
	}
	return nil
}

// Feeds returns the names that the feed ops of the global block write, in the order of their numbers.
func (p *Program) Feeds() []string {
	return columns(p, "feed", func(op *Op) string { return op.Out("Out") })
}

// Targets returns the names that the fetch ops of the global block read, in the order of their numbers.
func (p *Program) Targets() []string {
	return columns(p, "fetch", func(op *Op) string { return op.In("X") })
}

func columns(p *Program, opType string, name func(*Op) string) []string {
	var found []*Op
	for _, op := range p.Global().Ops {
		if op.Type == opType {
			found = append(found, op)
		}
	}
	column := func(op *Op) int64 { n, _ := op.Int(attrColumn); return n }
	slices.SortStableFunc(found, func(a, b *Op) int { return cmp.Compare(column(a), column(b)) })
	names := make([]string, 0, len(found))
	for _, op := range found {
		names = append(names, name(op))
	}
	return names
}

// roleTraining has the roles of ops that only training needs.
const roleTraining = RoleBackward | RoleOptimize | RoleLRSched | RoleRPC | RoleDist

// CloneForTest returns a copy for evaluation. It drops the ops of training (roles Backward, Optimize, LRSched, RPC and Dist) and the variables that
// only these ops used. It sets is_test on dropout, batch_norm and every op that has the attribute. Block indices may change, as in Prune.
func (p *Program) CloneForTest() *Program {
	c := p.Clone()
	before := usedVars(c)
	for _, b := range c.Blocks {
		b.Ops = slices.DeleteFunc(b.Ops, func(op *Op) bool { return op.Role()&roleTraining != 0 })
		for _, op := range b.Ops {
			setTest(op)
		}
	}
	dropUnreachableBlocks(c)
	dropUnusedVars(c, func(v *Var) bool { return !before[v] })
	// The targets are variables of the startup program itself, so they are found.
	_ = pruneStartup(c)
	return c
}

// setTest sets is_test and keeps the type of the attribute.
func setTest(op *Op) {
	switch op.Attrs["is_test"].(type) {
	case int32:
		op.Attrs["is_test"] = int32(1)
	case int64:
		op.Attrs["is_test"] = int64(1)
	case bool:
		op.Attrs["is_test"] = true
	case nil:
		if op.Type == "dropout" || op.Type == "batch_norm" {
			op.SetAttr("is_test", true)
		}
	}
}
