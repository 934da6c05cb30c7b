package ops

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// A Weight says what a trainer's part of a batch weighs in means over all parts. The zero Weight is the number of its records.
type Weight struct {
	Variable string
	Value    bool // the value of the variable, a whole number, and not the number of its rows
}

// WeightOf returns what weighs what a trainer has computed from its part of a batch, in means over all parts. Where a loss averages over records, it is
// the number of them. Where rows form sequences, a loss may average over sequences, or over all their tokens: WeightOf follows it back to the op that
// averages, and returns what that reads. Where a loss divides the sum of weighted costs by the sum of the weights, it is that sum. Numbers that are
// fetched, such as an accuracy, are averaged with the same weight. fetch names them.
//
// Where trainers share totals (ShareTotals), it is the number of records. So it is for a program that ShareTotals has made.
//
// It returns Unsupported if the program does not tell what a number averages over, or if two of them average over the rows of different sequences, unless a cost compares these rows one by one. State
// that the forward pass averages, such as moving statistics, must have those rows, too, unless the weight is a sum of weights. A program that is not divided among trainers needs no weight.
func WeightOf(p *program.Program, fetch []string) (Weight, error) {
	block := p.Global()
	sequences, chooses := readsSequences(block), choosesRows(block)
	if !sequences && !chooses && !dividesSums(block) {
		return Weight{}, nil
	}
	end, loss, shared := len(block.Ops), "", false
	if slices.ContainsFunc(block.Ops, func(op *program.Op) bool { return op.Role().Has(program.RoleLoss | program.RoleBackward) }) {
		a, err := analyse(p)
		if err != nil {
			return Weight{}, err
		}
		end, loss, shared = a.end, a.loss, !a.linear
		if a.merge == MergeSum {
			loss = "" // its gradients are added
		}
	}
	r := newReductions(block, block.Ops[:end])
	switch {
	case shared:
		if err := weighRecords(r, loss); err != nil || !sequences && !chooses {
			return Weight{}, err
		}
	case loss != "":
		if err := r.weigh(loss); err != nil {
			return Weight{}, err
		}
	}
	byRows := !sequences && !r.values[r.weight] // records are all the rows that there are, but for chosen ones
	if !shared && byRows && !chooses {
		return Weight{}, nil
	}
	for _, name := range fetch {
		if v, ok := block.Find(name); !ok || !r.batch[name] || r.writers[name] == nil || v.Persistable || !v.DType.IsFloat() || !r.isScalar(name) {
			continue // has rows, is the same on every trainer, is counted, or is a gradient
		}
		if byRows && !fromChoice(r, name) || counts(r.writers[name]) {
			continue
		}
		if kind, err := r.of(name); err == nil && kind == MergeSum || recounts(p, name) {
			continue // it is added, or computed again from counts that are
		}
		if err := r.weigh(name); err != nil {
			return Weight{}, err
		}
	}
	if byRows {
		return Weight{}, nil
	}
	if err := r.weighState(); err != nil || shared {
		return Weight{}, err
	}
	return Weight{r.weight, r.values[r.weight]}, nil
}

// counts reports whether an op makes a number of counts that it keeps from step to step, as auc does. It averages over no rows of the batch: that of each trainer has all rows of the steps
// before, and its own of this step.
func counts(op *program.Op) bool {
	def, ok := Lookup(op.Type)
	for _, merge := range def.State {
		if merge != MergeSum {
			return false
		}
	}
	return ok && len(def.State) > 0
}

// NoMean is the error of a step whose batch has weights that are all 0. It is the same wherever the step is trained, and whether numbers are checked or not.
func NoMean(step uint64) *fault.Fault {
	return fault.E(fault.NotFinite, fault.At(fmt.Sprintf("step %d", step)), fault.Got("a batch whose weights are all 0, of which there is no mean"),
		fault.Want("a weight that is not 0"), fault.Hint("leave such batches out"))
}

// weighRecords makes the number of records the weight of a program whose trainers share totals. These do not depend on the batch then.
func weighRecords(r *reductions, loss string) error {
	r.byRecords = true
	if sharesTotals(r.forward) {
		return nil
	}
	_, err := totalling{reductions: r, apart: true}.totalsOf(loss)
	return err
}

// isRecords reports whether a variable has the same number of rows for each record.
func isRecords(r *reductions, name string) bool {
	m, _ := r.typeOf(name)
	return !r.values[name] && m.LoDLevel == 0 && m.LoDOf == "" && choiceOf(r, name) == ""
}

// weigh takes the rows that a scalar averages over as the weight, or compares them with it.
func (r *reductions) weigh(name string) error {
	kind, err := r.of(name)
	if err == nil && kind != MergeMean {
		err = r.unclear(name, "a number that is no mean over the batch")
	}
	if err != nil {
		return err
	}
	if over := r.over[name]; r.shares != nil && r.shares.axis[over] != 0 && readsSequences(r.block) {
		return r.unclear(name, "a mean over records that do not lie along axis 0, in a program of sequences")
	} else if r.byRecords && !isRecords(r, over) {
		return r.unclear(name, "a mean over "+r.described(over)+" beside a loss of several means, where each trainer weighs its records")
	} else if r.byRecords {
		return nil
	} else if r.weight == "" {
		r.weight = over
	} else if !r.same(r.weight, over) {
		return r.unclear(name, "a mean over "+r.described(over)+" beside one over "+r.described(r.weight))
	}
	return nil
}

