package pserver

import (
	"sync"

	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// blockSums keeps the sums of the blocks that servers of the next placement have asked for, so that the last request, while the job pauses, reads no block that
// has not changed since the one before. From the first request on, each round notes which rows it has changed: those of a sparse gradient, where the program
// changes nothing else of a slice (executor's ChangedByRows); else the slice counts as changed as a whole.
//
// It takes 8 bytes for each block of 4 KB, and as much again for each sum.
type blockSums struct {
	values *values
	by     map[string]string // by slice: the variable that holds the rows which a round changes

	mu      sync.Mutex
	rounds  uint64 // one more than were applied since the first request; 0: there has been none
	changes map[string]*blockChanges
	kept    map[stretchOf]*keptSums
	most    int // sums that are kept; for more, what is kept is forgotten
	room    int // for so many of them more
}

// blockChanges says which rounds have changed a slice last.
type blockChanges struct {
	whole uint64   // all of it, perhaps
	last  []uint64 // some of each block
	rows  int64    // of a block; 0: the slice is one
}

// A stretchOf is rows of a slice that somebody asks for.
type stretchOf struct {
	name        string
	first, rows int64
}

// keptSums are the sums of the blocks of a stretch, as they were after a round.
type keptSums struct {
	mu    sync.Mutex
	after uint64
	sums  []uint64
}

// newSums keeps nothing before the first request.
func newSums(service *comm.Service, v *values) *blockSums {
	k := &blockSums{values: v, changes: map[string]*blockChanges{}, kept: map[stretchOf]*keptSums{}}
	if program, ok := v.BlockRunner.(interface{ ChangedByRows() map[string]string }); ok {
		k.by = program.ChangedByRows()
	}
	for _, slice := range service.Slices {
		k.changes[slice.Name] = nil
	}
	return k
}

// begin begins to note what rounds change. The lock is held.
func (k *blockSums) begin() {
	k.rounds = 1
	for name := range k.changes {
		c := &blockChanges{}
		if t, ok := k.values.Variable(name); ok {
			_, n := blocksOf(t)
			k.most += 4 * n // stretches may begin within blocks, and those of an earlier change may be left
			if c.rows = blockRows(t); c.rows > 0 && k.by[name] != "" {
				c.last = make([]uint64, n)
			}
		}
		k.changes[name] = c
	}
	k.room = k.most
}

// applied notes what a round has changed, whose gradients are still there.
func (k *blockSums) applied() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rounds == 0 {
		return
	}
	k.rounds++
	for name, c := range k.changes {
		c.note(k.rounds, k.rowsIn(k.by[name]))
	}
}

// replaced notes that all slices have other values.
func (k *blockSums) replaced() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rounds == 0 {
		return
	}
	k.rounds++
	for _, c := range k.changes {
		c.whole = k.rounds
	}
}

// rowsIn returns the rows of a sparse gradient; nil: it does not say.
func (k *blockSums) rowsIn(gradient string) []int32 {
	t, ok := k.values.Variable(gradient)
	if gradient == "" || !ok {
		return nil
	}
	form, ok := compress.RowsOf(t)
	if !ok {
		return nil
	}
	numbers, _, err := form.Used()
	if err != nil {
		return nil
	}
	return append([]int32{}, numbers...)
}

// note enters rows that a round has changed; nil: it may be any.
func (c *blockChanges) note(round uint64, rows []int32) {
	if c.last == nil || rows == nil {
		c.whole = round
		return
	}
	for _, row := range rows {
		if block := int64(row) / c.rows; row >= 0 && block < int64(len(c.last)) {
			c.last[block] = round
		} else {
			c.whole = round
		}
	}
}

// since returns the last round that may have changed some rows.
func (c *blockChanges) since(from, to int64) uint64 {
	last := c.whole
	if c.last != nil {
		for block := from / c.rows; block < int64(len(c.last)) && block*c.rows < to; block++ {
			last = max(last, c.last[block])
		}
	}
	return last
}

// of returns what is kept for a stretch, what is known of its slice, and after how many rounds this is.
func (k *blockSums) of(s stretchOf, blocks int) (e *keptSums, c *blockChanges, now uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rounds == 0 {
		k.begin()
	}
	if e = k.kept[s]; e == nil {
		if blocks > k.room {
			clear(k.kept)
			k.room = k.most
		}
		e = &keptSums{sums: make([]uint64, blocks)}
		k.kept[s] = e
		k.room -= blocks
	}
	return e, k.changes[s.name], k.rounds
}

// compare lists the blocks of a stretch whose sums are not those that somebody has, or without these, those that are not zeros. It returns the sums of all
// blocks, too. No round is applied meanwhile.
func (k *blockSums) compare(s stretchOf, rows *tensor.Tensor, have []uint64) (differ []int, all []uint64, err error) {
	memory, err := wire.Memory(rows)
	if err != nil {
		return nil, nil, err
	}
	each, n := blocksOf(rows)
	e, changes, now := k.of(s, n)
	e.mu.Lock()
	defer e.mu.Unlock()
	height := max(1, blockRows(rows))
	if n == 1 {
		height = s.rows
	}
	for block := range n {
		part := memory[block*each : min((block+1)*each, len(memory))]
		first := s.first + int64(block)*height
		known := e.after > 0 && changes != nil && changes.since(first, min(first+height, s.first+s.rows)) <= e.after
		zeros := len(have) == 0 && tensor.ZeroBytes(part)
		if !known {
			e.sums[block] = sumOf(part)
		}
		if len(have) == 0 && !zeros || len(have) > 0 && have[block] != e.sums[block] {
			differ = append(differ, block)
		}
	}
	e.after = now
	return differ, append([]uint64{}, e.sums...), nil
}
