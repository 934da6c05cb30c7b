package reference

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// split is a program in two halves.
type split struct {
	program     *program.Program
	forward     *program.Program  // forward and backward ops, fed with rows of the batch
	update      *program.Program  // learning rate and optimizer ops, fed with what crosses
	crosses     []string          // what the update reads of the forward half, sorted
	parameters  []string          // persistable variables that the update writes and trainers hold, sorted
	state       []state           // persistable variables that the forward half writes
	added       map[string]bool   // those to which it adds sums over the batch
	updated     map[string]bool   // variables that the update writes
	recounted   map[string]bool   // of them: what the forward half has computed, too, of the counts of a rank
	byRows      map[string]string // sparse gradients that cross: the variable in which their rows do
	stages      []totalsStage     // what ranks run before they share totals, in order
	merge       ops.Merge         // of gradients: the mean for a program that does not train
	fetches     *ops.Fetches      // how what ranks fetch becomes one value
	indivisible error             // why a batch of the program cannot be divided; nil if it can
	overflows   bool              // its loss may: the update drops gradients that are not finite (ops.DropsGradients)
}

// trains reports whether the program has update ops.
func (s *split) trains() bool { return executor.Trains(s.program) }

// splits are the programs that were run, in halves.
type splits map[splitOf]*split

// splitOf is what is split: a program, for trainers that share totals or for others.
type splitOf struct {
	program *program.Program
	shares  bool
}

// of returns the halves of a program, which it splits once.
func (all splits) of(p *program.Program, shares bool) (*split, error) {
	of := splitOf{p, shares}
	if s := all[of]; s != nil {
		return s, nil
	}
	if err := ops.Verify(p, program.StageLocal); err != nil {
		return nil, err
	}
	s, err := splitByRole(ops.Redeclare(p), of.shares)
	if err == nil {
		all[of] = s
	}
	return s, err
}

// state is a persistable variable that the forward half writes.
type state struct {
	name  string
	merge ops.Merge
}

// splitByRole divides the ops of the global block. The halves share all declarations and the startup program. A program whose batches cannot be divided is split, too: one trainer
// may have whole batches.
func splitByRole(p *program.Program, shares bool) (s *split, err error) {
	merge, indivisible := ops.MergeMean, error(nil)
	if executor.Trains(p) {
		if p, merge, indivisible = divisible(p, shares); indivisible != nil && fault.KindOf(indivisible) != fault.Unsupported {
			return nil, indivisible
		}
	}
	s = &split{program: p, forward: p.Clone(), update: p.Clone(), updated: map[string]bool{}, recounted: map[string]bool{}, byRows: map[string]string{}, merge: merge, indivisible: indivisible,
		overflows: ops.DropsGradients(p.Global())}
	s.forward.Global().Ops, s.update.Global().Ops = nil, nil
	s.fetches = ops.NewFetches(p, merge)
	written := map[string]bool{} // by the forward half
	s.added = ops.AddedState(p, indivisible == nil)
	crosses := map[string]bool{}
	for _, op := range p.Global().Ops {
		def, _ := ops.Lookup(op.Type)
		switch {
		case def.Class == ops.Feed || def.Class == ops.Read:
		case isUpdate(op):
			if err := s.addUpdate(p, op, crosses); err != nil {
				return nil, err
			}
		default:
			if err := s.addForward(p, op, def, written); err != nil {
				return nil, err
			}
		}
	}
	if err := s.splitRows(); err != nil {
		return nil, err
	}
	if executor.Trains(p) {
		s.recount(p)
	}
	for name := range crosses {
		s.separate(name)
	}
	s.splitTotals()
	s.forward.DropUnreachable() // blocks whose op is in the other half
	s.update.DropUnreachable()
	s.crosses = slices.Sorted(maps.Keys(crosses))
	s.findParameters()
	return s, nil
}

// divisible returns a program like p in which trainers share totals, and how their gradients become one. The error says why its batches cannot be divided; the program is p then.
func divisible(p *program.Program, shares bool) (*program.Program, ops.Merge, error) {
	shared, err := withTotals(p, shares)
	if err != nil {
		return p, ops.MergeMean, err
	}
	merge, err := ops.GradientMerge(shared)
	if err != nil {
		return p, ops.MergeMean, err
	}
	return shared, merge, nil
}

