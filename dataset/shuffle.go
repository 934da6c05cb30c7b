package dataset

import (
	"iter"
	"math/rand/v2"
)

// Shuffle is Fluid's shuffle reader: it fills a buffer with the next size records, yields them in random order, and
// refills. The order is a function of size, seed and pass alone, so every process that shuffles the same records sees the
// same order, and each pass another one. A size under 2 leaves the order as it is.
//
// The buffer holds copies; its memory is kept until the iteration ends.
func Shuffle(records iter.Seq2[Record, error], size int, seed, pass uint64) iter.Seq2[Record, error] {
	if size < 2 {
		return records
	}
	return func(yield func(Record, error) bool) {
		random := rand.New(rand.NewPCG(seed, pass))
		var buffer []Record
		filled := 0
		empty := func() bool {
			full := buffer[:filled]
			random.Shuffle(filled, func(i, j int) { full[i], full[j] = full[j], full[i] })
			filled = 0
			for _, r := range full {
				if !yield(r, nil) {
					return false
				}
			}
			return true
		}
		for r, err := range records {
			if err != nil {
				yield(Record{}, err)
				return
			}
			if filled == len(buffer) {
				buffer = append(buffer, Record{})
			}
			slot := &buffer[filled]
			slot.Number, slot.File, slot.Bytes = r.Number, r.File, append(slot.Bytes[:0], r.Bytes...)
			if filled++; filled == size && !empty() {
				return
			}
		}
		empty()
	}
}
