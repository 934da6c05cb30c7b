package tensor

import (
	"math"
	"sync/atomic"

	"github.com/edl-go/edl/fault"
)

// A Budget bounds the bytes that several tensors take together: those whose dims change while a program runs (Hold), and what else is taken from it. Several
// goroutines may use it.
type Budget struct {
	most  int64
	taken atomic.Int64
}

// NewBudget returns a budget of most bytes; 0 is no bound.
func NewBudget(most int64) *Budget { return &Budget{most: most} }

// Left returns how many bytes are not taken, math.MaxInt64 where there is no bound.
func (b *Budget) Left() int64 {
	if b == nil || b.most <= 0 {
		return math.MaxInt64
	}
	return max(0, b.most-b.taken.Load())
}

// Take takes n bytes, before they are allocated, or gives back -n. It takes none if fewer are left: the error is of the kind
// TooLarge, and names the variable, if it is not empty.
func (b *Budget) Take(variable string, n int64) error {
	if b == nil || b.most <= 0 {
		return nil
	}
	for {
		taken := b.taken.Load()
		if n > 0 && n > b.most-taken {
			return fault.E(fault.TooLarge, fault.Var(variable), fault.Gotf("%d bytes beside the %d that the program has taken", n, taken), fault.Wantf("at most %d together", b.most),
				fault.Hint("make batches smaller or loops shorter, or allow more memory if the machine has it"))
		}
		if b.taken.CompareAndSwap(taken, taken+n) {
			return nil
		}
	}
}

// Hold makes Resize and Assign take from the budget what t grows by. variable is what errors name. Nobody else uses t yet.
func (b *Budget) Hold(t *Tensor, variable string) {
	if b == nil {
		return
	}
	if t.room == nil {
		t.room = &room{}
	}
	t.room.budget, t.room.variable = b, variable
}