// recount lets the update half compute metrics of counts again: the state has those of all ranks then.
func (s *split) recount(p *program.Program) {
	list, vars := ops.Recounted(p)
	for _, v := range vars {
		s.update.Global().EnsureVar(v)
	}
	for _, op := range list {
		s.update.Global().Append(op)
		for _, name := range op.OutputNames() {
			s.updated[name], s.recounted[name] = true, true
		}
	}
}

// separate gives what the update half makes of a fed variable in place another name there: nobody may write what is fed.
func (s *split) separate(name string) {
	b := s.update.Global()
	first := slices.IndexFunc(b.Ops, func(op *program.Op) bool { return slices.Contains(op.OutputNames(), name) })
	if v, ok := b.Find(name); ok && first >= 0 {
		c := v.Copy(s.update.UniqueName(name + "@VALUE"))
		b.EnsureVar(c)
		b.Ops[first].RenameOutput(name, c.Name)
		for _, later := range b.Ops[first+1:] {
			later.RenameInput(name, c.Name)
			later.RenameOutput(name, c.Name)
		}
	}
}

// findParameters lists the parameters that the update writes and trainers hold: those that are declared as such, and those that the forward half reads, without
// tables that are looked up where they are.
func (s *split) findParameters() {
	read, held := map[string]bool{}, map[string]bool{}
	for _, op := range s.forward.Global().Ops {
		reads, _ := s.forward.Global().Touches(op)
		maps.Copy(read, reads)
		if !looksUp(op) {
			maps.Copy(held, reads)
		}
	}
	for name := range s.updated {
		if v, ok := s.program.Global().Find(name); ok && v.Persistable && (held[name] || v.IsParameter && !read[name]) {
			s.parameters = append(s.parameters, name)
		}
	}
	slices.Sort(s.parameters)
}

// looksUp reports whether an op reads rows of a table that no trainer holds, or makes the gradient of one: a distributed table, or one that grows. A trainer asks for
// these rows in each step, so they are those of the state.
func looksUp(op *program.Op) bool {
	switch op.Type {
	case "lookup_sparse_table":
		return true
	case "lookup_table", "lookup_table_v2", "fused_embedding_seq_pool", "lookup_table_grad", "lookup_table_v2_grad", "fused_embedding_seq_pool_grad":
		sparse, _ := op.Bool("is_sparse")
		distributed, _ := op.Bool("is_distributed")
		return sparse && distributed
	}
	return false
}

func isUpdate(op *program.Op) bool {
	return op.Role().Has(program.RoleOptimize) || op.Role().Has(program.RoleLRSched)
}

// addUpdate takes an op into the half that updates. What it needs of the forward half is added to crosses.
func (s *split) addUpdate(p *program.Program, op *program.Op, crosses map[string]bool) error {
	reads, writes := p.Global().Touches(op)
	for _, name := range slices.Sorted(maps.Keys(reads)) {
		v, declared := p.Global().Find(name)
		switch {
		case !declared || s.updated[name] || v.Persistable:
		case v.Kind == program.SelectedRows:
			form, err := s.crossByRows(op, v)
			if err != nil {
				return err
			}
			crosses[form] = true
		default:
			crosses[name] = true
		}
	}
	maps.Copy(s.updated, writes)
	s.update.Global().Append(op.Clone())
	return nil
}

// A sparse gradient crosses to the update as it travels on a cluster: the forward half ends with the op that sums the places of each row, and the update half
// begins with the op that makes a sparse gradient of the merge. The slices of servers do not matter, because a row is in one of them.

