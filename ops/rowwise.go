package ops

import (
	"slices"

	"github.com/edl-go/edl/program"
)

// RowsApart reports whether each variable of names has rows of the batch that is fed, in its order, of which each depends on no other record. So a batch of an
// inference program may be divided by records, and batches may be joined, and what it computes is the same, up to how a kernel groups sums. It reports false
// where that is not known. p has no ops of training.
func RowsApart(p *program.Program, names ...string) bool {
	block := p.Global()
	r := newReductions(block, slices.DeleteFunc(slices.Clone(block.Ops), func(op *program.Op) bool { return op.Type == "fetch" }))
	for _, name := range names {
		if !r.batch[name] || r.checkRows(name) != nil {
			return false
		}
	}
	return len(names) > 0
}
