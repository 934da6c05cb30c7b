package dataset

import (
	"context"
	"iter"
	"math/rand/v2"

	"github.com/edl-go/edl/dataset/internal/interrupt"
)

// A Shuffling says in which order records are read.
type Shuffling struct {
	Buffer int // records that are shuffled at a time; below 2 keeps their order
	Group  int // records that follow each other and stay together, as a batch of records of like length; below 2 for none. It divides Buffer
	Seed   uint64
	Pass   uint64
}

// permute calls swap for a random order of n records. Records of a last group that is smaller stay last.
func (s Shuffling) permute(random *rand.Rand, n int, swap func(i, j int)) {
	if s.Group < 2 {
		random.Shuffle(n, swap)
		return
	}
	random.Shuffle(n/s.Group, func(i, j int) {
		for k := range s.Group {
			swap(i*s.Group+k, j*s.Group+k)
		}
	})
}

// skip draws what permute draws for a whole buffer.
func (s Shuffling) skip(random *rand.Rand) { s.permute(random, s.Buffer, func(int, int) {}) }

// Shuffle is Fluid's shuffle reader: it fills a buffer with the next records, yields them in random order, and refills it. The order depends
// only on s. So all processes that shuffle the same records see the same order, and each pass has another order.
//
// The buffer holds copies. Its memory is kept until the iteration ends.
func Shuffle(records iter.Seq2[Record, error], s Shuffling) iter.Seq2[Record, error] {
	return ShuffleFrom(0, func(int64) iter.Seq2[Record, error] { return records }, s)
}

// ShuffleFrom yields what Shuffle yields from position from on. It does not read the buffers before that position. open yields the records of the
// stream from a position on, and none if that is at the end.
func ShuffleFrom(from int64, open func(from int64) iter.Seq2[Record, error], by Shuffling) iter.Seq2[Record, error] {
	size := int64(by.Buffer)
	if size < 2 {
		return open(from)
	}
	return func(yield func(Record, error) bool) {
		s := shuffle{Shuffling: by, random: rand.New(rand.NewPCG(by.Seed, by.Pass)), before: from / size, drop: int(from % size)}
		for r, err := range open(s.before * size) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			if s.add(r); s.filled == s.Buffer && !s.empty(yield) {
				return
			}
		}
		s.empty(yield)
	}
}

// ShuffledFirst returns the records at the first count positions of Shuffle, for a stream of n records with numbers from 0. The ranges are in no
// particular order.
func ShuffledFirst(count, n int64, by Shuffling) []Range {
	count = min(count, n)
	size := int64(by.Buffer)
	if size < 2 || count <= 0 {
		return []Range{{From: 0, To: max(count, 0)}}
	}
	random := rand.New(rand.NewPCG(by.Seed, by.Pass))
	whole := count - count%size
	for range whole / size {
		by.skip(random)
	}
	buffer := make([]int64, min(size, n-whole))
	for i := range buffer {
		buffer[i] = whole + int64(i)
	}
	by.permute(random, len(buffer), func(i, j int) { buffer[i], buffer[j] = buffer[j], buffer[i] })
	first := []Range{{From: 0, To: whole}}
	for _, record := range buffer[:count-whole] {
		first = appendRecord(first, record)
	}
	return first
}

// A shuffle is the buffer of one iteration.
type shuffle struct {
	Shuffling
	random *rand.Rand
	before int64 // buffers to skip; their random numbers must still be drawn
	drop   int   // records of the next buffer to leave out
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

// empty yields the buffer in random order. It reports whether the iteration goes on.
func (s *shuffle) empty(yield func(Record, error) bool) bool {
	if s.filled == 0 {
		return true // at the end of the stream; there may be very many buffers to skip
	}
	for ; s.before > 0; s.before-- {
		s.skip(s.random)
	}
	full := s.buffer[:s.filled]
	s.permute(s.random, len(full), func(i, j int) { full[i], full[j] = full[j], full[i] })
	full = full[min(s.drop, len(full)):]
	s.filled, s.drop = 0, 0
	for _, r := range full {
		if !yield(r, nil) {
			return false
		}
	}
	return true
}

type prefetched[T any] struct {
	value T
	err   error
}

// Prefetch runs seq in a goroutine, up to depth values ahead of the loop. depth is at least 1, which is Fluid's double buffer. When the loop ends,
// it waits until seq has returned. When ctx ends, the loop gets its error at once in place of the next value. seq should watch ctx, too, or the
// wait at the end of the loop is long.
//
// At any time depth + 2 values exist; see BatchOptions.Slots.
func Prefetch[T any](ctx context.Context, seq iter.Seq2[T, error], depth int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		values := make(chan prefetched[T], max(1, depth))
		go func() {
			defer close(values)
			for value, err := range seq {
				if ctx.Err() != nil {
					return
				}
				select {
				case values <- prefetched[T]{value, err}:
				case <-ctx.Done():
					return
				}
			}
		}()
		defer func() {
			cancel()
			for range values { // until the goroutine closes it
			}
		}()
		for {
			value, more, err := receive(ctx, values)
			if !more || !yield(value, err) || err != nil {
				return
			}
		}
	}
}

// receive returns the next value. more is false after the last one. It checks ctx first, because the error of ctx must not look like the end of the
// values.
func receive[T any](ctx context.Context, values <-chan prefetched[T]) (value T, more bool, err error) {
	select {
	case v, ok := <-values:
		if err := interrupt.Check(ctx, "dataset"); err != nil {
			return value, true, err
		}
		return v.value, ok, v.err
	case <-ctx.Done():
		return value, true, interrupt.Check(ctx, "dataset")
	}
}
