package program

import (
	"cmp"
	"slices"

	"github.com/edl-go/edl/fault"
)

// Variables and attribute of feed and fetch ops, as in Fluid.
const (
	feedVar    = "feed"
	fetchVar   = "fetch"
	attrColumn = "col"
)

// InferenceProgram returns the form that Fluid saves for inference: a copy for test, pruned to what computes the targets from the feeds, with
// one feed op per feed before and one fetch op per target behind. Ops carry their number in "col"; as in Fluid's files the feed op of the
// last number comes first. It fails when a feed is not needed, or when something that is needed is neither fed, computed nor persistable.
func (p *Program) InferenceProgram(feeds, targets []string) (*Program, error) {
	c := p.CloneForTest()
	b := c.Global()
	b.Ops = slices.DeleteFunc(b.Ops, func(op *Op) bool { return op.Type == "feed" || op.Type == "fetch" })
	if len(targets) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.Got("no target"), fault.Want("the variables to compute"))
	}
	for _, name := range feeds {
		if _, ok := b.Var(name); !ok {
			return nil, fault.E(fault.NotFound, fault.Var(name), fault.Got("no such variable in the global block"),
				fault.Want("a variable to feed"))
		}
	}
	if err := c.prune(targets, feeds); err != nil {
		return nil, err
	}
	if err := c.checkFeeds(feeds, targets); err != nil {
		return nil, err
	}
	return c, c.addFeedAndFetch(feeds, targets)
}

// checkFeeds compares what the pruned program needs from outside with the feeds.
func (p *Program) checkFeeds(feeds, targets []string) error {
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

func (p *Program) addFeedAndFetch(feeds, targets []string) error {
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

// Feeds returns the names that the feed ops of the global block fill, in the order of their numbers.
func (p *Program) Feeds() []string {
	return p.columns("feed", func(op *Op) string { return op.Out("Out") })
}

// Targets returns the names that the fetch ops of the global block read, in the order of their numbers.
func (p *Program) Targets() []string {
	return p.columns("fetch", func(op *Op) string { return op.In("X") })
}

func (p *Program) columns(opType string, name func(*Op) string) []string {
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