// weighState does so for state that trainers average: the rows that its op reads. Where a sum of weights is the weight, it is that of the state, too, as segmentation and detection need
// it: what they average over are places or boxes that count, while batch_norm averages over all.
func (r *reductions) weighState() error {
	if r.values[r.weight] {
		return nil
	}
	for _, op := range r.forward {
		def, _ := Lookup(op.Type)
		for slot, merge := range def.State {
			name := op.Out(slot)
			if v, ok := r.block.Find(name); merge != MergeMean || !ok || !v.Persistable {
				continue
			}
			for _, in := range op.InputNames() {
				if v, ok := r.block.Find(in); !ok || v.Persistable || !r.batch[in] {
					continue
				}
				if r.byRecords && isRecords(r, in) {
					continue
				}
				if r.byRecords {
					return At(op, fault.E(fault.Unsupported, fault.Var(name), fault.Got("state that is averaged over the rows of "+fault.Quote(in)),
						fault.Want("a row for each record, because the loss has several means"), fault.Hint("train on one machine")))
				}
				if r.weight == "" {
					r.weight = in
				}
				if !r.same(in, r.weight) {
					return At(op, fault.E(fault.Unsupported, fault.Var(name), fault.Got("state that is averaged over the rows of "+fault.Quote(in)),
						fault.Want(r.described(r.weight)+", over which other means are"), fault.Hint("train on one machine")))
				}
			}
		}
	}
	return nil
}

// readsSequences reports whether rows that come with the batch form sequences. Programs of Fluid before 1.6 do not mark what is fed: it is what ops read and none writes.
func readsSequences(block *program.Block) bool {
	sequences := func(name string) bool {
		v, ok := block.Find(name)
		return ok && v.LoDLevel > 0
	}
	read, written := map[string]bool{}, map[string]bool{}
	for _, op := range block.Ops {
		def, _ := Lookup(op.Type)
		if def != nil && (def.Class == Read || def.Class == Feed) && slices.ContainsFunc(op.OutputNames(), sequences) {
			return true
		}
		for _, name := range op.InputNames() {
			read[name] = true
		}
		for _, name := range op.OutputNames() {
			written[name] = true
		}
	}
	for _, v := range block.Vars() {
		if v.LoDLevel > 0 && (v.NeedCheckFeed || v.Kind == program.LoDTensor && !v.Persistable && read[v.Name] && !written[v.Name]) {
			return true
		}
	}
	return false
}

// choosesRows reports whether data may choose rows.
func choosesRows(block *program.Block) bool {
	return slices.ContainsFunc(block.Ops, func(op *program.Op) bool {
		def, ok := Lookup(op.Type)
		return op.Type == "where_index" || op.Type == "masked_select" || ok && def.Finds != nil
	})
}

// dividesSums reports whether a program may have a mean with weights.
func dividesSums(block *program.Block) bool {
	return slices.ContainsFunc(block.Ops, func(op *program.Op) bool { return op.Type == "elementwise_div" || op.Type == "nll_loss" })
}

// same reports whether two weights are one: variables that have the rows of the same sequences, or both those of records.
func (r *reductions) same(a, b string) bool {
	if r.values[a] || r.values[b] {
		return a == b
	}
	if choiceOf(r, a) != choiceOf(r, b) {
		return false
	}
	x, _ := r.typeOf(a)
	y, _ := r.typeOf(b)
	return x.LoDLevel == y.LoDLevel && aligned(r, x, y)
}

// labelled are the costs that demand a label for each row, by the slot of these rows.
var labelled = map[string]string{"cross_entropy": "X", "cross_entropy2": "X", "softmax_with_cross_entropy": "Logits"}

// aligned reports whether two variables have as many rows on each trainer: those of the same sequences, or of two whose rows a cost compares one by one, as words with the words that
// follow them.
func aligned(r *reductions, a, b Meta) bool {
	alike := map[string]bool{a.LoDOf: true}
	for more := true; more && !alike[b.LoDOf]; {
		more = false
		for _, op := range r.forward {
			slot, ok := labelled[op.Type]
			if !ok {
				continue
			}
			x, _ := r.typeOf(op.In(slot))
			label, _ := r.typeOf(op.In("Label"))
			if x.LoDLevel == a.LoDLevel && label.LoDLevel == a.LoDLevel && alike[x.LoDOf] != alike[label.LoDOf] {
				alike[x.LoDOf], alike[label.LoDOf], more = true, true, true
			}
		}
	}
	return alike[b.LoDOf]
}

// described says in an error what a mean is over.
func (r *reductions) described(weight string) string {
	if r.values[weight] {
		return "the weights that " + fault.Quote(weight) + " sums up"
	}
	return "the rows of " + fault.Quote(weight)
}
