package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// CheckRequest finds the mistakes in what a caller asks of a block: in its feeds, in what is not fed, and in the names that it fetches. known reports
// whether a variable that is not fed has a value before the block runs. CheckShapes finds shapes that do not fit together.
func CheckRequest(block *program.Block, feeds map[string]ops.Meta, fetch []string, known func(name string) bool) error {
	for _, name := range slices.Sorted(maps.Keys(feeds)) {
		if err := checkFeed(block, name, feeds[name]); err != nil {
			return err
		}
	}
	if err := checkComputed(block, feeds); err != nil {
		return err
	}
	if err := checkSources(block, feeds, known); err != nil {
		return err
	}
	return CheckFetch(block, fetch)
}

// CheckFetch refuses names that a block does not know.
func CheckFetch(block *program.Block, fetch []string) error {
	for _, name := range fetch {
		if _, ok := block.Find(name); ok {
			continue
		}
		unknown := block.Unknown(name, "the name of one")
		unknown.Where = "fetch"
		return unknown
	}
	return nil
}

// checkFeed compares a feed with the declaration of its variable.
func checkFeed(block *program.Block, name string, meta ops.Meta) error {
	declared, ok := block.Find(name)
	if !ok {
		unknown := block.Unknown(name, "the name of a variable of the program")
		unknown.Got, unknown.Hint = "a feed", fedBy(block, unknown.Hint)
		return unknown
	}
	want := ops.MetaOf(declared).String()
	switch {
	case declared.Kind != program.LoDTensor || declared.Persistable:
		return fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("a feed"), fault.Want("a feed for a tensor that is not persistable"))
	case meta.Kind == program.SelectedRows:
		return fault.E(fault.TypeMismatch, fault.Var(name), fault.Gotf("a feed of %v", meta), fault.Want("a dense tensor"))
	case declared.DType != meta.DType:
		return fault.E(fault.TypeMismatch, fault.Var(name), fault.Gotf("a feed of %v", meta), fault.Want(want))
	case !ops.Compatible(declared.Dims, meta.Dims):
		return fault.E(fault.ShapeMismatch, fault.Var(name), fault.Gotf("a feed of %v", meta), fault.Want(want))
	case len(meta.Sequences) > 0 && meta.Sequences[0] > 0: // of which all may be empty
	case slices.Contains(meta.Dims, 0) && trains(block):
		return fault.E(fault.ShapeMismatch, fault.Var(name), fault.Gotf("a feed of %v", meta), fault.Want(want+", with at least one row"))
	}
	return nil
}

// trains reports whether a block updates parameters, or sends gradients to those who do.
func trains(block *program.Block) bool {
	return slices.ContainsFunc(block.Ops, func(op *program.Op) bool { return op.Role().Has(program.RoleOptimize) || op.Type == "send" })
}

// checkComputed refuses a feed for a variable that an op writes.
func checkComputed(block *program.Block, feeds map[string]ops.Meta) error {
	for _, op := range block.Ops {
		if border(op) {
			continue
		}
		for _, name := range op.OutputNames() {
			if _, isFed := feeds[name]; isFed && len(op.SubBlocks()) > 0 {
				return ops.At(op, fault.E(fault.Unsupported, fault.Var(name), fault.Got("a feed for a variable that a loop or branch writes, too"), fault.Want("a variable that is only fed"),
					fault.Hint("assign what is fed to another variable before, and let the block write that one")))
			} else if isFed {
				return ops.At(op, fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("a feed for a variable that the program computes"),
					fault.Want("feeds for its inputs")))
			}
		}
	}
	return nil
}

// checkSources makes one error that lists all variables that an op reads before they have a value.
func checkSources(block *program.Block, feeds map[string]ops.Meta, known func(name string) bool) error {
	written, missing := map[string]bool{}, map[string]*program.Op{}
	for _, op := range block.Ops {
		if border(op) {
			continue
		}
		for _, name := range exposed(block, op) {
			declared, ok := block.Find(name)
			if !ok || !isTensor(declared) || written[name] || missing[name] != nil {
				continue
			}
			if _, isFed := feeds[name]; isFed {
				continue
			}
			if declared.Kind == program.SelectedRows || !known(name) {
				missing[name] = op
			}
		}
		_, writes := block.Touches(op)
		maps.Copy(written, writes)
	}
	if len(missing) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(missing))
	f := fault.E(fault.NotFound, fault.Got("no value for "+strings.Join(names, ", ")), fault.Want("a feed"),
		fault.Hint(fedBy(block, "if what you fetch does not need it, run the program that Program.InferenceProgram or Program.Prune returns")))
	if len(names) == 1 {
		f.Variable, f.Op, f.Line = names[0], missing[names[0]].Type, missing[names[0]].Line()
	}
	return f
}

// fedBy is the hint that says what a program is fed, where its ops tell; else it is otherwise.
func fedBy(block *program.Block, otherwise string) string {
	column := func(op *program.Op) int64 {
		n, _ := op.Int("col")
		return n
	}
	var feeds []*program.Op
	for _, op := range block.Ops {
		switch op.Type {
		case "feed":
			feeds = append(feeds, op)
		case "read":
			return "the program reads its own data, which Train does; Run takes a batch of it as feeds: " + strings.Join(op.Outputs["Out"], ", ")
		}
	}
	if len(feeds) == 0 {
		return otherwise
	}
	slices.SortStableFunc(feeds, func(a, b *program.Op) int { return cmp.Compare(column(a), column(b)) })
	names := make([]string, len(feeds))
	for i, op := range feeds {
		names[i] = op.Out("Out")
	}
	return "the program is fed by " + strings.Join(names, ", ")
}
