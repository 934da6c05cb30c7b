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
	return ShuffleFrom(0, func(int64) iter.Seq2[Record, error] { return records }, size, seed, pass)
}

// ShuffleFrom yields what Shuffle yields of a stream from position from of its order on, without reading the buffers before. open yields
// the records of the stream from a position on, and none where that is not before its end.
func ShuffleFrom(from int64, open func(from int64) iter.Seq2[Record, error], size int, seed, pass uint64) iter.Seq2[Record, error] {
	if size < 2 {
		return open(from)
	}
	return func(yield func(Record, error) bool) {
		s := shuffle{size: size, random: rand.New(rand.NewPCG(seed, pass)), before: from / int64(size), drop: int(from % int64(size))}
		for r, err := range open(s.before * int64(size)) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			if s.add(r); s.filled == size && !s.empty(yield) {
				return
			}
		}
		s.empty(yield)
	}
}

// A shuffle is the buffer of one iteration.
type shuffle struct {
	size   int
	random *rand.Rand
	before int64 // buffers whose chance has yet to be drawn, although nobody reads their records
	drop   int   // records of the next buffer that are not wanted
	buffer []Record
	filled int
}

func (s *shuffle) add(r Record) {
	if s.filled == len(s.buffer) {
		s.buffer = append(s.buffer, Record{})
	}
	slot := &s.buffer[s.filled]
	slot.Number, slot.File, slot.Bytes = r.Number, r.File, append(slot.Bytes[:0], r.Bytes...)
	s.filled++
}

// empty yields the buffer in random order and reports whether the iteration goes on.
func (s *shuffle) empty(yield func(Record, error) bool) bool {
	for ; s.before > 0; s.before-- {
		s.random.Shuffle(s.size, func(int, int) {})
	}
	full := s.buffer[:s.filled]
	s.random.Shuffle(len(full), func(i, j int) { full[i], full[j] = full[j], full[i] })
	full = full[min(s.drop, len(full)):]
	s.filled, s.drop = 0, 0
	for _, r := range full {
		if !yield(r, nil) {
			return false
		}
	}
	return true
}
