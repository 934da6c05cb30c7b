package ops

import (
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// A loss may be any function of sums and means over the batch, such as the quotient of two means, or the sum of a mean over words and one over records. Then no
// single weight makes the gradient of the batch from those of its parts. ShareTotals lets trainers make the sums and means of the whole batch, the totals, between the
// forward and the backward pass:
//
//	local      cost -> mean -> m -> f(m) = loss                     m@GRAD -> mean_grad -> cost@GRAD
//	trainer    cost -> mean -> m.part -> share_totals -> m -> f(m)  m@GRAD * m.scale -> mean_grad -> cost@GRAD
//
// All trainers compute f alike. A scale is what the part weighs in its total, divided by what its records weigh in the batch. So the mean of gradients that is weighted by
// records, which servers make, is the gradient of the batch, also of parameters that f reads by itself. Package merge has the arithmetic.
//
// Rows may be computed with a total, too, if no gradient goes on from it to other rows: each trainer would have only what its own rows add to that. The number of boxes
// that count is such a total, the mean of a layer is not.

// A total is a number, or a vector, that a forward op makes of all rows of the batch.
type total struct {
	op        *program.Op
	over, out string // what is reduced, and what it gives
	mean      bool   // else a sum
	late      bool   // only a run tells how many elements over has
	watched   bool   // no gradient goes through it: a metric over chosen rows, or what such rows do to moving statistics
}

// totalling finds totals, with what reductions know of a forward pass.
type totalling struct {
	*reductions
	apart bool // no one weight is that of all that trainers send: moving statistics of rows of sequences are totals, too
}

// totalsOp is the op by which trainers share totals.
const totalsOp = "share_totals"

// An analysis says how the gradients of several trainers become that of the batch.
type analysis struct {
	loss   string
	end    int // of the forward pass
	merge  Merge
	totals []total         // that trainers share; nil for none
	shared bool            // the program shares them already
	drawn  map[string]bool // chosen rows for which an op draws: on a trainer they have other places than on one machine
	linear bool            // without totals one weight would do, as far as the program tells: whether a sum of weights is a whole number, only batches tell. A mean over chosen rows has none
}

// analyse is GradientMerge and, for what it needs of the loss, WeightOf. It takes totals where these refuse a loss.
func analyse(p *program.Program) (*analysis, error) {
	block := p.Global()
	at := slices.IndexFunc(block.Ops, func(op *program.Op) bool { return op.Role().Has(program.RoleLoss | program.RoleBackward) })
	if at < 0 {
		return nil, fault.E(fault.InvalidProgram, fault.Got("a program without the gradient of a loss"), fault.Want("a program that trains"))
	}
	grad := block.Ops[at]
	loss, ok := strings.CutSuffix(grad.Out("Out"), program.GradSuffix)
	if !ok {
		return nil, At(grad, fault.E(fault.InvalidProgram, fault.Var(grad.Out("Out")), fault.Got("a first gradient with this name"),
			fault.Want("the gradient of the loss")))
	}
	a := &analysis{loss: loss, end: at, merge: MergeMean}
	if a.shared = sharesTotals(block.Ops[:at]); a.shared {
		return a, nil
	}
	r := totalling{reductions: newReductions(block, block.Ops[:at])}
	kind, err := r.of(loss)
	switch {
	case err == nil && kind == MergeNone:
		return nil, r.unclear(loss, "a loss that does not depend on the batch")
	case err == nil:
		a.linear = kind == MergeSum && (!readsSequences(block) || r.weighState() == nil) || kind == MergeMean && choiceOf(r.reductions, r.over[loss]) == "" && r.weighs(loss) == nil
		if a.linear {
			a.merge = kind
		}
		if a.linear && !r.shifted() && !r.watches() {
			return a, nil
		}
	}
	shared := totalling{reductions: newReductions(block, block.Ops[:at]), apart: !a.linear}
	if a.totals, err = shared.totalsOf(loss); a.linear && err != nil {
		a.totals, err = nil, nil
	}
	a.drawn = shared.drawn()
	return a, err
}

// shifted reports whether a loss divides by a sum of weights to which a number is added, as to keep it from 0. Such sums of parts do not add up to that of the batch.
func (r totalling) shifted() bool {
	for name := range r.values {
		for op := r.writers[name]; op != nil; op = r.writers[op.In("X")] {
			if bias, _ := op.Float("bias"); op.Type == "scale" && bias != 0 {
				return true
			} else if !slices.Contains([]string{"scale", "assign", "cast", "reshape", "reshape2"}, op.Type) {
				break
			}
		}
	}
	return false
}

// weighs checks that one weight is that of a loss which is a mean, and of state that trainers average.
func (r totalling) weighs(loss string) error {
	sequences := readsSequences(r.block)
	if !sequences && !dividesSums(r.block) {
		return nil
	}
	if err := r.weigh(loss); err != nil {
		return err
	}
	if !sequences && !r.values[r.weight] {
		return nil
	}
	return r.weighState()
}

// sharesTotals reports whether ops share totals.
func sharesTotals(ops []*program.Op) bool {
	return slices.ContainsFunc(ops, func(op *program.Op) bool { return op.Type == totalsOp })
}

// totalsOf returns the totals that a loss is a function of. From then on r takes them, and what is computed from them alone, as what does not depend on the batch.
func (r totalling) totalsOf(loss string) (totals []total, err error) {
	needed := r.ancestors(loss)
	r.divideAgain(needed)
	clear(r.batch)
	clear(r.rowwise)
	written, derived := map[string]bool{}, map[string]bool{}
	for _, op := range r.forward {
		onBatch := depends(r.reductions, op, written)
		from := slices.ContainsFunc(op.InputNames(), func(name string) bool { return derived[name] })
		if err := r.checkDerived(op, from, derived); err != nil {
			return nil, err
		}
		if t, ok := r.totalBy(op); ok && onBatch && needed[t.out] {
			if !r.records.once(t.out) {
				return nil, r.unclear(t.out, "a total over the batch that is written twice")
			}
			if err := checkReduced(r.reductions, t.over); err != nil {
				return nil, err
			}
			t.late = choiceOf(r.reductions, t.over) != "" || r.fromFinding(t.over)
			totals, onBatch, from = append(totals, t), false, true
		}
		watched := r.watched(op, needed)
		totals = append(totals, watched...)
		if onBatch && from && slices.ContainsFunc(op.OutputNames(), func(name string) bool { return needed[name] }) {
			if err := r.checkRowsWith(op, derived); err != nil {
				return nil, err
			}
		}
		for _, name := range op.OutputNames() {
			written[name], r.batch[name] = true, onBatch
			derived[name] = from && !onBatch
		}
		for _, t := range watched {
			r.batch[t.out], derived[t.out] = false, true
		}
	}
	if r.batch[loss] {
		if _, err := r.of(loss); err != nil {
			return nil, err
		}
		return nil, r.unclear(loss, "a loss that is no function of sums and means over the batch")
	}
	if r.checkSize(totals) != nil { // metrics alone may travel as those of each trainer; moving statistics may not
		totals = slices.DeleteFunc(totals, func(t total) bool { return t.watched && !r.isState(t.out) })
	}
	return totals, r.checkSize(totals)
}

// mostDivisions bounds how often shares are followed through a forward pass, once for each total that reduces rows which are computed with another.
const mostDivisions = 8

// divideAgain follows the shares once more, now that trainers share totals: rows that are computed with one are apart.
func (r totalling) divideAgain(needed map[string]bool) {
	known := map[string]bool{}
	for range mostDivisions {
		before := len(known)
		for _, op := range r.forward {
			if t, ok := r.totalBy(op); ok && r.shares != nil && needed[t.out] && r.records.once(t.out) && checkReduced(r.reductions, t.over) == nil {
				known[t.out] = true
			}
		}
		if len(known) == before {
			return
		}
		divideShares(r.reductions, known)
	}
}

// checkSize refuses totals that are too many to be shared.
func (r totalling) checkSize(totals []total) error {
	numbers := int64(0)
	for _, t := range totals {
		m, _ := r.typeOf(t.out)
		if numbers += Product(m.Dims); numbers > MaxTotals {
			return At(t.op, fault.E(fault.Unsupported, fault.Var(t.out), fault.Gotf("a loss that depends on more than %d sums and means over the batch", MaxTotals),
				fault.Want("a loss of fewer"), fault.Hint("train the model on one machine")))
		}
	}
	return nil
}

// checkRowsWith refuses an op that computes rows with a total through which a gradient goes on to the rows that the total is of.
func (r totalling) checkRowsWith(op *program.Op, derived map[string]bool) error {
	for _, name := range op.InputNames() {
		if derived[name] && r.learned(name) && !(r.isScalar(name) && addsAlike(r.reductions, op, name)) {
			return At(op, fault.E(fault.Unsupported, fault.Var(name), fault.Got("rows that are computed with a sum or mean over the batch which depends on parameters"),
				fault.Want("one without a gradient, or one that only the loss reads"), fault.Hint("set stop_gradient on it, or train the model on one machine")))
		}
	}
	return nil
}

// addsAlike reports whether an op adds a number to rows whose mean the loss takes, as in mean(cost + mean(other cost)). The gradient of the number is the same for each part of the rows
// then.
func addsAlike(r *reductions, op *program.Op, number string) bool {
	switch op.Type {
	case "elementwise_add", "elementwise_sub":
	case "sum":
		number = "" // adds what has the same dims
	default:
		return false
	}
	if number != "" && op.In("X") == number && op.In("Y") == number {
		return false
	}
	return endsInMeans(r, op.Out("Out"), map[string]bool{})
}

// endsInMeans reports whether nothing reads rows but means over all of them, and ops that add to rows or scale them.
func endsInMeans(r *reductions, rows string, seen map[string]bool) bool {
	if seen[rows] {
		return true
	}
	seen[rows] = true
	readers := 0
	for _, op := range r.forward {
		if !slices.Contains(op.InputNames(), rows) {
			continue
		}
		readers++
		switch op.Type {
		case "mean", "reduce_mean":
			if !r.isScalar(op.Out("Out")) {
				return false
			}
		case "elementwise_add", "elementwise_sub", "sum", "assign", "print":
			if !endsInMeans(r, op.Out("Out"), seen) {
				return false
			}
		case "scale":
			if op.In("ScaleTensor") != "" || !endsInMeans(r, op.Out("Out"), seen) {
				return false
			}
		default:
			return false
		}
	}
	return readers > 0
}

// checkDerived refuses what may not read totals: ops that run blocks, whose reads no op of this block shows, and ops that draw for each row.
func (r totalling) checkDerived(op *program.Op, from bool, derived map[string]bool) error {
	def, ok := Lookup(op.Type)
	if len(op.SubBlocks()) > 0 {
		reads, _ := r.block.Touches(op)
		for name := range reads {
			from = from || derived[name]
		}
	} else if ok && def.Class != Random {
		return nil
	}
	if !from {
		return nil
	}
	return At(op, fault.E(fault.Unsupported, fault.Got("an op with blocks, or one that draws, which reads a sum or mean over the batch"), fault.Want("a loss without it"),
		fault.Hint("train the model on one machine")))
}

// ancestors are the variables that a variable is computed from, and itself.
func (r totalling) ancestors(name string) map[string]bool {
	needed := map[string]bool{name: true}
	for _, op := range slices.Backward(r.forward) {
		if slices.ContainsFunc(op.OutputNames(), func(name string) bool { return needed[name] }) {
			for _, in := range op.InputNames() {
				needed[in] = true
			}
		}
	}
	return needed
}

// fromFinding reports whether a variable is computed from what an op finds in records, so that its dims are known when this has run.
func (r totalling) fromFinding(name string) bool {
	for name := range r.ancestors(name) {
		if op := r.writers[name]; op != nil {
			if def, ok := Lookup(op.Type); ok && def.Finds != nil {
				return true
			}
		}
	}
	return false
}

// totalOps are the types of ops that make totals.
var totalOps = []string{"mean", "reduce_mean", "reduce_sum", "squared_l2_norm", "l1_norm", "kldiv_loss"}

// totalBy returns the total that an op makes, if it reduces rows of the batch.
func (r totalling) totalBy(op *program.Op) (total, bool) {
	t := total{op: op, over: op.In("X"), out: op.Out("Out")}
	if r.shares != nil && r.isScalar(t.out) {
		if of := r.shares.chosen.numberOf(op); of != "" {
			t.over = of
			return t, true
		}
	}
	if !slices.Contains(totalOps, op.Type) || !r.batch[t.over] || r.isScalar(t.over) {
		return t, false
	}
	switch op.Type {
	case "mean":
		t.mean = true
	case "reduce_mean", "reduce_sum":
		t.mean = op.Type == "reduce_mean"
		axes, _ := op.Ints("dim")
		if all, _ := op.Bool("reduce_all"); all || r.isScalar(t.out) {
			break
		}
		along := int64(0)
		if r.shares != nil {
			along = int64(r.shares.axis[t.over])
		}
		m, _ := r.typeOf(t.over)
		if !slices.Contains(axes, along) && !slices.Contains(axes, along-int64(len(m.Dims))) {
			return t, false
		}
	case "kldiv_loss":
		reduction, _ := op.Str("reduction")
		t.out, t.mean = op.Out("Loss"), reduction != "sum"
		if reduction == "none" || r.batch[t.over] != r.batch[op.In("Target")] || r.checkRows(op.In("Target")) != nil {
			return t, false
		}
	}
	m, ok := r.typeOf(t.out)
	return t, ok && Product(m.Dims) > 0 && Product(m.Dims) <= MaxTotals
}

// NeedsTotals returns the first op whose result trainers must share, because no one weight makes the gradient of the batch from those of its parts; nil if there is none.
// The error is that of GradientMerge.
func NeedsTotals(p *program.Program) (*program.Op, error) {
	a, err := analyse(p)
	if err != nil || a.linear || len(a.totals) == 0 {
		return nil, err
	}
	return a.totals[0].op, nil
}
