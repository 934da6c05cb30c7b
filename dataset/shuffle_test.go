package dataset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/edl-go/edl/fault"
	"pgregory.net/rapid"
)

// numbered yields n records. Each is one byte, its number, and all use the same memory.
func numbered(n int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		b := make([]byte, 1)
		for i := range n {
			b[0] = byte(i)
			if !yield(Record{Number: int64(i), Bytes: b}, nil) {
				return
			}
		}
	}
}

func order(t testing.TB, records iter.Seq2[Record, error]) (numbers []int64) {
	t.Helper()
	for r, err := range records {
		if err != nil || int64(r.Bytes[0]) != r.Number {
			t.Fatalf("record %d with bytes %v, error %v", r.Number, r.Bytes, err)
		}
		numbers = append(numbers, r.Number)
	}
	return numbers
}

func TestShufflePermutesEachBuffer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n, size := rapid.IntRange(0, 100).Draw(rt, "records"), rapid.IntRange(0, 120).Draw(rt, "size")
		got := order(t, Shuffle(numbered(n), Shuffling{Buffer: size, Seed: 3, Pass: 1}))
		if len(got) != n {
			rt.Fatalf("%d records of %d", len(got), n)
		}
		for from, size := 0, max(1, size); from < n; from += size {
			buffer := slices.Sorted(slices.Values(got[from:min(n, from+size)]))
			if buffer[0] != int64(from) || buffer[len(buffer)-1] != int64(from+len(buffer)-1) {
				rt.Fatalf("records %d.. of the order hold %v", from, buffer)
			}
		}
	})
}

func TestShuffleIsAFunctionOfSeedAndPass(t *testing.T) {
	shuffled := func(seed, pass uint64) string {
		return fmt.Sprint(order(t, Shuffle(numbered(50), Shuffling{Buffer: 20, Seed: seed, Pass: pass})))
	}
	if first, second := shuffled(1, 0), shuffled(1, 0); first != second {
		t.Error("the same seed and pass gave two orders")
	}
	if shuffled(1, 0) == shuffled(1, 1) || shuffled(1, 0) == shuffled(2, 0) {
		t.Error("another pass or seed gave the same order")
	}
}

// The order is part of what a checkpoint relies on: it must not change between releases.
func TestShuffleOrderIsPinned(t *testing.T) {
	if got := fmt.Sprint(order(t, Shuffle(numbered(8), Shuffling{Buffer: 8, Seed: 1}))); got != "[2 7 1 5 6 4 0 3]" {
		t.Errorf("order %s", got)
	}
}

func TestShufflePassesErrorsOnAndStops(t *testing.T) {
	d, _ := threeFiles(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n := 0
	for _, err := range Shuffle(d.Records(ctx, 0, 10), Shuffling{Buffer: 4, Seed: 1}) {
		if n++; !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d values", n)
	}
	for range Shuffle(numbered(100), Shuffling{Buffer: 10, Seed: 1}) {
		if n++; n == 5 {
			break
		}
	}
	if n != 5 {
		t.Errorf("a broken loop ran to %d", n)
	}
}

// count yields 0 to n-1, records how far it got, and in the end err, if any.
func count(n int, made *int, err error) func(yield func(int, error) bool) {
	return func(yield func(int, error) bool) {
		for i := range n {
			*made = i + 1
			if !yield(i, nil) {
				return
			}
		}
		if err != nil {
			yield(0, err)
		}
	}
}

func TestPrefetchYieldsEverythingInOrder(t *testing.T) {
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		made, next := 0, 0
		var last error
		for v, err := range Prefetch(context.Background(), count(100, &made, want), 3) {
			if last = err; err == nil && v != next {
				t.Fatalf("got %d, want %d", v, next)
			} else if err == nil {
				next++
			}
		}
		if next != 100 || last != want {
			t.Errorf("%d values, error %v, want %v", next, last, want)
		}
	}
}

func TestPrefetchRunsAheadByItsDepth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		for v := range Prefetch(context.Background(), count(100, &made, nil), 2) {
			synctest.Wait()
			if want := min(100, v+1+2+1); made != want {
				t.Fatalf("%d values made while %d is in use, want %d", made, v, want)
			}
		}
	})
}

// In a synctest bubble a goroutine that outlives the test is a failure.
func TestPrefetchEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		for v := range Prefetch(context.Background(), count(100, &made, nil), 2) {
			if v == 5 {
				break
			}
		}
		if made > 10 {
			t.Errorf("%d values made after the loop was left", made)
		}
	})
}

func TestPrefetchEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waits := func(yield func(int, error) bool) {
			if yield(1, nil) {
				<-ctx.Done()
			}
		}
		var got []string
		for v, err := range Prefetch(ctx, waits, 1) {
			got = append(got, fmt.Sprint(v, errors.Is(err, fault.Canceled)))
			cancel()
		}
		if fmt.Sprint(got) != "[1 false 0 true]" {
			t.Errorf("got %v", got)
		}
	})
}

func TestPrefetchedBatchesAreIntact(t *testing.T) {
	d, _ := threeFiles(t)
	const depth = 2
	b := newBatcher(t, BatchOptions{Rows: 1, Slots: depth + 2})
	next := int64(0)
	for batch, err := range Prefetch(context.Background(), b.Batches(d.Records(context.Background(), 0, 10), Part{}), depth) {
		if err != nil || batch.Tensors[1].Int64s()[0] != next {
			t.Fatalf("batch %d holds %v, error %v", next, batch.Tensors[1].Int64s(), err)
		}
		next++
	}
	if next != 10 {
		t.Fatalf("%d batches", next)
	}
}

// A position far behind the end of the records has none, and is found in no time.
func TestShuffleFromBehindTheEnd(t *testing.T) {
	open := func(from int64) iter.Seq2[Record, error] { return numbered(int(max(0, 10-from))) }
	for _, from := range []int64{10, 11, 1 << 62} {
		for _, size := range []int{0, 4, 100} {
			if got := order(t, ShuffleFrom(from, open, Shuffling{Buffer: size, Seed: 1})); len(got) > 0 {
				t.Errorf("%v from position %d on, shuffled by %d", got, from, size)
			}
		}
	}
}
