package ops

import (
	"cmp"
	"errors"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// GradientMerge decides how the gradients of several trainers, each from a part of one batch, become the gradient of the whole batch. If the loss
// is a mean over the batch, it is the mean weighted by rows. If the loss is a sum over the batch, it is the sum. GradientMerge follows the loss
// back to the op that reduces the batch. For a loss that mixes both, or that is not linear in a mean or sum, it is the mean weighted by records, of gradients that trainers
// compute with totals of the batch: see ShareTotals.
//
// A term of the loss that does not depend on the batch, such as a penalty on parameters, is the same on every trainer. Added to a mean, it survives
// the weighted mean. Added to a sum, it would count once per trainer, so trainers share the sum.
//
// What the loss reduces must have the rows of the batch. GradientMerge returns Unsupported if an op before mixes them (Def.MixesRows): on a cluster it would
// see only the rows of one trainer.
func GradientMerge(p *program.Program) (Merge, error) {
	a, err := analyse(p)
	if err != nil {
		return MergeNone, err
	}
	return a.merge, nil
}

// reductions follows variables of a forward pass back to the op that reduced the batch.
type reductions struct {
	block   *program.Block
	forward []*program.Op
	writers map[string]*program.Op // last writer of each variable
	batch   map[string]bool        // the variable depends on the batch
	weight  string                 // the variable whose rows weigh in means; "" while it is unknown
	known   map[string]Merge
	within  map[string]bool         // what of is being asked for
	over    map[string]string       // of a scalar that is a mean over the batch: the variable whose rows it averages, or a sum of weights
	values  map[string]bool         // the sums of weights in over: they weigh by their value
	shapes  map[*program.Op]*Shapes // of the forward ops, as far as they can be inferred
	types   map[string]Meta         // of what they write
	rowwise map[string]bool         // the variable has been found to have the rows of the batch
	shares  *division               // of a forward pass with loops, branches or records that do not lie along axis 0; nil for any other
	records *records

	byRecords bool // trainers share totals, and weigh their records
	structure bool // only how numbers are reduced is asked for, and not whether rows stay apart before
}

func newReductions(block *program.Block, forward []*program.Op) *reductions {
	r := &reductions{block: block, forward: forward, writers: map[string]*program.Op{}, batch: map[string]bool{}, known: map[string]Merge{}, within: map[string]bool{},
		over: map[string]string{}, values: map[string]bool{}, shapes: map[*program.Op]*Shapes{}, types: map[string]Meta{}, rowwise: map[string]bool{}}
	written := map[string]bool{}
	r.records = &records{block: block, forward: forward, fed: func(name string) bool {
		op := r.writers[name]
		if op == nil {
			return r.isFed(name)
		}
		def, _ := Lookup(op.Type)
		return def != nil && (def.Class == Read || def.Class == Feed)
	}}
	for _, op := range forward {
		onBatch := depends(r, op, written)
		for _, name := range op.OutputNames() {
			written[name] = true
			r.batch[name] = onBatch
			r.writers[name] = op
		}
		r.infer(op)
	}
	if needsDivision(forward) {
		divideShares(r, nil)
	}
	return r
}

// depends reports whether what an op computes depends on the batch. written are the variables that ops before it write.
func depends(r *reductions, op *program.Op, written map[string]bool) bool {
	def, _ := Lookup(op.Type)
	onBatch := def != nil && (def.Class == Read || def.Class == Feed)
	for _, name := range op.InputNames() {
		if !written[name] && r.isFed(name) {
			r.batch[name] = true
		}
		onBatch = onBatch || r.batch[name]
	}
	return onBatch && op.Type != totalsOp && (def == nil || !def.FromDims) && !r.records.equal(op)
}

// divideShares follows the shares of the forward pass, in which trainers share totals.
func divideShares(r *reductions, totals map[string]bool) {
	r.shares = divide(r.block, r.forward, func(name string) bool { return r.writers[name] == nil && r.isFed(name) }, r.typeOf, r.records, totals)
	clear(r.rowwise)
}

// isFed reports whether a variable that no op writes comes with the batch.
func (r *reductions) isFed(name string) bool {
	v, ok := r.block.Find(name)
	return ok && !v.Persistable
}

// of returns how a scalar of the loss was reduced, MergeNone if it does not depend on the batch.
func (r *reductions) of(name string) (Merge, error) {
	if kind, ok := r.known[name]; ok || !r.batch[name] {
		return kind, nil
	}
	op := r.writers[name]
	if op == nil {
		return MergeNone, r.unclear(name, "a loss that is fed")
	}
	if r.within[name] {
		return MergeNone, nil // state that an op adds to: it reads the value before this step
	}
	r.within[name] = true
	kind, err := r.through(op, name)
	delete(r.within, name)
	if err == nil {
		r.known[name] = kind
	}
	return kind, err
}

// through returns how op reduced its output name.
func (r *reductions) through(op *program.Op, name string) (Merge, error) {
	if def, ok := Lookup(op.Type); ok && slices.ContainsFunc(def.Totals, func(slot string) bool { return slices.Contains(op.Outputs[slot], name) }) {
		return totalOf(r, op, name)
	}
	switch op.Type {
	case "mean", "reduce_mean", "reduce_sum":
		if r.isScalar(op.In("X")) || reducesRows(r, r.writers[op.In("X")]) {
			return r.like(op.In("X"), name)
		}
		if total, ok := divisor(r, op); ok {
			return r.quotient(total, name)
		}
		r.over[name] = op.In("X")
		if !r.isScalar(name) && !reducesRows(r, op) {
			return MergeNone, r.unclear(name, "a loss that reduces only some axes")
		}
		if err := checkReduced(r, op.In("X")); err != nil {
			return MergeNone, err
		}
		if op.Type == "reduce_sum" {
			return MergeSum, nil
		}
		return MergeMean, nil
	case "kldiv_loss":
		return r.divergence(op, name)
	case "nll_loss":
		return r.likelihood(op, name)
	case "print":
		return r.like(op.In("In"), name)
	case "scale", "assign", "cast", "reshape", "reshape2":
		if r.batch[op.In("ScaleTensor")] {
			return MergeNone, r.unclear(name, "a loss scaled by what depends on the batch")
		}
		return r.like(op.In("X"), name)
	case "accuracy":
		r.over[name] = op.In("Label")
		return MergeMean, nil
	case "sum", "elementwise_add", "elementwise_sub":
		return r.joined(op, name)
	case "elementwise_mul", "elementwise_div":
		if !r.batch[op.In("Y")] {
			return r.like(op.In("X"), name)
		}
		if op.Type == "elementwise_mul" && !r.batch[op.In("X")] {
			return r.like(op.In("Y"), name)
		}
		if op.Type == "elementwise_div" {
			return r.weighted(op, name)
		}
	}
	return MergeNone, r.unclear(name, "a loss computed by "+op.Type)
}

// totalOf returns how an op reduced the batch whose output is a sum over rows: each of its inputs must have the rows of the batch, or be the same for all.
func totalOf(r *reductions, op *program.Op, name string) (Merge, error) {
	for _, in := range op.InputNames() {
		if !r.batch[in] {
			continue
		}
		if err := r.checkRows(in); err != nil {
			return MergeNone, err
		}
		r.over[name] = in
	}
	return MergeSum, nil
}

// reducesRows reports whether an op reduces the rows of the batch, and no other axis, as in a loss that is a mean over the batch for each step: numbers are left, one for
// each step, to be added up.
func reducesRows(r *reductions, op *program.Op) bool {
	if op == nil || op.Type != "reduce_mean" && op.Type != "reduce_sum" {
		return false
	}
	axes, _ := op.Ints("dim")
	all, _ := op.Bool("reduce_all")
	x := op.In("X")
	return !all && len(axes) == 1 && axes[0] == 0 && !r.isScalar(x) && r.batch[x] && r.checkRows(x) == nil && (r.shares == nil || r.shares.axis[x] == 0)
}

// divergence returns how kldiv_loss reduces the batch. Both its inputs must have the rows of it.
func (r *reductions) divergence(op *program.Op, name string) (Merge, error) {
	kind, x, target := MergeMean, op.In("X"), op.In("Target")
	switch reduction, _ := op.Str("reduction"); {
	case reduction == "none" || r.isScalar(x):
		return MergeNone, r.unclear(name, "a loss computed by kldiv_loss from one number, or for each element")
	case r.batch[x] != r.batch[target]:
		return MergeNone, r.unclear(name, "a kldiv_loss of rows of the batch and of what does not depend on it")
	case reduction == "sum":
		kind = MergeSum
	}
	r.over[name] = x
	return kind, cmp.Or(r.checkRows(x), r.checkRows(target))
}

// likelihood returns how nll_loss reduces the batch. Its mean is over the labels that count, whose weights it sums up.
func (r *reductions) likelihood(op *program.Op, name string) (Merge, error) {
	x, total := op.In("X"), op.Out("Total_weight")
	switch reduction, _ := op.Str("reduction"); {
	case reduction == "none" || r.isScalar(x) || r.batch[x] != r.batch[op.In("Label")]:
		return MergeNone, r.unclear(name, "an nll_loss of what does not have the rows of the batch, or for each element")
	case reduction == "sum":
		return MergeSum, r.checkRows(x)
	case op.In("Weight") != "" || total == "" || total == program.Empty:
		return MergeNone, r.unclear(name, "an nll_loss that averages with weights of classes")
	}
	r.over[name], r.values[total] = total, true
	return MergeMean, r.checkRows(x)
}

// divisor returns the number that depends on the batch by which each row was divided that a reduce_sum adds up, if the op is one of such rows, as in the loss of SSD.
func divisor(r *reductions, op *program.Op) (string, bool) {
	div := r.writers[op.In("X")]
	if op.Type != "reduce_sum" || div == nil || div.Type != "elementwise_div" {
		return "", false
	}
	total := div.In("Y")
	if limit := r.writers[total]; limit != nil && limit.Type == "elementwise_max" && r.batch[limit.In("X")] && !r.batch[limit.In("Y")] {
		total = limit.In("X") // which must not be 0 where nothing counts: such a part has no weight
	}
	return total, r.batch[total] && r.isScalar(total)
}

// quotient returns how the sum of rows was reduced that were each divided by a sum of weights: as a sum divided by it.
func (r *reductions) quotient(total, name string) (Merge, error) {
	rows := r.writers[r.writers[name].In("X")].In("X")
	if kind, err := r.of(total); err != nil || kind != MergeSum {
		return MergeNone, cmp.Or(err, r.unclear(name, "a loss that divides by what depends on the batch, and is no sum divided by a sum"))
	}
	if r.learned(total) {
		return MergeNone, r.unclear(name, "a loss that divides by a sum which depends on parameters")
	}
	r.over[name], r.values[total] = total, true
	return MergeMean, r.checkRows(rows)
}

// weighted returns how the quotient of two scalars was reduced: a sum over the batch, divided by a sum of weights that come with the batch, is a mean in which
// each row counts as much as its weight.
func (r *reductions) weighted(op *program.Op, name string) (Merge, error) {
	for _, sum := range []string{op.In("X"), op.In("Y")} {
		if kind, err := r.of(sum); err != nil || kind != MergeSum {
			return MergeNone, cmp.Or(err, r.unclear(name, "a loss that divides by what depends on the batch, and is no sum divided by a sum"))
		}
	}
	if r.learned(op.In("Y")) {
		return MergeNone, r.unclear(name, "a loss that divides by a sum which depends on parameters")
	}
	r.over[name] = op.In("Y")
	r.values[op.In("Y")] = true
	return MergeMean, nil
}

// learned reports whether a variable depends on one that outlives a step, in a way that gradients take.
func (r *reductions) learned(name string) bool {
	v, ok := r.block.Find(name)
	if ok && v.Persistable {
		return true
	}
	if ok && v.StopGradient {
		return false
	}
	op := r.writers[name]
	if op == nil {
		return false
	}
	def, _ := Lookup(op.Type)
	return def != nil && def.Gradient != nil && def.Class != Read && def.Class != Feed && slices.ContainsFunc(op.InputNames(), r.learned)
}

// like returns how a scalar was reduced that name is computed from.
func (r *reductions) like(scalar, name string) (Merge, error) {
	kind, err := r.of(scalar)
	r.over[name] = r.over[scalar]
	return kind, err
}

// joined returns how the terms of a sum were reduced. All must be reduced in the same way.
func (r *reductions) joined(op *program.Op, name string) (Merge, error) {
	joined, independent := MergeNone, false
	for _, term := range op.InputNames() {
		if !r.batch[term] {
			independent = true
			continue
		}
		kind, err := r.of(term)
		if err != nil {
			return MergeNone, err
		}
		if joined != MergeNone && kind != joined {
			return MergeNone, r.unclear(name, "a loss that adds a mean over the batch to a sum over it")
		}
		if over := r.over[name]; joined == MergeMean && !r.same(over, r.over[term]) {
			return MergeNone, r.unclear(name, "a loss that adds a mean over "+r.described(over)+" to one over "+r.described(r.over[term]))
		}
		joined, r.over[name] = kind, r.over[term]
	}
	if joined == MergeSum && independent {
		return MergeNone, r.unclear(name, "a sum over the batch plus a term that does not depend on the batch")
	}
	return joined, nil
}

func (r *reductions) isScalar(name string) bool {
	m, ok := r.typeOf(name)
	return ok && Product(m.Dims) == 1
}

// infer notes the types of what a forward op writes. They count more than declarations, which are only hints.
func (r *reductions) infer(op *program.Op) {
	shapes, err := Infer(op, r.typeOf)
	if err != nil {
		return
	}
	r.shapes[op] = shapes
	if def, _ := Lookup(op.Type); def.Class == Read || def.Class == Feed {
		return
	}
	for slot, names := range op.Outputs {
		for i, name := range names {
			if m := shapes.Outs(slot)[i]; name != program.Empty && m.Kind != 0 {
				r.types[name] = m
			}
		}
	}
}

func (r *reductions) typeOf(name string) (Meta, bool) {
	if m, ok := r.types[name]; ok {
		return m, true
	}
	v, ok := r.block.Find(name)
	if !ok {
		return Meta{}, false
	}
	m := MetaOf(v)
	if m.LoDLevel > 0 {
		m.LoDOf = name // of what comes with the batch; of other variables, the declaration is a hint
	}
	return m, true
}

// checkRows checks that a variable has the rows of the batch, each computed from its row alone, if it depends on the batch.
func (r *reductions) checkRows(name string) error {
	if r.structure {
		return nil
	}
	err := checkOps(r, name)
	if err == nil || r.shares != nil {
		return err
	}
	clear(r.rowwise)
	if !slices.ContainsFunc(r.forward, func(op *program.Op) bool {
		return slices.Contains([]string{"transpose", "transpose2", "stack", "concat", "gather_nd"}, op.Type)
	}) {
		return err
	}
	divideShares(r, nil) // the records may lie along another axis in between, or several times along axis 0, or an index may have the row's own number
	if checkOps(r, name) != nil {
		r.shares = nil
		clear(r.rowwise)
		return err
	}
	return nil
}

// checkOps is checkRows by the ops alone, which see records along axis 0, or by shares if there are some.
func checkOps(r *reductions, name string) error {
	op := r.writers[name]
	if op == nil || !r.batch[name] || r.rowwise[name] {
		return nil
	}
	if r.shares != nil {
		return r.checkShare(name)
	}
	r.rowwise[name] = true
	def, _ := Lookup(op.Type)
	if def == nil || def.Class == Read || def.Class == Feed {
		return nil
	}
	if def.MixesRows != nil {
		divided := func(slot string) bool {
			return slices.ContainsFunc(op.Inputs[slot], func(name string) bool { return r.batch[name] })
		}
		if s := r.shapes[op]; s == nil || def.MixesRows(s, divided) && !r.records.keptApart(op, divided) {
			return mixes(op, name)
		}
	}
	for _, from := range r.records.elements(op) {
		if err := checkOps(r, from); err != nil {
			return err
		}
	}
	return nil
}

// checkShare is checkRows in a forward pass that has shares.
func (r *reductions) checkShare(name string) error {
	if r.shares.some[name] || choiceOf(r, name) != "" {
		return r.unclear(name, "a loss that depends on rows of some records only")
	}
	switch r.shares.of[name] {
	case mixed:
		return mixedBy(r, cmp.Or(r.shares.from[name], r.shares.at), name)
	case steps:
		return r.unclear(name, "a loss that depends on the number of steps of a trainer's part of the batch")
	}
	return nil
}

// mixedBy is mixes, with what is known of the variables of the op.
func mixedBy(r *reductions, op *program.Op, name string) error {
	err := mixes(op, name)
	index := r.writers[op.In("Index")]
	var f *fault.Fault
	if index != nil && index.Type == "generate_mask_labels" && errors.As(err, &f) {
		f.Hint = "give each batch one picture: RoiHasMaskInt32 counts the regions of a picture from 0, so with several the op takes regions of the first one, in Paddle, too; or pool the regions of MaskRois"
	}
	return err
}

func mixes(op *program.Op, name string) error {
	hint := "train the model on one machine: a trainer of a cluster has only a part of the rows"
	switch op.Type {
	case "matmul", "matmul_v2", "mul", "bmm":
		hint = "train the model on one machine: the op multiplies rows with each other, as a loss over pairs of records does, and a trainer of a cluster has only a part of the rows"
	case "where_index", "masked_select":
		hint = "train the model on one machine: how many rows there are depends on the batch; or choose rows by a mask that has the rows of the batch, and end with their sum or mean; " +
			"or multiply the cost of each row by the mask, and divide the sum by that of the mask"
	case "collect_fpn_proposals":
		hint = "train the model on one machine: the op takes the best regions of all pictures together, and a trainer of a cluster has a part of them; or take the proposals of one feature map"
	case "gather", "gather_nd":
		hint = "train the model on one machine: the index counts rows of the whole batch, and a trainer of a cluster has a part of them; or feed positions within the record, and let the program put the " +
			"number of the row before them (range from 0 to shape(x)[0]) for gather_nd; or compute the loss at all positions of a record, with a label that it ignores (ignore_index) where there is none"
	}
	return At(op, fault.E(fault.Unsupported, fault.Var(name), fault.Got("a loss that depends on "+op.Type+", which mixes the rows of a batch"),
		fault.Want("ops that compute each row by itself, before a mean or a sum over the batch"),
		fault.Hint(hint)))
}

func (r *reductions) unclear(name, got string) error {
	f := fault.E(fault.Unsupported, fault.Var(name), fault.Got(got), fault.Want("a loss that is a mean or a sum over the batch"),
		fault.Hint("end the loss with layers.Mean over the batch"))
	if op := r.writers[name]; op != nil {
		return At(op, f)
	}
	return f
}