// crossByRows returns the variable in which the rows of a sparse gradient cross, and adds the op to the update half that reads it.
func (s *split) crossByRows(reader *program.Op, v *program.Var) (string, error) {
	if form, ok := s.byRows[v.Name]; ok {
		return form, nil
	}
	if v.DType != tensor.Float32 || len(v.Dims) != 2 {
		return "", ops.At(reader, fault.E(fault.Unsupported, fault.Var(v.Name), fault.Got(ops.MetaOf(v).String()),
			fault.Want("sparse gradients of float32 tables of rank 2, in what trainers share")))
	}
	form, numbers := v.Name+".rows", tensor.Int32
	if s.hasKeys(v.Name) {
		numbers = tensor.Int64
	}
	for _, taken := s.program.Global().Find(form); taken; _, taken = s.program.Global().Find(form) {
		form += "_"
	}
	s.byRows[v.Name] = form
	for _, half := range []*program.Program{s.forward, s.update} {
		half.Global().EnsureVar(program.Var{Name: form, Kind: program.LoDTensor, DType: numbers, Dims: compress.RowsDims(v.Dims[0], v.Dims[1])})
	}
	op := s.update.Global().Append(&program.Op{Type: "get_selected_rows", Inputs: map[string][]string{"X": {form}}, Outputs: map[string][]string{"Out": {v.Name}}})
	op.SetRole(program.RoleOptimize)
	return form, nil
}

// hasKeys reports whether a sparse gradient is that of a table that grows, whose rows have keys.
func (s *split) hasKeys(gradient string) bool {
	return slices.ContainsFunc(s.program.Global().Ops, func(op *program.Op) bool {
		return slices.Contains([]string{"lookup_sparse_table_insert", "lookup_sparse_table_rows", "lookup_sparse_table_shrink"}, op.Type) && slices.Contains(op.InputNames(), gradient)
	})
}

// splitRows ends the forward half with the ops that make what crosses.
func (s *split) splitRows() error {
	for _, op := range s.update.Global().Ops {
		gradient := op.Out("Out")
		if op.Type != "get_selected_rows" || s.byRows[gradient] != op.In("X") {
			continue
		}
		v, _ := s.program.Global().Find(gradient)
		if v.Dims[0] != int64(int32(v.Dims[0])) || v.Dims[0] > compress.MaxRows {
			return fault.E(fault.TooLarge, fault.Var(gradient), fault.Gotf("%d rows", v.Dims[0]), fault.Wantf("at most %d", compress.MaxRows))
		}
		split := s.forward.Global().Append(&program.Op{Type: "split_selected_rows", Inputs: map[string][]string{"X": {gradient}},
			Outputs: map[string][]string{"Out": op.Inputs["X"]}})
		split.SetRole(program.RoleBackward)
		split.SetAttr("sections", []int32{int32(v.Dims[0])})
		split.SetAttr("room_for_all", true) // the first trainer's becomes the merge
		if form, _ := s.update.Global().Find(op.In("X")); form.DType == tensor.Int64 {
			split.SetAttr("auto_grown_table", true)
		}
	}
	return nil
}

// addForward takes an op into the forward half. It must not need what the update computes in the same round.
func (s *split) addForward(p *program.Program, op *program.Op, def *ops.Def, written map[string]bool) error {
	for _, name := range op.InputNames() {
		if s.updated[name] && !written[name] {
			return ops.At(op, fault.E(fault.Unsupported, fault.Var(name),
				fault.Got("a forward op that reads what an update op computes in the same step"), fault.Want("updates after the backward pass")))
		}
	}
	for slot, names := range op.Outputs {
		for _, name := range names {
			if name == program.Empty {
				continue
			}
			written[name] = true
			if v, _ := p.Global().Find(name); v.Persistable {
				merge := def.State[slot]
				if s.added[name] {
					merge = ops.MergeSum
				}
				s.state = append(s.state, state{name, merge})
			}
		}
	}
	s.forward.Global().Append(op.Clone())
	return nil
}

// A request is what a half of a program was prepared for.
type request struct {
	half          *program.Program
	shapes, fetch string
}

// mostPrepared is how many compiled halves are kept.
const mostPrepared = 64

// prepared are the halves that were compiled.
type prepared map[request]*executor.Prepared

// of compiles a half for feeds of these shapes, once.
func (all prepared) of(ctx context.Context, local *executor.Local, half *program.Program, feed executor.Feed,
	fetch []string) (*executor.Prepared, error) {
	shapes, err := executor.PlanKey(half, feed)
	if err != nil {
		return nil, err
	}
	key := request{half, shapes, fmt.Sprintf("%q", fetch)}
	if p := all[key]; p != nil {
		return p, nil
	}
	p, err := local.Prepare(ctx, half, feed, fetch...)
	if len(all) == mostPrepared {
		clear(all) // nearly each batch of sequences has a shape of its own
	}
	if err == nil {
		all[key] = p
	}
	return p, err
}
